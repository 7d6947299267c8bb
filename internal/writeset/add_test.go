package writeset

import (
	"bytes"
	"math"
	"reflect"
	"testing"
)

// FuzzRecord: no input panics, and what is a record is written as it was read.
func FuzzRecord(f *testing.F) {
	f.Add(AppendRecord(nil, []Field{{23, []byte{0, 0, 0, 1}}, {25, nil}, {25, []byte("x")}}))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, b []byte) {
		fields, err := ReadRecord(b)
		if err != nil {
			return
		}
		if got := AppendRecord(nil, fields); !bytes.Equal(got, b) {
			t.Errorf("%x became %x", b, got)
		}
		_, _ = Sum(b, b, []int{0}) // it may fail
	})
}

// TestCanAdd: 2^16 additions of the largest size do not leave the column's range, from wherever they may begin.
func TestCanAdd(t *testing.T) {
	for _, c := range []struct {
		size       int
		value, by  int64
		ok         bool
		least, max int64
	}{
		{4, 1 << 30, 1 << 14, true, math.MinInt32, math.MaxInt32},
		{4, -1 << 30, -1 << 14, true, math.MinInt32, math.MaxInt32},
		{8, 1 << 62, 1 << 44, true, math.MinInt64, math.MaxInt64},
		{8, -1 << 62, -1 << 44, true, math.MinInt64, math.MaxInt64},
		{4, 1<<30 + 1, 1, false, 0, 0}, {4, -1<<30 - 1, 1, false, 0, 0}, {4, 0, 1<<14 + 1, false, 0, 0},
		{4, 0, -1<<14 - 1, false, 0, 0},
		{8, 1<<62 + 1, 1, false, 0, 0}, {8, -1<<62 - 1, 1, false, 0, 0}, {8, 0, 1<<44 + 1, false, 0, 0},
		{8, 0, math.MinInt64, false, 0, 0},
	} {
		if CanAdd(c.size, c.value, c.by) != c.ok {
			t.Errorf("%+v", c)
		}
		const times = 1<<16 - 1
		if c.ok && (c.by > 0 && c.value > c.max-c.by*times || c.by < 0 && c.value < c.least-c.by*times) {
			t.Errorf("%+v overflows", c)
		}
	}
}

// TestAddAdditions: a table that is new to the writeset gets its key.
func TestAddAdditions(t *testing.T) {
	a, b := Table{Schema: "s", Name: "a", Format: FormatBinary, Key: 1},
		Table{Schema: "s", Name: "b", Format: FormatBinary, Key: 2}
	w := &Writeset{Tables: []Table{a}, Rows: []Row{{Op: OpInsert, Identity: 5, Image: []byte("x")}}}
	w.AddTableKeys()
	if w.Adds() {
		t.Error("it adds to nothing")
	}
	w.AddAdditions([]Addition{{b, 7, []byte("y")}, {b, 8, []byte("z")}, {a, 9, []byte("z")}})
	want := &Writeset{Tables: []Table{a, b}, Keys: []Key{{Hash: 1, Mode: Shared}, {Hash: 2, Mode: Shared, Table: 1}},
		Rows: []Row{{Op: OpInsert, Identity: 5, Image: []byte("x")}, {1, OpAdd, 7, []byte("y")},
			{1, OpAdd, 8, []byte("z")}, {0, OpAdd, 9, []byte("z")}}}
	if !w.Adds() || !reflect.DeepEqual(w, want) {
		t.Errorf("%+v", w)
	}
	if got, err := Decode(w.Append(nil)); err != nil || !reflect.DeepEqual(got, w) {
		t.Errorf("%+v: %v", got, err)
	}
}
