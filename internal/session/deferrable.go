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
func (s *Session) safeSnapshot() error {
	doom := s.host.Enter(PhaseRunning) // the client may cancel it
	for try := 0; doom == nil; try++ {
		_ = s.host.SerialRuns(false) // it gives back only; nothing is read before the snapshot is safe
		var base uint64
		var waits bool
		if base, waits, doom = s.host.EnterSafe(try); doom != nil {
			break
		}
		if !waits {
			s.backend.sendOwn(ownPrompt)
		}
		s.backend.sendOwn(ownSnapshot)
		r, err := s.safeReply(!waits)
		broken := s.host.LeaveSafe()
		if err != nil {
			return err
		}
		if r.failed == nil {
			s.base = base
			s.txn.TakeSnapshot()
			if doom = s.host.SerialRuns(true); doom == nil {
				return nil
			}
			break
		}
		if !broken {
			if doom = s.host.Enter(PhaseRunning); doom == nil {
				doom = &wire.SQLError{ErrorFields: *r.failed}
			}
			break
		}
		if err := s.beginAgain(); err != nil || !s.txn.Open() {
			return err
		}
	}
	err := s.rollbackServer() // it has written nothing, and to ask for that would have to wait as well
	s.txn.Condemn(doom)
	return err
}

// safeReply reads the answer to ownSnapshot, and to ownPrompt before it.
func (s *Session) safeReply(prompted bool) (reply, error) {
	if prompted {
		if r, err := s.backend.quiet(); err != nil {
			return r, err
		}
	}
	return s.backend.quiet()
}

// beginAgain begins the backend's transaction anew, with nothing done.
func (s *Session) beginAgain() error {
	for idle := false; !idle; { // a cancel may have come late
		s.backend.sendOwn(ownRollback)
		r, err := s.backend.quiet()
		if err != nil {
			return err
		}
		idle = r.status == wire.TxIdle
	}
	m := s.levels.modes
	m.Isolation = s.levels.current()
	s.backend.sendBegin(m, s.direct.setting())
	s.backend.prefix = beginStatements
	return s.begun()
}

// prompt makes sure that a SERIALIZABLE transaction, open already, does not wait for a safe snapshot: the client may
// have said so since its BEGIN, and what it has done since could not be done again.
func (s *Session) prompt(open bool) (*wire.SQLError, error) {
	if !open || !s.levels.serializable() {
		return nil, nil
	}
	r, rows, err := s.backend.ask("SHOW transaction_deferrable")
	if err != nil || r.failed != nil {
		return failureOf(r), err // a late cancel
	}
	if string(rows[0][0]) != "on" {
		return nil, nil
	}
	s.backend.sendOwn(ownPrompt)
	r, err = s.backend.quiet()
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
