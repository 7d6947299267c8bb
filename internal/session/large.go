package session

import (
	"regexp"

	"github.com/tuttidb/tutti/internal/wire"
)

// largeFrame is what a function of Tutti's that writes large objects adds to an error's context.
var largeFrame = regexp.MustCompile(`(?m)^PL/pgSQL function ` +
	`lo(write|_(import|creat|create|from_bytea|open|put|truncate|truncate64|unlink))\([a-z,]*\) line `)

// overtaken gives the error of a write to a large object that another transaction has written meanwhile the code that
// conflicts have: PostgreSQL has none for it.
func overtaken(e *wire.ErrorFields) bool {
	if e.Code != wire.CodeInternalError || e.Routine != "simple_heap_update" && e.Routine != "simple_heap_delete" ||
		!largeFrame.MatchString(e.Where) {
		return false
	}
	*e = wire.Errorf(wire.CodeSerializationFailure, "could not serialize access due to concurrent update").
		WithDetail("The large object was written by another transaction: %s.",
			e.Message).WithHint("The transaction might succeed if retried.").ErrorFields
	return true
}
