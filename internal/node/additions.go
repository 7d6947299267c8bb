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
	"github.com/tuttidb/tutti/internal/session"
	"github.com/tuttidb/tutti/internal/writeset"
)

// additions is what the node knows of rows to which transactions may add when they commit (decision 0056): what its own sessions have found
// in them, and what has been ordered since.
type additions struct {
	max    int           // rows that are known; none if not positive
	putOff atomic.Uint64 // additions
	blind  atomic.Uint64 // transactions, see host.Blind
	blocks atomic.Uint64 // of these, those of several rows
	full   atomic.Uint64 // times that all was forgotten because there were max
	asked  atomic.Uint32 // see adding

	mu      sync.Mutex
	tables  *catalog.Tables // as of which
	byName  map[string]*session.Counted
	byKey   map[uint64][]*session.Counted // by Identity; a row may have several names
	sighted bool                          // no transaction is blind
	// By the tables' names, without schemas, all tables having the empty one: transactions that have asked for locks on rows, those that write to them otherwise;
	// and additions and blind transactions that were handed to the order and are not committed yet.
	locked, written, under map[string]int
	// freed is closed when there is less in written; nil if nobody waits. Until impatient, by the clock, nobody waits for a table, because that was in vain.
	freed     chan struct{}
	impatient map[string]time.Time

	// The executor's: what own sessions have committed of the running group, and of those that have added to rows the sequence and the order.
	sights []sight
	orders [][2]uint64
}

// sight is what a transaction has done.
type sight struct {
	ordinal  uint64
	writeset *writeset.Writeset
}

// fresh reports whether so much is known of a row, when everything up to an ordinal is applied, that a transaction which adds to it now can still
// be ordered in time.
func fresh(c *session.Counted, applied uint64) bool { return c.At+certify.AddedMax/2 >= applied }

func (a *additions) clear() {
	a.byName, a.byKey = map[string]*session.Counted{}, map[uint64][]*session.Counted{}
}

// at forgets what was known as of other tables.
func (a *additions) at(tables *catalog.Tables) {
	if a.tables != tables || a.byName == nil {
		a.tables = tables
		a.clear()
	}
}

func (a *additions) remove(c *session.Counted) {
	delete(a.byName, c.Row)
	if a.byKey[c.Identity] = slices.DeleteFunc(a.byKey[c.Identity], func(x *session.Counted) bool { return x == c }); len(a.byKey[c.Identity]) == 0 {
		delete(a.byKey, c.Identity)
	}
}

// known is Known.
func (a *additions) known(what session.Adds, applied uint64) (session.Counted, bool) {
	c := a.byName[what.Row]
	switch {
	case len(a.locked) > 0 && (a.locked[""] > 0 || a.locked[what.Name] > 0), c == nil || !fresh(c, applied):
		return session.Counted{}, false
	case c.Changed > c.At && c.Changed <= applied: // and saw has not seen it
		a.remove(c)
		return session.Counted{}, false
	}
	out := *c
	out.Values = slices.Clone(c.Values) // saw changes them
	return out, true
}

// Known is what the node knows of a row.
func (h *host) Known(what session.Adds) (session.Counted, bool) {
	a := &h.n.additions
	if a.max <= 0 {
		return session.Counted{}, false
	}
	applied := h.n.core.applied.Load()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.at(h.n.tables.Load())
	return a.known(what, applied)
}

// PutOff begins additions, if all their rows are known.
func (h *host) PutOff(adds []session.Adds) (rows []session.Counted, ok bool) {
	a := &h.n.additions
	applied := h.n.core.applied.Load()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.at(h.n.tables.Load())
	for _, what := range adds {
		row, ok := a.known(what, applied)
		if !ok {
			return nil, false
		}
		rows = append(rows, row)
	}
	if a.under == nil {
		a.under = map[string]int{}
	}
	for _, what := range adds {
		a.under[what.Name]++
		h.adding = append(h.adding, what.Name)
	}
	a.putOff.Add(uint64(len(adds)))
	return rows, true
}

// locksWait is how long who asks for locks waits for additions that are under way. They would wait for the locks, and be given way.
var locksWait = most(flow.WaitRowLocks)

// Locks notes that the session's transaction asks for locks on rows of tables, or on whole tables, and waits for additions to them that are under way.
func (h *host) Locks(tables []string) {
	if len(tables) == 0 {
		tables = []string{""}
	}
	a := &h.n.additions
	a.mu.Lock()
	if a.locked == nil {
		a.locked = map[string]int{}
	}
	for _, table := range tables {
		a.locked[table]++
	}
	h.locking = append(h.locking, tables...)
	a.mu.Unlock()
	if !a.any(tables) {
		return
	}
	defer h.n.metrics.Waits.Begin(flow.WaitRowLocks).End()
	for end := time.Now().Add(locksWait); a.any(tables) && h.interrupted() == nil && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
}

// any reports whether additions to tables are under way.
func (a *additions) any(tables []string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.under) > 0 && slices.ContainsFunc(tables, func(table string) bool { return table == "" || a.under[table] > 0 })
}

