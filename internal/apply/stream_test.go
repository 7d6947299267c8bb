package apply

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tuttidb/tutti/internal/writeset"
)

// TestStreamLeavesLocks: tables that were locked are not a Stream's; TableLocks has them, those behind steps as well.
func TestStreamLeavesLocks(t *testing.T) {
	s := NewStream(lookup, 1<<20)
	ws := one(row(upd, 1, "a"), locked(writeset.ShareTable))
	for _, r := range ws.Rows {
		if !s.Add(ws.Tables[0], r) {
			t.Errorf("operation %d is refused", r.Op)
		}
	}
	if ops, err := s.Operations(true); err != nil || len(ops) != 1 || !strings.HasPrefix(ops[0].SQL, "UPDATE") {
		t.Errorf("%v: %+v", err, ops)
	}
	const want = `LOCK TABLE ONLY "s"."o""dd" IN SHARE MODE`
	for _, w := range []*writeset.Writeset{ws,
		{Steps: []writeset.Step{{Definition: []byte("d")}, {Rows: one(locked(writeset.ShareTable))}}}} {
		if ops, err := TableLocks(w, lookup); err != nil || len(ops) != 1 || ops[0].SQL != want {
			t.Errorf("%v: %+v", err, ops)
		}
	}
	if ops, err := TableLocks(one(row(upd, 1, "a")), lookup); err != nil || len(ops) != 0 {
		t.Errorf("%v: %+v", err, ops)
	}
}

// TestStream: what a Stream makes of rows as they come. A deletion and the insertion after it are one row with another
// key, also if operations are taken in between: a statement that waits for the row goes on with it (A7).
func TestStream(t *testing.T) {
	local := &Table{Schema: "s", Name: "t", Columns: []Column{{Name: "id"}, {Name: "v"}},
		Key: []KeyColumn{{Column: 0, Equal: "OPERATOR(pg_catalog.=)"}}}
	if err := local.Validate(); err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		ops  []writeset.Op // 0: operations are taken
		want string
	}{
		{[]writeset.Op{ins, ins, ins}, "INSERT 3"},
		{[]writeset.Op{ins, ins, 0, ins}, "INSERT 1; INSERT 2"},
		{[]writeset.Op{upd, repl, 0, upd}, "UPDATE 2; UPDATE 1"},
		{[]writeset.Op{del, ins, del, ins}, "UPDATE 2 moved"},
		{[]writeset.Op{ins, del}, "UPDATE 1 moved"},
		{[]writeset.Op{del, 0, ins}, "; UPDATE 1 moved"},
		{[]writeset.Op{del, 0, upd, 0, ins, 0, ins}, "; UPDATE 1; UPDATE 1 moved; INSERT 1"},
		{[]writeset.Op{del, del, ins, ins, upd}, "DELETE 1, UPDATE 1, UPDATE 1 moved, INSERT 1"},
		{[]writeset.Op{del}, "DELETE 1"},
		{[]writeset.Op{writeset.OpTruncate}, "TRUNCATE -1"},
		{[]writeset.Op{writeset.OpTruncate, writeset.OpTruncate, ins, 0, ins}, "TRUNCATE -1; INSERT 2"},
		{[]writeset.Op{ins, writeset.OpTruncate}, "refused"},
		{[]writeset.Op{ins, 0, writeset.OpTruncate}, "refused"},
		{[]writeset.Op{writeset.OpLock}, "refused"},
	} {
		s := NewStream(func(writeset.Table) *Table { return local }, 1<<20)
		var got []string
		take := func(last bool) {
			ops, err := s.Operations(last)
			if err != nil {
				t.Fatal(err)
			}
			var said []string
			for _, o := range ops {
				name := fmt.Sprintf("%s %d", strings.SplitN(o.SQL, " ", 2)[0], o.Rows)
				if len(o.Args) == 2 {
					name += " moved"
				}
				said = append(said, name)
			}
			got = append(got, strings.Join(said, ", "))
		}
		refused := false
		for i, op := range x.ops {
			if op == 0 {
				take(false)
				continue
			}
			// The table is not the first of the writeset: others may have no rows.
			refused = refused || !s.Add(writeset.Table{Schema: "s", Name: "t"},
				writeset.Row{Table: 2, Op: op, Identity: uint64(i + 1), Image: []byte("(1,2)")})
		}
		take(true)
		if refused {
			got = []string{"refused"}
		}
		if said := strings.Join(got, "; "); said != x.want {
			t.Errorf("%v gives %q, not %q", x.ops, said, x.want)
		}
	}
	always := &Table{Schema: "s", Name: "t", Columns: []Column{{Name: "id", Always: true}, {Name: "v"}}, Key: local.Key}
	if err := always.Validate(); err != nil {
		t.Fatal(err)
	}
	for _, op := range []writeset.Op{repl, ins, del} {
		s := NewStream(func(writeset.Table) *Table { return always }, 1<<20)
		if ok := s.Add(writeset.Table{Schema: "s", Name: "t"},
			writeset.Row{Op: op, Identity: 1, Image: []byte("(1,2)")}); ok != slices.Contains([]writeset.Op{ins, del},
			op) {
			t.Errorf("operation %d on a table with a column that an update cannot set: %v", op, ok)
		}
	}
	keyless := &Table{Schema: "s", Name: "t", Columns: local.Columns}
	if err := keyless.Validate(); err != nil {
		t.Fatal(err)
	}
	for _, op := range []writeset.Op{ins, upd, del, writeset.OpTruncate} {
		s := NewStream(func(writeset.Table) *Table { return keyless }, 1<<20)
		if ok := s.Add(writeset.Table{Schema: "s", Name: "t"},
			writeset.Row{Op: op, Image: []byte("(1,2)")}); ok != (op == ins || op == writeset.OpTruncate) {
			t.Errorf("operation %d on a table without key: %v", op, ok)
		}
	}
}
