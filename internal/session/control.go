package session

import (
	"strings"

	"github.com/tuttidb/tutti/internal/semantics"
	"github.com/tuttidb/tutti/internal/wire"
)

// control carries out the statements that are not the backend's: transaction commands,
// definitions, SHOW tutti.*, refusals, and what removes one of these that was prepared. Its answer has no
// ReadyForQuery.
func (s *Session) control(st semantics.Statement) (failedToo bool, err error) {
	switch st.Kind {
	case semantics.Begin, semantics.Commit, semantics.Rollback:
	default:
		s.sight.who, s.sight.odd, s.sight.asked = "", true, false
	}
	switch st.Kind {
	case semantics.Commit:
		if err := s.retry.revive(); err != nil {
			return true, err
		}
	case semantics.Begin, semantics.Rollback:
	default:
		if err := s.blocks.caughtUp(); err != nil {
			return true, err
		}
		s.retry.off = s.retry.off || !s.txn.Idle()
	}
	if st.Kind != semantics.Rollback && s.block.tellDoom() {
		if st.Kind == semantics.Commit {
			s.block.reset()
		}
		return true, nil
	}
	if s.txn.Failed() && !st.Ends() {
		return true, s.block.fail(inFailedTransaction())
	}
	if st.Deallocates != "" {
		delete(s.named.statements, st.Deallocates)
		s.block.tag("DEALLOCATE")
		return false, nil
	}
	switch st.Kind {
	case semantics.Begin:
		return s.begin(st)
	case semantics.Commit:
		return s.commit(st)
	case semantics.Rollback:
		return s.rollback(st)
	case semantics.Definition:
		return s.definition(st)
	case semantics.Tutti:
		r := s.o.Host.Show(st.Name)
		return r.Err != nil, s.block.answer(r, true)
	case semantics.Refused:
		return s.refused(st)
	}
	return s.setTransaction(st)
}

// refused tells why a statement is not carried out. If what it names is not there, this is PostgreSQL's reason, and
// comes first. What would have ended the block has, as when PostgreSQL
// refuses it.
func (s *Session) refused(st semantics.Statement) (bool, error) {
	refusal := wire.Errorf(st.Refusal.Code, "%s", st.Refusal.Message).WithHint("%s", st.Refusal.Hint)
	if st.Alone != "" && !s.txn.Idle() {
		refusal = wire.Errorf(wire.CodeActiveTransaction, "%s cannot run inside a transaction block", st.Alone)
	}
	if st.Undoes && s.txn.Idle() {
		s.block.warn(wire.CodeNoActiveTransaction, "there is no transaction in progress")
		s.block.tag("ROLLBACK")
		return false, nil
	}
	if st.Undoes && s.txn.Active() && !s.txn.Implicit() {
		own, err := s.unprepared()
		if own != nil {
			refusal = own
		}
		if err == nil {
			err = s.tx.rollbackServer()
		}
		if err != nil {
			return true, err
		}
		s.block.reset()
		return true, s.block.fail(refusal)
	}
	if !s.txn.Idle() || len(st.Relations) == 0 {
		return true, s.block.fail(refusal)
	}
	missing, err := s.missing(st.Relations[0])
	if missing != nil {
		refusal = missing
	}
	if err != nil {
		return true, err
	}
	return true, s.block.fail(refusal)
}

// unprepared is PostgreSQL's own reason why the transaction cannot be prepared, as that it has used temporary objects;
// nil if it has none. It is asked with a name that is too long for it in any case.
func (s *Session) unprepared() (*wire.SQLError, error) {
	if err := s.tx.takeAhead(); err != nil || !s.txn.Open() {
		return nil, err
	}
	r, _, err := s.backend.ask("PREPARE TRANSACTION '" + strings.Repeat("x", 200) + "'")
	if err == nil && r.status == wire.TxIdle {
		s.tx.undone()
	}
	if err != nil || r.failed == nil || r.failed.Code == wire.CodeInvalidParameterValue {
		return nil, err
	}
	return failureOf(r), nil
}

// missing is PostgreSQL's error if there is no relation of this name, as it was written; nil if there is one.
func (s *Session) missing(relation string) (*wire.SQLError, error) {
	r, rows, err := s.backend.ask("SELECT pg_catalog.to_regclass(" + quoted(relation) + ") IS NULL")
	if err != nil || r.failed != nil || string(rows[0][0]) != "t" {
		return nil, err
	}
	return wire.Errorf(wire.CodeUndefinedTable, "relation \"%s\" does not exist",
		strings.ReplaceAll(relation, `"`, "")), nil
}