// endAdditions forgets what Locks and PutOff have noted of the session's transaction.
func (h *host) endAdditions() {
	if len(h.locking)+len(h.adding)+len(h.writing) == 0 {
		return
	}
	a := &h.n.additions
	a.mu.Lock()
	defer a.mu.Unlock()
	less := func(m map[string]int, tables []string) {
		for _, table := range tables {
			if m[table]--; m[table] == 0 {
				delete(m, table)
			}
		}
	}
	less(a.locked, h.locking)
	less(a.under, h.adding)
	less(a.written, h.writing)
	if len(h.writing) > 0 && a.freed != nil {
		close(a.freed)
		a.freed = nil
	}
	h.locking, h.adding, h.writing = h.locking[:0], h.adding[:0], h.writing[:0]
}

// count is how many are known, by their names.
func (a *additions) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.byName)
}

// Learn takes what a session has found in a row.
func (h *host) Learn(row session.Counted) {
	a := &h.n.additions
	if a.max <= 0 {
		return
	}
	applied := h.n.core.applied.Load()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.at(h.n.tables.Load())
	old := a.byName[row.Row]
	switch {
	case old != nil && old.At >= row.At:
		return
	case old != nil:
		a.remove(old)
	case len(a.byName) >= a.max:
		for _, c := range a.byName { // order-free: each is looked at
			if !fresh(c, applied) {
				a.remove(c)
			}
		}
		if len(a.byName) >= a.max {
			a.clear()
			a.full.Add(1)
		}
	}
	a.byName[row.Row] = &row
	a.byKey[row.Identity] = append(a.byKey[row.Identity], &row)
}

// Added takes, before Committed, what a transaction has found when it added to its rows.
func (h *host) Added(seq, order uint64, err error) {
	w := h.n.waiters.get(seq)
	w.added, w.diverged = order, err
}

// lost notes by what a transaction has lost, if that was that something was not as it was known.
func (a *additions) lost(w *writeset.Writeset, v certify.Verdict) {
	if !w.Adds() || v.Reason == certify.KeyConflict && v.Key.Mode != writeset.Add && !w.IsTable(v.Key) {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range w.Rows {
		r := &w.Rows[i]
		if r.Op != writeset.OpAdd {
			continue
		}
		for _, c := range slices.Clone(a.byKey[r.Identity]) {
			switch {
			case v.Reason != certify.KeyConflict || v.Key.Mode != writeset.Add: // who knows it anew knows enough
				a.remove(c)
			case r.Identity == v.Key.Hash: // saw will tell what it is then
				c.Changed = max(c.Changed, v.WinnerOrdinal)
			}
		}
	}
}

// sawMax bounds the rows of a transaction that are looked at.
const sawMax = 1000

// forgets reports whether after a transaction too little is known.
func forgets(w *writeset.Writeset) bool {
	return len(w.Steps) > 0 || len(w.Rows) > sawMax || slices.ContainsFunc(w.Rows, func(r writeset.Row) bool { return r.All() }) ||
		slices.ContainsFunc(w.Keys, func(k writeset.Key) bool { return k.Mode == writeset.Exclusive && w.IsTable(k) })
}

// forget forgets everything.
func (a *additions) forget() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.clear()
}

// saw notes what a transaction that is in the database, at its ordinal, has done to rows that are known. Those of a group come in their order.
func (a *additions) saw(ordinal uint64, w *writeset.Writeset) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.byName) == 0 {
		return
	}
	if forgets(w) {
		a.clear()
		return
	}
	for i := range w.Rows {
		r := &w.Rows[i]
		if r.Identity == 0 {
			continue
		}
		for _, c := range slices.Clone(a.byKey[r.Identity]) {
			if c.At >= ordinal {
				continue
			}
			ok := r.Op != writeset.OpDelete && r.Op != writeset.OpDrop
			switch {
			case r.Op.Locks():
			case r.Op == writeset.OpAdd:
				ok = c.Columns.Sum(c.Values, r.Image)
			case r.Op == writeset.OpSet: // and perhaps not there
				ok = false
			case ok:
				c.Values, _, ok = c.Columns.Read(r.Image)
			}
			if c.At = ordinal; !ok {
				a.remove(c)
			}
		}
	}
}

// sawGroup is saw of a group: of what its sessions have committed, and of what was applied.
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
	for _, x := range sights {
		a.saw(x.ordinal, x.writeset)
	}
}

// awaitAdditions waits until the sessions' own transactions of a group have their rows no more, if something else adds to rows, too: each has its own
// order in which it takes their locks.
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

// addingMax is for how many sessions is asked at a time whom they wait for. Mostly they wait for each other, and all for one.
const addingMax = 4

// adding are the backends of some sessions that commit and may wait for rows to which they add.
func (l *life) adding() (pids []uint32) {
	l.applyingMu.Lock()
	defer l.applyingMu.Unlock()
	for _, w := range l.committing {
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
