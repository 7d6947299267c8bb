package rowcache

import (
	"slices"
	"testing"

	"github.com/tuttidb/tutti/internal/certify"
	"github.com/tuttidb/tutti/internal/writeset"
)

// byte1 is a record whose image is one byte: what it holds, or what is added.
type byte1 struct{}

func (byte1) Read(image []byte) ([]int64, []byte, bool) { return []int64{int64(image[0])}, nil, true }

func (byte1) Sum(values []int64, image []byte) bool {
	values[0] += int64(image[0])
	return values[0] < 100
}

// knowing are values that know row 7, which holds 10 at ordinal 5.
func knowing() *Values {
	v := NewValues(10)
	v.Learn(Counted{Row: "r", Identity: 7, Values: []int64{10}, At: 5, Columns: byte1{}}, 5)
	return v
}

func changes(op writeset.Op, image ...byte) *writeset.Writeset {
	return &writeset.Writeset{
		Tables: []writeset.Table{{Schema: "s", Name: "t", Key: 50}},
		Rows:   []writeset.Row{{Op: op, Identity: 7, Image: image}},
	}
}

// TestValuesSaw: what a transaction does to what is known.
func TestValuesSaw(t *testing.T) {
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
		a.Saw(c.ordinal, c.w)
		switch got := a.byName["r"]; {
		case (got == nil) != (c.value == 0), (got == nil) != (len(a.byKey) == 0):
			t.Errorf("%s: %+v", c.name, got)
		case got != nil && (got.Values[0] != c.value || got.At != c.at):
			t.Errorf("%s: %+v", c.name, got)
		}
	}
}

// TestValuesLost: what a transaction has lost by is not taken for known again, unless more is known by then.
func TestValuesLost(t *testing.T) {
	adds := changes(writeset.OpAdd, 1)
	to := func(key uint64, m writeset.Mode) certify.Verdict {
		return certify.Verdict{Reason: certify.KeyConflict, Key: writeset.Key{Hash: key, Mode: m}, WinnerOrdinal: 8}
	}
	for _, c := range []struct {
		name    string
		v       certify.Verdict
		known   bool // at once
		applied bool // once the winner is
		seen    bool // and once it was seen
	}{
		{"another row", to(9, writeset.Update), true, true, true},
		{"the row", to(7, writeset.Add), true, false, true},
		{"the table", to(50, writeset.Shared), false, false, false},
		{"a barrier", certify.Verdict{Reason: certify.Barrier, WinnerOrdinal: 8}, false, false, false},
		{"age", certify.Verdict{Reason: certify.TooOld}, false, false, false},
	} {
		for _, sees := range []bool{false, true} {
			a := knowing()
			a.Lost(adds, c.v)
			if _, ok := a.Known("r", 7); ok != c.known {
				t.Errorf("%s: known: %v", c.name, ok)
			}
			want := c.applied
			if sees {
				a.Saw(8, changes(writeset.OpUpdate, 4))
				want = c.seen
			}
			if _, ok := a.Known("r", 8); ok != want {
				t.Errorf("%s: known when it is applied, seen: %v: %v", c.name, sees, ok)
			}
		}
	}
	a := knowing()
	for at, want := range map[uint64]bool{5 + certify.AddedMax/2: true, 6 + certify.AddedMax/2: false} {
		if _, ok := a.Known("r", at); ok != want {
			t.Errorf("at ordinal %d, known: %v", at, ok)
		}
	}
	c, _ := a.Known("r", 5)
	if c.Values[0] = 99; a.byName["r"].Values[0] != 10 {
		t.Error("what was given changes what is known")
	}
}

// TestValuesAreBounded: of so many rows something is known, and of the others what is known is forgotten.
func TestValuesAreBounded(t *testing.T) {
	const most = 3
	a := NewValues(most)
	learn := func(row string, identity, at, applied uint64) {
		a.Learn(Counted{Row: row, Identity: identity, At: at, Columns: byte1{}}, applied)
	}
	for i := range uint64(most) {
		learn(string(rune('a'+i)), i, 1, 1)
	}
	const now = 2 + certify.AddedMax/2
	learn("a", 0, 2, 2)      // known already
	learn("z", 99, now, now) // b and c are too old
	if a.Count() != 2 || len(a.byKey) != 2 || a.byName["a"] == nil || a.Full() != 0 {
		t.Errorf("known are %v, full %d times", a.byName, a.Full())
	}
	learn("y", 98, now, now)
	learn("x", 97, now, now)
	if a.Count() != 1 || len(a.byKey) != 1 || a.byName["x"] == nil || a.Full() != 1 {
		t.Errorf("known are %v, full %d times", a.byName, a.Full())
	}
	learn("x", 97, 1, now) // older
	if a.byName["x"].At != now || a.Count() != 1 {
		t.Errorf("%+v", a.byName["x"])
	}
	learn("another", 97, now, now) // two names of one row
	if a.Saw(now+1, &writeset.Writeset{Rows: []writeset.Row{{Op: writeset.OpDelete, Identity: 97}}}); a.Count() != 0 {
		t.Errorf("known are %v after the row is gone", a.byName)
	}
}
