package node

import (
	"testing"
	"time"

	"github.com/tuttidb/tutti/internal/capture"
	"github.com/tuttidb/tutti/internal/writeset"
)

func heldOf(keys ...uint64) (x heldTables) {
	x.add(heldTables{Keys: keys})
	return x
}

// writing is a transaction that has written to tables; table 9 stands for all definitions.
func writing(keys ...uint64) *writeset.Writeset {
	ws := &writeset.Writeset{}
	for _, k := range keys {
		schema := "public"
		if k == 9 {
			schema = capture.SchemaName
		}
		ws.Tables = append(ws.Tables, writeset.Table{Schema: schema, Key: k})
	}
	return ws
}

func held(x *holds, h *host, ws *writeset.Writeset, applied uint64, waited time.Duration) bool {
	yes, _ := x.hinders(h, ws, applied, waited)
	return yes
}

// TestHoldGiven: who has written to a table passes before a hold of it is given, and it is given when he is decided; who comes later
// waits until it is over and what it was for is applied. Others pass at any time.
func TestHoldGiven(t *testing.T) {
	var x holds
	x.init()
	early, late, other := &host{}, &host{}, &host{}
	id := holdID{Member: 2, Number: 1}
	r := holdRequest{Number: 1, heldTables: heldOf(3, 9)}
	if held(&x, early, writing(3, 4), 0, 0) {
		t.Fatal("held back without a hold")
	}
	asked := 0
	for range 3 { // renewals
		x.asked(id, r, func() { asked++ })
	}
	if asked != 1 {
		t.Fatalf("to be given %d times", asked)
	}
	if given, vain := x.give(1, id, r); given || vain {
		t.Fatal("given before who has passed is decided", given, vain)
	}
	if !held(&x, late, writing(3), 0, 0) {
		t.Fatal("a writer passes a hold that is about to be given")
	}
	if held(&x, other, writing(4), 0, 0) {
		t.Fatal("a writer to another table is held back")
	}
	x.passed(early)
	if given, _ := x.give(1, id, r); !given {
		t.Fatal("not given")
	}
	x.over(id, 7)
	if given, vain := x.give(1, id, r); given || !vain {
		t.Fatal("given when it is over")
	}
	if !held(&x, late, writing(3), 6, 0) {
		t.Fatal("let pass before the transaction that had the hold is applied")
	}
	if held(&x, late, writing(3), 7, 0) {
		t.Fatal("held back after the end")
	}
}

// TestHoldsMeet: of two members that want a hold of one table the lower one has it first, unless the other has one already; a member
// does not give what a session of its own has.
func TestHoldsMeet(t *testing.T) {
	for _, c := range []struct {
		what       string
		self       uint32
		held       bool // by our session
		theirsHeld bool
		keys       []uint64
		given      bool
	}{
		{"we want it, too, and come first", 1, false, false, []uint64{3}, false},
		{"we want it, too, and come second", 3, false, false, []uint64{3}, true},
		{"we come first, but they have another one already", 1, false, true, []uint64{3}, true},
		{"we have it", 3, true, false, []uint64{3}, false},
		{"we have it, and they another", 3, true, true, []uint64{3}, false},
		{"of another table", 1, true, false, []uint64{4}, true},
	} {
		var x holds
		x.init()
		h := &host{}
		own, _ := x.want(h, heldOf(3, 5), 1)
		if own == nil {
			t.Fatal("nothing wanted")
		}
		if c.held {
			x.answered(h, true)
			if again, _ := x.want(h, heldOf(5), 1); again != nil {
				t.Error("asked for what it has")
			}
		}
		id, r := holdID{Member: 2, Number: 4}, holdRequest{Number: 4, Held: c.theirsHeld, heldTables: heldOf(c.keys...)}
		x.asked(id, r, func() {})
		if given, _ := x.give(c.self, id, r); given != c.given {
			t.Errorf("%s: given is %t", c.what, given)
		}
		if c.given && !held(&x, &host{}, writing(c.keys...), 0, 0) {
			t.Errorf("%s: given, and a writer passes", c.what)
		}
		if c.held && held(&x, h, writing(c.keys...), 0, 0) {
			t.Errorf("%s: the one who has a hold is held back", c.what)
		}
	}
}

