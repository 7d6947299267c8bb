package apply

import (
	"fmt"
	"slices"

	"github.com/tuttidb/tutti/internal/writeset"
)

// Form is how rows are applied that are still there although a key of theirs has changed.
type Form int

const (
	// InPlace: they are updated, so that a READ COMMITTED statement that waits for one goes on with
	// its new version. This may fail although the end is right (Operation.Loose): where rows pass
	// unique values on to each other, where a column has changed that only an insert can set, or where a publication
	// has updates, and the table no replica identity.
	InPlace Form = iota
	// InTurn: the same for one writeset after the other, which is enough if each is fine by itself.
	InTurn
	// Apart: they are deleted and inserted, and the table is locked first. Statements wait for the
	// table then, before they take their snapshot, and not for rows that are about to go.
	Apart
)

// Next is the form to plan n writesets in when this one did not fit; there is none after Apart, which
// has no Loose operations.
func (f Form) Next(n int) Form {
	if f == InPlace && n > 1 {
		return InTurn
	}
	return Apart
}

// half is a deletion or an insertion whose other half may follow.
type half struct {
	row int // of batch.rows
	op  writeset.Op
}

// moves notes, of a row that a writeset deletes or inserts, whether it may be one half of a changed key:
// the two follow each other. If they are two rows in truth, a statement that waited for the first
// goes on with the second, as if it had run later.
func (b *batch) moves(i int, op writeset.Op) {
	switch {
	case op != writeset.OpDelete && op != writeset.OpInsert:
	case b.half.op == writeset.OpDelete && op == writeset.OpInsert:
		b.follow(b.half.row, i)
	case b.half.op == writeset.OpInsert && op == writeset.OpDelete:
		b.follow(i, b.half.row)
	default:
		b.half = half{row: i, op: op}
	}
}

// follow notes that the row of one key has another one now. It may have had others before, since the batch began.
func (b *batch) follow(gone, come int) {
	switch from := b.rows[gone].from; {
	case from != 0:
		b.rows[come].from = from
	case b.rows[gone].op == writeset.OpDelete:
		b.rows[come].from = gone + 1
	}
	b.half = half{}
}

// work is what is to be done to a table, as images.
type work struct {
	wholes   [][]byte // to delete, known by their images
	pairs    [][]byte // to update, known by their images: what it is, and what it becomes
	locks    [][]byte
	shares   [][]byte
	deletes  [][]byte
	updates  [][]byte
	adds     [][]byte // what is added to rows
	from, to [][]byte // to give another key
	inserts  [][]byte
	replaced bool // updates change unique values
	lock     bool
}

// crosses reports whether a row has another key now that another one had, or its old key is another one's: what becomes
// of it in one step is not that row.
func crosses(rows []pending, i int) bool {
	p := rows[i]
	return p.from != 0 && (p.op == writeset.OpInsert && rows[p.from-1].op != writeset.OpDelete ||
		p.op == writeset.OpReplace && p.from-1 != i)
}

// crossed reports whether a row does, so that its changes are to be carried out one by one.
func (b *batch) crossed() bool {
	for _, rows := range append(b.earlier[:len(b.earlier):len(b.earlier)], b.rows) {
		for i := range rows {
			if crosses(rows, i) {
				return true
			}
		}
	}
	return false
}

// moved gives rows other keys: the one that was deleted is the one that is inserted. Whoever waits for one that crosses
// others would not find it, and so waits for the table. It gives the places of the rows with which no more is to be
// done.
func (w *work) moved(rows []pending) (done map[int]bool) {
	for i, p := range rows {
		switch {
		case crosses(rows, i):
			w.lock = true
		case p.from != 0 && p.op == writeset.OpInsert:
			if done == nil {
				done = map[int]bool{}
			}
			done[p.from-1], done[i] = true, true
			w.from, w.to = append(w.from, rows[p.from-1].image), append(w.to, p.image)
		}
	}
	return done
}

// sort tells what is to be done with rows of a table t.
func sort(rows []pending, t *Table, form Form) (w work) {
	done := w.moved(rows)
	for i, p := range rows {
		if done[i] {
			continue
		}
		switch p.op {
		case writeset.OpLock:
			w.locks = append(w.locks, p.image)
		case writeset.OpShare:
			w.shares = append(w.shares, p.image)
		case writeset.OpDelete:
			w.remove(p)
		case writeset.OpInsert:
			w.inserts = append(w.inserts, p.image)
		case writeset.OpUpdate:
			w.update(p, t, form)
		case writeset.OpAdd:
			w.adds = append(w.adds, p.image)
		case writeset.OpReplace:
			w.replace(p, form)
		}
	}
	if form == Apart || t.made.move == "" { // a column of the key can only be set by an insert, or there are too many
		w.lock = w.lock || len(w.from) > 0
		w.deletes, w.inserts = append(w.deletes, w.from...), append(w.inserts, w.to...)
		w.from, w.to = nil, nil
	}
	return w
}

