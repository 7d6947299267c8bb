package capture

import (
	"fmt"
	"testing"

	"github.com/tuttidb/tutti/internal/writeset"
)

// TestStraight: rows that many at a time have captured stay together if none of them can come twice: behind a TRUNCATE,
// and from several statements if they are inserted into a table without key. Else each is looked at.
func TestStraight(t *testing.T) {
	const insert, remove = opBulk + writeset.OpInsert, opBulk + writeset.OpDelete
	for _, x := range []struct {
		name   string
		rows   []captured
		folded int // captured rows that stay together
		want   string
	}{
		{"one run", []captured{many(insert, 1, 7, 8)}, 1, "[1 1]"},
		{"two runs", []captured{many(insert, 1, 7, 8), many(insert, 2, 9)}, 0, "[1 1 1]"},
		{"truncated", []captured{keyRow(writeset.OpTruncate, 0, "", 0), many(insert, 1, 7, 8)}, 1, "[5 1 1]"},
		{"truncated behind", []captured{many(insert, 1, 7), keyRow(writeset.OpTruncate, 0, "", 0)}, 0, "[5]"},
		{"truncated behind a row", []captured{keyRow(writeset.OpUpdate, 7, "w", 1),
			keyRow(writeset.OpTruncate, 0, "", 0), many(insert, 1, 7, 8)}, 1, "[5 1 1]"},
		{"a row besides", []captured{keyRow(writeset.OpInsert, 7, "w", 1), many(insert, 1, 8)}, 0, "[1 1]"},
		{"the same row", []captured{many(insert, 1, 7), many(remove, 2<<runBits, 7)}, 0, "[]"},
		{"without key", []captured{many(insert, 1, 0, 0), many(insert, 2, 0)}, 2, "[1 1 1]"},
		{"without key, a row goes", []captured{many(insert, 1, 0, 0), keyRow(writeset.OpDelete, 0, "w", 1)}, 0, "[1]"},
	} {
		var c Collector
		for _, r := range x.rows {
			if err := c.add(r, nil); err != nil {
				t.Fatal(err)
			}
		}
		if queries, err := c.Rereads(); err != nil || len(queries) != 0 {
			t.Fatalf("%s: %d queries, %v", x.name, len(queries), err)
		}
		folded := len(c.pieces)
		w, err := c.Writeset()
		if err != nil {
			t.Fatal(err)
		}
		ops := []writeset.Op{}
		for _, r := range w.Rows {
			ops = append(ops, r.Op)
		}
		if got := fmt.Sprint(ops); got != x.want || folded != x.folded {
			t.Errorf("%s: %s, of %d captured rows that stayed together; want %s, %d", x.name, got, folded, x.want,
				x.folded)
		}
	}
}

// many is a captured row for rows with these identities, all with the same values.
func many(op writeset.Op, run uint64, identities ...uint64) captured {
	r := keyRow(op, run, "", 0)
	r.many, r.image = identities, nil
	for range identities {
		r.image = writeset.AppendRecord(r.image, []writeset.Field{{OID: 17, Value: keyImageOf("w", 1)}})
	}
	return r
}
