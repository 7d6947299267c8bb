package node

import (
	"testing"
	"time"

	"github.com/tuttidb/tutti/internal/admission"
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

// TestHoldGiven: who has written to a table passes before a hold of it is given, and it is given when he is decided;
// who comes later waits until it is over and what it was for is applied. Others pass at any time.
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
	if given, _, vain := x.give(1, id, r); given || vain {
		t.Fatal("given before who has passed is decided", given, vain)
	}
	if !held(&x, late, writing(3), 0, 0) {
		t.Fatal("a writer passes a hold that is about to be given")
	}
	if held(&x, other, writing(4), 0, 0) {
		t.Fatal("a writer to another table is held back")
	}
	x.passed(early)
	if given, _, _ := x.give(1, id, r); !given {
		t.Fatal("not given")
	}
	x.over(id, 7)
	if given, _, vain := x.give(1, id, r); given || !vain {
		t.Fatal("given when it is over")
	}
	if !held(&x, late, writing(3), 6, 0) {
		t.Fatal("let pass before the transaction that had the hold is applied")
	}
	if held(&x, late, writing(3), 7, 0) {
		t.Fatal("held back after the end")
	}
}

// TestHoldsMeet: of two members that want a hold of one table the one that has asked first has it first, the lower one
// if that cannot be told, unless the other has one already; a member does not give what a session of its own has.
func TestHoldsMeet(t *testing.T) {
	for _, c := range []struct {
		what       string
		self       uint32
		held       bool // by our session
		theirsHeld bool
		ticket     uint64 // ours is 1
		keys       []uint64
		given      bool
	}{
		{"we want it, too, and come first", 1, false, false, 1, []uint64{3}, false},
		{"we want it, too, and come second", 3, false, false, 1, []uint64{3}, true},
		{"we have asked first", 3, false, false, 2, []uint64{3}, false},
		{"they have asked first", 1, false, false, 0, []uint64{3}, true},
		{"we come first, but they have another one already", 1, false, true, 1, []uint64{3}, true},
		{"we have it", 3, true, false, 0, []uint64{3}, false},
		{"we have it, and they another", 3, true, true, 0, []uint64{3}, false},
		{"of another table", 1, true, false, 2, []uint64{4}, true},
	} {
		var x holds
		x.init()
		h := &host{}
		own, _, _ := x.want(h, heldOf(3, 5), 1)
		if own == nil {
			t.Fatal("nothing wanted")
		}
		if c.held {
			x.answered(h, ownHold{}, true, false)
			if again, _, _ := x.want(h, heldOf(5), 1); again != nil {
				t.Error("asked for what it has")
			}
		}
		id, r := holdID{Member: 2, Number: 4}, holdRequest{Number: 4, Held: c.theirsHeld, Ticket: c.ticket,
			heldTables: heldOf(c.keys...)}
		x.asked(id, r, func() {})
		if given, taken, _ := x.give(c.self, id, r); given != c.given || taken == given {
			t.Errorf("%s: given is %t, taken is %t", c.what, given, taken)
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
	x.answered(h, ownHold{}, false, false)
	if own, _, _ := x.want(h, heldOf(3), 1); own != nil {
		t.Error("asked again after it was in vain")
	}
	x.end()
	x.asked(holdID{Member: 2}, holdRequest{heldTables: heldOf(3)}, func() { t.Error("given when the life has ended") })
}

// TestHoldsAreFair: who has lost to a hold passes before the next one is given.
func TestHoldsAreFair(t *testing.T) {
	l := &life{gate: admission.NewGate(), core: &core{}}
	l.holds.init()
	h := &host{n: l, g: newGuard(0, 0, nil, nil, nil), lost: true, held: writing(3)}
	h.passAgain()
	id, r := holdID{Member: 2}, holdRequest{heldTables: heldOf(3)}
	l.holds.asked(id, r, func() {})
	if given, _, _ := l.holds.give(1, id, r); given {
		t.Error("given although somebody has lost and comes again")
	}
	if !held(&l.holds, &host{}, writing(3), 0, 0) {
		t.Error("a new writer passes")
	}
	begun := l.holds.passing[h]
	l.holds.passing[h] = letPass{begun.ws, time.Now().Add(-holdAgainMax)}
	if given, _, _ := l.holds.give(1, id, r); !given || !held(&l.holds, h, writing(3), 0, 0) {
		t.Error("who has lost and takes his time is waited for")
	}
	l.holds.passing[h] = begun
	if e := h.Pass(writing(3), nil); e != nil || h.held == nil {
		t.Error("he is held back again, or does not come first the next time", e)
	}
	l.holds.passed(h)
	if given, _, _ := l.holds.give(1, id, r); !given {
		t.Error("not given")
	}
}

// TestHoldsYield: who waits with locks loses to a transaction that is tried here; a definition that waits for its place
// in the order has none, and goes on.
func TestHoldsYield(t *testing.T) {
	l := &life{gate: admission.NewGate(), core: &core{}, done: make(chan struct{})}
	l.holds.init()
	id, r := holdID{Member: 2, Life: 5}, holdRequest{heldTables: heldOf(3)}
	l.holds.asked(id, r, func() {})
	l.holds.give(1, id, r)
	l.holds.yield(2, 5, true)
	h := &host{n: l, g: newGuard(0, 0, nil, nil, nil)}
	if e := h.Pass(writing(3), nil); e == nil || e.Code != "40001" || !h.lost {
		t.Errorf("a transaction does not yield: %v", e)
	}
	time.AfterFunc(30*time.Millisecond, func() {
		l.holds.over(id, 0)
		l.gate.Wake()
	})
	if e := h.pass(writing(3), nil, nil); e != nil {
		t.Errorf("a definition yields: %v", e)
	}
}

// TestHoldsHaveTickets: who asks after it has heard of another's request comes after that.
func TestHoldsHaveTickets(t *testing.T) {
	var x holds
	x.init()
	x.asked(holdID{Member: 2}, holdRequest{Ticket: 7, heldTables: heldOf(3)}, func() {})
	if _, _, r := x.want(&host{}, heldOf(3), 1); r.Ticket != 8 {
		t.Errorf("the ticket is %d", r.Ticket)
	}
}

// TestHoldsTooLate: a hold that did not come in time leaves what was there before, and may be asked for again.
func TestHoldsTooLate(t *testing.T) {
	var x holds
	x.init()
	h := &host{}
	_, before, _ := x.want(h, heldOf(3), 1)
	if over := x.answered(h, before, false, true); !over || x.own[h] != nil {
		t.Error("nothing was held before, and something is left")
	}
	_, before, _ = x.want(h, heldOf(3), 1)
	x.answered(h, before, true, false)
	_, before, _ = x.want(h, heldOf(4), 1)
	if over := x.answered(h, before, false, true); over || !x.own[h].held || x.own[h].tables.has(4) ||
		!x.own[h].tables.has(3) {
		t.Errorf("over is %t, %+v", over, x.own[h])
	}
	if own, _, _ := x.want(h, heldOf(4), 1); own == nil {
		t.Error("it cannot be asked for again")
	}
}

// TestHoldsAskedAgain: who asks again and again is answered again, by one at a time.
func TestHoldsAskedAgain(t *testing.T) {
	var x holds
	x.init()
	id, r := holdID{Member: 2}, holdRequest{Round: 1, heldTables: heldOf(3)}
	n := 0
	for range 3 {
		x.asked(id, r, func() { n++ })
	}
	x.gave(id)
	x.asked(id, r, func() { n++ })
	if n != 2 {
		t.Errorf("to be given %d times", n)
	}
	x.asked(id, holdRequest{heldTables: heldOf(3)}, func() { t.Error("given to who has it") })
}

// TestHoldIsGathered: who is not answered is asked again, until he can be heard no longer.
func TestHoldIsGathered(t *testing.T) {
	for _, c := range []struct {
		what        string
		told, fresh []bool // by attempts; the last goes on
		answers     int    // the attempt after which the member answers
		end         holdEnd
		ordinal     uint64
		asked       int
	}{
		{"it answers", []bool{true}, []bool{false}, 1, holdGiven, 7, 1},
		{"a word is lost", []bool{true}, []bool{false}, 2, holdGiven, 7, 2},
		{"it cannot be heard", []bool{false}, []bool{false}, 0, holdGiven, 0, 1},
		{"it can be heard no longer", []bool{true, false}, []bool{false}, 0, holdGiven, 0, 2},
		{"it is not connected yet", []bool{false, true}, []bool{true}, 2, holdGiven, 7, 2},
		{"it is never connected", []bool{false}, []bool{true}, 0, holdGiven, 0, 2},
		{"it never answers", []bool{true}, []bool{true}, 0, holdLate, 0, 2}, // at least
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			own := &ownHold{answers: make(chan holdAnswer, holdAnswersMax)}
			at := func(x []bool, n int) bool { return x[min(n, len(x))-1] }
			n := 0
			ordinal, end := own.gather(4, []uint32{2}, func(member uint32) (told, fresh bool) {
				if n++; n == c.answers {
					own.answers <- holdAnswer{Round: 3, Ordinal: 9, from: member} // of what was asked before
					own.answers <- holdAnswer{Round: 4, Ordinal: 7, from: member}
				}
				return at(c.told, n), at(c.fresh, n)
			}, time.Now().Add(2*holdRenewal+holdRenewal/2), func() bool { return false })
			if ordinal != c.ordinal || end != c.end || n < c.asked || n > c.asked && c.end != holdLate {
				t.Errorf("ordinal %d, end %d, asked %d times; want %d, %d, %d", ordinal, end, n, c.ordinal, c.end,
					c.asked)
			}
		})
	}
}

