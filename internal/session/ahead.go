package session

import (
	"github.com/tuttidb/tutti/internal/session/txn"
	"github.com/tuttidb/tutti/internal/wire"
)

// Most clients commit after the same statement every time. The collect step is then sent with
// that statement and done while the client prepares its COMMIT, which saves a round trip.
// If another statement comes instead, the transaction is opened for writing again and
// collected anew at its COMMIT.

// ahead is a collect step sent with the statement before the expected COMMIT.
type ahead struct {
	asked bool // its answer is unread
	found collected
}

// says reports whether a transaction is collected, and that says all that it has written.
func (a *ahead) says(m *txn.Machine) bool { return m.Collected() && a.found.all }

// place is where a block stands: after how many requests, the last being sql.
type place struct {
	step int
	sql  string
}

const (
	habitsMax    = 256
	habitTextMax = 1 << 10 // longer statements have no habits
)

// habits remembers the places at which a COMMIT came next.
type habits struct {
	places map[place]bool
	now    place
}

// reached notes that the block has come to a place, so that no COMMIT came at the one before.
func (h *habits) reached(r *request) {
	if h.places[h.now] {
		delete(h.places, h.now)
	}
	h.now.step++
	h.now.sql = ""
	if len(r.sql) == 1 && len(r.sql[0]) <= habitTextMax {
		h.now.sql = r.sql[0]
	}
}

// committed notes that a COMMIT came.
func (h *habits) committed() {
	if h.now.sql == "" {
		return
	}
	if h.places == nil || len(h.places) >= habitsMax {
		h.places = map[place]bool{}
	}
	h.places[h.now] = true
}

// collectAhead adds the collect step to a request of an open block.
func (t *transaction) collectAhead() {
	slot, incarnation, seq := t.host.NewSeq()
	t.ahead = ahead{asked: true, found: collected{slot: slot, incarnation: incarnation, seq: seq, marked: true}}
	t.backend.out.Append(wire.AppendSync(t.steps.AppendAhead(t.backend.out.AvailableBuffer(), slot, incarnation, seq,
		len(t.direct.rows) > 0)))
}

// takeAhead reads the answer to collectAhead, if it is due. A transaction that fails by it is
// rolled back, and the client told with its next statement.
func (t *transaction) takeAhead() error {
	if !t.ahead.asked {
		return nil
	}
	c := t.ahead.found
	t.ahead = ahead{}
	err := t.readCollect(&c)
	switch {
	case err != nil || !t.txn.Active() || !t.txn.Open():
		return err
	case c.failed == nil:
		t.ahead = ahead{found: c}
		t.txn.Collect()
		return nil
	}
	if doom := t.host.Enter(PhaseWaiting); doom != nil {
		c.failed = doom
	}
	err = t.rollbackServer()
	t.txn.Condemn(c.failed)
	return err
}
