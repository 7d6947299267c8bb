package sim

import (
	"slices"

	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/locks"
	"github.com/tuttidb/tutti/internal/replica"
)

// locker is a process that takes advisory locks and gives them back, a backend or a parallel worker. What it believes
// is checked against what those of all other sessions believe (S8).
type locker struct {
	m       *member
	number  uint64
	session uint64
	lock    locks.Lock
	asks    uint64 // number of the request; grows
	state   lockerState
}

// lockersPerSession is how many processes a session has, but for the last one.
const lockersPerSession = 2

type lockerState uint8

const (
	lockerIdle lockerState = iota
	lockerAsks
	lockerGranted // it waits until what it must see is applied
	lockerHolds
	lockerGives // until that has its place in the order
)

// tenancy is what a life of a member has of advisory locks: see internal/node.
type tenancy struct {
	lockers  map[uint64]*locker
	proposed map[uint64]int64 // when, by sequence
	lease    replica.Lease    // of the lockers' locks
	renewal  uint64           // the sequence of the one under way
	watch    replica.Watch
	outbox   []engine.Submission
}

// tenants begins a life's part in advisory locks.
func (m *member) beginLocks() {
	m.wake()
	m.tenancy = tenancy{lockers: map[uint64]*locker{}, proposed: map[uint64]int64{},
		lease: replica.NewLease(m.w.swarm.lockLease), watch: replica.NewWatch(m.id, m.w.swarm.lockLease)}
	if m.w.swarm.lockers == 0 {
		return
	}
	m.lease()
	m.expire()
	for n := range m.w.swarm.lockers {
		x := &locker{m: m, number: uint64(n + 1), session: uint64(n/lockersPerSession + 1)}
		m.tenancy.lockers[x.number] = x
		x.next()
	}
}

// submitLock puts a request into the order, behind those before it.
func (m *member) submitLock(r *locks.Request) (seq uint64) {
	m.seq++
	m.tenancy.proposed[m.seq] = m.w.now
	m.tenancy.outbox = append(m.tenancy.outbox, engine.Submission{Kind: engine.KindLock, Seq: m.seq,
		Payload: r.Append(nil)})
	if len(m.tenancy.outbox) == 1 {
		m.sendLocks()
	}
	return m.seq
}

// sendLocks submits what waits, and again later what finds no room.
func (m *member) sendLocks() {
	t := &m.tenancy
	for len(t.outbox) > 0 {
		if !m.engine.Submit(t.outbox[0]) {
			m.w.after(1000, m.in(m.sendLocks))
			return
		}
		t.outbox = t.outbox[1:]
		m.wake()
	}
}

// locked takes what the engine says about locks.
func (m *member) locked(events []engine.Lock) {
	t := &m.tenancy
	for _, e := range events {
		if e.Seq != 0 {
			at := t.proposed[e.Seq]
			delete(t.proposed, e.Seq)
			if e.Seq == t.renewal {
				t.lease.Renewed()
			} else {
				t.lease.Ordered(at)
			}
			continue
		}
		for n := range m.w.swarm.lockers {
			if x := t.lockers[uint64(n+1)]; x != nil && x.session == e.Event.Session.Number {
				x.told(e)
			}
		}
	}
}

func (x *locker) told(e engine.Lock) {
	switch {
	case e.Event.Lock != x.lock:
	case e.Event.Outcome == locks.Granted && x.state == lockerAsks:
		x.state = lockerGranted
		x.begin(x.asks, e.Ordinal)
	case e.Event.Outcome == locks.Busy, e.Event.Outcome == locks.Deadlock:
		if x.state == lockerAsks {
			x.idle()
		}
	case e.Event.Outcome == locks.Lost && x.state != lockerIdle:
		x.m.w.stats.LocksLost++
		x.idle()
	}
}

// begin makes the lock the locker's when what was committed before is applied, and it is certain that nobody
// else is given it.
func (x *locker) begin(asks, ordinal uint64) {
	if x.state != lockerGranted || x.asks != asks {
		return
	}
	m := x.m
	if m.engine.Applied() < ordinal && m.w.o.Planted != "locked-early" ||
		m.tenancy.lease.Over(m.w.now, 0) {
		m.w.after(200, m.in(func() { x.begin(asks, ordinal) }))
		return
	}
	if applied := m.engine.Applied(); applied < ordinal {
		m.w.violation("%v: locker %d enters at ordinal %d when %d is applied", m, x.number, ordinal, applied)
	}
	x.state = lockerHolds
	m.w.stats.Locked++
	for _, o := range m.w.members {
		for _, y := range o.tenancy.lockers { // order-free: one is enough, and a violation ends the run
			if (y.m != m || y.session != x.session) && y.believes() && y.lock.Key == x.lock.Key &&
				y.lock.Mode.Conflicts(x.lock.Mode) {
				m.w.violation("%v: locker %d of %v and locker %d of %v are inside %v", m, x.number, m, y.number, o,
					x.lock)
			}
		}
	}
	stays := m.w.rnd.between(100, 30_000)
	if m.w.rnd.chance(200) {
		stays += m.w.rnd.between(0, 2*m.w.swarm.lockLease)
	}
	m.w.after(stays, m.in(func() {
		if x.state == lockerHolds && x.asks == asks {
			x.give()
		}
	}))
}

