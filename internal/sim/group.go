package sim

import (
	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/writeset"
)

// running is a group on its way into the database.
type running struct {
	*engine.Group
	left  int           // commits under way
	notes []engine.Task // due when it is done
}

// startGroup commits the group's local transactions and applies the others, all at once.
func (m *member) startGroup(g *engine.Group) {
	m.w.truth.learn(m, g)
	r := &running{Group: g, notes: notes(g)}
	m.group = r
	r.left++ // until everything is started
	var remote []engine.Task
	for _, t := range g.Tasks {
		if s := m.submitted[t.Item.ID.Seq]; t.Local && s != nil {
			m.commitLocal(s, t)
		} else if t.Item.Kind != engine.KindNotify {
			remote = append(remote, t)
		}
	}
	if m.w.o.Planted == "group-reversed" {
		for i, j := 0, len(remote)-1; i < j; i, j = i+1, j-1 {
			remote[i], remote[j] = remote[j], remote[i]
		}
	}
	if len(remote) > 0 {
		m.begun = max(m.begun, g.Last)
		m.apply(remote, g.Last)
	}
	m.commitDone()
}

// commitLocal commits the open transaction behind a certified task.
func (m *member) commitLocal(s *session, t engine.Task) {
	m.group.left++
	s.task = &t
	s.state = sessionCommitting
	if s.broken {
		m.commitLost(t)
		return
	}
	s.t.commit(m.in(func() {
		if s.state == sessionCommitting {
			m.notify(t.Ordinal)
			s.finish(outcomeOK)
		}
		m.commitDone()
	}))
	if sw := &m.w.swarm; m.w.faulty && m.w.rnd.chance(sw.terminatePerMille) {
		a := s.a
		m.w.after(m.w.rnd.between(1, sw.commitMax), m.in(func() {
			if s.a == a && s.state == sessionCommitting {
				m.w.stats.Kills++
				s.kill()
			}
		}))
	}
	if m.w.o.Planted == "commit-not-awaited" {
		m.group.left--
	}
}

// commitLost is called when the backend of a certified session died before its commit was
// logged: its rows are applied like anybody else's, and then its client is told.
func (m *member) commitLost(t engine.Task) {
	m.w.truth.attempts[t.Item.ID].orphan = true
	if m.w.o.Planted != "orphan-not-told" {
		m.engine.Orphan(t.Item.ID.Seq)
	}
	m.begun = max(m.begun, m.group.Last)
	m.apply([]engine.Task{t}, 0)
	m.commitDone()
}

func (m *member) commitDone() {
	m.group.left--
	if m.group.left > 0 {
		return
	}
	due := m.group.notes
	m.group = nil
	if m.w.o.Planted == "notified-early" {
		m.hear(due)
		due = nil
	}
	m.engine.GroupDone()
	m.hear(due)
	m.w.note(uint64(m.id)|1<<8, m.engine.Applied(), m.db.hash)
	if m.open && !m.engine.Holes() {
		m.w.truth.checkPrefix(m)
	}
	m.openGate()
	m.wake()
}

// apply runs tasks in one database transaction, with the progress record (unless zero).
func (m *member) apply(tasks []engine.Task, progress uint64) {
	m.group.left++
	a := &applier{m: m, t: m.db.begin(nil, false)}
	if m.w.o.Planted != "progress-not-written" {
		a.t.progress = progress
	}
	for _, t := range tasks {
		switch t.Item.Kind {
		case engine.KindCertified:
			changes, tag := decode(t.Writeset)
			for _, c := range changes {
				a.work = append(a.work, tagged{c, tag})
			}
			if (t.Mark || t.Local) && m.w.o.Planted != "orphan-mark-not-written" {
				a.t.marks = append(a.t.marks, mark{t.Item.Slot, engine.Mark{Incarnation: t.Item.ID.Incarnation, Seq: t.Item.ID.Seq}})
			}
		case engine.KindFence:
			if t.Own && t.Item.ID.Seq == m.fence && t.Item.ID.Incarnation == m.incarnation && m.db.member != m.id {
				a.t.adopt = &adoption{m.id, t.Ordinal}
			}
		case engine.KindStatement:
			d := definitionOf(t.Writeset)
			a.define = &d
			for _, k := range d.rewrites(a.t.latest(catalogKey)) {
				a.work = append(a.work, tagged{change{key: k, op: writeset.OpUpdate}, 0})
			}
		}
		if t.Own && t.Item.ID.Incarnation == m.incarnation {
			a.own = append(a.own, t.Item)
		}
	}
	m.w.after(m.w.rnd.between(5, 100), m.inDatabase(a.step))
}

// applier writes the rows of ordered transactions, waiting for local row locks.
type applier struct {
	m      *member
	t      *tx
	work   []tagged
	own    []engine.Item
	define *definition // nil unless the task is one
	next   int
}

func (a *applier) step() {
	for ; a.next < len(a.work); a.next++ {
		c := &a.work[a.next]
		mode := c.op.KeyMode()
		if !a.lock(c.key.identity(), mode) {
			return
		}
		if c.key.t == tUnique {
			if c.op != writeset.OpInsert && !a.lock(uniqueKey(c.old), writeset.Exclusive) {
				return
			}
			if c.op != writeset.OpDelete && !a.lock(uniqueKey(c.v.n), writeset.Exclusive) {
				return
			}
		}
		if a.define != nil {
			continue
		}
		if err := a.t.apply(c.change, c.tag); err != nil {
			a.m.w.violation("%v: transaction with tag %d %v", a.m, c.tag, err)
		}
	}
	if a.define != nil {
		a.t.execute(*a.define)
	}
	a.t.commit(a.m.in(func() {
		if a.t.adopt != nil && a.m.w.o.Planted != "adopted-in-flight" {
			a.m.stop(false)
			a.m.start() // the engine still believes the database to be another's
			return
		}
		for _, it := range a.own {
			a.m.applied(it)
		}
		a.m.commitDone()
	}))
}

// lock is false if the applier must wait; it then continues by itself.
func (a *applier) lock(key uint64, mode writeset.Mode) bool {
	if a.t.d.lockFor(key).acquire(a.t, mode, a.m.inDatabase(a.step)) {
		return true
	}
	a.m.w.stats.Blocked++
	a.watch(a.t.wait)
	return false
}

// watch looks after a while who blocks the applier, and ends what may be ended.
func (a *applier) watch(w *waiter) {
	a.m.w.after(a.m.w.swarm.blockWait, a.m.inDatabase(func() {
		if a.t.wait != w {
			return
		}
		for _, b := range w.blockers() {
			if b.owner != nil {
				b.owner.inTheWay()
			}
		}
		if a.t.wait == w {
			a.watch(w)
		}
	}))
}

// applied tells a session whose item was applied for it: a statement's, or a fence.
func (m *member) applied(it engine.Item) {
	if it.Kind == engine.KindFence && it.ID.Seq == m.fence {
		m.open = true
	}
	if s := m.submitted[it.ID.Seq]; s != nil {
		s.finish(outcomeOK)
	}
}
