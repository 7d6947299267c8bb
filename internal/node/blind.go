package node

import (
	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/session"
	"github.com/tuttidb/tutti/internal/writeset"
)

// Unseen is up to where definitions are known here.
func (h *host) Unseen() uint64 {
	h.seen = h.n.longs.seen()
	return h.n.complete()
}

// There reports whether a row is there by what has been applied lately.
func (h *host) There(identity uint64) bool {
	return h.n.present.has(identity)
}

// Blind orders a transaction that has seen nothing (decision 0057), unless a session has locked rows of its tables, or writes to them otherwise: these
// would be given way, and it need not wait for them. If it must, it does not wait for who writes, nor for who has asked for a while without. It is done when the
// executor has carried it out.
func (h *host) Blind(sub session.Submission, must bool) (d session.Decision, done bool) {
	l := h.n
	if !l.additions.goBlind(h, sub.Writeset.Tables, must) {
		return d, false
	}
	if hinders, _ := l.holds.hinders(nil, sub.Writeset, l.core.applied.Load(), 0); hinders || h.Pass(sub.Writeset) != nil {
		return d, false
	}
	if h.Enter(session.PhaseSubmitted) != nil {
		l.holds.passed(h)
		return d, false
	}
	h.must = must
	d, w := h.submit(sub)
	h.must = false
	l.holds.passed(h)
	if !d.Commit {
		return d, true
	}
	l.slow(&h.debt)
	if w.missed {
		return session.Decision{Retry: true}, false
	}
	if l.additions.blind.Add(1); len(sub.Writeset.Rows) > 1 {
		l.additions.blocks.Add(1)
	}
	return d, true
}

// goBlind notes that a blind transaction is under way.
func (a *additions) goBlind(h *host, tables []writeset.Table, must bool) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, t := range tables {
		if a.sighted || a.locked[""]+a.locked[t.Name] > 0 || !must && a.written[""]+a.written[t.Name] > 0 {
			return false
		}
	}
	if a.under == nil {
		a.under = map[string]int{}
	}
	for _, t := range tables {
		a.under[t.Name]++
		h.adding = append(h.adding, t.Name)
	}
	return true
}

// Writing notes that the session's transaction writes to a table, seeing it.
func (h *host) Writing(table string) {
	for _, t := range h.writing {
		if t == table {
			return
		}
	}
	a := &h.n.additions
	a.mu.Lock()
	if a.written == nil {
		a.written = map[string]int{}
	}
	a.written[table]++
	a.mu.Unlock()
	h.writing = append(h.writing, table)
}

// unseen reports whether no session has locked rows, or writes to some otherwise than blindly.
func (a *additions) unseen() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.locked)+len(a.written) == 0
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

// beatenMax is how often a transaction that might be blind itself loses to blind ones before it asks for a while without them.
const beatenMax = 3

// shun asks for a while without blind transactions in the tables of a transaction that has lost to one, if it has.
func (h *host) shun(w *waiter) {
	if !w.beaten {
		return
	}
	if h.beaten++; len(h.writing) == 0 && h.beaten < beatenMax {
		return
	}
	h.n.core.do(func(e *engine.Engine) {
		if !e.Shuns(w.sub.Writeset) { // if too much waits to be ordered already, it loses once more
			e.Submit(engine.Submission{Kind: engine.KindShun, Seq: h.n.seq.Add(1), Payload: engine.ShunPayload(w.sub.Writeset.Tables)})
		}
	})
}
