package node

import (
	"time"

	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/flow"
	"github.com/tuttidb/tutti/internal/intent"
	"github.com/tuttidb/tutti/internal/rowcache"
	"github.com/tuttidb/tutti/internal/session"
	"github.com/tuttidb/tutti/internal/writeset"
)

// DefinedUpTo is up to where definitions are known here.
func (h *host) DefinedUpTo() uint64 {
	h.seen = h.n.jobs.Seen()
	return h.n.complete()
}

// Sees is DefinedUpTo that waits until what the session has committed last is applied: what it does not see would
// make it lose to itself.
func (h *host) Sees() uint64 {
	if h.after > 0 {
		awaits(h.n, flow.WaitOwnCommit, func() bool { return h.n.core.Applied() >= h.after || h.n.ending() })
	}
	return h.DefinedUpTo()
}

// There reports whether a row of a table is there by what has been applied lately, and whether it is to be left alone.
func (h *host) There(table, identity uint64) (there, shy bool) {
	return h.n.present.has(table, identity)
}

// LeaveAlone has rows be left alone for a while.
func (h *host) LeaveAlone(identities []uint64) { h.n.present.rest(identities...) }

// Blind orders a transaction that has seen nothing (decision 0057), unless a session has locked rows of its tables, or
// writes to them otherwise: these would be given way, and it need not wait for them. If it must, it does not wait for
// who writes, nor for who has asked for a while without. It is done when the executor has carried it out.
func (h *host) Blind(sub session.Submission, must bool) (d session.Decision, done bool) {
	l := h.n
	if !l.additions.awaitBlind(h, sub.Writeset.Tables, must) {
		return d, false
	}
	if l.grants.Locks.Block(sub.Writeset) || h.Pass(sub.Writeset, sub.Limits) != nil {
		return d, false
	}
	if h.Enter(session.PhaseSubmitted) != nil {
		h.grants.Passed()
		return d, false
	}
	h.must = must
	d, w := h.submit(sub)
	for began := time.Now(); w != nil && w.shunned; d, w = h.submit(sub) {
		time.Sleep(shunPause)
		h.must = must || time.Since(began) > shunWait
	}
	h.must = false
	h.grants.Passed()
	if !d.Commit {
		return d, true
	}
	slowed(h)
	if w.missed {
		return session.Decision{Retry: true}, false
	}
	if l.additions.blind.Add(1); len(sub.Writeset.Rows) > 1 {
		l.additions.blocks.Add(1)
	}
	return d, true
}

// A blind transaction holds nothing while it waits for those that write to its tables otherwise. If it were run as what
// it is instead, others would have to do so because of it, and so on for ever. It waits so long, and if that was in
// vain, nobody does for a while: it may take long.
var blindWait = most(flow.WaitBlind)

const (
	blindRest = 500 * time.Millisecond

	// So long it gives way to those who have asked for it, see engine.Engine.Shuns.
	shunWait  = 30 * time.Millisecond
	shunPause = 2 * time.Millisecond
)

// awaitBlind is goBlind that waits for who writes to the tables.
func (a *additions) awaitBlind(h *host, tables []writeset.Table, must bool) bool {
	began := time.Now()
	for {
		ok, freed := a.goBlind(h, tables, must)
		if ok || freed == nil {
			return ok
		}
		wait := h.n.metrics.Waits.Begin(flow.WaitBlind)
		left := blindWait - time.Since(began)
		select {
		case <-freed:
			wait.End()
		case <-time.After(left):
			wait.End()
			a.rest(tables)
			return false
		}
	}
}

// rest has nobody wait for tables for a while.
func (a *additions) rest(tables []writeset.Table) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.impatient == nil {
		a.impatient = rowcache.NewBackoff(impatientMax)
	}
	for _, t := range tables {
		a.impatient.Begin(t.Key, time.Now().Add(blindRest).UnixNano())
	}
}

// inVain reports whether nobody waits for a table now.
func (a *additions) inVain(t *writeset.Table) bool {
	return a.impatient != nil && a.impatient.On(t.Key, time.Now().UnixNano())
}

// goBlind notes that a blind transaction is under way. If it cannot be because others write to its tables, freed may
// tell when there are fewer.
func (a *additions) goBlind(h *host, tables []writeset.Table, must bool) (ok bool, freed <-chan struct{}) {
	names := make([]string, len(tables))
	for i := range tables {
		names[i] = tables[i].Name
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.sighted {
		return false, nil
	}
	switch a.claims.Blind(&h.claim, names, must, func(i int) bool { return a.inVain(&tables[i]) }) {
	case intent.Goes:
		return true, nil
	case intent.Waits:
		if a.freed == nil {
			a.freed = make(chan struct{})
		}
		return false, a.freed
	}
	return false, nil
}

// unseen reports whether no session has locked rows, or writes to some otherwise than blindly.
func (a *additions) unseen() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.claims.Quiet()
}

// tell tells sessions of blind transactions that the executor has carried out which of them have found their rows.
func (l *life) tell(tasks []engine.Task, missed map[*writeset.Row]bool, void map[*writeset.Writeset]bool) {
	for i := range tasks {
		t := &tasks[i]
		if !t.Own || t.Item.ID.Incarnation != l.incarnation || !t.Writeset.Blind() {
			continue
		}
		w := l.waiters.get(t.Item.ID.Seq)
		if w == nil || l.waiters.given(w) { // see settled
			continue
		}
		w.missed = void[t.Writeset]
		for n := range t.Writeset.Rows {
			w.missed = w.missed || missed[&t.Writeset.Rows[n]]
		}
		w.ordinal = t.Ordinal
		l.waiters.remove(w.sub.Seq)
		w.decision <- session.Decision{Commit: true}
	}
}

// beatenMax is how often a transaction that might be blind itself loses to blind ones before it asks for a while
// without them.
const beatenMax = 3

// shun asks for a while without blind transactions in the tables of a transaction that has lost to one, if it has.
func (h *host) shun(w *waiter) {
	if !w.beaten {
		return
	}
	if h.beaten++; !h.claim.Has(intent.Write) && h.beaten < beatenMax {
		return
	}
	h.n.core.Do(func(e *engine.Engine) {
		if !e.Shuns(w.sub.Writeset) { // if too much waits to be ordered already, it loses once more
			e.Submit(engine.Submission{Kind: engine.KindShun, Seq: h.n.seq.Add(1),
				Payload: engine.ShunPayload(w.sub.Writeset.Tables)})
		}
	})
}
