package session

import (
	"github.com/tuttidb/tutti/internal/semantics"
	"github.com/tuttidb/tutti/internal/session/txn"
)

// A definition of which nobody can say which tables it changes makes all transactions lose that have written something
// and have not seen it. Such a definition of this member waits for blocks, from their first write on (Intents.Stays),
// and a block waits for it there. What the block has read by then it has read from then on.

// staying has a block say so.
type staying struct {
	backend *backend
	host    stayingHost

	txn        *txn.Machine
	tx         *transaction
	retry      *retrying
	levels     *levels
	tableLocks *tableLocks
}

// stayingHost is what it needs of the node.
type stayingHost struct {
	Control
	Order
	Intents
}

// from reports whether the block must be waited for from a request on. What is in no block, and nothing but rows, is
// done again if it loses.
func (y *staying) from(r *request) bool {
	d := &r.does
	switch {
	case y.tx.stays || r.prepares || y.txn.Idle() || y.txn.Failed():
		return false
	case d.defines || d.copies:
		return true
	case y.txn.Implicit():
		return false
	case y.levels.current() != semantics.ReadCommitted:
		return d.write // one that only reads is long, often, and loses to nobody
	}
	return d.write || !y.retry.redoable(r) // it may lock rows, by a cursor for example
}

// before comes before a request from which on the block must be waited for. False: the block is lost, and the client
// has been told.
func (y *staying) before() (ok bool, err error) {
	failure := y.host.Enter(PhaseRunning) // the client may cancel it
	outdated := false
	if failure == nil {
		outdated, failure = y.host.Stays(y.tx.base, false, y.backend.waitLimits)
	}
	switch y.tx.stays = failure == nil; {
	case failure != nil:
		return false, y.tableLocks.giveUp(failure)
	case !outdated || !y.txn.Open() || y.txn.Untouched() || y.levels.current() != semantics.ReadCommitted:
		return true, nil
	}
	// What it reads from here on is what all see now. What it has read is of no matter while it has written nothing.
	r, rows, err := y.backend.ask("SELECT pg_catalog.pg_current_xact_id_if_assigned() IS NULL")
	switch {
	case err != nil:
	case r.failed != nil:
		return false, y.tableLocks.failHere(failureOf(r))
	case len(rows) == 1 && string(rows[0][0]) == "t":
		y.tx.base = y.host.Base()
	}
	return true, err
}
