package session

import (
	"github.com/tuttidb/tutti/internal/semantics"
	"github.com/tuttidb/tutti/internal/session/txn"
)

// levels is at which isolation level, and how else, the session's transactions run.
type levels struct {
	backend *backend
	txn     *txn.Machine

	level semantics.Isolation // the session's default
	stale bool                // level must be asked for again once no transaction is open
	modes semantics.Modes     // what was said of the current transaction
}

// snapshot reports whether the current transaction reads from one snapshot.
func (l *levels) snapshot() bool {
	return l.current() >= semantics.RepeatableRead
}

// serializable reports whether the current transaction is SERIALIZABLE.
func (l *levels) serializable() bool { return l.current() == semantics.Serializable }

// current is the level of the current transaction, or of the next one.
func (l *levels) current() semantics.Isolation {
	if l.modes.Isolation != semantics.Unsaid {
		return l.modes.Isolation
	}
	return l.level
}

// begins is how a transaction begins. Without a level it has the one that a function may have set as the default; if
// the session knows another one, that is noticed.
func (l *levels) begins(snapshot bool) semantics.Modes {
	m := l.modes
	if m.Isolation = l.current(); l.modes.Isolation == semantics.Unsaid && !l.snapshot() {
		m.Isolation = semantics.Unsaid
	}
	if m.Isolation == semantics.Serializable && (m.Deferrable != deferrable || !snapshot) {
		m.Deferrable = notDeferrable // it must be said: there is a default
	}
	return m
}

// askIsolation asks for the default.
func (l *levels) askIsolation() error {
	rows, err := l.backend.query("SHOW default_transaction_isolation")
	if err != nil {
		return err
	}
	l.level, l.stale = semantics.ParseIsolation(string(rows[0][0])), false
	return nil
}

// refresh asks for what may have changed, once the backend is outside of transactions.
func (l *levels) refresh() error {
	if !l.stale || l.txn.Open() {
		return nil
	}
	return l.askIsolation()
}

// mergeModes takes what is said of a transaction that has begun.
func (l *levels) mergeModes(m semantics.Modes) {
	if m.Isolation != semantics.Unsaid {
		l.modes.Isolation = m.Isolation
	}
	if m.Access != "" {
		l.modes.Access = m.Access
	}
	if m.Deferrable != "" {
		l.modes.Deferrable = m.Deferrable
	}
}
