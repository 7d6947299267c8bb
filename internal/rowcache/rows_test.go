package rowcache

import (
	"testing"

	"github.com/tuttidb/tutti/internal/writeset"
)

func row(op writeset.Op, identity uint64) writeset.Row {
	return writeset.Row{Op: op, Identity: identity, Image: []byte{1}}
}

func of(rows ...writeset.Row) *writeset.Writeset {
	return &writeset.Writeset{Tables: []writeset.Table{{Name: "t", Key: 5}}, Rows: rows}
}

// TestRows: what is remembered of rows, what is forgotten (K1), what is left alone (K6), and that it is bounded (K2).
func TestRows(t *testing.T) {
	const most = 1 << 10
	p := NewRows(Options{Rows: most, RestMax: 64, RestFor: 100})
	is := func(now int64, identity uint64, want bool, what string) {
		t.Helper()
		if there, resting := p.There(5, identity, now); (there && !resting) != want {
			t.Errorf("%s: %v", what, !want)
		}
	}
	is(0, 7, false, "nothing is known")
	p.Saw(of(row(writeset.OpInsert, 7), row(writeset.OpUpdate, 8), row(writeset.OpAdd, 9), row(writeset.OpSet, 10),
		row(writeset.OpInsert, 0), row(writeset.OpTruncate, 0)))
	for n := range uint64(4) {
		is(0, 7+n, true, "a row that was written")
	}
	is(0, 0, false, "a row without a key")
	p.Saw(of(row(writeset.OpDelete, 7), row(writeset.OpDrop, 8)))
	is(0, 7, false, "a deleted row")
	is(0, 8, false, "a row that was deleted blindly")
	p.Saw(of(row(writeset.OpSet, 9), row(writeset.OpSet, 10)))
	p.Missed(5, 9, 1000)
	is(1000, 9, false, "a row that was missed")
	is(1000, 10, true, "another row")
	p.Saw(of(row(writeset.OpUpdate, 9)))
	is(1099, 9, false, "a row that was missed, and is there")
	is(1100, 9, true, "a row that was missed, a while ago")
	p.Rest(2000, 9)
	is(2000, 9, false, "a row that is left alone")
	p.Saw(of(row(writeset.OpInsert, 9)))
	is(2000, 9, true, "a row that was left alone, and made")
	for n := range uint64(2 * most) {
		p.add(5, n<<20|1<<60)
	}
	known := 0
	for n := range uint64(2 * most) {
		if there, _ := p.There(5, n<<20|1<<60, 0); there {
			known++
		}
	}
	if known < most/2 || known > most {
		t.Errorf("%d rows are known of %d", known, 2*most)
	}
}

// TestForget: what is known of rows goes with their table, and nothing else does.
func TestForget(t *testing.T) {
	tables := []writeset.Table{{Name: "a", Key: 5}, {Name: "b", Key: 6}}
	rows := func(rows ...writeset.Row) *writeset.Writeset { return &writeset.Writeset{Tables: tables, Rows: rows} }
	in := func(table uint32, op writeset.Op, identity uint64) writeset.Row {
		return writeset.Row{Table: table, Op: op, Identity: identity, Image: []byte{1}}
	}
	steps := func(barrier bool, keys ...uint64) *writeset.Writeset {
		w := &writeset.Writeset{Tables: tables, Steps: []writeset.Step{{Definition: []byte("x")}}, Barrier: barrier}
		for _, k := range keys {
			w.Keys = append(w.Keys, writeset.Key{Hash: k, Mode: writeset.Exclusive, Table: uint32(k - 5)})
		}
		return w
	}
	beside := &writeset.Writeset{Tables: tables, Steps: []writeset.Step{{Rows: rows(in(0, writeset.OpDelete, 10))}}}
	p := NewRows(Options{Rows: 1 << 10})
	for _, c := range []struct {
		name string
		w    *writeset.Writeset
		a, b bool // rows of these tables are still known
	}{
		{"rows", rows(in(0, writeset.OpInsert, 30)), true, true},
		{"TRUNCATE", rows(in(0, writeset.OpTruncate, 0)), false, true},
		{"TRUNCATE of both", rows(in(0, writeset.OpTruncate, 0), in(1, writeset.OpTruncate, 0)), false, false},
		{"LOCK TABLE", rows(in(0, writeset.OpLock, 0)), true, true},
		{"a definition of one table", steps(false, 6), true, false},
		{"a definition of no table that is there", steps(false), true, true},
		{"a barrier", steps(true), false, false},
		{"a deletion beside a definition", beside, false, true},
	} {
		for range 3 {
			p.Saw(rows(in(0, writeset.OpInsert, 10), in(1, writeset.OpInsert, 20)))
			p.Forget(c.w)
			p.Saw(c.w)
			a, _ := p.There(5, 10, 0)
			b, _ := p.There(6, 20, 0)
			if a != c.a || b != c.b {
				t.Errorf("%s: a row of a table is known: %v, of the other: %v; want %v and %v", c.name, a, b, c.a, c.b)
			}
		}
	}
	for n := range uint64(3 * agesMax) {
		p.ages.renew(100 + n)
	}
	if len(p.ages.tables) > agesMax {
		t.Errorf("%d tables have ages", len(p.ages.tables))
	}
	if a, _ := p.There(5, 10, 0); a {
		t.Error("a row is known although ages were forgotten")
	}
}

// TestBackoff: what was in vain is left alone for its time, until its reason is gone, or something else takes its
// place.
func TestBackoff(t *testing.T) {
	b := NewBackoff(4)
	b.Begin(1, 10)
	b.Begin(2, 20)
	for _, c := range []struct {
		key uint64
		now int64
		on  bool
	}{{1, 9, true}, {1, 10, false}, {2, 19, true}, {5, 0, false}, {3, 0, false}} {
		if got := b.On(c.key, c.now); got != c.on {
			t.Errorf("%d at %d is left alone: %v", c.key, c.now, got)
		}
	}
	b.End(6) // has the place of 2
	if b.End(1); b.On(1, 0) || !b.On(2, 0) {
		t.Error("the end of one is not the end of the others")
	}
	if b.Begin(6, 20); b.On(2, 0) || !b.On(6, 0) {
		t.Error("the later one of two that share a place is remembered")
	}
}
