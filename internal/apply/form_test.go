package apply

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tuttidb/tutti/internal/writeset"
)

// An image in the model: the key, a unique value or ' ' for NULL, a value that only an insert can set
// where there is such a column, and what else there is.
const (
	imageKey    = 0
	imageUnique = 1
	imageAlways = 2
)

// place is where a row is: a statement that waits for it goes on with what is there then.
type place struct {
	image string
	at    int
}

// state is a table's rows by key.
type state struct {
	rows   map[uint64]place
	places int
	always bool
}

func (s *state) clone() state { return state{maps.Clone(s.rows), s.places, s.always} }

// put makes image a row, as PostgreSQL would; false is a unique violation.
func (s *state) put(image string, at int) bool {
	for id, p := range s.rows {
		if id == uint64(image[imageKey]) || p.image[imageUnique] == image[imageUnique] && image[imageUnique] != ' ' {
			return false
		}
	}
	s.rows[uint64(image[imageKey])] = place{image, at}
	return true
}

func (s *state) insert(image string) bool {
	s.places++
	return s.put(image, s.places)
}

// update makes image of the row with a key, and reports how many rows that were.
func (s *state) update(key byte, image string) (rows int, ok bool) {
	was, there := s.rows[uint64(key)]
	if !there || s.always && was.image[imageAlways] != image[imageAlways] {
		return 0, true
	}
	delete(s.rows, uint64(key))
	return 1, s.put(image, was.at)
}

// operate executes an operation as PostgreSQL would.
func (s *state) operate(o *Operation, table *Table) (rows int, ok bool) {
	ok = true
	for i, m := range images(o.Args[0]) {
		n := 1
		switch o.SQL {
		case table.made.delete:
			if _, there := s.rows[uint64(m[imageKey])]; !there {
				n = 0
			}
			delete(s.rows, uint64(m[imageKey]))
		case table.made.lockRows, table.made.shareRows:
			if _, there := s.rows[uint64(m[imageKey])]; !there {
				n = 0
			}
		case table.made.update:
			n, ok = s.update(m[imageKey], m)
		case table.made.move:
			n, ok = s.update(m[imageKey], images(o.Args[1])[i])
		case table.made.insert:
			ok = s.insert(m)
		}
		if rows += n; !ok {
			return rows, false
		}
	}
	return rows, true
}

// execute does what a member does with a batch, and reports whether it locked the table.
func (s *state) execute(t *rapid.T, ws []*writeset.Writeset, table *Table) (locked bool) {
	for form := InPlace; ; form = form.Next(len(ws)) {
		ops, err := Plan(ws, func(writeset.Table) *Table { return table }, form)
		if err != nil {
			t.Fatal(err)
		}
		now := s.clone()
		fits := true
		for i := range ops {
			o := &ops[i]
			switch {
			case strings.HasPrefix(o.SQL, "LOCK TABLE"):
				locked = true
				continue
			case len(o.Args) == 0:
				clear(now.rows)
				continue
			}
			if n, ok := now.operate(o, table); !ok || o.Check(int64(n)) != nil {
				if fits = false; !o.Loose {
					t.Fatalf("form %d: %s failed after %d rows", form, o.SQL, n)
				}
				break
			}
		}
		if fits {
			*s = now
			return locked
		}
		if form == Apart {
			t.Fatal("there is no other form")
		}
	}
}

