package session

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tuttidb/tutti/internal/semantics"
	"github.com/tuttidb/tutti/internal/session/txn"
	"github.com/tuttidb/tutti/internal/wire"
	"github.com/tuttidb/tutti/internal/writeset"
)

// LOCK TABLE keeps sessions of its own member out, by PostgreSQL. So that those of others keep out, too, they are asked
// to hold back what they write to the tables, and to wait with such locks of their own (Host.HoldTables). If the
// transaction then writes, what it has locked is certified and locked where it is applied, so what is certain does not
// depend on the others' word.

// tableLocks has other members keep out of tables.
type tableLocks struct {
	backend *backend
	host    tableLocksHost
	txn     *txn.Machine
	tx      *transaction
	block   *block
}

// tableLocksHost is what it needs of the node.
type tableLocksHost struct {
	Control
	Intents
}

// lockElsewhere has other members keep out of tables that are about to be locked. gone says that the statement has
// failed, and the client knows.
func (w *tableLocks) lockElsewhere(locks []*semantics.TableLock) (gone bool, err error) {
	for _, l := range locks {
		if l.Mode < int32(writeset.ShareUpdateExclusive) || len(l.Relations) == 0 {
			continue
		}
		if doom := w.host.Enter(PhaseRunning); doom != nil { // the client may cancel it
			return true, w.giveUp(doom)
		}
		shown, err := w.show("lock_timeout", "statement_timeout", "search_path", "role", "session_authorization")
		if err != nil || w.txn.Failed() {
			return true, err
		}
		most, why := patience(shown[0], shown[1])
		schemas := searched(shown[2])
		if i := slices.Index(schemas, "$user"); i >= 0 {
			if schemas[i] = shown[3]; shown[3] == "none" {
				schemas[i] = shown[4]
			}
		}
		late, failure := w.host.HoldTables(l, schemas, most)
		switch {
		case late && l.NoWait:
			failure = wire.Errorf(wire.CodeLockNotAvailable, "could not obtain lock on relation \"%s\"", l.First).
				WithDetail("A transaction of another node has locked it.")
		case late:
			failure = why
		case failure == nil:
			continue
		case failure.Code == wire.CodeSerializationFailure || failure.Code == wire.CodeCannotConnectNow:
			return true, w.giveUp(failure)
		}
		return true, w.failHere(failure)
	}
	return false, nil
}

// show asks for settings, inside a block, which has failed if that does. SHOW takes no snapshot.
func (w *tableLocks) show(settings ...string) (values []string, err error) {
	sql := make([]string, len(settings))
	for i, name := range settings {
		sql[i] = "SHOW " + name
	}
	r, rows, err := w.backend.ask(sql...)
	if err != nil {
		return nil, err
	}
	if r.failed != nil {
		w.txn.Fail()
		return nil, w.block.fail(failureOf(r))
	}
	for _, row := range rows {
		values = append(values, string(row[0]))
	}
	return values, nil
}

// patience is how many milliseconds a statement may wait for a lock, 0 for any time, and what the client is told if it
// does longer.
func patience(lockTimeout, statementTimeout string) (most int64, why *wire.SQLError) {
	lock, statement := milliseconds(lockTimeout), milliseconds(statementTimeout)
	if statement > 0 && (lock == 0 || statement < lock) {
		return statement, wire.Errorf(wire.CodeQueryCanceled, "canceling statement due to statement timeout")
	}
	return lock, wire.Errorf(wire.CodeLockNotAvailable, "canceling statement due to lock timeout")
}

// searched are the schemas of a search_path, as SHOW tells it.
func searched(path string) (schemas []string) {
	for rest := path; rest != ""; {
		rest = strings.TrimLeft(rest, " ,")
		name, quoted := "", strings.HasPrefix(rest, `"`)
		for quoted {
			part, after, _ := strings.Cut(rest[1:], `"`)
			if name, rest = name+part, after; !strings.HasPrefix(rest, `"`) {
				break
			}
			name += `"`
		}
		if !quoted {
			name, rest, _ = strings.Cut(rest, ",")
			name = strings.ToLower(strings.TrimSpace(name))
		}
		if name != "" {
			schemas = append(schemas, name)
		}
	}
	return schemas
}

// failHere fails a statement of a block in the backend as well, so that a savepoint can be rolled back to.
func (w *tableLocks) failHere(failure *wire.SQLError) error {
	r, _, err := w.backend.ask(`ROLLBACK TO SAVEPOINT "` + semantics.ReservedPrefix + `none"`) // there is none
	if err != nil {
		return err
	}
	if r.failed == nil {
		return fmt.Errorf("session: a savepoint is there that nobody has made: %s",
			strings.TrimSpace(semantics.ReservedPrefix))
	}
	w.txn.Fail()
	return w.block.fail(failure)
}

// giveUp rolls the transaction of a block back that has lost.
func (w *tableLocks) giveUp(failure *wire.SQLError) error {
	if doom := w.host.Enter(PhaseRunning); doom != nil {
		failure = doom
	}
	if err := w.tx.rollbackServer(); err != nil {
		return err
	}
	if w.txn.Active() {
		w.txn.Fail()
	}
	return w.block.fail(failure)
}

// addTableLocks adds to a writeset the tables that were locked and still are: LOCK TABLE may be undone with a
// savepoint.
func (k *collecting) addTableLocks(c *collected) error {
	if !k.locks.tables || c.failed != nil || c.ws == nil || c.ws.Empty() {
		return nil
	}
	answer, err := k.backend.value(k.locking.AppendTablesLocked(k.backend.out.AvailableBuffer()), c)
	if err != nil || c.failed != nil {
		return err
	}
	list, err := k.locking.TablesLocked(answer)
	if err != nil {
		return fmt.Errorf("session: locked tables: %w", err)
	}
	c.ws.AddTableLocks(list)
	return nil
}
