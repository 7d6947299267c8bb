package node

import (
	"testing"

	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/writeset"
)

// TestPresent: what is remembered of rows, what is forgotten, and that it is bounded.
func TestPresent(t *testing.T) {
	p := &present{}
	row := func(op writeset.Op, identity uint64) writeset.Row {
		return writeset.Row{Op: op, Identity: identity, Image: []byte{1}}
	}
	of := func(rows ...writeset.Row) []engine.Task {
		return []engine.Task{{Writeset: &writeset.Writeset{Tables: []writeset.Table{{Name: "t", Key: 5}}, Rows: rows}}}
	}
	is := func(identity uint64, want bool, what string) {
		t.Helper()
		if there, shy := p.has(5, identity); (there && !shy) != want {
			t.Errorf("%s: %v", what, !want)
		}
	}
	is(7, false, "nothing is known")
	p.applied(of(row(writeset.OpInsert, 7), row(writeset.OpUpdate, 8), row(writeset.OpAdd, 9), row(writeset.OpSet, 10), row(writeset.OpInsert, 0), row(writeset.OpTruncate, 0)), nil)
	for n := range uint64(4) {
		is(7+n, true, "a row that was written")
	}
	is(0, false, "a row without a key")
	p.applied(of(row(writeset.OpDelete, 7), row(writeset.OpDrop, 8)), nil)
	is(7, false, "a deleted row")
	is(8, false, "a row that was deleted blindly")
	missed := of(row(writeset.OpSet, 9), row(writeset.OpSet, 10))
	p.applied(missed, map[*writeset.Row]bool{&missed[0].Writeset.Rows[0]: true})
	is(9, false, "a row that was missed")
	is(10, true, "another row")
	p.applied(of(row(writeset.OpUpdate, 9)), nil)
	is(9, false, "a row that was missed, and is there")
	p.applied(of(row(writeset.OpInsert, 9)), nil)
	is(9, true, "a row that was missed, and made")
	for n := range uint64(2 * presentMax) {
		p.add(5, n<<20|1<<60)
	}
	known := 0
	for n := range uint64(2 * presentMax) {
		if there, _ := p.has(5, n<<20|1<<60); there {
			known++
		}
	}
	if known < presentMax/2 || known > presentMax {
		t.Errorf("%d rows are known of %d", known, 2*presentMax)
	}
	off := &present{off: true}
	off.applied(of(row(writeset.OpInsert, 7)), nil)
	if there, _ := off.has(5, 7); there || off.rows.Load() != nil {
		t.Error("something is remembered although that is switched off")
	}
}

// TestForgotten: what is known of rows goes with their table, and nothing else does.
func TestForgotten(t *testing.T) {
	l := &life{}
	l.additions.max = 1
	tables := []writeset.Table{{Name: "a", Key: 5}, {Name: "b", Key: 6}}
	rows := func(rows ...writeset.Row) *writeset.Writeset { return &writeset.Writeset{Tables: tables, Rows: rows} }
	add := func(table uint32, identity uint64) writeset.Row {
		return writeset.Row{Table: table, Op: writeset.OpInsert, Identity: identity, Image: []byte{1}}
	}
	steps := func(barrier bool, keys ...uint64) *writeset.Writeset {
		w := &writeset.Writeset{Tables: tables, Steps: []writeset.Step{{Definition: []byte("x")}}, Barrier: barrier}
		for _, k := range keys {
			w.Keys = append(w.Keys, writeset.Key{Hash: k, Mode: writeset.Exclusive, Table: uint32(k - 5)})
		}
		return w
	}
	for _, c := range []struct {
		name string
		w    *writeset.Writeset
		a, b bool // rows of these tables are still known
	}{
		{"rows", rows(add(0, 30)), true, true},
		{"TRUNCATE", rows(writeset.Row{Table: 0, Op: writeset.OpTruncate}), false, true},
		{"TRUNCATE of both", rows(writeset.Row{Table: 0, Op: writeset.OpTruncate}, writeset.Row{Table: 1, Op: writeset.OpTruncate}), false, false},
		{"LOCK TABLE", rows(writeset.Row{Table: 0, Op: writeset.OpLock, Image: []byte{1}}), true, true},
		{"a definition of one table", steps(false, 6), true, false},
		{"a definition of no table that is there", steps(false), true, true},
		{"a barrier", steps(true), false, false},
		{"a deletion beside a definition", &writeset.Writeset{Tables: tables, Steps: []writeset.Step{{Rows: rows(writeset.Row{Table: 0, Op: writeset.OpDelete, Identity: 10})}}}, false, true},
	} {
		for range 3 {
			l.present.saw(rows(add(0, 10), add(1, 20)))
			if _, there := l.present.has(5, 10); there {
				t.Errorf("%s: its rows are shy", c.name)
			}
			l.forget(c.w)
			l.present.saw(c.w)
			a, _ := l.present.has(5, 10)
			b, _ := l.present.has(6, 20)
			if a != c.a || b != c.b {
				t.Errorf("%s: a row of one table is known: %v, want %v; of the other: %v, want %v", c.name, a, c.a, b, c.b)
			}
		}
	}
	for n := range uint64(3 * agesMax) {
		l.present.ages.renew(100 + n)
	}
	if now := l.present.ages.now.Load(); len(now.of) > agesMax {
		t.Errorf("%d tables have ages", len(now.of))
	}
	if a, _ := l.present.has(5, 10); a {
		t.Error("a row is known although ages were forgotten")
	}
}
