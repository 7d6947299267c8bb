package txn

import (
	"fmt"

	"github.com/tuttidb/tutti/internal/wire"
)

// Begin begins a block, with BEGIN or an implicit one.
func (m *Machine) Begin(byClient bool) {
	m.block = implicit
	if byClient {
		m.block = explicit
	}
	switch m.state {
	case Idle:
		m.move(Buffering)
	case Doomed: // the client is told why in this block
	default:
		m.breaks(fmt.Errorf("a block cannot begin in a transaction that is %v", m.state))
	}
}

// Promote makes an implicit block one that BEGIN has begun.
func (m *Machine) Promote() { m.block = explicit }

// Opens says that the backend is told to begin.
func (m *Machine) Opens() {
	m.snapshot = false
	m.move(Opening)
}

// Began says that the backend has begun, if it was told to. What it has done before that was read may have failed the
// block meanwhile.
func (m *Machine) Began() {
	if m.state == Opening {
		m.move(Open)
	}
}

// Early says that the transaction was opened ahead of its first statement.
func (m *Machine) Early() { m.move(Untouched) }

// Touch says that something runs in it now.
func (m *Machine) Touch() {
	if m.state == Untouched {
		m.move(Open)
	}
}

// TakeSnapshot says that its one snapshot is taken.
func (m *Machine) TakeSnapshot() {
	m.snapshot = true
	m.move(Snapshot)
}

// Collect says that what it has written is collected.
func (m *Machine) Collect() { m.move(Collected) }

// Reopen lets a transaction write again that was collected.
func (m *Machine) Reopen() { m.move(m.running()) }

// running is the state of a transaction in which statements run.
func (m *Machine) running() State {
	if m.snapshot {
		return Snapshot
	}
	return Open
}

// Submit hands it to the log.
func (m *Machine) Submit() { m.move(Submitted) }

// Decide says that the log has decided that it commits.
func (m *Machine) Decide() { m.move(Committing) }

// Order hands to the log what was put off, in which the backend has no part; Ordered says that this has decided.
func (m *Machine) Order() { m.move(Blind) }

// Ordered ends Order.
func (m *Machine) Ordered() {
	if m.state != Blind {
		m.breaks(fmt.Errorf("a transaction that is %v was not ordered", m.state))
		return
	}
	m.move(m.resting())
}

// resting is the state without a transaction.
func (m *Machine) resting() State {
	if m.block == none {
		return Idle
	}
	return Buffering
}

// End says that the backend has no transaction any more: it has committed, or was rolled back.
func (m *Machine) End() {
	if !m.Open() {
		return
	}
	failed := m.state == Failed
	m.snapshot = false
	switch {
	case failed:
		m.move(Lost)
	case m.reason != nil:
		m.move(Doomed)
	default:
		m.move(m.resting())
	}
}

// Condemn says why the transaction has lost. One that is open is rolled back when its statement is over.
func (m *Machine) Condemn(why *wire.SQLError) {
	if why == nil {
		m.Absolve()
		return
	}
	m.reason = why
	if !m.Open() && m.state != Lost && m.state != Doomed {
		m.move(Doomed)
	}
}

// Absolve says that the client was told why, or will not be.
func (m *Machine) Absolve() {
	m.reason = nil
	if m.state == Doomed {
		m.move(m.resting())
	}
}

// Alone says that a statement is over that had no transaction. Outside of a block it has lost nothing but itself, and
// its client knows.
func (m *Machine) Alone() {
	if m.block == none {
		m.Absolve()
	}
}

// Retry says that the transaction is done again from its first statement.
func (m *Machine) Retry() {
	m.reason = nil
	m.move(Retrying)
}

// Fail fails the block.
func (m *Machine) Fail() {
	if m.block == none {
		m.block = explicit
	}
	switch {
	case m.Failed():
	case m.Open():
		m.move(Failed)
	default:
		m.move(Lost)
	}
}

// Restore says that a failed block goes on, from a savepoint.
func (m *Machine) Restore() { m.move(m.running()) }

// Reset forgets the transaction and its block.
func (m *Machine) Reset() {
	m.reason = nil
	m.End()
	m.block = none
	if m.state != Idle {
		m.move(Idle)
	}
}
