package node

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/tuttidb/tutti/internal/admission"
	"github.com/tuttidb/tutti/internal/core"
	"github.com/tuttidb/tutti/internal/schemalock"
	"github.com/tuttidb/tutti/internal/writeset"
)

// writing is a transaction that has written to a table.
func writing(key uint64) *writeset.Writeset {
	return &writeset.Writeset{Tables: []writeset.Table{{Schema: "public", Key: key}}}
}

// asks has another member ask member 1 for a hold of a table, and reports whether that is given.
func (x *holds) asks(t *testing.T, member uint32, life, key uint64) (given bool) {
	t.Helper()
	id := schemalock.ID{Member: member, Life: life}
	r := schemalock.Request{Tables: schemalock.Tables{Keys: []uint64{key}}}
	x.with(func(k *schemalock.Locks, now int64) {
		k.Asked(now, id, r)
		given, _, _ = k.Give(now, 1, id, r)
	})
	return given
}

// TestHoldsAreFair: who has lost to a hold comes first, and passes before the next one is given.
func TestHoldsAreFair(t *testing.T) {
	l := &life{gate: admission.NewGate(), core: core.New(core.Options{})}
	l.holds.init()
	h := &host{n: l, g: newGuard(0, 0, nil, nil, nil), lost: true, held: writing(3)}
	h.passAgain()
	if given := l.holds.asks(t, 2, 0, 3); given {
		t.Error("given although somebody has lost and comes again")
	}
	if e := h.Pass(writing(3), nil); e != nil || h.held == nil {
		t.Error("he is held back again, or does not come first the next time", e)
	}
	l.holds.passed(h)
	if given := l.holds.asks(t, 2, 0, 3); !given {
		t.Error("not given")
	}
}

// TestHoldsYield: who waits with locks loses to a transaction that is tried here; a definition that waits for its place
// in the order has none, and goes on.
func TestHoldsYield(t *testing.T) {
	l := &life{gate: admission.NewGate(), core: core.New(core.Options{}), done: make(chan struct{})}
	l.holds.init()
	l.holds.asks(t, 2, 5, 3)
	l.holds.yield(2, 5, true)
	h := &host{n: l, g: newGuard(0, 0, nil, nil, nil)}
	if e := h.Pass(writing(3), nil); e == nil || e.Code != "40001" || !h.lost {
		t.Errorf("a transaction does not yield: %v", e)
	}
	time.AfterFunc(30*time.Millisecond, func() {
		l.holds.with(func(k *schemalock.Locks, _ int64) { k.Over(schemalock.ID{Member: 2, Life: 5}, 0) })
		l.gate.Wake()
	})
	if e := h.pass(writing(3), nil, nil); e != nil {
		t.Errorf("a definition yields: %v", e)
	}
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
			answers := make(chan schemalock.Answer, holdAnswersMax)
			at := func(x []bool, n int) bool { return x[min(n, len(x))-1] }
			n := 0
			ordinal, end := gather(answers, 4, []uint32{2}, func(member uint32) (told, fresh bool) {
				if n++; n == c.answers {
					answers <- schemalock.Answer{Round: 3, Ordinal: 9, From: member} // of what was asked before
					answers <- schemalock.Answer{Round: 4, Ordinal: 7, From: member}
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

// TestHoldAnswers: an answer reaches who asks, as long as he asks; one to another life, or to another hold, nobody.
func TestHoldAnswers(t *testing.T) {
	l := &life{incarnation: 5}
	l.holds.init()
	answers := make(chan schemalock.Answer, holdAnswersMax)
	_, request, ask := l.holds.want(&host{n: l}, schemalock.Tables{Keys: []uint64{3}}, l.incarnation, answers)
	if !ask {
		t.Fatal("nothing is asked for")
	}
	answer := func(number, life uint64) int {
		data, err := json.Marshal(schemalock.Answer{Number: number, Round: request.Round, Life: life, Ordinal: 7})
		if err != nil {
			t.Fatal(err)
		}
		l.holdGiven(2, data)
		return len(answers)
	}
	if n := answer(request.Number, 4) + answer(request.Number+1, 5); n != 0 {
		t.Errorf("%d answers to somebody else are taken", n)
	}
	if n := answer(request.Number, 5); n != 1 {
		t.Fatalf("%d answers are taken", n)
	}
	if a := <-answers; a.From != 2 || a.Ordinal != 7 || a.Round != request.Round {
		t.Errorf("the answer is %+v", a)
	}
	l.holds.heard(request.Number)
	if n := answer(request.Number, 5); n != 0 {
		t.Error("an answer is taken that nobody waits for")
	}
}
