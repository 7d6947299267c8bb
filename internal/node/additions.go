package node

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/tuttidb/tutti/internal/certify"
	"github.com/tuttidb/tutti/internal/database/catalog"
	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/session"
	"github.com/tuttidb/tutti/internal/writeset"
)

// additions is what the node knows of rows to which transactions may add when they commit (decision 0056): what its own sessions have found
// in them, and what has been ordered since.
type additions struct {
	max    int // rows that are known; none if not positive
	putOff atomic.Uint64

	mu     sync.Mutex
	tables *catalog.Tables // as of which
	byName map[string]*session.Counted
	byKey  map[uint64][]*session.Counted // by Identity; a row may have several names
	locked map[string]int                // transactions that have asked for locks on rows, by tables' OIDs; on whole tables, by nothing
}

// fresh reports whether so much is known of a row, when everything up to an ordinal is applied, that a transaction which adds to it now can still
// be ordered in time.
func fresh(c *session.Counted, applied uint64) bool { return c.At+certify.AddedMax/2 >= applied }

func (a *additions) clear() {
	a.byName, a.byKey = map[string]*session.Counted{}, map[uint64][]*session.Counted{}
}

// at forgets what was known as of other tables.
func (a *additions) at(tables *catalog.Tables) {
	if a.tables != tables {
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
	c := a.byName[what.Row]
	switch {
	case len(a.locked) > 0 && (a.locked[""] > 0 || a.locked[strconv.FormatUint(uint64(what.Table), 10)] > 0), c == nil || !fresh(c, applied):
		return session.Counted{}, false
	case c.Changed > c.At && c.Changed <= applied: // and saw has not seen it
		a.remove(c)
		return session.Counted{}, false
	}
	out := *c
	out.Values = slices.Clone(c.Values) // saw changes them
	return out, true
}

// Locks notes that the session's transaction has asked for locks on rows of a table, or on tables.
func (h *host) Locks(table string) {
	a := &h.n.additions
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.locked == nil {
		a.locked = map[string]int{}
	}
	a.locked[table]++
	h.locking = append(h.locking, table)
}

// endLocks forgets what Locks has noted.
func (h *host) endLocks() {
	if len(h.locking) == 0 {
		return
	}
	a := &h.n.additions
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, table := range h.locking {
		if a.locked[table]--; a.locked[table] == 0 {
			delete(a.locked, table)
		}
	}
	h.locking = nil
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
		}
	}
	a.byName[row.Row] = &row
	a.byKey[row.Identity] = append(a.byKey[row.Identity], &row)
}

// Diverged says, before Committed, that a transaction has not added to the rows to which the others do.
func (h *host) Diverged(seq uint64, err error) { h.n.waiters.get(seq).diverged = err }

// doubt notes that a row has changed at an ordinal, unseen by who added to it.
func (a *additions) doubt(identity, ordinal uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, c := range a.byKey[identity] {
		c.Changed = max(c.Changed, ordinal)
	}
}

// sawMax bounds the rows of a transaction that are looked at.
const sawMax = 1000

// saw notes what a transaction that is in the database, at its ordinal, has done to rows that are known.
func (a *additions) saw(ordinal uint64, w *writeset.Writeset) {
	if a.max <= 0 || w == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.byName) == 0 {
		return
	}
	if len(w.Steps) > 0 || len(w.Rows) > sawMax || slices.ContainsFunc(w.Rows, func(r writeset.Row) bool { return r.Op == writeset.OpTruncate }) {
		a.clear()
		return
	}
	for i := range w.Rows {
		r := &w.Rows[i]
		if r.Op.Locks() || r.Identity == 0 {
			continue
		}
		for _, c := range slices.Clone(a.byKey[r.Identity]) {
			if c.At >= ordinal {
				continue
			}
			ok := r.Op != writeset.OpDelete
			switch {
			case r.Op == writeset.OpAdd:
				ok = c.Columns.Sum(c.Values, r.Image)
			case ok:
				c.Values, _, ok = c.Columns.Read(r.Image)
			}
			if c.At = ordinal; !ok {
				a.remove(c)
			}
		}
	}
}

// awaitAdditions waits until the sessions' own transactions of a group have their rows no more, if others of it add to rows, too: each has its own
// order in which it takes their locks.
func awaitAdditions(ctx context.Context, locals []*waiter, remote []engine.Task) error {
	if !slices.ContainsFunc(remote, func(t engine.Task) bool { return t.Writeset.Adds() }) {
		return nil
	}
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

// adding are the backends of sessions that commit and may wait for rows to which they add.
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
	return pids
}
