package node

import (
	"slices"
	"testing"

	"github.com/tuttidb/tutti/internal/certify"
	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/session"
	"github.com/tuttidb/tutti/internal/writeset"
)

// byte1 is a record whose image is one byte: what it holds, or what is added.
type byte1 struct{}

func (byte1) Read(image []byte) ([]int64, []byte, bool) { return []int64{int64(image[0])}, nil, true }

func (byte1) Sum(values []int64, image []byte) bool {
	values[0] += int64(image[0])
	return values[0] < 100
}

// knowing is additions that know row 7, which holds 10 at ordinal 5.
func knowing() *additions {
	a := &additions{max: 10}
	a.clear()
	c := &session.Counted{Row: "r", Identity: 7, Values: []int64{10}, At: 5, Columns: byte1{}}
	a.byName["r"], a.byKey[7] = c, []*session.Counted{c}
	return a
}

func changes(op writeset.Op, image ...byte) *writeset.Writeset {
	return &writeset.Writeset{Tables: []writeset.Table{{Schema: "s", Name: "t", Key: 50}}, Rows: []writeset.Row{{Op: op, Identity: 7, Image: image}}}
}

// TestAdditionsAreSeenInOrder: what own sessions and others have done to a row in one group counts in the order's order.
func TestAdditionsAreSeenInOrder(t *testing.T) {
	a := knowing()
	a.sights = []sight{{9, changes(writeset.OpAdd, 1)}, {7, changes(writeset.OpUpdate, 20)}}
	a.sawGroup([]engine.Task{{Ordinal: 6, Writeset: changes(writeset.OpAdd, 5)}, {Ordinal: 8, Writeset: changes(writeset.OpAdd, 2)}, {Ordinal: 10, Writeset: changes(writeset.OpAdd, 3)}, {Ordinal: 11}})
	if c := a.byName["r"]; c == nil || !slices.Equal(c.Values, []int64{26}) || c.At != 10 {
		t.Errorf("%+v", c)
	}
	if len(a.sights) != 0 {
		t.Errorf("%d sights are left", len(a.sights))
	}
}

// TestAdditionsSaw: what a transaction does to what is known.
func TestAdditionsSaw(t *testing.T) {
	table := func(m writeset.Mode) *writeset.Writeset {
		w := changes(writeset.OpInsert, 1)
		w.Rows[0].Identity = 8
		w.Keys = []writeset.Key{{Hash: 50, Mode: m}}
		return w
	}
	many := changes(writeset.OpAdd, 1)
	many.Rows = slices.Repeat(many.Rows, sawMax+1)
	steps := changes(writeset.OpAdd, 1)
	steps.Steps = []writeset.Step{{Definition: []byte("x")}}
	for _, c := range []struct {
		name    string
		ordinal uint64
		w       *writeset.Writeset
		value   int64 // 0: it is forgotten
		at      uint64
	}{
		{"addition", 6, changes(writeset.OpAdd, 3), 13, 6},
		{"addition before it was known", 5, changes(writeset.OpAdd, 3), 10, 5},
		{"too large an addition", 6, changes(writeset.OpAdd, 95), 0, 0},
		{"update", 6, changes(writeset.OpUpdate, 3), 3, 6},
		{"lock", 6, changes(writeset.OpLock, 3), 10, 6},
		{"shared lock", 6, changes(writeset.OpShare, 3), 10, 6},
		{"deletion", 6, changes(writeset.OpDelete, 3), 0, 0},
		{"truncation", 6, &writeset.Writeset{Rows: []writeset.Row{{Op: writeset.OpTruncate}}}, 0, 0},
		{"locked table", 6, table(writeset.Exclusive), 0, 0},
		{"written table", 6, table(writeset.Shared), 10, 5},
		{"definition", 6, steps, 0, 0},
		{"many rows", 6, many, 0, 0},
	} {
		a := knowing()
		a.saw(c.ordinal, c.w)
		switch got := a.byName["r"]; {
		case (got == nil) != (c.value == 0), (got == nil) != (len(a.byKey) == 0):
			t.Errorf("%s: %+v", c.name, got)
		case got != nil && (got.Values[0] != c.value || got.At != c.at):
			t.Errorf("%s: %+v", c.name, got)
		}
	}
}