// transaction makes random changes to s and returns what capture would make of them.
func (s *state) transaction(t *rapid.T, version int) *writeset.Writeset {
	w, before := one(), s.clone()
	if rapid.IntRange(0, 14).Draw(t, "truncate") == 0 {
		w.Rows = append(w.Rows, writeset.Row{Op: trunc})
		clear(s.rows)
		before = s.clone()
	}
	var touched []uint64
	replaced := map[uint64]bool{}
	touch := func(id uint64, replace bool) {
		if !slices.Contains(touched, id) {
			touched = append(touched, id)
		}
		replaced[id] = replaced[id] || replace
	}
	for range rapid.IntRange(1, 6).Draw(t, "statements") {
		id := uint64(rapid.IntRange('1', '5').Draw(t, "row"))
		p, there := s.rows[id]
		image := []byte(fmt.Sprintf("%c%s%c%d", rune(id),
			rapid.SampledFrom([]string{" ", "a", "b", "c"}).Draw(t, "unique"),
			rapid.SampledFrom([]rune("xy")).Draw(t, "always"), version))
		now := s.clone()
		ok := true
		switch what := rapid.SampledFrom([]string{"update", "update", "unique", "unique", "key", "key", "always",
			"delete"}).Draw(t, "what"); {
		case !there:
			if ok = now.insert(string(image)); ok {
				touch(id, true)
			}
		case what == "delete":
			delete(now.rows, id)
			touch(id, true)
		default:
			if what == "key" {
				image[imageKey] = byte(rapid.IntRange('1', '5').Draw(t, "new key"))
			}
			if what == "update" {
				image[imageUnique] = p.image[imageUnique]
			}
			if what != "always" {
				image[imageAlways] = p.image[imageAlways]
			}
			delete(now.rows, id)
			if ok = now.put(string(image), p.at); ok {
				touch(id, what != "update")
				touch(uint64(image[imageKey]), what != "update")
			}
		}
		if ok {
			s.rows, s.places = now.rows, now.places
		}
	}
	for _, id := range touched {
		was, existed := before.rows[id]
		is, exists := s.rows[id]
		switch {
		case existed && exists && replaced[id]:
			w.Rows = append(w.Rows, row(repl, id, is.image))
		case existed && exists:
			w.Rows = append(w.Rows, row(upd, id, is.image))
		case exists:
			w.Rows = append(w.Rows, row(ins, id, is.image))
		case existed:
			w.Rows = append(w.Rows, row(del, id, was.image))
		}
	}
	for id := uint64('1'); id <= '5'; id++ {
		if p, there := s.rows[id]; there && !slices.Contains(touched, id) && rapid.IntRange(0, 4).Draw(t, "lock") == 0 {
			w.Rows = append(w.Rows, row(rapid.SampledFrom([]writeset.Op{writeset.OpLock, writeset.OpShare}).Draw(t,
				"strength"), id, p.image))
		}
	}
	return w
}

// A1 and A3: however writesets are batched, and whatever values rows pass on to each other, the result is
// the same, and rows stay where they are or the table is locked.
func TestPlanKeepsTheMeaning(t *testing.T) {
	local := valid(Table{Schema: "s", Name: local.Name, Columns: []Column{{Name: "id"}, {Name: "u"}, {Name: "a"}},
		Key: local.Key})
	always := valid(Table{Schema: "s", Name: local.Name,
		Columns: []Column{{Name: "id"}, {Name: "u"}, {Name: "a", Always: true}}, Key: local.Key})
	rapid.Check(t, func(t *rapid.T) {
		table := rapid.SampledFrom([]*Table{&local, &always}).Draw(t, "table")
		want := state{rows: map[uint64]place{}, always: table == &always}
		got := want.clone()
		var ws []*writeset.Writeset
		for i := range rapid.IntRange(1, 20).Draw(t, "writesets") {
			ws = append(ws, want.transaction(t, i))
		}
		for _, batch := range Batches(ws, rapid.IntRange(1, 40).Draw(t, "rows"), 1<<20) {
			before := got.clone()
			locked := got.execute(t, batch, table)
			gone := map[uint64]bool{}
			for _, w := range batch {
				for _, r := range w.Rows {
					gone[r.Identity] = gone[r.Identity] || r.Op == del || r.Op == trunc // of no identity
				}
				if rows := w.Rows; len(batch) == 1 && len(rows) == 2 && rows[0].Op == del && rows[1].Op == ins &&
					table == &local {
					before.rows[rows[1].Identity] = before.rows[rows[0].Identity] // a changed key
				}
			}
			for id, p := range got.rows {
				if was, ok := before.rows[id]; ok && was.at != p.at && !locked && !gone[id] && !gone[0] {
					t.Fatalf("row %c was deleted and inserted, and the table not locked", rune(id))
				}
			}
		}
		for id, p := range want.rows {
			if got.rows[id].image != p.image {
				t.Fatalf("row %c is %q, want %q", rune(id), got.rows[id].image, p.image)
			}
		}
		if len(got.rows) != len(want.rows) {
			t.Fatalf("there are %d rows, want %d", len(got.rows), len(want.rows))
		}
	})
}

