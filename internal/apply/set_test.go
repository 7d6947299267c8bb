package apply

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"github.com/tuttidb/tutti/internal/writeset"
)

// setting makes an image of a row of counters that is changed unseen.
func setting(record []byte, settings ...writeset.Setting) []byte {
	fields, err := writeset.ReadRecord(record)
	if err != nil {
		panic(err)
	}
	return writeset.AppendSet(nil, settings, fields)
}

const set = writeset.OpSet

// rowOf is a writeset of one row of counters.
func rowOf(op writeset.Op, identity uint64, image []byte) *writeset.Writeset {
	return &writeset.Writeset{Tables: []writeset.Table{{Schema: "s", Name: "counters", Format: writeset.FormatBinary}},
		Rows: []writeset.Row{{Op: op, Identity: identity, Image: image}}}
}

const (
	from = ` FROM ROWS FROM (pg_catalog.unnest($1::"s"."counters"[])) WITH ORDINALITY AS r(c0, c1, c2, c3, c4, i) ` +
		`WHERE t."id" OPERATOR(pg_catalog.=) r.c0`
	setV = `UPDATE ONLY "s"."counters" AS t SET "v" = r.c2` + from + ` RETURNING r.i`
	setN = `UPDATE ONLY "s"."counters" AS t SET "n" = r.c1` + from + ` RETURNING r.i`
	addN = `UPDATE ONLY "s"."counters" AS t SET "n" = t."n" OPERATOR(pg_catalog.+) r.c1` + from +
		` AND t."n"::pg_catalog.int8 OPERATOR(pg_catalog.+) r.c1 BETWEEN -2147483648 AND 2147483647 RETURNING r.i`
	addBV = `UPDATE ONLY "s"."counters" AS t SET "b" = t."b" OPERATOR(pg_catalog.+) r.c3, "v" = r.c2` + from +
		` AND t."b" BETWEEN -4611686018427387904 AND 4611686018427387904 RETURNING r.i`
)

// TestSets: what is set unseen is executed in the order in which it came, each statement for all rows that it is right
// for.
func TestSets(t *testing.T) {
	v, n, add := writeset.Setting{Column: 2}, writeset.Setting{Column: 1}, writeset.Setting{Column: 1, Add: true}
	x, y, five := counter(7, nil, "x", nil, nil), counter(7, nil, "y", nil, nil), counter(7, 5, nil, nil, nil)
	whole, other := counter(7, 10, "w", int64(100), 3), counter(8, nil, "o", nil, nil)
	array := func(images ...[]byte) []byte { return writeset.AppendArray(nil, writeset.FormatBinary, images) }
	for _, c := range []struct {
		name string
		ws   []*writeset.Writeset
		sql  []string
		args [][]byte
		asks []string // per operation, who asks for its rows: indices of writesets
	}{
		{"one", []*writeset.Writeset{rowOf(set, 7, setting(x, v))}, []string{setV}, [][]byte{array(x)},
			[]string{"[[0]]"}},
		{"two rows", []*writeset.Writeset{rowOf(set, 7, setting(x, v)), rowOf(set, 8, setting(other, v))},
			[]string{setV}, [][]byte{array(x, other)}, []string{"[[0] [1]]"}},
		{"the last counts", []*writeset.Writeset{rowOf(set, 7, setting(x, v)), rowOf(set, 7, setting(y, v))},
			[]string{setV}, [][]byte{array(y)}, []string{"[[0 1]]"}},
		{"of other columns", []*writeset.Writeset{rowOf(set, 7, setting(x, v)), rowOf(set, 7, setting(five, n))},
			[]string{setV, setN}, [][]byte{array(x), array(five)}, []string{"[[0]]", "[[1]]"}},
		{"other columns of another row", []*writeset.Writeset{rowOf(set, 7, setting(five, n)),
			rowOf(set, 8, setting(other, v))}, []string{setN, setV}, [][]byte{array(five), array(other)},
			[]string{"[[0]]", "[[1]]"}},
		{"what is added is added once for each", []*writeset.Writeset{rowOf(set, 7, setting(five, add)),
			rowOf(set, 7, setting(five, add))}, []string{addN, addN}, [][]byte{array(five), array(five)},
			[]string{"[[0]]", "[[1]]"}},
		{"then set", []*writeset.Writeset{rowOf(set, 7, setting(five, add)), rowOf(set, 7, setting(five, n))},
			[]string{addN, setN}, [][]byte{array(five), array(five)}, []string{"[[0]]", "[[1]]"}},
		{"long", []*writeset.Writeset{rowOf(set, 7, setting(counter(7, nil, "x", int64(1), nil),
			writeset.Setting{Column: 3, Add: true}, v))}, []string{addBV},
			[][]byte{array(counter(7, nil, "x", int64(1), nil))}, []string{"[[0]]"}},
		{"of an inserted row", []*writeset.Writeset{rowOf(ins, 7, whole), rowOf(set, 7, setting(x, v))},
			[]string{counters.made.insert, setV}, [][]byte{array(whole), array(x)}, []string{"[]", "[[1]]"}},
		{"of a deleted row", []*writeset.Writeset{rowOf(del, 7, whole), rowOf(set, 7, setting(x, v))},
			[]string{counters.made.delete, setV}, [][]byte{array(whole), array(x)}, []string{"[]", "[[1]]"}},
		{"then deleted", []*writeset.Writeset{rowOf(set, 7, setting(x, v)), rowOf(del, 7, whole)},
			[]string{setV, counters.made.delete}, [][]byte{array(x), array(whole)}, []string{"[[0]]", "[]"}},
		{"then inserted", []*writeset.Writeset{rowOf(set, 7, setting(x, v)), rowOf(ins, 7, whole)},
			[]string{setV, counters.made.insert}, [][]byte{array(x), array(whole)}, []string{"[[0]]", "[]"}},
		{"then updated, and again", []*writeset.Writeset{rowOf(set, 7, setting(x, v)), rowOf(upd, 7, whole),
			rowOf(set, 7, setting(y, v))}, []string{setV, counters.made.update, setV},
			[][]byte{array(x), array(whole), array(y)}, []string{"[[0]]", "[]", "[[2]]"}},
		{"of a row that came and went", []*writeset.Writeset{rowOf(ins, 7, whole), rowOf(del, 7, whole),
			rowOf(set, 7, setting(x, v))}, []string{setV}, [][]byte{array(x)}, []string{"[[2]]"}},
		{"then added to", []*writeset.Writeset{rowOf(set, 7, setting(x, v)), rowOf(writeset.OpAdd, 7, five)},
			[]string{setV, counters.made.add}, [][]byte{array(x), array(five)}, []string{"[[0]]", "[]"}},
		{"then truncated", []*writeset.Writeset{rowOf(set, 7, setting(x, v)), rowOf(writeset.OpTruncate, 0, nil),
			rowOf(set, 8, setting(other, v))},
			[]string{`TRUNCATE ONLY "s"."counters" CASCADE`, setV}, [][]byte{nil, array(other)},
			[]string{"[[0]]", "[[2]]"}},
	} {
		ops, err := Plan(c.ws, func(writeset.Table) *Table { return &counters }, InPlace)
		if err != nil || len(ops) != len(c.sql) {
			t.Errorf("%s: %+v, %v", c.name, ops, err)
			continue
		}
		for i, op := range ops {
			asks := make([][]int, 0)
			for _, rows := range op.Asks {
				var who []int
				for _, r := range rows {
					who = append(who, slices.IndexFunc(c.ws,
						func(w *writeset.Writeset) bool { return &w.Rows[0] == r }))
				}
				asks = append(asks, who)
			}
			if op.SQL != c.sql[i] || c.args[i] != nil && !bytes.Equal(op.Args[0], c.args[i]) ||
				fmt.Sprint(asks) != c.asks[i] {
				t.Errorf("%s: operation %d is %s with %x for %v,\nwant %s with %x for %s", c.name, i, op.SQL, op.Args,
					asks, c.sql[i], c.args[i], c.asks[i])
			}
		}
	}
}

