package session

import (
	"slices"

	"github.com/tuttidb/tutti/internal/semantics"
	"github.com/tuttidb/tutti/internal/wire"
)

// Outside of transactions of ours nothing is collected, so nothing may be written. Capture refuses that, but by a
// setting that any function can set, and it sees rows alone. So where a statement may run code of somebody's, its
// transaction is made READ ONLY ahead of it, which nobody can take back: a snapshot is taken by then. What is refused
// for it is run in a transaction of ours (decision 0071).

// ownReadOnly is the statement that does it.
const ownReadOnly = "tutti read only"

// guarded reports whether a request outside of transactions is to be made READ ONLY: it is more than settings, and in
// this database, or in this session, there are functions that are not PostgreSQL's own.
func (t *texts) guarded(r *request) bool {
	return r.does.runsCode && (t.code || t.facts.Code())
}

// refusedWrite reports whether a request outside of transactions was refused because it writes.
func refusedWrite(rep *reply, guarded bool) bool {
	return rep.failed != nil && (rep.failed.Code == wire.CodeTuttiReplicationRefused ||
		guarded && rep.failed.Code == wire.CodeReadOnlyTransaction)
}

// runsCode reports whether a statement may run code of somebody's.
func runsCode(st semantics.Statement) bool {
	switch st.Kind {
	case semantics.Local, semantics.InTransaction, semantics.Empty:
		return false
	}
	return !st.Shows
}

// errForged is told when a function has set what tells whether rows are captured.
func errForged() *wire.SQLError {
	return wire.Errorf(wire.CodeFeatureNotSupported,
		"a function has changed a setting of Tutti's: its writes could escape replication").
		WithHint("Leave settings that begin with tutti. alone.")
}

// asksAccess reports whether a request asks if its transaction may write, as far as its text tells.
func (r *request) asksAccess() bool { return slices.ContainsFunc(r.sql, semantics.Access) }
