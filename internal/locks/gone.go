package locks

import "slices"

// sessions lists who holds a lock, waits for one, or is told to be blocked, in order.
func (t *Table) sessions(of func(Session) bool) []Session {
	var out []Session
	for s := range t.held { // order-free: sorted below
		out = append(out, s)
	}
	for s := range t.waiting { // order-free: sorted below
		out = append(out, s)
	}
	for s := range t.blocked { // order-free: sorted below
		out = append(out, s)
	}
	out = slices.DeleteFunc(out, func(s Session) bool { return !of(s) })
	slices.SortFunc(out, Session.compare)
	return slices.Compact(out)
}

// Begun says that a member is heard of in a new incarnation: its earlier lives are over (L5).
func (t *Table) Begun(member uint32, incarnation uint64) (out []Event) {
	if planted == "lock-outlives-node" {
		return nil
	}
	gone := func(s Session) bool { return s.Member == member && s.Incarnation < incarnation }
	for _, s := range t.sessions(gone) {
		out = append(out, t.leave(s)...)
	}
	return withoutGrants(out, gone)
}

// withoutGrants leaves out what was granted to sessions that lost it at once.
func withoutGrants(events []Event, gone func(Session) bool) []Event {
	return slices.DeleteFunc(events, func(e Event) bool { return e.Outcome == Granted && gone(e.Session) })
}

// Expire takes everything from a member's sessions, who are told (L5).
func (t *Table) Expire(member uint32) (out []Event) {
	gone := func(s Session) bool { return s.Member == member }
	for _, s := range t.sessions(gone) {
		for _, l := range t.waiting[s] {
			out = append(out, Event{s, l, Lost})
		}
		for _, l := range t.held[s] {
			out = append(out, Event{s, l, Lost})
		}
		out = append(out, t.leave(s)...)
	}
	return withoutGrants(out, gone)
}

// Members lists the members whose sessions hold locks or wait for them.
func (t *Table) Members() (out []uint32) {
	for _, s := range t.sessions(func(Session) bool { return true }) {
		if n := len(out); n == 0 || out[n-1] != s.Member {
			out = append(out, s.Member)
		}
	}
	return out
}

// Held is one line of who holds what.
type Held struct {
	Lock    Lock
	Session Session
	Granted bool
}

// List says who holds which lock and who waits for it, by key; the waiting in the order of the queue.
func (t *Table) List() (out []Held) {
	for _, k := range t.sorted() {
		for _, h := range t.keys[k].holders {
			out = append(out, Held{Lock{k, h.mode}, h.session, true})
		}
		for _, q := range t.keys[k].queue {
			out = append(out, Held{Lock{k, q.mode}, q.session, false})
		}
	}
	return out
}

func (t *Table) sorted() []Key {
	keys := make([]Key, 0, len(t.keys))
	for k := range t.keys { // order-free: sorted below
		keys = append(keys, k)
	}
	slices.SortFunc(keys, Key.compare)
	return keys
}
