package session

import (
	"github.com/tuttidb/tutti/internal/semantics"
	"github.com/tuttidb/tutti/internal/session/txn"
	"github.com/tuttidb/tutti/internal/wire"
)

// A definition of which nobody can say which tables it changes makes all transactions lose that are open. Those that
// can be done again are. For the others such a definition of this member waits, from the first request on that makes
// them so (Intents.Stays); what has lost to an earlier one by then is done again first.

// staying has a block say so.
type staying struct {
	backend *backend
	host    stayingHost

	txn        *txn.Machine
	tx         *transaction
	block      *block
	retry      *retrying
	levels     *levels
	tableLocks *tableLocks
}

// stayingHost is what it needs of the node.
type stayingHost struct {
	Control
	Intents
}

// from reports whether the block cannot be done again from a request on. A block that only reads loses to nobody; at
// levels with one snapshot one that reads is long, often, and READ COMMITTED ones that only read can be done again.
func (y *staying) from(r *request) bool {
	d := &r.does
	switch {
	case y.tx.stays || r.prepares || y.txn.Idle() || y.txn.Failed():
		return false
	case d.defines || d.copies:
		return true
	case y.txn.Implicit(): // it is done again as a whole
		return false
	case y.levels.current() != semantics.ReadCommitted:
		return d.write
	}
	return !y.retry.redoable(r)
}

// before comes before a request from which on the block cannot be done again. False: the block is lost, and the client
// has been told.
func (y *staying) before() (ok bool, err error) {
	for try := 0; ; try++ {
		failure := y.host.Enter(PhaseRunning) // the client may cancel it
		outdated := false
		if failure == nil {
			outdated, failure = y.host.Stays(y.tx.base, y.backend.waitLimits)
		}
		switch {
		case failure != nil:
			return false, y.tableLocks.giveUp(failure)
		case !outdated || !y.txn.Open() || y.txn.Untouched() || y.retry.off || try == y.retry.triesMax:
			y.tx.stays = true
			return true, nil
		}
		if err := y.again(); err != nil {
			return false, err
		}
		if y.block.tellDoom() {
			return false, nil
		}
	}
}

// again does again what the block has done so far, which would lose.
func (y *staying) again() error {
	if err := y.tx.rollbackServer(); err != nil {
		return err
	}
	if len(y.retry.runs) == 0 { // nothing
		return nil
	}
	y.txn.Condemn(wire.Errorf(wire.CodeSerializationFailure, "could not serialize access due to concurrent update").
		WithHint("The transaction might succeed if retried.").
		WithDetail("A schema change was carried out while this transaction was open."))
	return y.retry.revive()
}
