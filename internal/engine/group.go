package engine

import (
	"math"
	"slices"

	"github.com/tuttidb/tutti/internal/writeset"
)

// nextGroup issues the next group if none is running. Items that change nothing (aborted,
// or already in the database) ride along; if there is nothing but them, the applied
// ordinal moves without a group. Notifications split no group: they are due when it is done.
func (e *Engine) nextGroup() *Group {
	if !e.due() {
		return nil
	}
	e.issue = false
	n, bytes := 0, 0
	local := uint64(math.MaxUint64) // ordinal of the first local task in the group
	var under underway
	for n < len(e.queue) && n < e.o.GroupItemsMax {
		t := &e.queue[n]
		if t.Item.Kind == KindCertified && !t.Local && t.Item.Base >= local && planted != "group-not-split" {
			break // E7
		}
		if t.Item.Kind == KindCertified && under.meets(t) && planted != "blind-beside-local" {
			break // E16
		}
		if t.Local {
			local = min(local, t.Ordinal)
		}
		if t.alone() {
			if n == 0 {
				n = 1
			}
			break
		}
		if n > 0 && bytes+len(t.Item.Payload) > e.o.GroupBytesMax {
			break
		}
		bytes += len(t.Item.Payload)
		n++
	}
	g := &Group{First: e.queueFirst, Last: e.ordinal, Tasks: e.queue[:n:n], volume: e.volume}
	e.queue = e.queue[n:]
	for i := range g.Tasks {
		e.weigh(&g.Tasks[i], -1)
	}
	if len(e.queue) > 0 {
		g.Last, g.volume = e.queue[0].Ordinal-1, e.queue[0].before
	}
	e.queueFirst = g.Last + 1
	e.running = g
	e.groups++
	e.tasks = n
	if planted == "applied-is-issued" {
		e.applied = g.Last
	}
	if n == 0 {
		e.GroupDone()
		return nil
	}
	return g
}

// Added says that an own transaction, which the running group commits, has added to its rows, and what its order was when it had all of them.
func (e *Engine) Added(seq, order uint64) {
	if w := e.owns[seq]; w != nil {
		w.added = order
	}
}

// Queued reports whether a certified own transaction waits behind the running group.
func (e *Engine) Queued(seq uint64) bool {
	return e.running != nil && slices.ContainsFunc(e.queue, func(t Task) bool { return t.Local && t.Item.ID.Seq == seq })
}

// Early returns the task of a certified own transaction that waits behind the running
// group but blocks it through a lock that is no key (LOCK TABLE), and removes it from the
// queue; its owner may commit it together with the running group, with whose items it
// cannot conflict. False if seq is not such a transaction. Until Holes is false again no
// prefix snapshot may be taken.
func (e *Engine) Early(seq uint64) (Task, bool) {
	for i := range e.queue {
		t := e.queue[i]
		if e.running != nil && t.Local && t.Item.ID.Seq == seq {
			e.queue = append(e.queue[:i:i], e.queue[i+1:]...)
			e.weigh(&t, -1)
			e.early = append(e.early, t)
			return t, true
		}
	}
	return Task{}, false
}

// Holes reports whether transactions beyond Applied are in the database.
func (e *Engine) Holes() bool { return len(e.early) > 0 && planted != "holes-denied" }

// GroupDone says that every task of the running group is in the local database.
func (e *Engine) GroupDone() {
	g := e.running
	if g == nil {
		panic("engine: GroupDone without a group")
	}
	e.running = nil
	e.applied, e.appliedVol = g.Last, g.volume
	for i := range g.Tasks {
		e.settle(&g.Tasks[i], e.groups)
	}
	clear(g.Tasks) // the queue's array would keep them
	left := e.early[:0]
	for i := range e.early {
		if e.early[i].Ordinal <= e.applied {
			e.settle(&e.early[i], 0)
		} else {
			left = append(left, e.early[i])
		}
	}
	e.early = left
	e.admit()
}

// settle forgets the own submission behind a task that is in the database, in which group it came; zero if ahead of its own.
func (e *Engine) settle(t *Task, group uint64) {
	if t.Own && t.Item.ID.Incarnation == e.o.Incarnation {
		if w := e.owns[t.Item.ID.Seq]; w != nil {
			c := commit{seq: w.Seq, ordinal: t.Ordinal, order: w.Order, added: w.added, group: group,
				serial: w.Serial && !w.orphan && w.Kind == KindCertified && len(w.Writeset.Steps) == 0}
			switch {
			case w.blind && planted != "own-blind-trusted", w.Kind == KindStatement && planted != "own-definitions-trusted":
				c.order = orderApplier
			case w.orphan:
				c.order, c.added = orderOrphan, 0
			}
			if w.Kind == KindCertified || c.order == orderApplier {
				e.commits.add(c, e.cert.Floor())
			}
			e.finish(w)
		}
	}
}

// underway are the rows of a group's local transactions, which are committed beside its blind ones. It is gathered when there is one of those.
type underway struct {
	locals []*writeset.Writeset
	held   map[uint64]bool
	taken  int // of locals
}

// meets takes the next task of a group, and reports whether it is blind and would meet a row that a local one has under way: it must find it as it will be.
func (u *underway) meets(t *Task) bool {
	switch {
	case t.Local:
		u.locals = append(u.locals, t.Writeset)
		return false
	case len(u.locals) == 0 || !t.Writeset.Blind():
		return false
	}
	if u.held == nil {
		u.held = map[uint64]bool{}
	}
	for ; u.taken < len(u.locals); u.taken++ {
		u.locals[u.taken].EachKey(func(k writeset.Key) bool {
			u.held[k.Hash] = true
			return true
		})
	}
	return slices.ContainsFunc(t.Writeset.Rows, func(r writeset.Row) bool { return u.held[r.Identity] })
}
