package intent

import "slices"

// circle is the request that gives up because its owner waits for itself; nil if nobody does (I4). Of several
// owners that do it is the one that asked last.
func (m *Manager) circle() *request {
	if planted == "intent-circles-unseen" {
		return nil
	}
	for i := len(m.requests) - 1; i >= 0; i-- {
		if q := m.requests[i]; !q.granted && m.reaches(q.owner, q.owner) {
			return q
		}
	}
	return nil
}

// reaches reports whether an owner waits for another, or for somebody who waits for it.
func (m *Manager) reaches(from, to Owner) bool {
	seen, next := []Owner{from}, m.waitsFor(from)
	for len(next) > 0 {
		o := next[0]
		next = next[1:]
		if o == to {
			return true
		}
		if !slices.Contains(seen, o) {
			seen = append(seen, o)
			next = append(next, m.waitsFor(o)...)
		}
	}
	return false
}

// waitsFor are the owners for which one waits, here and elsewhere.
func (m *Manager) waitsFor(o Owner) []Owner {
	out := slices.Clone(m.blocked[o])
	for i, q := range m.requests {
		if q.owner == o && !q.granted {
			out = append(out, m.before(i)...)
		}
	}
	return out
}
