package session

import (
	"fmt"
	"strings"

	"github.com/tuttidb/tutti/internal/semantics"
	"github.com/tuttidb/tutti/internal/wire"
	"github.com/tuttidb/tutti/internal/writeset"
)

// LOCK TABLE keeps sessions of its own member out, by PostgreSQL. So that those of others keep out, too, they are asked to hold back what they
// write to the tables, and to wait with such locks of their own (Host.HoldTables). If the transaction then writes, what it has locked is
// certified and locked where it is applied, so what is certain does not depend on the others' word.

// lockElsewhere has other members keep out of tables that are about to be locked. gone says that the statement has failed, and the client knows.
func (s *Session) lockElsewhere(locks []*semantics.TableLock) (gone bool, err error) {
	for _, l := range locks {
		if l.Mode < int32(writeset.ShareUpdateExclusive) || len(l.Relations) == 0 {
			continue
		}
		if doom := s.host.Enter(PhaseRunning); doom != nil { // the client may cancel it
			return true, s.giveUp(doom)
		}
		most, why, err := s.patience()
		if err != nil || s.block == failed {
			return true, err
		}
		late, failure := s.host.HoldTables(l, most)
		switch {
		case late && l.NoWait:
			failure = wire.Errorf(wire.CodeLockNotAvailable, "could not obtain lock on relation \"%s\"", l.First).
				WithDetail("A transaction of another node has locked it.")
		case late:
			failure = why
		case failure == nil:
			continue
		case failure.Code == wire.CodeSerializationFailure || failure.Code == wire.CodeCannotConnectNow:
			return true, s.giveUp(failure)
		}
		return true, s.failHere(failure)
	}
	return false, nil
}

// patience is how many milliseconds a statement may wait for a lock, 0 for any time, and what the client is told if it does longer. SHOW
// takes no snapshot.
func (s *Session) patience() (most int64, why *wire.SQLError, err error) {
	for _, x := range []struct {
		setting string
		e       *wire.SQLError
	}{
		{"lock_timeout", wire.Errorf(wire.CodeLockNotAvailable, "canceling statement due to lock timeout")},
		{"statement_timeout", wire.Errorf(wire.CodeQueryCanceled, "canceling statement due to statement timeout")},
	} {
		r, rows, err := s.ask("SHOW " + x.setting)
		if err != nil {
			return 0, nil, err
		}
		if r.failed != nil {
			s.block = failed
			return 0, nil, s.fail(failureOf(r))
		}
		if ms := milliseconds(string(rows[0][0])); ms > 0 && (most == 0 || ms < most) {
			most, why = ms, x.e
		}
	}
	return most, why, nil
}

// failHere fails a statement of a block in the backend as well, so that a savepoint can be rolled back to.
func (s *Session) failHere(failure *wire.SQLError) error {
	r, _, err := s.ask(`ROLLBACK TO SAVEPOINT "` + semantics.ReservedPrefix + `none"`) // there is none
	if err != nil {
		return err
	}
	if r.failed == nil {
		return fmt.Errorf("session: a savepoint is there that nobody has made: %s", strings.TrimSpace(semantics.ReservedPrefix))
	}
	s.block = failed
	return s.fail(failure)
}

// giveUp rolls the transaction of a block back that has lost.
func (s *Session) giveUp(failure *wire.SQLError) error {
	if doom := s.host.Enter(PhaseRunning); doom != nil {
		failure = doom
	}
	if err := s.rollbackServer(); err != nil {
		return err
	}
	if s.block == active {
		s.block = failed
	}
	return s.fail(failure)
}

// addTableLocks adds to a writeset the tables that were locked and still are: LOCK TABLE may be undone with a savepoint.
func (s *Session) addTableLocks(c *collected) error {
	if !s.locks.tables || c.failed != nil || c.ws == nil || c.ws.Empty() {
		return nil
	}
	answer, err := s.value(s.o.Collector.AppendTablesLocked(s.srvW.AvailableBuffer()), c)
	if err != nil || c.failed != nil {
		return err
	}
	list, err := s.o.Collector.TablesLocked(answer)
	if err != nil {
		return fmt.Errorf("session: locked tables: %w", err)
	}
	c.ws.AddTableLocks(list)
	return nil
}
