package outcome

import (
	"fmt"
	"time"

	"github.com/tuttidb/tutti/internal/certify"
	"github.com/tuttidb/tutti/internal/session"
	"github.com/tuttidb/tutti/internal/wire"
	"github.com/tuttidb/tutti/internal/writeset"
)

// Concurrent is what PostgreSQL says of a row that was changed; it says something else of reads, see Words.Lost.
const Concurrent = "could not serialize access due to concurrent update"

const retried = "The transaction might succeed if retried."

// Ending is told while this life of the member ends and nothing was proposed.
func Ending() *wire.SQLError {
	return wire.Errorf(wire.CodeCannotConnectNow, "this member is restarting").
		WithHint("Try again, or connect to another member.")
}

// Pending is told when the engine takes nothing more.
func Pending() *wire.SQLError {
	return wire.Errorf(wire.CodeConfigurationLimit, "too many transactions wait to be ordered (pending_items)").
		WithHint("Is a majority of the members up? See SHOW tutti.status.")
}

// TooLarge is told of a transaction that the cluster does not take.
func TooLarge(bytes, most int) *wire.SQLError {
	return wire.Errorf(wire.CodeProgramLimit,
		"the transaction changes %d bytes, more than the limit of %d (writeset_bytes)", bytes, most).
		WithHint("Split it into smaller transactions.")
}

// NotOrdered is told when nothing was proposed within commit_timeout_ms. What is a transaction, or a statement.
func NotOrdered(what string, most time.Duration) *wire.SQLError {
	return wire.Errorf(wire.CodeCannotConnectNow, "%s was not committed: it could not be put into the order within "+
		"%d ms (commit_timeout_ms)", what, most.Milliseconds()).
		WithHint("Is a majority of the members up? See SHOW tutti.status. Run it again later, or at another member.")
}

// NoAnswer is why the outcome is not known of what was proposed commit_timeout_ms ago.
func NoAnswer(most time.Duration) string {
	return fmt.Sprintf("no majority of the members answered within %d ms (commit_timeout_ms)", most.Milliseconds())
}

// Restarts is why it is not known when this life of the member ends between proposal and decision (G6).
const Restarts = "this member restarts"

// Unknown is told of a transaction that was proposed, and of which the session will not hear what became of it.
func Unknown(id writeset.TxID, why string) *wire.SQLError {
	committed := "commits"
	if why == Restarts {
		committed = "committed"
	}
	return wire.Errorf(wire.CodeStatementUnknown, "the outcome of the transaction is not known: %s", why).
		WithDetail("Transaction %s was handed to the cluster; whether it %s is decided by the log.", id, committed).
		AsFatal()
}

// UnknownStatement is told of a definition, likewise.
func UnknownStatement(id writeset.TxID, why string) session.Result {
	return session.Result{Err: wire.Errorf(wire.CodeStatementUnknown, "the outcome of the statement is not known: %s",
		why).
		WithDetail("Transaction %s was handed to the cluster; whether it runs is decided by the log.", id)}
}

// Undefined says why a definition does not run.
func Undefined(v certify.Verdict) session.Result {
	if v.Reason == certify.Outdated {
		return session.Result{Err: wire.Errorf(wire.CodeTuttiOutdated,
			"the tables of a definition were defined again meanwhile")}
	}
	return session.Result{Err: wire.Errorf(wire.CodeInternalError,
		"the definition's writeset could not be read by the cluster")}
}

// Ahead is told when another member could not carry a transaction out because of what this one has yet to apply.
func Ahead(node, message string) *wire.SQLError {
	return wire.Errorf(wire.CodeSerializationFailure, Concurrent).
		WithDetail("At node %s, which is ahead: %s.", node, message).WithHint(retried)
}

// Elsewhere is told when another member could not carry a transaction out.
func Elsewhere(node, code, message string, defines bool) *wire.SQLError {
	what, hint := "rows", "Code of an index, a generated column or a domain may depend on settings of the session, "+
		"or on other rows."
	if defines {
		what, hint = "schema changes", "They may depend on temporary objects, or on files that only one machine has."
	}
	return wire.Errorf(wire.CodeFeatureNotSupported, "the transaction's %s cannot be carried out at node %s: %s", what,
		node, message).WithDetail("SQLSTATE %s.", code).WithHint("%s", hint)
}
