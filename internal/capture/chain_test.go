package capture

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/tuttidb/tutti/internal/writeset"
)

// TestChains: rows whose keys have changed several times are told as deletions right before what they have become; what
// has not stays in its order.
func TestChains(t *testing.T) {
	const del, ins = writeset.OpDelete, writeset.OpInsert
	type step struct {
		op writeset.Op
		id uint64
	}
	for _, x := range []struct {
		what  string
		steps []step
		found []uint64 // of what was captured more than once
		want  string
	}{
		{"keys of several rows, once", []step{{del, 1}, {ins, 11}, {del, 2}, {ins, 12}}, nil, "-1 +11 -2 +12"},
		{"twice", []step{{del, 1}, {ins, 11}, {del, 2}, {ins, 12}, {del, 3}, {ins, 13}, {del, 11}, {ins, 21}, {del, 12},
			{ins, 22}, {del, 13}, {ins, 23}}, nil, "-1 +21 -2 +22 -3 +23"},
		{"in another order", []step{{del, 1}, {ins, 11}, {del, 2}, {ins, 12}, {del, 12}, {ins, 22}, {del, 11},
			{ins, 21}}, nil, "-2 +22 -1 +21"},
		{"and back", []step{{del, 1}, {ins, 11}, {del, 11}, {ins, 1}}, []uint64{1}, "=1"},
		{"others between", []step{{del, 7}, {ins, 8}, {del, 1}, {ins, 11}, {ins, 9}, {del, 11}, {ins, 21}}, nil,
			"-7 +8 +9 -1 +21"},
		{"and gone", []step{{del, 1}, {ins, 11}, {del, 2}, {ins, 12}, {del, 11}}, nil, "-1 -2 +12"},
	} {
		var c section
		header := []byte("B;1;0;1;;1;st")
		for _, s := range x.steps {
			if err := c.change(captured{op: s.op, ident: s.id, header: header, image: []byte{byte(s.id)}},
				false); err != nil {
				t.Fatal(err)
			}
		}
		for _, id := range x.found {
			c.rows[c.index[rowName{0, id}]].found = true
		}
		w, err := c.net()
		if err != nil {
			t.Fatalf("%s: %v", x.what, err)
		}
		got := ""
		for _, r := range w.Rows {
			got += fmt.Sprintf(" %s%d", map[writeset.Op]string{del: "-", ins: "+", writeset.OpReplace: "="}[r.Op],
				r.Identity)
		}
		if !reflect.DeepEqual(got, " "+x.want) {
			t.Errorf("%s:%s, want %s", x.what, got, x.want)
		}
	}
}
