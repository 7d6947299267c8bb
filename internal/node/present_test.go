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
		return []engine.Task{{Writeset: &writeset.Writeset{Rows: rows}}}
	}
	is := func(identity uint64, want bool, what string) {
		t.Helper()
		if there, shy := p.has(identity); (there && !shy) != want {
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
		p.add(n<<20 | 1<<60)
	}
	known := 0
	for n := range uint64(2 * presentMax) {
		if there, _ := p.has(n<<20 | 1<<60); there {
			known++
		}
	}
	if known < presentMax/2 || known > presentMax {
		t.Errorf("%d rows are known of %d", known, 2*presentMax)
	}
	off := &present{off: true}
	off.applied(of(row(writeset.OpInsert, 7)), nil)
	if there, _ := off.has(7); there || off.rows.Load() != nil {
		t.Error("something is remembered although that is switched off")
	}
}