// TestHoldsEnd: nobody is held back for ever, and what has nothing to do with the tables only for a while.
func TestHoldsEnd(t *testing.T) {
	for _, c := range []struct {
		what   string
		tables heldTables
		ws     *writeset.Writeset
		age    time.Duration
		waited time.Duration
		holds  bool
	}{
		{"a writer", heldOf(3, 9), writing(3), 20 * time.Second, 0, true},
		{"a writer that has waited for long", heldOf(3, 9), writing(3), 2 * holdMax, holdMax, false},
		{"a definition", heldOf(3, 9), writing(5, 9), 0, 0, true},
		{"a definition, later", heldOf(3, 9), writing(5, 9), holdOthersMax, 0, false},
		{"a definition of the table", heldOf(3, 9), writing(3, 9), holdOthersMax, 0, true},
		{"a barrier, later", heldOf(3, 9), &writeset.Writeset{Barrier: true}, holdOthersMax, 0, false},
		{"everything", heldTables{All: true}, writing(7), 0, 0, true},
		{"everything, later", heldTables{All: true}, writing(7), holdAllMax, 0, false},
	} {
		var x holds
		x.init()
		id, r := holdID{Member: 2}, holdRequest{heldTables: c.tables}
		x.asked(id, r, func() {})
		x.give(1, id, r)
		x.others[id].began = time.Now().Add(-c.age)
		x.others[id].all = x.others[id].began
		if holds := held(&x, &host{}, c.ws, 0, c.waited); holds != c.holds {
			t.Errorf("%s: held back is %t", c.what, holds)
		}
	}
	var x holds
	x.init()
	h := &host{}
	if x.want(h, heldOf(3), 1); x.own[h] == nil {
		t.Fatal("nothing wanted")
	}
	x.answered(h, false)
	if own, _ := x.want(h, heldOf(3), 1); own != nil {
		t.Error("asked again after it was in vain")
	}
	x.end()
	x.asked(holdID{Member: 2}, holdRequest{heldTables: heldOf(3)}, func() { t.Error("given when the life has ended") })
}

// TestHoldsAreFair: who has lost to a hold passes before the next one is given.
func TestHoldsAreFair(t *testing.T) {
	l := &life{gate: newGate(), core: &core{}}
	l.holds.init()
	h := &host{n: l, g: newGuard(0, 0, nil, nil, nil), lost: true, held: writing(3)}
	h.passAgain()
	id, r := holdID{Member: 2}, holdRequest{heldTables: heldOf(3)}
	l.holds.asked(id, r, func() {})
	if given, _ := l.holds.give(1, id, r); given {
		t.Error("given although somebody has lost and comes again")
	}
	if !held(&l.holds, &host{}, writing(3), 0, 0) {
		t.Error("a new writer passes")
	}
	if e := h.Pass(writing(3)); e != nil || h.held == nil {
		t.Error("he is held back again, or does not come first the next time", e)
	}
	l.holds.passed(h)
	if given, _ := l.holds.give(1, id, r); !given {
		t.Error("not given")
	}
}

// TestHoldsYield: who waits with locks loses to a transaction that is tried here; a definition that waits for its place in the order
// has none, and goes on.
func TestHoldsYield(t *testing.T) {
	l := &life{gate: newGate(), core: &core{}, done: make(chan struct{})}
	l.holds.init()
	id, r := holdID{Member: 2, Life: 5}, holdRequest{heldTables: heldOf(3)}
	l.holds.asked(id, r, func() {})
	l.holds.give(1, id, r)
	l.holds.yield(2, 5, true)
	h := &host{n: l, g: newGuard(0, 0, nil, nil, nil)}
	if e := h.Pass(writing(3)); e == nil || e.Code != "40001" || !h.lost {
		t.Errorf("a transaction does not yield: %v", e)
	}
	time.AfterFunc(30*time.Millisecond, func() {
		l.holds.over(id, 0)
		l.gate.wake()
	})
	if e := h.pass(writing(3), nil); e != nil {
		t.Errorf("a definition yields: %v", e)
	}
}
