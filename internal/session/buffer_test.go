package session

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tuttidb/tutti/internal/writeset"
)

// TestBufferWriteset appends changes of rows and looks what is ordered for them at COMMIT.
func TestBufferWriteset(t *testing.T) {
	ops := map[writeset.Op]string{writeset.OpSet: "set", writeset.OpDrop: "drop", writeset.OpInsert: "insert"}
	change := func(table string, identity uint64, op writeset.Op, held bool) unseenLater {
		key := uint64(1000 + len(table))
		return unseenLater{held: held, what: Unseen{Table: writeset.Table{Name: table, Key: key},
			Row: writeset.Row{Op: op, Identity: identity, Image: []byte(ops[op])}}}
	}
	put := func(table string) unseenLater {
		c := change(table, 0, writeset.OpInsert, false)
		c.what.Puts = true
		return c
	}
	for _, c := range []struct {
		name string
		of   []unseenLater
		want string
	}{
		{"nothing", nil, ""},
		{"two rows of a table", []unseenLater{change("a", 1, writeset.OpSet, false),
			change("a", 2, writeset.OpDrop, false)}, "a1 set, a2 drop"},
		{"two tables", []unseenLater{change("a", 1, writeset.OpSet, false), change("bb", 2, writeset.OpSet, false)},
			"a1 set, bb2 set"},
		{"deleted and made anew", []unseenLater{change("a", 1, writeset.OpDrop, false),
			change("a", 2, writeset.OpSet, false), change("a", 1, writeset.OpSet, false)}, "a1 set, a2 set"},
		{"relied on", []unseenLater{change("a", 1, writeset.OpSet, true), change("a", 2, writeset.OpSet, false)},
			"a1 set, a2 set, key 1"},
		{"rows without a key", []unseenLater{put("a"), put("a")}, "a0 insert, a0 insert"},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := later{unseen: c.of}
			ws := l.writeset()
			var got []string
			for _, r := range ws.Rows {
				if string(r.Image) != ops[r.Op] {
					t.Errorf("%s row %d has the image of %s", ops[r.Op], r.Identity, r.Image)
				}
				got = append(got, fmt.Sprintf("%s%d %s", ws.Tables[r.Table].Name, r.Identity, ops[r.Op]))
			}
			for _, k := range ws.Keys {
				if k.Hash < 1000 { // not a table's
					got = append(got, fmt.Sprintf("key %d", k.Hash))
				}
			}
			if s := strings.Join(got, ", "); s != c.want {
				t.Errorf("ordered is %q, want %q", s, c.want)
			}
		})
	}
}
