package sim

import (
	"cmp"
	"slices"

	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/writeset"
)

// addLater notes an addition that is made when the transaction commits; false if too little is known of the row.
func (s *modelSession) addLater(st *statementOf) bool {
	s.noteShape()
	if s.a.repeat {
		return false
	}
	root, at, ok := s.m.knows.known(st.key)
	if !ok {
		return false
	}
	s.a.addBases = append(s.a.addBases, at)
	s.a.adds = append(s.a.adds, change{key: st.key, op: writeset.OpAdd, prev: root, v: value{n: st.n}})
	s.m.w.stats.Added++
	return true
}

// addsTo reports whether a task adds to rows.
func addsTo(t engine.Task) bool { return t.Writeset != nil && t.Writeset.Adds() }

// adder adds, in the transaction of a session whose commit is decided, to rows that others may have.
type adder struct {
	m    *member
	s    *modelSession
	t    *tx
	task engine.Task
	next int
}

// step adds to the next row, one statement after the other.
func (x *adder) step() {
	if x.next == 0 { // all in the same order
		slices.SortFunc(x.s.a.adds, func(a, b change) int { return cmp.Compare(a.key.identity(), b.key.identity()) })
	}
	if x.next == len(x.s.a.adds) {
		x.m.engine.Added(x.task.Item.ID.Seq, x.m.db.collects)
		x.m.commitOpen(x.s, x.task)
		return
	}
	c := x.s.a.adds[x.next]
	if !x.t.d.lockFor(c.key.identity()).acquire(x.t, writeset.Update, x.m.inDatabase(x.step)) {
		x.m.w.stats.Blocked++
		if deadlocked(x.t) { // two that commit may each have a lock that is no key
			x.m.w.stats.Deadlocks++
			x.s.kill()
			return
		}
		x.m.watch(x.t.wait)
		return
	}
	if err := x.t.apply(c, x.s.a.tag); err != nil {
		x.m.w.violation("%v: transaction with tag %d %v", x.m, x.s.a.tag, err)
	}
	x.next++
	x.m.db.collect()
	x.m.w.after(x.m.w.rnd.between(1, 200), x.m.inDatabase(func() {
		if x.t.state == txOpen {
			x.step()
		}
	}))
}

// over says that the transaction has its rows no more.
func (x *adder) over() {
	x.s.added = nil
	x.m.addsNoMore()
}

// addsNoMore says that somebody of the group has the rows no more that he has added to.
func (m *member) addsNoMore() {
	m.group.adds--
	m.group.unadded(m)
}

// unadded begins the next that adds to rows as well, once nobody else of the group has any: it takes their locks in
// another order.
func (g *running) unadded(m *member) {
	if !g.started || g.adds > 0 || len(g.then) == 0 {
		return
	}
	f := g.then[0]
	g.then = g.then[1:]
	g.adds++
	f()
	m.commitDone()
}

// added reports whether a transaction has added to a row: nobody waits for who does.
func (t *truth) added(id writeset.TxID, identity uint64) bool {
	a := t.attempts[id]
	return a != nil && slices.ContainsFunc(a.adds, func(c change) bool { return c.key.identity() == identity })
}
