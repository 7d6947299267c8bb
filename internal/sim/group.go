package sim

import (
	"slices"

	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/writeset"
)

// running is a group on its way into the database.
type running struct {
	*engine.Group
	left    int           // commits under way
	adds    int           // of these, that may still add to rows
	then    []func()      // what adds as well and waits for them, each for the one before it
	started bool          // all have begun
	notes   []engine.Task // due when it is done
}

// startGroup commits the group's local transactions and applies the others, all at once.
func (m *member) startGroup(g *engine.Group) {
	if m.gate.entered > 0 {
		m.gate.closing = g
		return
	}
	m.w.truth.learn(m, g)
	m.knows.begins(g)
	r := &running{Group: g, notes: notes(g)}
	m.group = r
	r.left++ // until everything is started
	var remote []engine.Task
	for _, t := range g.Tasks {
		if s := m.submitted[t.Item.ID.Seq]; t.Local && s != nil {
			s.decided(t)
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
		if slices.ContainsFunc(remote, addsTo) {
			r.then = append(r.then, func() { m.apply(remote, g.Last, m.addsNoMore) })
			r.left++
		} else {
			m.apply(remote, g.Last, nil)
		}
	}
	r.started = true
	m.group.unadded(m)
	m.commitDone()
}

// commitLocal commits the open transaction behind a certified task.
func (m *member) commitLocal(s *modelSession, t engine.Task) {
	m.group.left++
	s.task = &t
	s.state = sessionCommitting
	if s.broken {
		m.commitLost(t)
		return
	}
	if len(s.a.adds) > 0 {
		m.group.adds++
		x := &adder{m: m, s: s, t: s.t, task: t}
		s.added = x.over
		x.step()
	} else {
		m.commitOpen(s, t)
	}
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

// commitOpen has the session's backend commit.
func (m *member) commitOpen(s *modelSession, t engine.Task) {
	s.t.commit(m.in(func() {
		added := s.added
		if s.state == sessionCommitting {
			m.knows.applied([]engine.Task{t}, nil)
			m.notify(t.Ordinal)
			s.finish(outcomeOK)
		}
		if added != nil {
			added()
		}
		m.commitDone()
	}))
}

// commitLost is called when the backend of a certified session died before its commit was
// logged: its rows are applied like anybody else's, and then its client is told.
func (m *member) commitLost(t engine.Task) {
	m.w.truth.attempts[t.Item.ID].orphan = true
	if m.w.o.Planted != "orphan-not-told" {
		m.engine.Orphan(t.Item.ID.Seq)
	}
	m.begun = max(m.begun, m.group.Last)
	if addsTo(t) {
		m.group.then = append(m.group.then, func() { m.apply([]engine.Task{t}, 0, m.addsNoMore) })
		m.group.unadded(m)
		return
	}
	m.apply([]engine.Task{t}, 0, nil)
	m.commitDone()
}

func (m *member) commitDone() {
	m.group.left--
	if m.group.left > 0 {
		return
	}
	due := m.group.notes
	m.group = nil
	m.knows.done()
	if m.w.o.Planted == "notified-early" {
		m.hear(due)
		due = nil
	}
	m.engine.GroupDone()
	m.hear(due)
	m.w.note(uint64(m.id)|1<<8, m.engine.Applied(), m.db.hash)
	if m.open && !m.engine.Holes() {
		m.w.truth.checkPrefix(m)
		m.knows.check()
	}
	m.openGate()
	m.wake()
}

// apply runs tasks in one database transaction, with the progress record (unless zero), and calls over, if there is
// one, when it has committed.
func (m *member) apply(tasks []engine.Task, progress uint64, over func()) {
	m.group.left++
	a := &applier{m: m, t: m.db.begin(nil, false), tasks: tasks, over: over}
	a.t.listens = announcements(tasks)
	if m.w.o.Planted != "progress-not-written" {
		a.t.progress = progress
	}
	for _, t := range tasks {
		if m.refuses(&t) {
			if m.w.o.Planted == haltPlanted && !m.open {
				continue
			}
			m.halt(&t)
			return
		}
		switch t.Item.Kind {
		case engine.KindCertified:
			changes, tag := decode(t.Writeset)
			for _, c := range changes {
				a.work = append(a.work, tagged{change: c, tag: tag})
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
			d.ordinal = t.Ordinal
			a.define = &d
			for _, k := range d.rewrites(a.t.latest(catalogKey)) {
				a.work = append(a.work, tagged{change: change{key: k, op: writeset.OpUpdate}})
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
	tasks  []engine.Task
	own    []engine.Item
	absent []rowKey    // that blind transactions have not found
	missed []uint64    // tags of blind transactions that have found no row
	define *definition // nil unless the task is one
	over   func()      // nil: nobody waits for it
	next   int
}

func (a *applier) step() {
	for ; a.next < len(a.work); a.next++ {
		for a.next < len(a.work) && a.work[a.next].op.Blind() {
			if !a.blindly() {
				return
			}
		}
		if a.next == len(a.work) {
			break
		}
		c := &a.work[a.next]
		mode := c.op.KeyMode()
		if mode == writeset.Add {
			mode = writeset.Update // PostgreSQL knows no other
		}
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
	a.t.commit(a.m.in(a.committed))
}

// committed is called once the database transaction has committed.
func (a *applier) committed() {
	if a.t.adopt != nil && a.m.w.o.Planted != "adopted-in-flight" {
		a.m.stop(false)
		a.m.start() // the engine still believes the database to be another's
		return
	}
	a.m.knows.applied(a.tasks, a.absent)
	a.m.listens.carryOut(a.tasks)
	for _, it := range a.own {
		a.m.applied(it, a.missed)
	}
	if a.over != nil {
		a.over()
	}
	a.m.commitDone()
}

// lock is false if the applier must wait; it then continues by itself.
func (a *applier) lock(key uint64, mode writeset.Mode) bool {
	if a.t.d.lockFor(key).acquire(a.t, mode, a.m.inDatabase(a.step)) {
		return true
	}
	a.m.w.stats.Blocked++
	a.m.watch(a.t.wait)
	return false
}

// watch looks after a while who blocks what is decided, and ends what may be ended.
func (m *member) watch(w *waiter) {
	m.w.after(m.w.swarm.blockWait, m.inDatabase(func() {
		if w.t.wait != w {
			return
		}
		for _, b := range w.blockers() {
			if b.owner != nil {
				b.owner.inTheWay()
			}
		}
		if w.t.wait == w {
			m.watch(w)
		}
	}))
}

// applied tells a session whose item was applied for it: a statement's, a blind transaction's, or a fence.
func (m *member) applied(it engine.Item, missed []uint64) {
	if it.Kind == engine.KindFence && it.ID.Seq == m.fence {
		m.open = true
		m.w.truth.voting.joins.serves(m, m.group.Last)
		m.listens.begin(m.group.Last)
	}
	if s := m.submitted[it.ID.Seq]; s != nil {
		a := m.w.truth.attempts[it.ID]
		s.wasApplied(a.unseen != nil && m.w.o.Planted != "blind-miss-not-told" && slices.Contains(missed, a.tag))
	}
}