// TestSetsThatCannotBe: what no database has made is refused.
func TestSetsThatCannotBe(t *testing.T) {
	x := counter(7, 1, "x", int64(1), 1)
	for name, w := range map[string]*writeset.Writeset{
		"no image":           rowOf(set, 7, []byte{1}),
		"a far column":       rowOf(set, 7, setting(x, writeset.Setting{Column: 5})),
		"text that is added": rowOf(set, 7, setting(x, writeset.Setting{Column: 2, Add: true})),
		"an identity column": rowOf(set, 7, setting(x, writeset.Setting{Column: 4})),
		"a table without key": {Tables: []writeset.Table{{Schema: "s", Name: "keyless", Format: writeset.FormatBinary}},
			Rows: []writeset.Row{{Op: set, Identity: 7, Image: setting(x, writeset.Setting{Column: 1})}}},
	} {
		keyless := valid(Table{Schema: "s", Name: "keyless", Columns: counters.Columns})
		if ops, err := Plan([]*writeset.Writeset{w}, func(t writeset.Table) *Table {
			if t.Name == "keyless" {
				return &keyless
			}
			return &counters
		}, InPlace); err == nil {
			t.Errorf("%s: %+v", name, ops)
		}
	}
	if _, err := Plan([]*writeset.Writeset{rowOf(set, 7, setting(x, writeset.Setting{Column: 1}))},
		func(writeset.Table) *Table { return nil }, InPlace); err == nil {
		t.Error("an unknown table was changed")
	}
}

// TestMissed: who asks for a row that was not changed is told so, and what cannot be is an error.
func TestMissed(t *testing.T) {
	a, b, c := &writeset.Row{}, &writeset.Row{}, &writeset.Row{}
	o := Operation{Asks: [][]*writeset.Row{{a}, {b, c}}}
	for _, x := range []struct {
		places []int64
		missed []*writeset.Row
		fails  bool
	}{
		{[]int64{2, 1}, nil, false}, {[]int64{1}, []*writeset.Row{b, c}, false}, {nil, []*writeset.Row{a, b, c}, false},
		{[]int64{3}, nil, true}, {[]int64{0}, nil, true}, {[]int64{1, 1}, nil, true},
	} {
		if missed, err := o.Missed(x.places); (err != nil) != x.fails || !slices.Equal(missed, x.missed) {
			t.Errorf("%v: %v, %v", x.places, missed, err)
		}
	}
}
