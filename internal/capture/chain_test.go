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
	const del, ins, mov = writeset.OpDelete, writeset.OpInsert, opMoved
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
		{"exchanged by a third one", []step{{mov, 1}, {ins, 9}, {mov, 2}, {ins, 1}, {mov, 9}, {ins, 2}}, []uint64{1, 2},
			"=1 =2 lock"},
		{"exchanged, by deletions and insertions", []step{{del, 1}, {del, 2}, {ins, 1}, {ins, 2}}, []uint64{1, 2},
			"=1 =2"},
		{"exchanged, and back", []step{{mov, 1}, {ins, 9}, {mov, 2}, {ins, 1}, {mov, 9}, {ins, 2}, {mov, 1}, {ins, 9},
			{mov, 2}, {ins, 1}, {mov, 9}, {ins, 2}}, []uint64{1, 2}, "=1 =2"},
		{"handed on", []step{{mov, 1}, {ins, 2}, {mov, 2}, {ins, 3}}, []uint64{2}, "=2 -1 +3 lock"},
		{"handed on, the last one first", []step{{mov, 2}, {ins, 3}, {mov, 1}, {ins, 2}}, []uint64{2},
			"=2 -1 +3 lock"},
		{"come to where one was deleted", []step{{del, 1}, {mov, 2}, {ins, 1}}, []uint64{1}, "=1 -2 lock"},
		{"gone, and another one made there", []step{{mov, 1}, {ins, 2}, {ins, 1}}, []uint64{1}, "=1 +2 lock"},
		{"made, and come to where one was deleted", []step{{ins, 9}, {del, 1}, {mov, 9}, {ins, 1}}, []uint64{1}, "=1"},
		{"made, and moved", []step{{ins, 1}, {mov, 1}, {ins, 2}}, nil, "+2"},
		{"made, and another one that was there moved", []step{{ins, 2}, {mov, 2}, {ins, 3}}, []uint64{2}, "=2 +3 lock"},
		{"by updates, and back", []step{{mov, 1}, {ins, 11}, {mov, 11}, {ins, 1}}, []uint64{1}, "=1"},
		{"by updates, twice", []step{{mov, 1}, {ins, 11}, {mov, 2}, {ins, 12}, {mov, 11}, {ins, 21}}, nil,
			"-2 +12 -1 +21"},
		{"exchanged, and gone", []step{{mov, 1}, {ins, 9}, {mov, 2}, {ins, 1}, {mov, 9}, {ins, 2}, {del, 1}, {del, 2}},
			nil, "-1 -2"},
		{"and gone", []step{{del, 1}, {ins, 11}, {del, 2}, {ins, 12}, {del, 11}}, nil, "-1 -2 +12"},
	} {
		var c section
		header := []byte("B;1;0;1;;1;st")
		for _, s := range x.steps {
			r := captured{op: s.op, ident: s.id, header: header, image: []byte{byte(s.id)}}
			if s.op == mov {
				r.op, r.moved = del, true
			}
			if err := c.change(r, false); err != nil {
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
			if r.LocksTable() {
				got += " lock"
				continue
			}
			got += fmt.Sprintf(" %s%d", map[writeset.Op]string{del: "-", ins: "+", writeset.OpReplace: "="}[r.Op],
				r.Identity)
		}
		if !reflect.DeepEqual(got, " "+x.want) {
			t.Errorf("%s:%s, want %s", x.what, got, x.want)
		}
	}
}
