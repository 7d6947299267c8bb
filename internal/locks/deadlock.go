package locks

import "slices"

// circle reports whether a session waits for l over others for itself. Where told is false, what members tell does not
// count: it may be over.
func (t *Table) circle(s Session, l Lock, told bool) bool {
	seen := map[Session]bool{}
	var reaches func([]Session) bool
	reaches = func(blockers []Session) bool {
		for _, b := range blockers {
			if b == s {
				return true
			}
			if !seen[b] {
				seen[b] = true
				if reaches(t.blockers(b, told)) {
					return true
				}
			}
		}
		return false
	}
	return reaches(t.before(s, l))
}

// blockers lists for whom a session waits.
func (t *Table) blockers(s Session, told bool) (out []Session) {
	if told {
		out = append(out, t.blocked[s]...)
	}
	for _, l := range t.waiting[s] {
		out = append(out, t.before(s, l)...)
	}
	return out
}

// before lists who keeps a session from a lock for which it waits.
func (t *Table) before(s Session, l Lock) (out []Session) {
	e := t.keys[l.Key]
	for _, h := range e.holders {
		if h.session != s && h.mode.Conflicts(l.Mode) {
			out = append(out, h.session)
		}
	}
	for _, q := range e.queue {
		if q == (holding{s, l.Mode}) {
			break
		}
		if q.session != s && q.mode.Conflicts(l.Mode) {
			out = append(out, q.session)
		}
	}
	return out
}

// block takes what a member tells of its sessions that wait at its own PostgreSQL, in place of what it
// told before. Every circle that is closed is opened: somebody in it gives up a wait (L4).
func (t *Table) block(member uint32, incarnation uint64, edges []Edge) (out []Event) {
	for _, s := range t.sessions(func(s Session) bool { return s.Member == member }) {
		delete(t.blocked, s)
	}
	for _, e := range edges {
		w := Session{member, incarnation, e.Waiter}
		t.blocked[w] = append(t.blocked[w], Session{member, incarnation, e.Blocker})
	}
	for _, s := range t.sessions(func(Session) bool { return true }) {
		for _, l := range slices.Clone(t.waiting[s]) {
			if slices.Contains(t.waiting[s], l) && t.circle(s, l, true) {
				out = append(out, Event{s, l, Deadlock})
				out = append(out, t.stopWaiting(s, l)...)
			}
		}
	}
	return out
}