// believes reports whether the locker is inside, as far as its client can know.
func (x *locker) believes() bool {
	return x.m.up && x.state == lockerHolds && !x.m.tenancy.lease.Over(x.m.w.now, 0)
}

func (x *locker) idle() {
	x.state = lockerIdle
	x.next()
}

func (x *locker) next() {
	x.m.w.after(x.m.w.rnd.between(100, 50_000), x.m.in(x.ask))
}

func (x *locker) ask() {
	m := x.m
	if m.w.phase == phaseQuiet || x.state != lockerIdle {
		return
	}
	x.asks++
	x.state = lockerAsks
	x.lock = locks.Lock{Key: locks.Key{Object: uint32(m.w.rnd.intn(2)), Form: 1}, Mode: locks.Exclusive}
	if m.w.rnd.chance(300) {
		x.lock.Mode = locks.Shared
	}
	if x.waitsItsTurn() {
		x.idle()
		return
	}
	r := &locks.Request{Action: locks.Take, Session: x.session, Locks: []locks.Lock{x.lock}}
	if m.w.rnd.chance(300) {
		r.Action = locks.Try
	}
	m.submitLock(r)
	asks := x.asks
	m.w.after(m.w.rnd.between(1000, 300_000), m.in(func() {
		if (x.state == lockerAsks || x.state == lockerGranted) && x.asks == asks {
			x.give() // its client has cancelled
		}
	}))
}

// waitsItsTurn reports whether another process of the session's has anything to do with the lock.
func (x *locker) waitsItsTurn() bool {
	for _, y := range x.m.tenancy.lockers { // order-free: whether there is one
		if y != x && y.session == x.session && y.state != lockerIdle && y.lock == x.lock {
			return true
		}
	}
	return false
}

// give gives the lock back, or the wait for it up, and asks for nothing until that has its place.
func (x *locker) give() {
	x.state = lockerGives
	m := x.m
	seq, asks := m.submitLock(&locks.Request{Action: locks.Release, Session: x.session, Locks: []locks.Lock{x.lock}}),
		x.asks
	var look func()
	look = func() {
		if x.state != lockerGives || x.asks != asks {
			return
		}
		if _, under := m.tenancy.proposed[seq]; !under {
			x.idle()
			return
		}
		m.w.after(500, m.in(look))
	}
	m.w.after(500, m.in(look))
}

// lease lets the others hear of this member while its lockers have anything, and takes their locks from them
// when they do not.
func (m *member) lease() {
	t, lease := &m.tenancy, m.w.swarm.lockLease
	m.w.after(lease/20, m.in(m.lease))
	busy := false
	for n := range m.w.swarm.lockers {
		x := t.lockers[uint64(n+1)]
		busy = busy || x != nil && x.state != lockerIdle
		if x != nil && x.state == lockerHolds && t.lease.Over(m.w.now, 0) {
			m.w.stats.LocksLost++
			x.give()
		}
	}
	if t.lease.Renews(m.w.now, busy) {
		t.renewal = m.submitLock(&locks.Request{Action: locks.Renew})
	}
}

// expire proposes to take the locks of members of which nothing was heard for long.
func (m *member) expire() {
	m.w.after(m.w.swarm.lockLease/10, m.in(m.expire))
	var tenants []replica.Tenant
	for _, x := range m.engine.Advisory().Tenants() {
		for _, h := range m.engine.Advisory().Locks() {
			if h.Session.Member == x.Member && h.Session.Incarnation < x.Incarnation {
				m.w.violation("%v: %v is held or awaited by a session of incarnation %d of member %d, which is at "+
					"incarnation %d", m, h.Lock, h.Session.Incarnation, x.Member, x.Incarnation)
			}
		}
		tenants = append(tenants, replica.Tenant(x))
	}
	for _, x := range m.tenancy.watch.Look(m.w.now, tenants) {
		m.submitLock(&locks.Request{Action: locks.Expire, Member: x.Member, Incarnation: x.Incarnation,
			Number: x.Number})
	}
}

// judgeAdvisory checks that all members know the same of locks when they have applied the same.
func (w *world) judgeAdvisory() {
	list := w.present()
	for _, m := range list {
		if !slices.Equal(m.engine.Advisory().Locks(), list[0].engine.Advisory().Locks()) {
			w.violation("%v knows %v, %v knows %v", m, m.engine.Advisory().Locks(), list[0],
				list[0].engine.Advisory().Locks())
		}
	}
}
