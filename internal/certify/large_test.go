package certify

import (
	"testing"

	"github.com/tuttidb/tutti/internal/writeset"
)

// rows is a writeset of n rows of one table, as capture would make it.
func rows(table uint64, op writeset.Op, first uint64, n int) *writeset.Writeset {
	w := &writeset.Writeset{Tables: []writeset.Table{{Schema: "s", Name: "t", Key: table}}}
	for i := range n {
		w.Rows = append(w.Rows, writeset.Row{Op: op, Identity: first + uint64(i), Image: []byte{1}})
	}
	w.AddTableKeys()
	return w
}

// TestLarge: a writeset of more rows than are remembered makes nobody lose who has not written to its table, and
// everybody who has not seen it and has.
func TestLarge(t *testing.T) {
	const n = coarseMin + 1
	for _, op := range []writeset.Op{writeset.OpInsert, writeset.OpUpdate, writeset.OpDelete} {
		z := New(Options{KeysMax: 1 << 17})
		tx := func(ordinal, base uint64, w *writeset.Writeset) Verdict {
			return z.Certify(ordinal, Transaction{ID: writeset.TxID{Member: 1, Incarnation: 1, Seq: ordinal},
				Base: base, SharedBase: base, Writeset: w})
		}
		if v := tx(1, 0, rows(7, writeset.OpUpdate, 1<<40, 1)); !v.Commit() {
			t.Fatalf("%d: %v", op, v)
		}
		if v := tx(2, 1, rows(8, op, 1, n)); !v.Commit() {
			t.Fatalf("%d: the large one: %v", op, v)
		}
		if v := tx(3, 2, rows(9, op, 1<<50, 1<<16)); !v.Commit() { // fills what is remembered
			t.Fatalf("%d: %v", op, v)
		}
		if v := tx(4, 1, rows(8, writeset.OpUpdate, 5, 1)); v.Commit() {
			t.Errorf("%d: a row of the large one, unseen: committed", op)
		}
		if op == writeset.OpDelete { // its rows are held one by one, so others may be driven out
			continue
		}
		if v := tx(5, 0, rows(10, writeset.OpUpdate, 2<<40, 1)); !v.Commit() {
			t.Errorf("%d: another table: %v", op, v)
		}
		if v := tx(6, 1, rows(7, writeset.OpUpdate, 1<<40, 1)); !v.Commit() {
			t.Errorf("%d: a row of another table that was seen: %v", op, v)
		}
		if v := tx(7, 2, rows(8, writeset.OpUpdate, 5, 1)); !v.Commit() {
			t.Errorf("%d: a row of the large one that was seen: %v", op, v)
		}
	}
}

// TestLargeReferences: rows that went are held by their own keys, against who references them.
func TestLargeReferences(t *testing.T) {
	z := New(Options{KeysMax: 1 << 17})
	if v := z.Certify(1, Transaction{Writeset: rows(8, writeset.OpDelete, 1, coarseMin+1)}); !v.Commit() {
		t.Fatal(v)
	}
	child := rows(9, writeset.OpInsert, 1<<40, 1)
	child.Keys = append(child.Keys, writeset.Key{Hash: 5, Mode: writeset.Shared})
	if v := z.Certify(2, Transaction{Writeset: child}); v.Commit() {
		t.Error("a row that references one that went, unseen: committed")
	}
}
