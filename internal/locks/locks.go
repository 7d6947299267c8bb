package locks

import (
	"cmp"
	"slices"
)

// Mode is how a lock is held.
type Mode uint8

const (
	Shared    Mode = 1
	Exclusive Mode = 2
)

// Conflicts reports whether two sessions cannot hold modes a and b of one key.
func (a Mode) Conflicts(b Mode) bool { return a == Exclusive || b == Exclusive }

// Key names a lock as pg_locks shows it: Form is 1 for the functions that take one bigint, whose halves
// are Class and Object, and 2 for those that take two integers.
type Key struct {
	Class, Object uint32
	Form          uint8
}

func (k Key) compare(o Key) int {
	return cmp.Or(cmp.Compare(k.Form, o.Form), cmp.Compare(k.Class, o.Class), cmp.Compare(k.Object, o.Object))
}

// Lock is a key in one mode. A session may hold both modes of a key.
type Lock struct {
	Key  Key
	Mode Mode
}

func (l Lock) compare(o Lock) int { return cmp.Or(l.Key.compare(o.Key), cmp.Compare(l.Mode, o.Mode)) }

// Session is one client's session, for ever: its number is unique within the incarnation.
type Session struct {
	Member      uint32
	Incarnation uint64
	Number      uint64
}

func (s Session) compare(o Session) int {
	return cmp.Or(cmp.Compare(s.Member, o.Member), cmp.Compare(s.Incarnation, o.Incarnation),
		cmp.Compare(s.Number, o.Number))
}

// Outcome is what became of a request.
type Outcome uint8

const (
	// Granted: the session holds the lock.
	Granted Outcome = iota + 1
	// Queued: it waits; another event will follow, unless it releases the lock.
	Queued
	// Busy: somebody else holds the lock, or waits for it, and the session did not want to wait.
	Busy
	// Deadlock: the session would wait for others that wait for it. It does not wait (any more).
	Deadlock
	// Lost: the session held the lock, or waited for it, and its member has expired.
	Lost
)

// Event says that something changed for a session.
type Event struct {
	Session Session
	Lock    Lock
	Outcome Outcome
}

type holding struct {
	session Session
	mode    Mode
}

// entry is one key: who holds it, in the order of the grants, and who waits, in the order of the queue.
type entry struct{ holders, queue []holding }

// edge says that a session waits at its member for another of the same member, whatever for.
type edge struct{ waiter, blocker Session }

// Table is the state of all locks. Not safe for concurrent use.
type Table struct {
	keys    map[Key]*entry
	held    map[Session][]Lock    // sorted, because a checkpoint keeps no other order
	waiting map[Session][]Lock    // sorted, too: the processes of one session may wait for several
	blocked map[Session][]Session // by what members tell
}

// New returns a table in which no lock is held.
func New() *Table {
	return &Table{keys: map[Key]*entry{}, held: map[Session][]Lock{}, waiting: map[Session][]Lock{},
		blocked: map[Session][]Session{}}
}

// Apply carries out a request of a member. A request that makes no sense changes nothing.
func (t *Table) Apply(member uint32, incarnation uint64, r *Request) []Event {
	s := Session{member, incarnation, r.Session}
	switch r.Action {
	case Take, Try:
		return t.take(s, r.Locks[0], r.Action == Try)
	case Release:
		delete(t.blocked, s)
		var out []Event
		for _, l := range r.Locks {
			out = append(out, t.release(s, l)...)
		}
		return out
	case Leave:
		return t.leave(s)
	case Blocked:
		return t.block(member, incarnation, r.Edges)
	}
	return nil
}

// Holds reports whether a session holds a lock.
func (t *Table) Holds(s Session, l Lock) bool {
	e := t.keys[l.Key]
	return e != nil && e.holds(s, l.Mode)
}

func (e *entry) holds(s Session, m Mode) bool {
	for _, h := range e.holders {
		if h.session == s && h.mode == m {
			return true
		}
	}
	return false
}

// hinders reports whether a holder conflicts with a session that wants a mode, or one of the first n of the queue.
func (e *entry) hinders(s Session, m Mode, n int) bool {
	for _, h := range e.holders {
		if h.session != s && h.mode.Conflicts(m) {
			return planted != "lock-granted-twice"
		}
	}
	for _, q := range e.queue[:n] {
		if q.session != s && q.mode.Conflicts(m) {
			return true
		}
	}
	return false
}