func (w *work) remove(p pending) {
	if p.was != nil {
		w.wholes = append(w.wholes, p.was)
	} else {
		w.deletes = append(w.deletes, p.image)
	}
}

func (w *work) update(p pending, t *Table, form Form) {
	switch {
	case p.was == nil:
		w.updates = append(w.updates, p.image)
	case form != Apart && t.made.updateWhole != "":
		w.pairs = append(w.pairs, p.was, p.image)
	default:
		w.wholes, w.inserts, w.lock = append(w.wholes, p.was), append(w.inserts, p.image), true
	}
}

func (w *work) replace(p pending, form Form) {
	if form != Apart {
		w.updates, w.replaced = append(w.updates, p.image), true
	} else {
		w.deletes, w.inserts, w.lock = append(w.deletes, p.image), append(w.inserts, p.image), true
	}
}

// siblings reports whether two tables are partitions of one: a row that goes from one to the other is the same row. Who
// waits for it in the one would find it gone, and PostgreSQL tells him so where it was moved; here he waits for the
// table.
func siblings(a, b *Table) bool {
	return a != b && a != nil && b != nil && a.Root != 0 && a.Root == b.Root
}

// known returns an error if there is no such table here, or nobody knows how to write to it.
func (b *batch) known() error {
	switch {
	case b.local == nil:
		return fmt.Errorf("apply: table %s does not exist in the local database", b.table)
	case b.local.made == nil:
		return fmt.Errorf("apply: the description of table %s was never validated", b.table)
	}
	return nil
}

// lock locks the table.
func (b *batch) lock(m writeset.TableMode) Operation {
	return Operation{Table: b.table.String(), SQL: "LOCK TABLE ONLY " + b.local.qualified() + " IN " + tableModes[m] +
		" MODE", Rows: AnyRows}
}

var tableModes = map[writeset.TableMode]string{
	writeset.ShareUpdateExclusive: "SHARE UPDATE EXCLUSIVE", writeset.ShareTable: "SHARE",
	writeset.ShareRowExclusive: "SHARE ROW EXCLUSIVE", writeset.ExclusiveTable: "EXCLUSIVE",
}

// argumentMax is how many bytes of images the arguments of one operation have: PostgreSQL takes no message of a GiB.
const argumentMax = 256 << 20

// fitting is how many of the images, and of the others that go with them, fit one operation; a multiple of each.
func fitting(images, others [][]byte, each int) int {
	size := 0
	for i := range images {
		size += len(images[i])
		if i < len(others) {
			size += len(others[i])
		}
		if size > argumentMax && i >= each {
			return i / each * each
		}
	}
	return len(images)
}

func (b *batch) operations(rows []pending, form Form) ([]Operation, error) {
	if !slices.ContainsFunc(rows, func(p pending) bool { return p.op != 0 }) {
		return nil, nil
	}
	if err := b.known(); err != nil {
		return nil, err
	}
	t := b.local
	w := sort(rows, t, form)
	if len(t.Key) == 0 && len(w.deletes)+len(w.updates)+len(w.adds)+len(w.locks)+len(w.shares) > 0 {
		return nil, fmt.Errorf("apply: table %s has no primary key or other key in the local database", b.table)
	}
	if len(t.Key) > 0 && len(w.wholes)+len(w.pairs) > 0 {
		return nil, fmt.Errorf("apply: table %s has a key only in the local database", b.table)
	}
	var out []Operation
	if w.lock || b.departs { // as if it was Apart
		out = append(out, b.lock(writeset.ExclusiveTable))
	}
	for _, o := range []struct {
		images, others [][]byte
		each           int // images per row
		sql            string
		loose          bool
	}{
		{w.locks, nil, 1, t.made.lockRows, false},
		{w.shares, nil, 1, t.made.shareRows, false},
		{w.wholes, nil, 1, t.made.deleteWhole, false},
		{w.pairs, nil, 2, t.made.updateWhole, true},
		{w.deletes, nil, 1, t.made.delete, false},
		{w.updates, nil, 1, t.made.update, w.replaced},
		{w.adds, nil, 1, t.made.add, false},
		{w.from, w.to, 1, t.made.move, true},
		{w.inserts, nil, 1, t.made.insert, false},
	} {
		if len(o.images) == 0 {
			continue
		}
		for n := 0; n < len(o.images); {
			end := n + fitting(o.images[n:], o.others[min(n, len(o.others)):], o.each)
			op := Operation{Table: b.table.String(), Relation: t.qualified(), SQL: o.sql, Format: b.table.Format,
				Rows: (end - n) / o.each, Loose: o.loose,
				Args: [][]byte{writeset.AppendArray(nil, b.table.Format, o.images[n:end])}}
			if o.others != nil {
				op.Args = append(op.Args, writeset.AppendArray(nil, b.table.Format, o.others[n:end]))
			}
			out, n = append(out, op), end
		}
	}
	sets, err := b.sets(rows)
	return append(out, sets...), err
}
