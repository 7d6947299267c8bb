package apply

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tuttidb/tutti/internal/writeset"
)

const (
	ins   = writeset.OpInsert
	upd   = writeset.OpUpdate
	del   = writeset.OpDelete
	repl  = writeset.OpReplace
	trunc = writeset.OpTruncate
)

var local = valid(Table{Schema: "s", Name: `o"dd`, Columns: []Column{{Name: "id"}, {Name: "g", Generated: true},
	{Name: "x"}},
	Key: []KeyColumn{{0, "OPERATOR(pg_catalog.=)"}}})

func valid(t Table) Table {
	if err := t.Validate(); err != nil {
		panic(err)
	}
	return t
}

func lookup(t writeset.Table) *Table {
	if t.Name == local.Name {
		return &local
	}
	return nil
}

func one(rows ...writeset.Row) *writeset.Writeset {
	return &writeset.Writeset{Tables: []writeset.Table{{Schema: "s", Name: local.Name, Format: writeset.FormatBinary}},
		Rows: rows}
}

func row(op writeset.Op, id uint64, image string) writeset.Row {
	return writeset.Row{Op: op, Identity: id, Image: []byte(image)}
}

func TestSQL(t *testing.T) {
	rows := one(row(ins, 1, "a"), row(upd, 2, "b"), row(del, 3, "c"), row(repl, 4, "d"), row(ins, 5, "e"),
		row(del, 6, "f"), row(del, 7, "g"))
	const from = ` FROM pg_catalog.unnest($1::"s"."o""dd"[]) AS r`
	const (
		remove = `DELETE FROM ONLY "s"."o""dd" AS t USING pg_catalog.unnest($1::"s"."o""dd"[]) AS r WHERE t."id" ` +
			`OPERATOR(pg_catalog.=) r."id"`
		change = `UPDATE ONLY "s"."o""dd" AS t SET "id" = r."id", "x" = r."x"` + from +
			` WHERE t."id" OPERATOR(pg_catalog.=) r."id"`
		move = `UPDATE ONLY "s"."o""dd" AS t SET "id" = r.b0, "x" = r.b2 FROM ROWS FROM ` +
			`(pg_catalog.unnest($1::"s"."o""dd"[]), pg_catalog.unnest($2::"s"."o""dd"[])) AS r(a0, a1, a2, b0, b1, ` +
			`b2) WHERE t."id" OPERATOR(pg_catalog.=) r.a0`
		insert = `INSERT INTO "s"."o""dd" ("id", "x") OVERRIDING SYSTEM VALUE SELECT r."id", r."x"` + from
		lock   = `LOCK TABLE ONLY "s"."o""dd" IN EXCLUSIVE MODE`
	)
	for form, want := range map[Form][]Operation{
		InPlace: {{SQL: remove, Rows: 1}, {SQL: change, Rows: 2, Loose: true}, {SQL: move, Rows: 2, Loose: true}},
		Apart:   {{SQL: lock, Rows: AnyRows}, {SQL: remove, Rows: 4}, {SQL: change, Rows: 1}, {SQL: insert, Rows: 3}},
	} {
		ops, err := Plan([]*writeset.Writeset{rows}, lookup, form)
		if err != nil || len(ops) != len(want) {
			t.Fatalf("form %d: %v, operations are %+v", form, err, ops)
		}
		for i, o := range ops {
			if w := want[i]; o.SQL != w.SQL || o.Rows != w.Rows || o.Loose != w.Loose ||
				len(o.Args) != strings.Count(o.SQL, "unnest") {
				t.Errorf("form %d: operation %d is\n%+v\nwant\n%+v", form, i, o, w)
			}
		}
		if ops[1].Check(int64(ops[1].Rows)) != nil || ops[1].Check(9) == nil {
			t.Error("row counts are not checked")
		}
	}
}

