package session

import (
	"fmt"

	"github.com/tuttidb/tutti/internal/semantics"
	"github.com/tuttidb/tutti/internal/wire"
)

// A transaction is opened at the backend with the first statement that needs it (S1), and takes its one snapshot, at
// the levels that have one, between two groups.

// ensureOpen appends the BEGIN of the backend's transaction if there is none (S1), and,
// when snapshot says that the next statement will look at data, takes the transaction's one
// snapshot between two groups.
func (t *transaction) ensureOpen(snapshot bool) error {
	before := t.txn.Open()
	defers, err := t.open(snapshot)
	if err != nil || !t.txn.Open() {
		return err
	}
	t.txn.Touch()
	if !snapshot || t.txn.HasSnapshot() || !t.levels.snapshot() {
		return nil
	}
	if err := t.begun(); err != nil || !t.txn.Open() {
		return err
	}
	doom, err := t.prompt(before && !defers)
	if err != nil {
		return err
	}
	if doom == nil {
		doom = t.host.Enter(PhaseRunning) // the client may cancel what follows
	}
	if doom == nil && t.levels.serializable() {
		doom = t.host.SerialBegin()
	}
	if doom == nil && defers {
		return t.safeSnapshot()
	}
	if doom != nil {
		return t.undo(doom)
	}
	return t.takeSnapshot(before)
}

// open tells the backend to begin, or begins a transaction again that was opened early for another one than it is by
// now. It reports whether the transaction's snapshot is to be a safe one.
func (t *transaction) open(snapshot bool) (defers bool, err error) {
	switch {
	case !t.txn.Open():
		t.stays = false
		t.sight.begin()
		t.direct.begin() // what was put off before there was a transaction stays so
		if err := t.levels.refresh(); err != nil {
			return false, err
		}
		m := t.levels.begins(snapshot)
		t.backend.sendBegin(m, t.direct.setting())
		t.txn.Opens()
		t.backend.prefix = beginStatements
		t.base = t.host.Base()
		t.locks.end()
		t.reads.begin()
		return m.Isolation == semantics.Serializable && m.Deferrable == deferrable, nil
	case t.txn.Untouched():
		t.base = t.host.Base()
		defers = snapshot && t.levels.serializable() && t.levels.modes.Deferrable == deferrable
		if defers { // it was not said when it was opened early
			err = t.beginAgain()
		}
	}
	return defers, err
}

// takeSnapshot takes the transaction's one snapshot. Before says that it was open before this statement.
func (t *transaction) takeSnapshot(before bool) error {
	base, doom := t.host.EnterSnapshot()
	if doom != nil {
		return t.undo(doom)
	}
	t.base = base
	t.backend.sendOwn(ownSnapshot)
	r, rows, err := t.backend.internal(true)
	t.host.LeaveSnapshot()
	t.txn.TakeSnapshot()
	if len(rows) == 1 && t.levels.modes.Isolation == semantics.Unsaid && !t.levels.stale && // else it was the client
		semantics.ParseIsolation(string(rows[0][0])) != t.levels.level {
		return t.otherLevel(before)
	}
	switch {
	case err != nil || r.failed == nil:
		return err
	case r.failed.Code != wire.CodeQueryCanceled:
		return fmt.Errorf("session: the backend refused to take a snapshot: %s", r.failed.Message)
	}
	if doom = t.host.Enter(PhaseRunning); doom == nil {
		doom = failureOf(r)
	}
	return t.undo(doom)
}

// otherLevel begins a transaction again whose level is another one by now: a function has set
// default_transaction_isolation. If it has done something, it is lost.
func (t *transaction) otherLevel(begun bool) error {
	t.levels.stale = true
	if begun {
		return t.undo(errOtherLevel())
	}
	if err := t.rollbackServer(); err != nil {
		return err
	}
	return t.ensureOpen(true)
}

// errOtherLevel is told when a transaction has begun at another level than the session knew of.
func errOtherLevel() *wire.SQLError {
	return errForgotten("a function has changed default_transaction_isolation")
}

// begun waits until the backend has carried out our own BEGIN, or what else goes ahead of a
// request, if it is under way. If that fails, by a late cancel for example, the transaction is over, and doom says why.
func (t *transaction) begun() error {
	if t.backend.prefix == 0 {
		return nil
	}
	t.backend.out.Append(wire.AppendSync(t.backend.out.AvailableBuffer()))
	r, err := t.backend.quiet()
	if err != nil || r.failed == nil {
		return err
	}
	t.txn.Condemn(failureOf(r))
	if r.status != wire.TxIdle {
		err = t.rollbackServer()
	} else {
		t.undone()
	}
	if t.backend.lost && err == nil {
		t.txn.Condemn(errForgotten(forgottenStatements))
		_, err = t.recover()
	}
	return err
}