// TestAdditionsLost: what a transaction has lost by is not taken for known again, unless more is known by then.
func TestAdditionsLost(t *testing.T) {
	what := session.Adds{Row: "r", Name: "t"}
	adds := changes(writeset.OpAdd, 1)
	for _, c := range []struct {
		name    string
		v       certify.Verdict
		known   bool // at once
		applied bool // once the winner is
		seen    bool // and once it was seen
	}{
		{"another row", certify.Verdict{Reason: certify.KeyConflict, Key: writeset.Key{Hash: 9, Mode: writeset.Update}, WinnerOrdinal: 8}, true, true, true},
		{"the row", certify.Verdict{Reason: certify.KeyConflict, Key: writeset.Key{Hash: 7, Mode: writeset.Add}, WinnerOrdinal: 8}, true, false, true},
		{"the table", certify.Verdict{Reason: certify.KeyConflict, Key: writeset.Key{Hash: 50, Mode: writeset.Shared}, WinnerOrdinal: 8}, false, false, false},
		{"a barrier", certify.Verdict{Reason: certify.Barrier, WinnerOrdinal: 8}, false, false, false},
		{"age", certify.Verdict{Reason: certify.TooOld}, false, false, false},
	} {
		for _, sees := range []bool{false, true} {
			a := knowing()
			a.lost(adds, c.v)
			if _, ok := a.known(what, 7); ok != c.known {
				t.Errorf("%s: known: %v", c.name, ok)
			}
			want := c.applied
			if sees {
				a.saw(8, changes(writeset.OpUpdate, 4))
				want = c.seen
			}
			if _, ok := a.known(what, 8); ok != want {
				t.Errorf("%s: known when it is applied, seen: %v: %v", c.name, sees, ok)
			}
		}
	}
	a := knowing()
	for _, c := range []struct {
		locked map[string]int
		at     uint64
		known  bool
	}{{nil, 5 + certify.AddedMax/2, true}, {nil, 6 + certify.AddedMax/2, false}, {map[string]int{"t": 1}, 6, false}, {map[string]int{"": 1}, 6, false}, {map[string]int{"u": 1}, 6, true}} {
		a.locked = c.locked
		if _, ok := a.known(what, c.at); ok != c.known {
			t.Errorf("%+v", c)
		}
	}
}

// TestAdditionsAreBounded: of so many rows something is known, and of the others what is known is forgotten.
func TestAdditionsAreBounded(t *testing.T) {
	const most = 3
	h := &host{n: &life{core: &core{}}}
	a := &h.n.additions
	a.max = most
	learn := func(row string, identity, at uint64) {
		h.Learn(session.Counted{Row: row, Identity: identity, At: at, Columns: byte1{}})
	}
	for i := range uint64(most) {
		learn(string(rune('a'+i)), i, 1)
	}
	learn("a", 0, 2) // known already
	h.n.core.applied.Store(2 + certify.AddedMax/2)
	learn("z", 99, 2+certify.AddedMax/2) // b and c are too old
	if len(a.byName) != 2 || len(a.byKey) != 2 || a.byName["a"] == nil || a.full.Load() != 0 {
		t.Errorf("known are %v, full %d times", a.byName, a.full.Load())
	}
	learn("y", 98, 2+certify.AddedMax/2)
	learn("x", 97, 2+certify.AddedMax/2)
	if len(a.byName) != 1 || len(a.byKey) != 1 || a.byName["x"] == nil || a.full.Load() != 1 {
		t.Errorf("known are %v, full %d times", a.byName, a.full.Load())
	}
	learn("x", 97, 1) // older
	if a.byName["x"].At != 2+certify.AddedMax/2 || a.count() != 1 {
		t.Errorf("%+v", a.byName["x"])
	}
	a.max = -1
	learn("w", 96, 1<<20)
	if _, ok := h.Known(session.Adds{Row: "x"}); ok || a.byName["w"] != nil {
		t.Error("it is switched off")
	}
}
