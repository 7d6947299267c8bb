package txn

import (
	"fmt"

	"github.com/tuttidb/tutti/internal/wire"
)

// State is how far a transaction is; see the package comment.
type State uint8

const (
	Idle State = iota
	Buffering
	Blind
	Opening
	Untouched
	Open
	Snapshot
	Collected
	Submitted
	Committing
	Failed
	Lost
	Doomed
	Retrying
	states // how many there are
)

var names = [states]string{
	"idle", "buffering", "blind", "opening", "untouched", "open", "snapshot", "collected", "submitted", "committing",
	"failed", "lost", "doomed", "retrying",
}

func (s State) String() string {
	if s < states {
		return names[s]
	}
	return fmt.Sprintf("state %d", uint8(s))
}

// set is a set of states.
type set uint16

func of(states ...State) (out set) {
	for _, s := range states {
		out |= 1 << s
	}
	return out
}

func (s set) has(x State) bool { return s&(1<<x) != 0 }

// over are the states in which a transaction of the backend's may end: without a block, in one that goes on, in one
// that has failed, or with a reason that the client is yet to be told.
var over = of(Idle, Buffering, Lost, Doomed)

// moves is the table of moves: to which states each may change.
var moves = [states]set{
	Idle:       of(Buffering, Blind, Opening, Doomed, Lost),
	Buffering:  of(Idle, Blind, Opening, Doomed, Lost),
	Blind:      of(Idle, Buffering),
	Opening:    of(Open, Failed) | over,
	Untouched:  of(Open, Failed) | over,
	Open:       of(Untouched, Snapshot, Collected, Submitted, Failed) | over,
	Snapshot:   of(Collected, Submitted, Failed) | over,
	Collected:  of(Open, Snapshot, Submitted, Failed) | over,
	Submitted:  of(Committing) | over,
	Committing: over,
	Failed:     of(Open, Snapshot) | over,
	Lost:       of(Idle),
	Doomed:     of(Idle, Buffering, Opening, Lost, Retrying),
	Retrying:   of(Idle, Opening, Doomed, Lost),
}

// open are the states in which the backend may have a transaction of ours (X2).
var open = of(Opening, Untouched, Open, Snapshot, Collected, Submitted, Committing, Failed)

// block is what the client has around the transaction.
type block uint8

const (
	none     block = iota // a statement of its own
	implicit              // ended by the end of the Query, or by Sync
	explicit              // ended by COMMIT or ROLLBACK
)

// Machine is one session's. The zero value is idle.
type Machine struct {
	// Strict has a broken move panic (X1).
	Strict bool

	state    State
	block    block
	snapshot bool // the one snapshot is taken, whatever the state is since
	reason   *wire.SQLError
	broken   error
}

// move changes the state (X1).
func (m *Machine) move(to State) {
	if !moves[m.state].has(to) {
		m.breaks(fmt.Errorf("a transaction that is %v cannot become %v", m.state, to))
	}
	m.state = to
}

// breaks notes a move that is none.
func (m *Machine) breaks(err error) {
	if m.Strict {
		panic(err)
	}
	if m.broken == nil {
		m.broken = err
	}
}

// Broken is the first move that was none, if Strict is not set; nil if there was none.
func (m *Machine) Broken() error { return m.broken }

// State is the present one.
func (m *Machine) State() State { return m.state }

// Idle reports whether the client is in no block.
func (m *Machine) Idle() bool { return m.block == none }

// Active reports whether the client is in a block that has not failed.
func (m *Machine) Active() bool { return m.block != none && !m.Failed() }

// Failed reports whether the client is in a block that has failed.
func (m *Machine) Failed() bool { return of(Failed, Lost).has(m.state) }

// Implicit reports whether the client is in a block that no BEGIN has begun.
func (m *Machine) Implicit() bool { return m.block == implicit }

// Outside reports whether the client is in no block that it has begun itself, and in none that has failed.
func (m *Machine) Outside() bool { return m.Idle() || m.Implicit() && m.Active() }

// Status is how ReadyForQuery shows the block.
func (m *Machine) Status() byte {
	switch {
	case m.Failed():
		return wire.TxFailed
	case m.block != none:
		return wire.TxActive
	}
	return wire.TxIdle
}

// Open reports whether the backend may have a transaction of ours (X2).
func (m *Machine) Open() bool { return open.has(m.state) }

// Untouched reports whether nothing has run in the open transaction.
func (m *Machine) Untouched() bool { return m.state == Untouched }

// HasSnapshot reports whether the open transaction's one snapshot is taken.
func (m *Machine) HasSnapshot() bool { return m.snapshot }

// Collected reports whether what the transaction has written is collected (X3).
func (m *Machine) Collected() bool { return m.state == Collected }

// Reason is why the transaction has lost, or must be rolled back; nil if it has not (X4).
func (m *Machine) Reason() *wire.SQLError { return m.reason }

// Gone reports whether the transaction was rolled back under the client, who is yet to be told why.
func (m *Machine) Gone() bool { return m.reason != nil && !m.Open() }