// statement makes a change of one row to s, and returns what capture would make of it.
func (s *state) statement(t *rapid.T, version int) *writeset.Writeset {
	w := one()
	id := uint64(rapid.IntRange('1', '6').Draw(t, "row"))
	p, there := s.rows[id]
	image := fmt.Sprintf("%c  %d", rune(id), version)
	switch what := rapid.SampledFrom([]string{"update", "key", "key", "key", "delete"}).Draw(t, "what"); {
	case !there:
		s.insert(image)
		w.Rows = append(w.Rows, row(ins, id, image))
	case what == "delete":
		delete(s.rows, id)
		w.Rows = append(w.Rows, row(del, id, p.image))
	case what == "update":
		s.update(byte(id), image)
		w.Rows = append(w.Rows, row(upd, id, image))
	default:
		to := uint64(rapid.IntRange('1', '6').Draw(t, "new key"))
		if _, taken := s.rows[to]; taken {
			return w
		}
		image = fmt.Sprintf("%c  %d", rune(to), version)
		s.update(byte(id), image)
		w.Rows = append(w.Rows, row(del, id, p.image), row(ins, to, image))
	}
	return w
}

// A7: whatever keys the rows of a batch have had, who waits for one of them goes on with that row, and the table
// is not locked for that.
func TestRowsKeepTheirPlaces(t *testing.T) {
	table := valid(Table{Schema: "s", Name: local.Name, Columns: []Column{{Name: "id"}, {Name: "u"}, {Name: "a"}},
		Key: local.Key})
	moved := false
	rapid.Check(t, func(t *rapid.T) {
		want := state{rows: map[uint64]place{}}
		for id := '1'; id <= '4'; id++ {
			want.insert(string(id) + "  0")
		}
		got, last := want.clone(), want.places
		var ws []*writeset.Writeset
		for i := range rapid.IntRange(1, 8).Draw(t, "writesets") {
			ws = append(ws, want.statement(t, i+1))
		}
		if got.execute(t, ws, &table) {
			t.Fatal("the table is locked")
		}
		for id, p := range want.rows {
			if is := got.rows[id]; is.image != p.image {
				t.Fatalf("row %c is %q, want %q", rune(id), is.image, p.image)
			} else if p.at <= last && is.at != p.at {
				t.Fatalf("row %c is where another one was: whoever waits for it goes on with that", rune(id))
			} else {
				moved = moved || p.at <= last && id != uint64('0'+p.at)
			}
		}
	})
	if !moved {
		t.Error("no row has got another key")
	}
}

// TestFitting: what is too much for one message goes in several, and what belongs together stays so.
func TestFitting(t *testing.T) {
	mib := make([]byte, 100<<20)
	for _, x := range []struct {
		images, others [][]byte
		each, want     int
	}{
		{[][]byte{mib, mib}, nil, 1, 2},
		{[][]byte{mib, mib, mib}, nil, 1, 2},
		{[][]byte{mib, mib, mib, mib}, nil, 2, 2},
		{[][]byte{mib, mib}, [][]byte{mib, mib}, 1, 1},
		{[][]byte{make([]byte, argumentMax+1), mib}, nil, 1, 1},
	} {
		if n := fitting(x.images, x.others, x.each); n != x.want {
			t.Errorf("of %d images, %d together, %d fit, want %d", len(x.images), x.each, n, x.want)
		}
	}
}
