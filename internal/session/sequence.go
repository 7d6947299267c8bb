package session

import (
	"regexp"

	"github.com/tuttidb/tutti/internal/wire"
)

// A node gives a sequence's values from chunks of its own, at whose end PostgreSQL finds the sequence exhausted. The
// host goes on to the next chunk; what failed is repeated, or lost to it like to another transaction.

var boundInMessage = regexp.MustCompile(`\(-?\d+\)$`)

// spent finds out what a sequence without values means for the client.
func (y *relaying) spent(e *wire.ErrorFields) {
	moved, bound := y.host.Spent(e.Message)
	switch {
	case moved:
		*e = wire.Errorf(wire.CodeSerializationFailure,
			"could not take the next value of a sequence: this node has come to the end of a chunk of its values").
			WithDetail("%s. The node goes on with another chunk.",
				e.Message).WithHint("Run the transaction again.").ErrorFields
		y.moved = true
	case bound != "":
		e.Message = boundInMessage.ReplaceAllLiteralString(e.Message, "("+bound+")")
		e.Detail = "The values of the sequence are divided among the nodes, and this node has none left."
		e.Hint = "Other nodes may have some. ALTER SEQUENCE can widen its bounds."
	}
}
