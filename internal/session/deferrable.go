package session

import (
	"github.com/tuttidb/tutti/internal/wire"
)

// What semantics.Modes says of DEFERRABLE.
const (
	deferrable    = "DEFERRABLE"
	notDeferrable = "NOT DEFERRABLE"
)

// safeSnapshot takes the snapshot of a transaction that was begun just now, and for which the backend waits until it
// is safe, if the transaction is READ ONLY. It waits between two groups. When the next group comes that is broken off,
// and done again with another transaction after it: nothing was done in this one. Any snapshot is safe here, as what
// only reads comes, in the serial order, where its snapshot was taken. So it need not be waited for for ever; while it
// is, nobody else loses by what this transaction would read.
func (t *transaction) safeSnapshot() error {
	doom := t.host.Enter(PhaseRunning) // the client may cancel it
	for try := 0; doom == nil; try++ {
		_ = t.host.SerialRuns(false) // it gives back only; nothing is read before the snapshot is safe
		var base uint64
		var waits bool
		if base, waits, doom = t.host.EnterSafe(try); doom != nil {
			break
		}
		if !waits {
			t.backend.sendOwn(ownPrompt)
		}
		t.backend.sendOwn(ownSnapshot)
		r, err := t.safeReply(!waits)
		broken := t.host.LeaveSafe()
		if err != nil {
			return err
		}
		if r.failed == nil {
			t.base = base
			t.txn.TakeSnapshot()
			if doom = t.host.SerialRuns(true); doom == nil {
				return nil
			}
			break
		}
		if !broken {
			if doom = t.host.Enter(PhaseRunning); doom == nil {
				doom = &wire.SQLError{ErrorFields: *r.failed}
			}
			break
		}
		if err := t.beginAgain(); err != nil || !t.txn.Open() {
			return err
		}
	}
	err := t.rollbackServer() // it has written nothing, and to ask for that would have to wait as well
	t.txn.Condemn(doom)
	return err
}

// safeReply reads the answer to ownSnapshot, and to ownPrompt before it.
func (t *transaction) safeReply(prompted bool) (reply, error) {
	if prompted {
		if r, err := t.backend.quiet(); err != nil {
			return r, err
		}
	}
	return t.backend.quiet()
}

// beginAgain begins the backend's transaction anew, with nothing done.
func (t *transaction) beginAgain() error {
	for idle := false; !idle; { // a cancel may have come late
		t.backend.sendOwn(ownRollback)
		r, err := t.backend.quiet()
		if err != nil {
			return err
		}
		idle = r.status == wire.TxIdle
	}
	m := t.levels.modes
	m.Isolation = t.levels.current()
	t.backend.sendBegin(m, t.direct.setting())
	t.backend.prefix = beginStatements
	return t.begun()
}

// prompt makes sure that a SERIALIZABLE transaction, open already, does not wait for a safe snapshot: the client may
// have said so since its BEGIN, and what it has done since could not be done again.
func (t *transaction) prompt(open bool) (*wire.SQLError, error) {
	if !open || !t.levels.serializable() {
		return nil, nil
	}
	r, rows, err := t.backend.ask("SHOW transaction_deferrable")
	if err != nil || r.failed != nil {
		return failureOf(r), err // a late cancel
	}
	if string(rows[0][0]) != "on" {
		return nil, nil
	}
	t.backend.sendOwn(ownPrompt)
	r, err = t.backend.quiet()
	if err == nil && r.failed != nil && r.failed.Code == wire.CodeQueryCanceled {
		return failureOf(r), nil
	}
	if err == nil && r.failed != nil { // only before a savepoint
		return wire.Errorf(wire.CodeFeatureNotSupported,
			"a transaction through Tutti cannot wait for a safe snapshot: %s", r.failed.Message).
			WithHint("Leave out DEFERRABLE: a SERIALIZABLE transaction that writes nothing never loses."), nil
	}
	return nil, err
}
