package writeset

import (
	"reflect"
	"testing"
)

// TestHeld: tables that are held survive the encoding, mark their own Exclusive key and nothing else.
func TestHeld(t *testing.T) {
	w := &Writeset{
		Tables: []Table{{Schema: "s", Name: "a", Key: 1}, {Schema: "s", Name: "b", Key: 2},
			{Schema: "s", Name: "c", Key: 3}},
		Keys: []Key{{Hash: 1, Mode: Exclusive}, {Hash: 7, Mode: Exclusive}, {Hash: 2, Mode: Exclusive, Table: 1},
			{Hash: 3, Mode: Shared, Table: 2}},
		Steps:   []Step{{Definition: []byte("d")}},
		Held:    []uint32{0, 2},
		Barrier: true, NewestNames: true,
	}
	got, err := Decode(w.Append(nil))
	if err != nil || !reflect.DeepEqual(got, w) {
		t.Fatalf("%+v, %v", got, err)
	}
	var held []uint64
	got.EachKey(func(k Key) bool {
		if k.Held {
			held = append(held, k.Hash)
		}
		return true
	})
	if !reflect.DeepEqual(held, []uint64{1}) {
		t.Errorf("held keys %v", held)
	}
	for _, bad := range [][]uint32{{3}, {1, 1}, {1, 0}} {
		w.Held = bad
		if _, err := Decode(w.Append(nil)); err == nil {
			t.Errorf("held %v was taken", bad)
		}
	}
	w.Held, w.Steps[0] = nil, Step{Rows: &Writeset{Tables: w.Tables, Held: []uint32{0}}}
	if w.Validate() == nil {
		t.Error("a step holds tables")
	}
}