// quoted writes a string for PostgreSQL.
func quoted(s string) string {
	if strings.Contains(s, `\`) {
		return " E'" + strings.NewReplacer("'", "''", `\`, `\\`).Replace(s) + "'"
	}
	return "'" + strings.ReplaceAll(s, "'", "''") + "'"
}

func (s *Session) begin(st semantics.Statement) (bool, error) {
	if s.txn.Active() && !s.txn.Implicit() {
		s.block.warn(wire.CodeActiveTransaction, "there is already a transaction in progress")
		s.block.tag(st.Tag)
		return false, nil
	}
	if err := s.levels.refresh(); err != nil {
		return true, err
	}
	if s.txn.Implicit() { // BEGIN after other statements of the same Query takes them along
		s.txn.Promote()
	} else {
		s.txn.Begin(true)
		s.levels.modes, s.sight.odd = st.Modes, st.Modes.Access != "" // it may write where the next one may not
		// PostgreSQL's queue keeps what a listener in a transaction has not heard, see pg_notification_queue_usage
		if s.ears.listens {
			if err := s.openEarly(); err != nil {
				return true, err
			}
		}
	}
	s.block.tag(st.Tag)
	return false, nil
}

// openEarly opens the backend's transaction of a block that has begun, before there is something to do in it. If that
// fails, by a late cancel for example, it is opened with the first statement. What comes may be direct, if it is
// prepared already: preparing may wait for a table's lock, and nothing that the client has sent does.
func (s *Session) openEarly() error {
	s.ears.unwatch()
	s.forms.renew()
	s.direct.wish = ownTxDirect
	if err := s.tx.ensureOpen(false); err != nil {
		return err
	}
	if err := s.tx.begun(); err != nil {
		return err
	}
	if s.txn.Open() {
		s.txn.Early()
	} else {
		s.txn.Absolve()
	}
	return nil
}

// commit ends the block; a failed one is rolled back, as in PostgreSQL.
func (s *Session) commit(st semantics.Statement) (bool, error) {
	if told, err := s.outside(st); told || err != nil {
		return st.Chain, err
	}
	modes := s.levels.modes
	if s.txn.Failed() {
		if err := s.tx.rollbackServer(); err != nil {
			return true, err
		}
		s.block.endBlock(st.Chain, modes)
		s.block.tag("ROLLBACK")
		return false, nil
	}
	if s.txn.Open() || s.buffer.later.pending() {
		s.blocks.habits.committed()
		failure, err := s.blocks.finish()
		if err != nil {
			return true, err
		}
		if failure != nil {
			s.block.reset()
			return true, s.block.fail(failure)
		}
		s.buffer.sees()
	}
	s.block.endBlock(st.Chain, modes)
	s.block.tag(st.Tag)
	return false, nil
}

// outside answers a COMMIT or ROLLBACK without a BEGIN before it; in an implicit block that
// still ends it.
func (s *Session) outside(st semantics.Statement) (answered bool, err error) {
	if !s.txn.Idle() && !s.txn.Implicit() {
		return false, nil
	}
	if st.Chain {
		return true, s.block.fail(wire.Errorf(wire.CodeNoActiveTransaction,
			"%s AND CHAIN can only be used in transaction blocks", st.Tag))
	}
	s.block.warn(wire.CodeNoActiveTransaction, "there is no transaction in progress")
	if !s.txn.Idle() {
		return false, nil
	}
	s.block.tag(st.Tag)
	return true, nil
}

func (s *Session) rollback(st semantics.Statement) (bool, error) {
	if told, err := s.outside(st); told || err != nil {
		return st.Chain, err
	}
	modes := s.levels.modes
	if err := s.tx.rollbackServer(); err != nil {
		return true, err
	}
	s.block.endBlock(st.Chain, modes)
	s.block.tag(st.Tag)
	return false, nil
}

// setTransaction is SET TRANSACTION and its spellings. Before the backend's transaction is
// open it is noted; afterwards the backend decides whether it is too late.
func (s *Session) setTransaction(st semantics.Statement) (bool, error) {
	if s.txn.Idle() || s.txn.Open() {
		var rep reply
		inside := s.txn.Open()
		failedToo, err := s.execute(request{frames: wire.AppendQuery(nil, st.Text), settings: true}, &rep)
		if !inside {
			return failedToo, err
		}
		if err == nil && !failedToo {
			s.levels.mergeModes(st.Modes)
		}
		return failedToo, err
	}
	s.levels.mergeModes(st.Modes)
	s.block.tag("SET")
	return false, nil
}