// take grants a lock or puts the session into the queue: before the first whom it keeps waiting itself,
// or both would wait for ever.
func (t *Table) take(s Session, l Lock, try bool) []Event {
	delete(t.blocked, s) // it runs
	answer := func(o Outcome) []Event { return []Event{{s, l, o}} }
	if slices.Contains(t.waiting[s], l) {
		return answer(Busy)
	}
	e := t.keys[l.Key]
	if e == nil {
		e = &entry{}
		t.keys[l.Key] = e
	}
	at := len(e.queue)
	for i, q := range e.queue {
		if e.keepsOut(s, q.mode) {
			at = i
			break
		}
	}
	switch {
	case e.holds(s, l.Mode):
		return answer(Granted)
	case !e.hinders(s, l.Mode, at):
		t.grant(s, l)
		return answer(Granted)
	case try:
		return answer(Busy)
	}
	e.queue = append(e.queue[:at:at], append([]holding{{s, l.Mode}}, e.queue[at:]...)...)
	t.waiting[s] = with(t.waiting[s], l)
	if t.circle(s, l, false) {
		return append(answer(Deadlock), t.stopWaiting(s, l)...)
	}
	return answer(Queued)
}

// keepsOut reports whether a session holds the key in a mode that conflicts with m.
func (e *entry) keepsOut(s Session, m Mode) bool {
	return e.holds(s, Exclusive) || m == Exclusive && e.holds(s, Shared)
}

func (t *Table) grant(s Session, l Lock) {
	t.keys[l.Key].holders = append(t.keys[l.Key].holders, holding{s, l.Mode})
	t.held[s] = with(t.held[s], l)
}

// with puts a lock into a sorted list.
func with(list []Lock, l Lock) []Lock {
	at, _ := slices.BinarySearchFunc(list, l, Lock.compare)
	return slices.Insert(list, at, l)
}

// strike takes a lock out of a session's list.
func strike(lists map[Session][]Lock, s Session, l Lock) {
	if lists[s] = without(lists[s], l); len(lists[s]) == 0 {
		delete(lists, s)
	}
}

// release takes a lock from a session, or the session from the lock's queue.
func (t *Table) release(s Session, l Lock) []Event {
	var out []Event
	if slices.Contains(t.waiting[s], l) {
		out = t.stopWaiting(s, l)
	}
	e := t.keys[l.Key]
	if e == nil || !e.holds(s, l.Mode) {
		return out
	}
	e.holders = without(e.holders, holding{s, l.Mode})
	strike(t.held, s, l)
	return append(out, t.admit(l.Key)...)
}

func without[T comparable](list []T, x T) []T {
	out := list[:0]
	for _, h := range list {
		if h != x {
			out = append(out, h)
		}
	}
	return out
}

// stopWaiting takes a session out of a lock's queue.
func (t *Table) stopWaiting(s Session, l Lock) []Event {
	strike(t.waiting, s, l)
	e := t.keys[l.Key]
	e.queue = without(e.queue, holding{s, l.Mode})
	return t.admit(l.Key)
}

// admit grants a key to those of its queue whom nothing keeps out any more (L3).
func (t *Table) admit(k Key) (out []Event) {
	e := t.keys[k]
	for i := 0; i < len(e.queue); {
		q := e.queue[i]
		if e.hinders(q.session, q.mode, i) {
			i++
			continue
		}
		e.queue = append(e.queue[:i:i], e.queue[i+1:]...)
		l := Lock{k, q.mode}
		strike(t.waiting, q.session, l)
		t.grant(q.session, l)
		out = append(out, Event{q.session, l, Granted})
	}
	if len(e.holders)+len(e.queue) == 0 {
		delete(t.keys, k)
	}
	return out
}

// leave takes everything from a session.
func (t *Table) leave(s Session) (out []Event) {
	delete(t.blocked, s)
	for len(t.waiting[s]) > 0 {
		out = append(out, t.stopWaiting(s, t.waiting[s][0])...)
	}
	for len(t.held[s]) > 0 {
		out = append(out, t.release(s, t.held[s][0])...)
	}
	return out
}
