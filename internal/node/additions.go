package node

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tuttidb/tutti/internal/certify"
	"github.com/tuttidb/tutti/internal/database/catalog"
	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/flow"
	"github.com/tuttidb/tutti/internal/intent"
	"github.com/tuttidb/tutti/internal/rowcache"
	"github.com/tuttidb/tutti/internal/session"
	"github.com/tuttidb/tutti/internal/writeset"
)

// additions is what the node knows of rows to which transactions may add when they commit (decision 0056): what its own
// sessions have found in them, and what has been ordered since.
type additions struct {
	max    int           // rows that are known; none if not positive
	putOff atomic.Uint64 // additions
	blind  atomic.Uint64 // transactions, see host.Blind
	blocks atomic.Uint64 // of these, those of several rows
	asked  atomic.Uint32 // see adding

	mu      sync.Mutex
	tables  *catalog.Tables  // as of which
	values  *rowcache.Values // nil: nothing was noted yet
	sighted bool             // no transaction is blind
	claims  intent.Claims    // of the sessions' transactions
	// freed is closed when there are fewer who write; nil if nobody waits. Nobody waits for a table, by its key, for a
	// while after that was in vain.
	freed     chan struct{}
	impatient *rowcache.Backoff

	// The executor's: what own sessions have committed of the running group, and of those that have added to rows the
	// sequence and the order.
	sights []sight
	orders [][2]uint64
}

// sight is what a transaction has done.
type sight struct {
	ordinal  uint64
	writeset *writeset.Writeset
}

// impatientMax bounds the tables for which nobody waits.
const impatientMax = 1 << 10

// at is what is known as of some tables; what was known as of other ones is forgotten.
func (a *additions) at(tables *catalog.Tables) *rowcache.Values {
	if a.tables != tables || a.values == nil {
		a.tables, a.values = tables, rowcache.NewValues(a.max)
	}
	return a.values
}

// known is Known.
func (a *additions) known(values *rowcache.Values, what session.Adds, applied uint64) (session.Counted, bool) {
	if a.claims.On(intent.Lock, what.Name) {
		return session.Counted{}, false
	}
	return values.Known(what.Row, applied)
}

// Known is what the node knows of a row.
func (h *host) Known(what session.Adds) (session.Counted, bool) {
	a := &h.n.additions
	if a.max <= 0 {
		return session.Counted{}, false
	}
	applied := h.n.core.Applied()
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.known(a.at(h.n.tables.Load()), what, applied)
}

// PutOff begins additions, if all their rows are known.
func (h *host) PutOff(adds []session.Adds) (rows []session.Counted, ok bool) {
	a := &h.n.additions
	applied := h.n.core.Applied()
	a.mu.Lock()
	defer a.mu.Unlock()
	values := a.at(h.n.tables.Load())
	for _, what := range adds {
		row, ok := a.known(values, what, applied)
		if !ok {
			return nil, false
		}
		rows = append(rows, row)
	}
	for _, what := range adds {
		a.claims.Note(&h.claim, intent.Add, what.Name)
	}
	a.putOff.Add(uint64(len(adds)))
	return rows, true
}

// locksWait is how long who asks for locks waits for additions that are under way. They would wait for the locks, and
// be given way.
var locksWait = most(flow.WaitRowLocks)

// locks notes that the session's transaction asks for locks on rows of tables, or on whole tables, and waits for
// additions to them that are under way.
func (h *host) locks(tables []string) {
	if len(tables) == 0 {
		tables = []string{""}
	}
	a := &h.n.additions
	a.mu.Lock()
	for _, table := range tables {
		a.claims.Note(&h.claim, intent.Lock, table)
	}
	a.mu.Unlock()
	if !a.any(tables) {
		return
	}
	defer h.n.metrics.Waits.Begin(flow.WaitRowLocks).End()
	for end := time.Now().Add(locksWait); a.any(tables) && h.Interrupted() == nil && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
}

// any reports whether additions to tables are under way.
func (a *additions) any(tables []string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.ContainsFunc(tables, func(table string) bool { return a.claims.On(intent.Add, table) })
}

// endAdditions forgets what the session's transaction does to which tables.
func (h *host) endAdditions() {
	if h.claim.Empty() { // most have read
		return
	}
	a := &h.n.additions
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.claims.End(&h.claim) && a.freed != nil {
		close(a.freed)
		a.freed = nil
	}
}

// count is how many are known, and how often all was forgotten because there were as many as there may be.
func (a *additions) count() (n int, full uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.values == nil {
		return 0, 0
	}
	return a.values.Count(), a.values.Full()
}

// Learn takes what a session has found in a row.
func (h *host) Learn(row session.Counted) {
	a := &h.n.additions
	if a.max <= 0 {
		return
	}
	applied := h.n.core.Applied()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.at(h.n.tables.Load()).Learn(row, applied)
}

// Added takes, before Committed, what a transaction has found when it added to its rows.
func (h *host) Added(seq, order uint64, err error) {
	w := h.n.waiters.get(seq)
	w.added, w.diverged = order, err
}

// note calls f with what is known, if that is something.
func (a *additions) note(f func(values *rowcache.Values)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.values != nil {
		f(a.values)
	}
}

// lost notes by what a transaction has lost.
func (a *additions) lost(w *writeset.Writeset, v certify.Verdict) {
	a.note(func(values *rowcache.Values) { values.Lost(w, v) })
}

// forget forgets everything.
func (a *additions) forget() { a.note((*rowcache.Values).Clear) }

// sawGroup notes what a group has done to rows that are known: what its sessions have committed, and of what was
// applied.
func (a *additions) sawGroup(remote []engine.Task) {
	sights := a.sights
	a.sights = nil // they may be large
	if a.max <= 0 {
		return
	}
	for i := range remote {
		if w := remote[i].Writeset; w != nil {
			sights = append(sights, sight{remote[i].Ordinal, w})
		}
	}
	slices.SortFunc(sights, func(x, y sight) int { return cmp.Compare(x.ordinal, y.ordinal) })
	a.note(func(values *rowcache.Values) {
		for _, x := range sights {
			values.Saw(x.ordinal, x.writeset)
		}
	})
}

// awaitAdditions waits until the sessions' own transactions of a group have their rows no more, if something else adds
// to rows, too: each has its own order in which it takes their locks.
func awaitAdditions(ctx context.Context, locals []*waiter) error {
	for _, w := range locals {
		if len(w.sub.AddBases) == 0 {
			continue
		}
		select {
		case <-w.committed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// addingMax is for how many sessions is asked at a time whom they wait for. Mostly they wait for each other, and all
// for one.
const addingMax = 4

// adding are the backends of some sessions that commit and may wait for rows to which they add.
func (l *life) adding() (pids []uint32) {
	for _, w := range l.running.locals() {
		if len(w.sub.AddBases) == 0 {
			continue
		}
		select {
		case <-w.committed:
		default:
			pids = append(pids, w.guard.pid)
		}
	}
	if len(pids) > addingMax {
		at := int(l.additions.asked.Add(addingMax)) % len(pids)
		pids = append(pids[at:], pids[:at]...)[:addingMax]
	}
	return pids
}
