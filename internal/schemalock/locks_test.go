package schemalock

import (
	"testing"

	"github.com/tuttidb/tutti/internal/capture"
	"github.com/tuttidb/tutti/internal/writeset"
)

const (
	most = 60 * second  // that a transaction is blocked
	now  = 100 * second // when nothing is said of the time
)

func heldOf(keys ...uint64) (x Tables) {
	x.add(Tables{Keys: keys})
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

func held(x *Locks, s Session, ws *writeset.Writeset, applied uint64, waited int64) bool {
	yes, _ := x.Blocks(now, s, ws, applied, waited)
	return yes
}

// TestHoldGiven: who has written to a table passes before a hold of it is given, and it is given when he is decided;
// who comes later waits until it is over and what it was for is applied. Others pass at any time.
func TestHoldGiven(t *testing.T) {
	x := New(most)
	early, late, other := "early", "late", "other"
	id := ID{Member: 2, Number: 1}
	r := Request{Number: 1, Tables: heldOf(3, 9)}
	if held(x, early, writing(3, 4), 0, 0) {
		t.Fatal("held back without a hold")
	}
	asked := 0
	for range 3 { // renewals
		if x.Asked(now, id, r) {
			asked++
		}
	}
	if asked != 1 {
		t.Fatalf("to be given %d times", asked)
	}
	if given, _, vain := x.Give(now, 1, id, r); given || vain {
		t.Fatal("given before who has passed is decided", given, vain)
	}
	if !held(x, late, writing(3), 0, 0) {
		t.Fatal("a writer passes a hold that is about to be given")
	}
	if held(x, other, writing(4), 0, 0) {
		t.Fatal("a writer to another table is held back")
	}
	x.Passed(early)
	if given, _, _ := x.Give(now, 1, id, r); !given {
		t.Fatal("not given")
	}
	x.Over(id, 7)
	if given, _, vain := x.Give(now, 1, id, r); given || !vain {
		t.Fatal("given when it is over")
	}
	if !held(x, late, writing(3), 6, 0) {
		t.Fatal("let pass before the transaction that had the hold is applied")
	}
	if held(x, late, writing(3), 7, 0) {
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
		x := New(most)
		h := "it"
		_, _, ask := x.Want(h, heldOf(3, 5), 1)
		if !ask {
			t.Fatal("nothing wanted")
		}
		if c.held {
			x.Answered(h, Before{}, true, false)
			if _, _, again := x.Want(h, heldOf(5), 1); again {
				t.Error("asked for what it has")
			}
		}
		id, r := ID{Member: 2, Number: 4}, Request{Number: 4, Held: c.theirsHeld, Ticket: c.ticket,
			Tables: heldOf(c.keys...)}
		x.Asked(now, id, r)
		if given, taken, _ := x.Give(now, c.self, id, r); given != c.given || taken == given {
			t.Errorf("%s: given is %t, taken is %t", c.what, given, taken)
		}
		if c.given && !held(x, "somebody", writing(c.keys...), 0, 0) {
			t.Errorf("%s: given, and a writer passes", c.what)
		}
		if c.held && held(x, h, writing(c.keys...), 0, 0) {
			t.Errorf("%s: the one who has a hold is held back", c.what)
		}
	}
}

// TestHoldsEnd: nobody is held back for ever, and what has nothing to do with the tables only for a while.
func TestHoldsEnd(t *testing.T) {
	for _, c := range []struct {
		what   string
		tables Tables
		ws     *writeset.Writeset
		age    int64
		waited int64
		holds  bool
	}{
		{"a writer", heldOf(3, 9), writing(3), 20 * second, 0, true},
		{"a writer that has waited for long", heldOf(3, 9), writing(3), 2 * most, most, false},
		{"a definition", heldOf(3, 9), writing(5, 9), 0, 0, true},
		{"a definition, later", heldOf(3, 9), writing(5, 9), othersMax, 0, false},
		{"a definition of the table", heldOf(3, 9), writing(3, 9), othersMax, 0, true},
		{"a barrier, later", heldOf(3, 9), &writeset.Writeset{Barrier: true}, othersMax, 0, false},
		{"everything", Tables{All: true}, writing(7), 0, 0, true},
		{"everything, later", Tables{All: true}, writing(7), allMax, 0, false},
	} {
		x := New(most)
		id, r := ID{Member: 2}, Request{Tables: c.tables}
		x.Asked(now, id, r)
		x.Give(now, 1, id, r)
		x.others[id].began = now - c.age
		x.others[id].all = x.others[id].began
		if holds := held(x, "somebody", c.ws, 0, c.waited); holds != c.holds {
			t.Errorf("%s: held back is %t", c.what, holds)
		}
	}
	x := New(most)
	h := "it"
	if x.Want(h, heldOf(3), 1); x.own[h] == nil {
		t.Fatal("nothing wanted")
	}
	x.Answered(h, Before{}, false, false)
	if _, _, ask := x.Want(h, heldOf(3), 1); ask {
		t.Error("asked again after it was in vain")
	}
	x.End()
	if x.Asked(now, ID{Member: 2}, Request{Tables: heldOf(3)}) {
		t.Error("given when the life has ended")
	}
}

// TestHoldsHaveTickets: who asks after it has heard of another's request comes after that.
func TestHoldsHaveTickets(t *testing.T) {
	x := New(most)
	x.Asked(now, ID{Member: 2}, Request{Ticket: 7, Tables: heldOf(3)})
	if _, r, _ := x.Want("somebody", heldOf(3), 1); r.Ticket != 8 {
		t.Errorf("the ticket is %d", r.Ticket)
	}
}

// TestHoldsTooLate: a hold that did not come in time leaves what was there before, and may be asked for again.
func TestHoldsTooLate(t *testing.T) {
	x := New(most)
	h := "it"
	before, _, _ := x.Want(h, heldOf(3), 1)
	if over := x.Answered(h, before, false, true); !over || x.own[h] != nil {
		t.Error("nothing was held before, and something is left")
	}
	before, _, _ = x.Want(h, heldOf(3), 1)
	x.Answered(h, before, true, false)
	before, _, _ = x.Want(h, heldOf(4), 1)
	if over := x.Answered(h, before, false, true); over || !x.own[h].held || x.own[h].tables.has(4) ||
		!x.own[h].tables.has(3) {
		t.Errorf("over is %t, %+v", over, x.own[h])
	}
	if _, _, ask := x.Want(h, heldOf(4), 1); !ask {
		t.Error("it cannot be asked for again")
	}
}

// TestHoldsAskedAgain: who asks again and again is answered again, by one at a time.
func TestHoldsAskedAgain(t *testing.T) {
	x := New(most)
	id, r := ID{Member: 2}, Request{Round: 1, Tables: heldOf(3)}
	n := 0
	for range 3 {
		if x.Asked(now, id, r) {
			n++
		}
	}
	x.Gave(id)
	if x.Asked(now, id, r) {
		n++
	}
	if n != 2 {
		t.Errorf("to be given %d times", n)
	}
	if x.Asked(now, id, Request{Tables: heldOf(3)}) {
		t.Error("given to who has it")
	}
}

// TestHoldsComeInTurn: who waits for a hold goes on before the next one is given that was asked for later, also if he
// has lost to the first and comes again at once. He does not if he waits for a third that has nothing to do with the
// next.
func TestHoldsComeInTurn(t *testing.T) {
	for _, c := range []struct {
		what   string
		third  []uint64
		lost   int64 // ago; 0: it has not lost
		later  bool  // he waits since after the second is asked for
		leads  bool
		others []uint64 // that the second is about
	}{
		{"it waits", nil, 0, false, true, []uint64{3}},
		{"it has lost", nil, second / 1000, false, true, []uint64{3}},
		{"it has lost and gone", nil, 2 * comesAgain, false, false, []uint64{3}},
		{"it has come later", nil, 0, true, false, []uint64{3}},
		{"another table", nil, 0, false, false, []uint64{5}},
		{"it waits for a third", []uint64{4}, 0, false, false, []uint64{3}},
		{"it waits for a third, as the second does", []uint64{4}, 0, false, true, []uint64{3, 4}},
	} {
		x := New(most)
		h, ws := "it", writing(3, 4)
		ask := func(m uint32, keys ...uint64) (ID, Request) {
			id, r := ID{Member: m}, Request{Tables: heldOf(keys...)}
			x.Asked(now, id, r)
			return id, r
		}
		first, r := ask(2, 3)
		x.Give(now, 1, first, r)
		if c.third != nil {
			id, r := ask(4, c.third...)
			x.Give(now, 1, id, r)
		}
		if !held(x, h, ws, 0, 0) {
			t.Fatal("it does not wait")
		}
		next, r := ask(3, c.others...)
		if c.later {
			x.waiting[h] = blocked{ws: ws, since: now + second}
		}
		if c.lost > 0 {
			x.WaitsNo(now, h, true)
			w := x.waiting[h]
			w.lost = now - c.lost
			x.waiting[h] = w
		}
		x.Over(first, 0)
		if given, _, _ := x.Give(now, 1, next, r); given == c.leads {
			t.Errorf("%s: the second is given: %t", c.what, given)
		}
		x.WaitsNo(now, h, false)
		if given, _, _ := x.Give(now, 1, next, r); !given {
			t.Errorf("%s: the second is not given at the end", c.what)
		}
	}
}

// TestHoldsAreFair: who has lost to a lock passes before the next one is granted, if it does not take its time.
func TestHoldsAreFair(t *testing.T) {
	x := New(most)
	if held(x, "it", writing(3), 0, 0) {
		t.Fatal("blocked without a lock")
	}
	x.Reserve(now, "it")
	id, r := ID{Member: 2}, Request{Tables: heldOf(3)}
	x.Asked(now, id, r)
	if given, _, _ := x.Give(now, 1, id, r); given {
		t.Error("granted although somebody has lost and comes again")
	}
	if !held(x, "new", writing(3), 0, 0) {
		t.Error("a new writer passes")
	}
	if given, _, _ := x.Give(now+AgainMax, 1, id, r); !given {
		t.Error("who has lost and takes his time is waited for")
	}
	if blocks, _ := x.Blocks(now+AgainMax, "it", writing(3), 0, 0); !blocks {
		t.Error("who has taken his time passes")
	}
}

// TestHoldsAreForgotten (SL4): what goes on is told again, and what is over, or silent, blocks nobody.
func TestHoldsAreForgotten(t *testing.T) {
	x := New(most)
	_, r, _ := x.Want("it", heldOf(3), 1)
	x.Answered("it", Before{}, true, false)
	for member := uint32(2); member <= 4; member++ {
		id, r := ID{Member: member, Life: 5}, Request{Tables: heldOf(uint64(member))}
		x.Asked(now, id, r)
		x.Give(now, 1, id, r)
	}
	x.Over(ID{Member: 3, Life: 5}, 7)
	x.Asked(now+silence, ID{Member: 4, Life: 5}, Request{Tables: heldOf(4)})
	renewed, known := x.Renew(now+silence+1, 7)
	if len(renewed) != 1 || renewed[0].Number != r.Number || !renewed[0].Held || !known {
		t.Errorf("told again is %+v, locks of others are known: %t", renewed, known)
	}
	if len(x.others) != 1 || x.others[ID{Member: 4, Life: 5}] == nil {
		t.Errorf("%d are left, and should be the one that goes on", len(x.others))
	}
	if number, tell := x.Release("it"); !tell || number != r.Number {
		t.Errorf("its end is told: %t", tell)
	}
	if _, tell := x.Release("it"); tell {
		t.Error("its end is told twice")
	}
}

// TestHoldsYield: who is blocked loses to a transaction that is tried here, and to no other one.
func TestHoldsYield(t *testing.T) {
	x := New(most)
	id, r := ID{Member: 2, Life: 5}, Request{Tables: heldOf(3)}
	x.Asked(now, id, r)
	x.Give(now, 1, id, r)
	for _, c := range []struct {
		member uint32
		life   uint64
		tried  bool
		lost   bool
	}{{2, 4, true, false}, {3, 5, true, false}, {2, 5, true, true}, {2, 5, false, false}} {
		x.Yield(c.member, c.life, c.tried)
		if blocks, lost := x.Blocks(now, "it", writing(3), 0, 0); !blocks || lost != c.lost {
			t.Errorf("%+v: blocked %t, lost %t", c, blocks, lost)
		}
	}
	other := ID{Member: 7, Life: 1}
	x.Asked(now, other, r)
	x.Give(now, 1, other, r)
	x.Yield(2, 5, true)
	for range 20 { // whichever comes first
		if _, lost := x.Blocks(now, "it", writing(3), 0, 0); !lost {
			t.Fatal("beside another lock of the table it does not lose")
		}
	}
}

// TestReservedForItsTables: a transaction that is waited for passes by what waits for it, and by nothing else: neither
// by a lock of other tables, nor by one that was granted before.
func TestReservedForItsTables(t *testing.T) {
	x := New(most)
	s := "session"
	pending, granted := ID{Member: 2, Number: 1}, ID{Member: 3, Number: 1}
	ask := func(id ID, keys ...uint64) (given bool) {
		r := Request{Number: id.Number, Round: 1, Tables: heldOf(keys...)}
		x.Asked(now, id, r)
		given, _, _ = x.Give(now, 1, id, r)
		return given
	}
	if held(x, s, writing(3), 0, 0) {
		t.Fatal("blocked without a lock")
	}
	x.Reserve(now, s)
	if ask(pending, 3) || !ask(granted, 5) {
		t.Fatal("a lock is granted before who is waited for, or another one is not")
	}
	if !held(x, s, writing(3, 5), 0, 0) || !held(x, s, writing(5), 0, 0) {
		t.Error("it passes by a lock of another table")
	}
	if held(x, s, writing(3), 0, 0) {
		t.Error("it waits for a lock that waits for it")
	}
	x.Passed(s)
	if !ask(pending, 3) {
		t.Fatal("it is not granted when nobody is waited for")
	}
	if held(x, s, writing(4), 0, 0) {
		t.Fatal("blocked by a lock of another table")
	}
	if x.Reserve(now, s); ask(pending, 3, 4) || !held(x, s, writing(3), 0, 0) {
		t.Error("one that wants more blocks what it has blocked no longer")
	}
}

// TestGrantedToOne (SL3): a lock is not granted, nor granted again, when a session of this member has got one of the
// same table meanwhile; and such a session does not overtake a lock that was granted.
func TestGrantedToOne(t *testing.T) {
	x := New(most)
	id, r := ID{Member: 2, Number: 1}, Request{Number: 1, Round: 1, Tables: heldOf(3)}
	r.Ticket = 1
	if _, taken, _ := heldBack(x, "early", id, r); taken {
		t.Fatal("taken by nobody")
	}
	before, _, _ := x.Want("own", heldOf(5), 1)
	x.Answered("own", before, true, false)
	if x.Behind(0, heldOf(3)) {
		t.Error("a lock that is not granted yet is waited for")
	}
	before, _, _ = x.Want("own", heldOf(3), 1)
	x.Answered("own", before, true, false)
	x.Passed("early")
	if given, taken, _ := x.Give(now, 1, id, r); given || !taken {
		t.Error("it is granted though a session here has got one")
	}
	x.Release("own")
	if given, _, _ := x.Give(now, 1, id, r); !given || !x.Behind(0, heldOf(3)) || x.Behind(0, heldOf(5)) {
		t.Error("it is not granted, or may be overtaken")
	}
	x.Over(id, 7)
	if !x.Behind(6, heldOf(3)) || x.Behind(7, heldOf(3)) {
		t.Error("it ends before it is applied, or not then")
	}
}

// heldBack asks for a lock while a transaction is not decided that has written to table 3.
func heldBack(x *Locks, s Session, id ID, r Request) (given, taken, vain bool) {
	held(x, s, writing(3), 0, 0)
	x.Asked(now, id, r)
	return x.Give(now, 1, id, r)
}
