package session

import "github.com/tuttidb/tutti/internal/semantics"

// markedTextMax is how long a text may be to get the mark of statements that are captured as a whole:
// the triggers copy it for every row.
const markedTextMax = 4 << 10

// marks reports whether a statement gets that mark. Tables that do not allow it are captured row by
// row all the same, so nothing needs to be known of the table.
func (s *Session) marks(st semantics.Statement, sql string) bool {
	return st.Many && len(sql) <= markedTextMax
}
