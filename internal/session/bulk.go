package session

import "github.com/tuttidb/tutti/internal/semantics"

// marks reports whether a statement gets the mark of those that are captured as a whole. Tables that do not allow
// it are captured row by row all the same, and whatever the guess is, nothing is missed: it decides what capture
// costs.
func (s *Session) marks(st semantics.Statement, sql string) bool {
	if len(sql) > semantics.ManyTextMax {
		return false
	}
	return st.Many || st.Compared != nil && s.o.Collector.Unkeyed(st.Compared)
}
