package session

import (
	"errors"
	"strings"

	"github.com/tuttidb/tutti/internal/semantics"
	"github.com/tuttidb/tutti/internal/wire"
	"github.com/tuttidb/tutti/internal/writeset"
)

// A transaction may change the schema. Its definitions run here, like everything else of it, and are
// noted in the database; they are followed up before what could depend on it: a definition does
// not. What was captured before a definition is frozen, because later it could not be read again.

// schema is what a session has of that, for one transaction.
type schema struct {
	noted  bool // something noted was not followed up
	unsure bool // something may have been captured since the last freeze
	shared bool // something that all databases share was changed
	events bool // event triggers may have been changed
	filled bool // a table was filled anew, and that was not followed up
}

// note notes that the backend says it has noted a definition.
func (c *schema) note(message string) {
	c.noted = true
	c.shared = c.shared || message == sharedNotice
	c.filled = c.filled || message == filledNotice
}

// due reports whether what was noted must be followed up before a request: before whatever may depend on it, which a
// definition does not, unless rows were captured since.
func (c *schema) due(r *request) bool {
	return c.noted && !r.prepares && (!r.does.defines || c.unsure || c.filled)
}

// sharedNotice is what it says when a function has changed what all databases share: capture.SharedNotice.
const sharedNotice = "roles or databases were changed"

// filledNotice is what it says when the rows of a table have got values of their own: capture.FilledNotice. They are
// captured before the next definition, which may look at them.
const filledNotice = "a table was filled anew"

// share marks a transaction that has changed what all databases share. It returns the failure of one that is not in
// the database where these changes are ordered.
func (k *collecting) share(ws *writeset.Writeset) *wire.SQLError {
	if !k.schema.shared || len(ws.Steps) == 0 {
		return nil
	}
	if !k.host.main() {
		return errShared()
	}
	ws.Shared = true
	return nil
}

func errShared() *wire.SQLError {
	return wire.Errorf(wire.CodeFeatureNotSupported,
		"roles and databases cannot be changed in a transaction block or function of this database, they belong to "+
			"all databases").
		WithHint("Change them outside a transaction block, or in the cluster's first database.")
}

// noticed takes a notice of the backend that is for us, if it is.
func (y *relaying) noticed(f wire.Frame, r *reply) (bool, error) {
	e, err := wire.DecodeErrorFields(f.Body())
	switch {
	case err != nil:
		return false, err
	case e.Code == wire.CodeTuttiDefined:
		y.schema.note(e.Message)
		return true, nil
	case e.Code == wire.CodeTuttiEntered:
		y.inside.entered(e.Message)
		return true, nil
	case e.Code == wire.CodeTuttiHeir:
		y.texts.heirs = true
		return true, nil
	case e.Code == wire.CodeTuttiLock:
		y.advisory.notice(e.Message)
		return true, nil
	case e.Code == wire.CodeTuttiInside:
		return y.commitHere(e.Message, r)
	case strings.HasPrefix(e.Message, invoking) && strings.HasPrefix(e.SeverityUnlocalized, "DEBUG"):
		return !y.facts.EventTriggers(), nil
	}
	return false, nil
}

// invoking begins what PostgreSQL says of an event trigger to a client that wants to hear everything.
const invoking = "EventTriggerInvoke "

// failureOf is what a failed reply tells the client.
func failureOf(r reply) *wire.SQLError {
	if r.failed == nil {
		return nil
	}
	return &wire.SQLError{ErrorFields: *r.failed}
}

// follow has the noted definitions followed up. A failure has aborted the backend's transaction, or
// must.
func (t *transaction) follow() (failure *wire.SQLError, err error) {
	t.schema.noted, t.schema.filled = false, false
	t.backend.out.Append(wire.AppendSync(t.steps.AppendAskFollow(t.backend.out.AvailableBuffer())))
	r, rows, err := t.backend.internal(true)
	if err != nil || r.failed != nil {
		return failureOf(r), err
	}
	if len(rows) != 1 || len(rows[0]) != 1 {
		return nil, errors.New("session: what definitions need was not answered")
	}
	frames, err := t.steps.AppendFollow(t.backend.out.AvailableBuffer(), rows[0][0])
	if errors.As(err, &failure) {
		return failure, nil
	}
	if err != nil {
		return nil, err
	}
	t.backend.out.Append(wire.AppendSync(frames))
	r, err = t.backend.quiet()
	return failureOf(r), err
}

// racing reports whether definitions may not have been followed up because another session has defined, or dropped, the
// same table meanwhile: another try sees that.
func racing(code string) bool {
	switch code {
	case wire.CodeUndefinedTable, wire.CodeUndefinedFunction, wire.CodeUniqueViolation, wire.CodeDeadlockDetected,
		wire.CodeInternalError:
		return true // PostgreSQL calls a row of a catalog that two have updated an internal error
	}
	return false
}

// here runs a definition inside the client's transaction. One that fires no event trigger is noted
// by us.
func (f *definitions) here(st semantics.Statement) (bool, error) {
	if failed, err := f.exclude(&st); failed || err != nil {
		return true, err
	}
	if st.Quiet && f.txn.Open() && !f.txn.Failed() {
		if failed, err := f.noteShared(); failed || err != nil {
			return true, err
		}
	}
	var rep reply
	r := request{frames: wire.AppendQuery(nil, st.Text), sql: []string{st.Text},
		does: doing{write: true, defines: true}}
	if st.Quiet && f.txn.Idle() {
		r.does.notes, r.does.restarts = []string{st.Text}, true
	}
	failedToo, err := f.executing.execute(r, &rep)
	if err != nil || failedToo || !st.Quiet || r.does.restarts {
		return failedToo, err
	}
	f.schema.events, f.schema.shared = true, f.schema.shared || st.Shared // it may have been run again since
	return false, f.carrying.note([]string{st.Text}, false)
}

// noteShared has noted what functions have done so far to roles and owners: behind a definition that we note ourselves
// nobody can tell it from that one.
func (f *definitions) noteShared() (failed bool, err error) {
	r, _, err := f.backend.ask(noteShared)
	if err != nil || r.failed == nil {
		return false, err
	}
	return true, f.tableLocks.failHere(failureOf(r))
}

const noteShared = "SELECT tutti.note_shared()"

// exclude has other members' transactions keep away from the tables of a definition that runs here first, or it would
// lose to them.
func (f *definitions) exclude(st *semantics.Statement) (gone bool, err error) {
	if f.txn.Failed() || st.Quiet || st.Shared || st.Confined.Apart || st.Confined.Beside {
		return false, nil
	}
	extent, err := f.extent(st)
	if err != nil {
		return true, err
	}
	failure := f.host.Enter(PhaseRunning) // the client may cancel it
	if failure == nil {
		failure = f.host.Hold(extent, f.backend.waitLimits)
	}
	switch {
	case failure == nil:
		return false, nil
	case !f.txn.Open() || failure.Code == wire.CodeSerializationFailure || failure.Code == wire.CodeCannotConnectNow:
		return true, f.tableLocks.giveUp(failure)
	}
	return true, f.tableLocks.failHere(failure)
}