// TestHoldsComeInTurn: who waits for a hold goes on before the next one is given that was asked for later, also if he
// has lost to the first and comes again at once. He does not if he waits for a third that has nothing to do with the
// next.
func TestHoldsComeInTurn(t *testing.T) {
	for _, c := range []struct {
		what   string
		third  []uint64
		lost   time.Duration // ago; 0: it has not lost
		later  bool          // he waits since after the second is asked for
		leads  bool
		others []uint64 // that the second is about
	}{
		{"it waits", nil, 0, false, true, []uint64{3}},
		{"it has lost", nil, time.Millisecond, false, true, []uint64{3}},
		{"it has lost and gone", nil, 2 * holdComesAgain, false, false, []uint64{3}},
		{"it has come later", nil, 0, true, false, []uint64{3}},
		{"another table", nil, 0, false, false, []uint64{5}},
		{"it waits for a third", []uint64{4}, 0, false, false, []uint64{3}},
		{"it waits for a third, as the second does", []uint64{4}, 0, false, true, []uint64{3, 4}},
	} {
		var x holds
		x.init()
		h, ws := &host{}, writing(3, 4)
		ask := func(m uint32, keys ...uint64) (holdID, holdRequest) {
			id, r := holdID{Member: m}, holdRequest{heldTables: heldOf(keys...)}
			x.asked(id, r, func() {})
			return id, r
		}
		first, r := ask(2, 3)
		x.give(1, first, r)
		if c.third != nil {
			id, r := ask(4, c.third...)
			x.give(1, id, r)
		}
		if !held(&x, h, ws, 0, 0) {
			t.Fatal("it does not wait")
		}
		second, r := ask(3, c.others...)
		if c.later {
			x.waiting[h] = heldBack{ws: ws, since: time.Now().Add(time.Second)}
		}
		if c.lost > 0 {
			x.waitsNo(h, true)
			w := x.waiting[h]
			w.lost = time.Now().Add(-c.lost)
			x.waiting[h] = w
		}
		x.over(first, 0)
		if given, _, _ := x.give(1, second, r); given == c.leads {
			t.Errorf("%s: the second is given: %t", c.what, given)
		}
		x.waitsNo(h, false)
		if given, _, _ := x.give(1, second, r); !given {
			t.Errorf("%s: the second is not given at the end", c.what)
		}
	}
}
