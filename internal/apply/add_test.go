package apply

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/tuttidb/tutti/internal/writeset"
)

var counters = valid(Table{Schema: "s", Name: "counters",
	Columns: []Column{{Name: "id", Integer: true}, {Name: "n", Integer: true}, {Name: "v"},
		{Name: "b", Integer: true, Long: true}, {Name: "i", Integer: true, Always: true}},
	Key: []KeyColumn{{0, "OPERATOR(pg_catalog.=)"}}})

// counter is a record of counters; nil is NULL.
func counter(values ...any) []byte {
	fields := make([]writeset.Field, len(values))
	for i, v := range values {
		switch v := v.(type) {
		case int:
			fields[i] = writeset.Field{OID: 23, Value: binary.BigEndian.AppendUint32(nil, uint32(v))}
		case int64:
			fields[i] = writeset.Field{OID: 20, Value: binary.BigEndian.AppendUint64(nil, uint64(v))}
		case string:
			fields[i] = writeset.Field{OID: 25, Value: []byte(v)}
		}
	}
	return writeset.AppendRecord(nil, fields)
}

// TestAdditions: what is added to a row, and whatever else happens to it in one batch, comes to one operation.
func TestAdditions(t *testing.T) {
	const identity = 7
	add := writeset.OpAdd
	row := func(op writeset.Op, image []byte) *writeset.Writeset {
		return &writeset.Writeset{Tables: []writeset.Table{
			{Schema: "s", Name: "counters", Format: writeset.FormatBinary}},
			Rows: []writeset.Row{{Op: op, Identity: identity, Image: image}}}
	}
	n, b := counter(1, 5, nil, nil, nil), counter(1, nil, nil, int64(-7), nil)
	whole := counter(1, 10, "x", int64(100), 3)
	const sql = `UPDATE ONLY "s"."counters" AS t SET "n" = t."n" OPERATOR(pg_catalog.+) COALESCE(r."n", 0), "b" = ` +
		`t."b" OPERATOR(pg_catalog.+) COALESCE(r."b", 0)` +
		` FROM pg_catalog.unnest($1::"s"."counters"[]) AS r WHERE t."id" OPERATOR(pg_catalog.=) r."id"`
	for _, c := range []struct {
		name  string
		ws    []*writeset.Writeset
		sql   string
		image []byte
		fails bool
	}{
		{"one", []*writeset.Writeset{row(add, n)}, sql, n, false},
		{"several", []*writeset.Writeset{row(add, n), row(add, b), row(add, n), row(add, b)}, sql,
			counter(1, 10, nil, int64(-14), nil), false},
		{"to an inserted row", []*writeset.Writeset{row(ins, whole), row(add, n), row(add, b)}, counters.made.insert,
			counter(1, 15, "x", int64(93), 3), false},
		{"to an updated row", []*writeset.Writeset{row(upd, whole), row(add, n)}, counters.made.update,
			counter(1, 15, "x", int64(100), 3), false},
		{"to a replaced row", []*writeset.Writeset{row(repl, whole), row(add, b)}, counters.made.update,
			counter(1, 10, "x", int64(93), 3), false},
		{"then an update", []*writeset.Writeset{row(add, n), row(upd, whole)}, counters.made.update, whole, false},
		{"then a deletion", []*writeset.Writeset{row(add, n), row(del, whole)}, counters.made.delete, whole, false},
		{"then a lock", []*writeset.Writeset{row(add, n), row(writeset.OpLock, whole)}, sql, n, false},
		{"to a locked row", []*writeset.Writeset{row(writeset.OpShare, whole), row(add, n)}, sql, n, false},
		{"to a deleted row", []*writeset.Writeset{row(del, whole), row(add, n)}, "", nil, true},
		{"then an insertion", []*writeset.Writeset{row(add, n), row(ins, whole)}, "", nil, true},
		{"to a row that came and went", []*writeset.Writeset{row(ins, whole), row(del, whole), row(add, n)}, "", nil,
			true},
		{"too much", []*writeset.Writeset{row(upd, counter(1, 1<<31-1, "x", int64(1), 3)), row(add, n)}, "", nil, true},
		{"no record", []*writeset.Writeset{row(upd, []byte("x")), row(add, n)}, "", nil, true},
		{"other columns", []*writeset.Writeset{row(upd, counter(1, 2)), row(add, n)}, "", nil, true},
	} {
		ops, err := Plan(c.ws, func(writeset.Table) *Table { return &counters }, InPlace)
		switch {
		case (err != nil) != c.fails:
			t.Errorf("%s: %v", c.name, err)
		case err != nil:
		case len(ops) != 1 || ops[0].SQL != c.sql || ops[0].Rows != 1 ||
			!bytes.Equal(ops[0].Args[0], writeset.AppendArray(nil, writeset.FormatBinary, [][]byte{c.image})):
			t.Errorf("%s: %+v", c.name, ops)
		}
	}
	if _, err := Plan([]*writeset.Writeset{row(add, n), row(add, n)}, func(writeset.Table) *Table { return nil },
		InPlace); err == nil {
		t.Error("an unknown table was added to")
	}
}

// TestAdditionsInAnyPortions: whatever batches additions come in, the row ends as if they had come one by one.
func TestAdditionsInAnyPortions(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		whole := counter(1, r.IntN(1000), "x", r.Int64N(1000), 3)
		one, all := whole, []byte(nil)
		for range 1 + r.IntN(20) {
			more := counter(1, r.IntN(200)-100, nil, r.Int64N(200)-100, nil)
			var err error
			if one, err = writeset.Sum(one, more, []int{0}); err != nil {
				t.Fatal(err)
			}
			if all == nil {
				all = more
			} else if all, err = writeset.Sum(all, more, []int{0}); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := writeset.Sum(whole, all, []int{0}); err != nil || !bytes.Equal(got, one) {
			t.Fatalf("%x, want %x: %v", got, one, err)
		}
	}
}