func TestContradictionsAreRefused(t *testing.T) {
	other := one(row(ins, 1, "a"))
	other.Tables[0].Name = "unknown"
	all := one(locked(writeset.ExclusiveTable))
	all.Tables[0].Name = "unknown"
	text := one(row(ins, 9, "a"))
	text.Tables[0].Format = writeset.FormatText
	for name, w := range map[string][]*writeset.Writeset{
		"insert twice":     {one(row(ins, 1, "a")), one(row(ins, 1, "a"))},
		"update deleted":   {one(row(del, 1, "a")), one(row(upd, 1, "a"))},
		"delete twice":     {one(row(del, 1, "a")), one(row(del, 1, "a"))},
		"insert over":      {one(row(upd, 1, "a")), one(row(ins, 1, "a"))},
		"update gone":      {one(row(ins, 1, "a")), one(row(del, 1, "a")), one(row(upd, 1, "a"))},
		"update truncated": {one(writeset.Row{Op: trunc}), one(row(upd, 1, "a"))},
		"unknown table":    {other},
		"all of unknown":   {all},
		"two formats":      {one(row(ins, 1, "a")), text},
	} {
		if _, err := Plan(w, lookup, InPlace); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func locked(m writeset.TableMode) writeset.Row {
	return writeset.Row{Op: writeset.OpLock, Image: []byte{byte(m)}}
}

// A table is locked once, in a mode that is all it was locked in, before anything is done to it, and whatever the
// format of its rows.
func TestTablesAreLocked(t *testing.T) {
	text := one(locked(writeset.ShareTable))
	text.Tables[0].Format = writeset.FormatText
	ops, err := Plan([]*writeset.Writeset{one(row(upd, 1, "a")), one(locked(writeset.ShareUpdateExclusive)), text},
		lookup, InPlace)
	if err != nil || len(ops) != 2 || ops[0].SQL != `LOCK TABLE ONLY "s"."o""dd" IN SHARE ROW EXCLUSIVE MODE` ||
		ops[0].Rows != AnyRows || !strings.HasPrefix(ops[1].SQL, "UPDATE") {
		t.Errorf("%v: %+v", err, ops)
	}
}

func images(b []byte) (out []string) {
	for b = b[20:]; len(b) > 0; {
		n := binary.BigEndian.Uint32(b)
		out = append(out, string(b[4:4+n]))
		b = b[4+n:]
	}
	return out
}

// What a writeset has only read has no rows, and so no format: capture does not know it.
func TestTablesThatWereReadHaveNoFormat(t *testing.T) {
	text, read := one(row(upd, 1, "a")), one()
	text.Tables[0].Format = writeset.FormatText
	for _, ws := range [][]*writeset.Writeset{{text, read}, {read, text}} {
		ops, err := Plan(ws, lookup, InPlace)
		if err != nil || len(ops) != 1 || ops[0].Format != writeset.FormatText {
			t.Fatalf("%v, operations are %+v", err, ops)
		}
	}
}

// A1 and A6 in a table without key: rows are letters, of which there may be many, and images tell
// besides which member sent them, unless the table is portable.
func TestPlanWithoutKeyKeepsTheMeaning(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		here := valid(Table{Schema: "s", Name: "k", Columns: []Column{{Name: "x"}},
			Portable: rapid.Bool().Draw(t, "portable")})
		want, got := map[byte]int{}, map[byte]int{}
		var ws []*writeset.Writeset
		for range rapid.IntRange(1, 20).Draw(t, "writesets") {
			w := one()
			w.Tables[0].Name = "k"
			if rapid.IntRange(0, 9).Draw(t, "truncate") == 0 {
				w.Rows = append(w.Rows, writeset.Row{Op: trunc})
				clear(want)
			}
			image := func(x byte) string {
				if here.Portable {
					return string(x)
				}
				return string(x) + rapid.SampledFrom([]string{"1", "2"}).Draw(t, "member")
			}
			first := byte(rapid.IntRange('a', 'c').Draw(t, "first that go")) // those before it come
			for x := first; x <= 'c'; x++ {
				for range rapid.IntRange(0, want[x]).Draw(t, "n") {
					want[x]--
					w.Rows = append(w.Rows, row(del, 0, image(x)))
					if first > 'a' && rapid.Bool().Draw(t, "update") {
						y := byte(rapid.IntRange('a', int(first)-1).Draw(t, "to"))
						want[y]++
						w.Rows = append(w.Rows, row(upd, 0, image(y)))
					}
				}
			}
			for x := byte('a'); x < first; x++ {
				for range rapid.IntRange(0, 2).Draw(t, "n") {
					want[x]++
					w.Rows = append(w.Rows, row(ins, 0, image(x)))
				}
			}
			ws = append(ws, w)
		}
		scans := 0
		for _, batch := range Batches(ws, rapid.IntRange(1, 40).Draw(t, "rows"), 1<<20) {
			ops, err := Plan(batch, func(writeset.Table) *Table { return &here }, InPlace)
			if err != nil {
				t.Fatal(err)
			}
			deletes := 0
			for _, o := range ops {
				word := strings.SplitN(o.SQL, " ", 2)[0]
				if word == "TRUNCATE" {
					clear(got)
					continue
				}
				for i, m := range images(o.Args[0]) {
					if word == "INSERT" || word == "UPDATE" && i%2 == 1 {
						got[m[0]]++
					} else if got[m[0]]--; got[m[0]] < 0 {
						t.Fatalf("a row %c is changed that is not there", m[0])
					}
				}
				if word == "UPDATE" && 2*o.Rows != len(images(o.Args[0])) {
					t.Fatalf("%d rows announced, %d images given", o.Rows, len(images(o.Args[0])))
				}
				if word == "DELETE" {
					deletes++
				}
			}
			scans = max(scans, deletes)
		}
		for x, n := range want {
			if got[x] != n {
				t.Fatalf("there are %d rows %c, want %d", got[x], x, n)
			}
		}
		if here.Portable && scans > 1 {
			t.Fatalf("the table is read %d times in a batch", scans)
		}
	})
}

func TestBatches(t *testing.T) {
	w := func(rows, bytes int) *writeset.Writeset {
		out := one()
		for range rows {
			out.Rows = append(out.Rows, row(ins, 1, strings.Repeat("x", bytes)))
		}
		return out
	}
	for _, c := range []struct {
		in          []*writeset.Writeset
		rows, bytes int
		want        string
	}{
		{nil, 10, 10, "[]"},
		{[]*writeset.Writeset{w(1, 1), w(1, 1), w(1, 1)}, 2, 100, "[2 1]"},
		{[]*writeset.Writeset{w(9, 1), w(1, 1)}, 2, 100, "[1 1]"},
		{[]*writeset.Writeset{w(1, 60), w(1, 60), w(0, 0)}, 100, 100, "[1 2]"},
		{[]*writeset.Writeset{w(1, 1), w(1, 1)}, 0, 0, "[1 1]"},
	} {
		sizes := []int{}
		for _, b := range Batches(c.in, c.rows, c.bytes) {
			sizes = append(sizes, len(b))
		}
		if got := fmt.Sprint(sizes); got != c.want {
			t.Errorf("batches are %s, want %s", got, c.want)
		}
	}
}
