package session

import "strings"

// A statement that may do something outside of the database, which ROLLBACK does not undo (see Collector.Outside), is run once: if its transaction loses, its client is told 40001
// and knows that it has run. So it is a write from the beginning, as a read that turns out to write is run again.

// noteOutside notes that a request may do so.
func (s *Session) noteOutside(r *request) {
	if r.prepares || r.direct != nil && s.staysInside(r.direct) {
		return
	}
	for _, sql := range r.sql {
		out := s.o.Collector.Outside(sql)
		if out && len(sql) > 7 && containsFold(sql, "prepare") { // it may be run by an EXECUTE, of which nothing else is known
			s.preparesOutside = true
		}
		if out || s.preparesOutside && (sql == "" || containsFold(sql, "execute")) { // it may be one of those, also by message
			r.write = r.write || !r.sticky && !r.local
			r.sticky = true
		}
	}
	if len(r.sql) == 0 && !r.defines { // a function that is called by its OID
		r.sticky = true
	}
}

// staysInside reports whether nothing of what may be run directly goes outside. It is found once for each form, which is forgotten with the catalog.
func (s *Session) staysInside(d *directRun) bool {
	for i := range d.parts {
		f := d.parts[i].form
		if !f.inside && s.o.Collector.Outside(f.sql) {
			return false
		}
		f.inside = true
	}
	return true
}

func containsFold(sql, word string) bool {
	return strings.Contains(strings.ToLower(sql), word)
}
