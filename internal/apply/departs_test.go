package apply

import (
	"strings"
	"testing"

	"github.com/tuttidb/tutti/internal/writeset"
)

// TestWaitersFindNoGap: where a row is deleted and inserted that is one to its client, its table is locked before:
// nobody waits for the row itself.
func TestWaitersFindNoGap(t *testing.T) {
	key := []KeyColumn{{0, "OPERATOR(pg_catalog.=)"}}
	tables := map[string]*Table{}
	for _, x := range []Table{
		{Name: "always", Columns: []Column{{Name: "id", Always: true}}},
		{Name: "plain", Columns: []Column{{Name: "id"}}},
		{Name: "p1", Root: 5, Columns: []Column{{Name: "id"}}}, {Name: "p2", Root: 5, Columns: []Column{{Name: "id"}}},
		{Name: "q1", Root: 6, Columns: []Column{{Name: "id"}}},
	} {
		x.Schema, x.Key = "s", key
		made := valid(x)
		tables[x.Name] = &made
	}
	lookup := func(w writeset.Table) *Table { return tables[w.Name] }
	for _, x := range []struct {
		from, to string
		ops      []writeset.Op
		locks    string
	}{
		{"always", "always", []writeset.Op{del, ins}, "always"}, {"always", "always", []writeset.Op{ins}, ""},
		{"always", "always", []writeset.Op{del}, ""},
		{"plain", "plain", []writeset.Op{del, ins}, ""},
		{"p1", "p2", []writeset.Op{del, ins}, "p1"}, {"p1", "p2", []writeset.Op{ins, del}, ""},
		{"p1", "q1", []writeset.Op{del, ins}, ""}, {"p1", "plain", []writeset.Op{del, ins}, ""},
	} {
		w := &writeset.Writeset{Tables: []writeset.Table{{Schema: "s", Name: x.from, Format: writeset.FormatBinary},
			{Schema: "s", Name: x.to, Format: writeset.FormatBinary}}}
		stream, whole := NewStream(lookup, 1<<20), true
		for i, op := range x.ops {
			r := writeset.Row{Op: op, Identity: uint64(i + 1), Image: []byte{byte(i)}}
			if op == ins && x.to != x.from {
				r.Table = 1
			}
			w.Rows = append(w.Rows, r)
			whole = stream.Add(w.Tables[r.Table], r) && whole
		}
		ops, err := Plan([]*writeset.Writeset{w}, lookup, InPlace)
		if err != nil {
			t.Fatal(err)
		}
		locked := ""
		for _, o := range ops {
			if strings.HasPrefix(o.SQL, "LOCK TABLE ONLY ") {
				locked += strings.Split(o.SQL, `"`)[3]
			}
		}
		if locked != x.locks {
			t.Errorf("%s to %s, %v: %q is locked, want %q", x.from, x.to, x.ops, locked, x.locks)
		}
		if whole != (x.locks == "") {
			t.Errorf("%s to %s, %v: as a stream %v", x.from, x.to, x.ops, whole)
		}
	}
}
