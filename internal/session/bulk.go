package session

import "github.com/tuttidb/tutti/internal/semantics"

// marks reports whether a statement gets the mark of those that are captured as a whole. Tables that do not allow
// it are captured row by row all the same, and whatever the guess is, nothing is missed: it decides what capture
// costs. One that changes rows of temporary heirs, too, which a session hears of when it makes them, must not have it.
func (t *texts) marks(st semantics.Statement, sql string) bool {
	if t.heirs || len(sql) > semantics.ManyTextMax {
		return false
	}
	if st.Many { // triggers of users, which current_query() would tell of it, have their tables captured row by row
		schema, table := semantics.Target(sql)
		return table == "" || !t.facts.Piecewise(schema, table)
	}
	return st.Compared != nil && t.facts.Unkeyed(st.Compared)
}
