package session

import (
	"bytes"

	"github.com/tuttidb/tutti/internal/wire"
)

var (
	// planColumn begins the description of what EXPLAIN returns: one column of this name.
	planColumn = []byte("\x00\x01QUERY PLAN\x00")
	// ownTrigger begins, behind its length, a line with which EXPLAIN ANALYZE tells of Tutti's own triggers.
	ownTrigger = []byte("Trigger !!tutti")
)

// ofPlan reports whether a row is a line of a query plan that a plain PostgreSQL would not have. In
// another format than text, and where the plan's column was described earlier, such lines are told.
func (r *reply) ofPlan(f wire.Frame) bool {
	switch f.Type {
	case wire.TypeRowDescription:
		r.plan = bytes.HasPrefix(f.Body(), planColumn)
	case wire.TypeCommandComplete:
		r.plan = false
	case wire.TypeDataRow:
		const head = 2 + 4 // the number of columns, and the length of the first
		return r.plan && len(f.Body()) > head && bytes.HasPrefix(f.Body()[head:], ownTrigger)
	}
	return false
}
