package locks

// circle reports whether a session waits, over others, for itself.
func (t *Table) circle(s Session) bool {
	seen := map[Session]bool{}
	var reaches func(Session) bool
	reaches = func(from Session) bool {
		for _, b := range t.blockers(from) {
			if b == s {
				return true
			}
			if !seen[b] {
				seen[b] = true
				if reaches(b) {
					return true
				}
			}
		}
		return false
	}
	return reaches(s)
}

// blockers lists for whom a session waits.
func (t *Table) blockers(s Session) (out []Session) {
	out = append(out, t.blocked[s]...)
	l, waits := t.waiting[s]
	if !waits {
		return out
	}
	e := t.keys[l.Key]
	for _, h := range e.holders {
		if h.session != s && h.mode.Conflicts(l.Mode) {
			out = append(out, h.session)
		}
	}
	for _, q := range e.queue {
		if q.session == s {
			break
		}
		if q.mode.Conflicts(l.Mode) {
			out = append(out, q.session)
		}
	}
	return out
}

// block takes what a member tells of its sessions that wait at its own PostgreSQL, in place of what it
// told before. Every circle that closes is opened: somebody in it gives up waiting (L4).
func (t *Table) block(member uint32, incarnation uint64, edges []Edge) (out []Event) {
	for _, s := range t.sessions(func(s Session) bool { return s.Member == member }) {
		delete(t.blocked, s)
	}
	for _, e := range edges {
		w := Session{member, incarnation, e.Waiter}
		t.blocked[w] = append(t.blocked[w], Session{member, incarnation, e.Blocker})
	}
	for _, s := range t.sessions(func(Session) bool { return true }) {
		if l, waits := t.waiting[s]; waits && t.circle(s) {
			out = append(out, Event{s, l, Deadlock})
			out = append(out, t.stopWaiting(s)...)
		}
	}
	return out
}
