package session

import (
	"errors"

	"github.com/tuttidb/tutti/internal/semantics"
	"github.com/tuttidb/tutti/internal/session/txn"
	"github.com/tuttidb/tutti/internal/wire"
)

// block is the client's transaction block, and what the client is told of it by the session itself.
type block struct {
	out     *wire.Writer // to the client
	backend *backend
	txn     *txn.Machine
	tx      *transaction

	// what ends with it
	levels *levels
	habits *habits
	direct *direct
	schema *schema
	locks  *locks
	retry  *retrying
	later  *later
	sight  *sight
	named  *named
	turns  *rowTurns
}

// fail tells the client of an error of ours and, inside a block, fails the block.
func (k *block) fail(e *wire.SQLError) error {
	k.out.Append(e.Append(k.out.AvailableBuffer()))
	if e.Severity == wire.SeverityFatal {
		return errors.Join(e, k.out.Flush())
	}
	if !k.txn.Active() {
		return nil
	}
	k.turns.told(e)
	asked := k.tx.ahead.asked
	k.txn.Fail()
	if !k.txn.Open() {
		return nil
	}
	if err := k.tx.takeAhead(); err != nil || !k.txn.Open() {
		return err
	}
	if asked {
		k.direct.reopened()
	}
	// The backend's transaction must fail as well, but stay, because of savepoints.
	k.backend.sendOwn(ownFail)
	_, err := k.backend.quiet()
	return err
}

// reset forgets the transaction on both sides; the backend must be idle.
func (k *block) reset() {
	k.txn.Reset()
	k.backend.prefix = 0
	k.tx.ahead, k.habits.now, *k.schema = ahead{}, place{}, schema{}
	k.direct.end()
	k.retry.end()
	k.later.forget()
	k.later.off, k.later.next = k.later.next, false
	k.locks.end()
	k.turns.named = k.turns.named[:0]
	k.levels.modes, k.sight.within = semantics.Modes{}, false
	clear(k.named.portals)
}

// tellDoom answers a statement of a transaction that was rolled back under the client.
func (k *block) tellDoom() bool {
	if k.txn.Reason() == nil || k.txn.Open() {
		return false
	}
	k.out.Append(k.txn.Reason().Append(nil))
	k.turns.told(k.txn.Reason())
	k.txn.Absolve()
	k.txn.Fail()
	return true
}

// tag appends a CommandComplete.
func (k *block) tag(tag string) {
	k.out.Append(wire.AppendCommandComplete(k.out.AvailableBuffer(), tag))
}

func (k *block) warn(code, message string) {
	k.out.Append(wire.AppendNoticeResponse(nil, wire.ErrorFields{Severity: wire.SeverityWarning, Code: code,
		Message: message}))
}

// answer gives the client a node's result; describe says whether with the RowDescription.
func (k *block) answer(r Result, describe bool) error {
	for _, n := range r.Notices {
		k.out.Append(n)
	}
	if r.Err != nil {
		return k.fail(r.Err)
	}
	if describe && len(r.Columns) > 0 {
		k.out.Append(wire.AppendRowDescription(nil, columns(r.Columns)))
	}
	for _, row := range r.Rows {
		k.out.Append(wire.AppendTextRow(nil, row...))
	}
	k.tag(r.Tag)
	return nil
}

func columns(names []string) []wire.Column {
	out := make([]wire.Column, len(names))
	for i, n := range names {
		out[i] = wire.TextColumn(n)
	}
	return out
}

// endBlock forgets the block, or with AND CHAIN starts the next with the same modes.
func (k *block) endBlock(chain bool, modes semantics.Modes) {
	k.reset()
	if chain {
		k.txn.Begin(true)
		k.levels.modes = modes
	}
}

func inFailedTransaction() *wire.SQLError {
	return wire.Errorf(wire.CodeInFailedTransaction,
		"current transaction is aborted, commands ignored until end of transaction block")
}

// afterBlock brings the block in line with the backend after a statement inside it.
func (k *block) afterBlock(r reply) error {
	switch r.status {
	case wire.TxFailed:
		k.txn.Fail()
		if k.txn.Reason() != nil {
			err := k.tx.rollbackServer()
			k.txn.Absolve() // told instead of the cancel
			return err
		}
	case wire.TxActive:
		if k.txn.Failed() {
			k.txn.Restore()        // ROLLBACK TO SAVEPOINT
			k.schema.unsure = true // what was frozen behind it is not
		}
		if k.txn.Reason() != nil {
			return k.tx.rollbackServer() // told with the next statement
		}
	case wire.TxIdle: // a transaction command hidden from us ended it
		k.reset()
	}
	return nil
}
