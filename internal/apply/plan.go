package apply

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tuttidb/tutti/internal/writeset"
)

// AnyRows is Operation.Rows of operations without a row count to check.
const AnyRows = -1

// Operation is one statement to execute.
type Operation struct {
	Table    string          // for messages; several for a truncation
	Relation string          // the table whose rows are written, as SQL; empty if there are none
	SQL      string          // constant per table and kind, see A2
	Format   writeset.Format // of the argument
	Args     [][]byte        // arrays: one, or for another key two; or none
	Copy     []byte          // data of a COPY FROM STDIN, which a Stream alone makes; nil otherwise
	Rows     int             // rows that must be affected, or AnyRows
	// Loose: a unique or exclusion violation, an update that is not allowed (55000), or another number of rows, may be
	// due to the Form.
	Loose bool
	// Asks, per row of the first argument, are the blind rows that it comes from. It returns, in text, the places from
	// 1 of those that were changed, for Missed.
	Asks [][]*writeset.Row
}

// Check returns an error if affected is not what it must be: the local database has diverged.
func (o *Operation) Check(affected int64) error {
	if o.Rows == AnyRows || int64(o.Rows) == affected {
		return nil
	}
	return fmt.Errorf("apply: table %s has diverged from the cluster: %d rows affected instead of %d by %s",
		o.Table, affected, o.Rows, strings.SplitN(o.SQL, " ", 2)[0])
}

// pending is the net operation on one row so far; op 0 is none.
type pending struct {
	op    writeset.Op
	image []byte
	was   []byte // in a table without key: the image it had, if it was there
	from  int    // of a row that was given this key: its place, from 1, where it was before all that is pending

	// Of blind operations, whose image is the record: what stands before it, and who asks for it.
	kind []byte
	asks []*writeset.Row
}

// batch is what is pending on one table.
type batch struct {
	table     writeset.Table
	truncated bool
	locked    writeset.TableMode // in which it is to be locked
	rows      []pending
	index     map[uint64]int
	local     *Table // nil if there is none
	departs   bool   // a row has left for another partition
	half      half   // of the writeset that is being added
	formatted bool   // table.Format is that of rows

	earlier [][]pending       // rows to be executed before, each round by itself
	gone    [][]*writeset.Row // who asks for rows that are truncated

	// Of a table without key:
	arrived map[string][]int // rows that are about to be there, by image, once one has changed or gone
	settled bool             // and there are some of earlier writesets
}

// Plan returns the operations that execute writesets, given in order, as one. If a Loose one of them
// fails, everything is to be rolled back and planned in the next Form. It fails if a table is unknown here, or if
// operations contradict each other (an update of a deleted row), which means that the log is
// not what a database produced.
func Plan(writesets []*writeset.Writeset, lookup Lookup, form Form) ([]Operation, error) {
	switch {
	case form == InTurn:
		form = InPlace
	case !emptied(writesets):
		batches, err := gather(writesets, lookup)
		if err != nil {
			return nil, err
		}
		if form == Apart || len(writesets) == 1 || !slices.ContainsFunc(batches, (*batch).crossed) {
			return operations(batches, form)
		}
	}
	var out []Operation
	for i := range writesets {
		ops, err := plan(writesets[i:i+1], lookup, form)
		if err != nil {
			return nil, err
		}
		out = append(out, ops...)
	}
	return out, nil
}

func plan(writesets []*writeset.Writeset, lookup Lookup, form Form) ([]Operation, error) {
	batches, err := gather(writesets, lookup)
	if err != nil {
		return nil, err
	}
	return operations(batches, form)
}

// gather gives what writesets do to each table.
func gather(writesets []*writeset.Writeset, lookup Lookup) ([]*batch, error) {
	type name struct{ schema, name string }
	at := make(map[name]*batch)
	var batches []*batch
	for _, w := range writesets {
		tables := make([]*batch, len(w.Tables))
		for i, t := range w.Tables {
			b := at[name{t.Schema, t.Name}]
			if b == nil {
				b = &batch{table: t, index: make(map[uint64]int), local: lookup(t)}
				at[name{t.Schema, t.Name}] = b
				batches = append(batches, b)
			}
			tables[i], b.half = b, half{}
		}
		if err := addTables(w, tables); err != nil {
			return nil, err
		}
		if err := addRows(w, tables); err != nil {
			return nil, err
		}
		if err := addWholes(w, tables); err != nil {
			return nil, err
		}
	}
	return batches, nil
}

// addTables takes what a writeset does to whole tables. A truncation comes before every other row of its transaction,
// wherever it stands.
func addTables(w *writeset.Writeset, tables []*batch) error {
	for i := range w.Rows {
		if n := w.Rows[i].Table; !w.Rows[i].LocksTable() && !tables[n].format(w.Tables[n].Format) {
			return fmt.Errorf("apply: rows of table %s are in two formats within one batch", w.Tables[n])
		}
	}
	for i := range w.Rows {
		switch r := &w.Rows[i]; {
		case r.Op == writeset.OpTruncate:
			tables[r.Table].truncate()
		case r.LocksTable():
			b := tables[r.Table]
			b.locked = b.locked.With(writeset.TableMode(r.Image[0]))
		}
	}
	return nil
}

// addRows takes the rows that are known by their identities.
func addRows(w *writeset.Writeset, tables []*batch) error {
	for i := range w.Rows {
		if i > 0 && w.Rows[i-1].Op == writeset.OpDelete && w.Rows[i].Op == writeset.OpInsert {
			from := tables[w.Rows[i-1].Table]
			from.departs = from.departs || siblings(from.local, tables[w.Rows[i].Table].local)
		}
		if r := &w.Rows[i]; !r.All() && r.Identity != 0 {
			if err := tables[r.Table].add(r); err != nil {
				return err
			}
		}
	}
	return nil
}

// TableLocks are the operations that lock the tables that a writeset says were locked.
func TableLocks(w *writeset.Writeset, lookup Lookup) (out []Operation, err error) {
	locks := &writeset.Writeset{Tables: w.Tables}
	for i := range w.Rows {
		if w.Rows[i].LocksTable() {
			locks.Rows = append(locks.Rows, w.Rows[i])
		}
	}
	if len(locks.Rows) > 0 {
		out, err = plan([]*writeset.Writeset{locks}, lookup, InPlace)
	}
	for _, s := range w.Steps {
		if s.Rows != nil && err == nil {
			var more []Operation
			more, err = TableLocks(s.Rows, lookup)
			out = append(out, more...)
		}
	}
	return out, err
}

// format notes the format of the table's rows, and reports whether it is that of the others. What a writeset
// says of a table that it has only read or locked is not looked at.
func (b *batch) format(f writeset.Format) bool {
	if !b.formatted {
		b.formatted, b.table.Format = true, f
	}
	return b.table.Format == f
}

func (b *batch) truncate() {
	b.truncated = true
	b.forgo()
	b.rows, b.earlier, b.arrived, b.settled = nil, nil, nil, false
	clear(b.index)
}

func (b *batch) add(r *writeset.Row) error {
	i, ok := b.index[r.Identity]
	if ok && !b.sameKey(&b.rows[i], r) {
		b.anew()
		ok = false
	}
	if r.Op.Blind() {
		return b.set(r, i, ok)
	}
	if ok && b.rows[i].op.Blind() {
		b.anew()
		ok = false
	}
	if !ok {
		return b.addFirst(r)
	}
	p := &b.rows[i]
	if r.Op == writeset.OpAdd || p.op == writeset.OpAdd {
		return b.addUp(i, r)
	}
	op, ok := merge(p.op, r.Op)
	if p.op == 0 && b.truncated {
		op, ok = writeset.OpInsert, r.Op == writeset.OpInsert
	}
	if !ok {
		return fmt.Errorf("apply: table %s: operation %d on a row follows operation %d", b.table, r.Op, p.op)
	}
	if p.op = op; op.Locks() || !r.Op.Locks() {
		p.image = r.Image
	}
	if r.Op == writeset.OpInsert {
		p.from = 0
	}
	b.moves(i, r.Op)
	return nil
}

// addFirst is add of a row with which nothing is pending.
func (b *batch) addFirst(r *writeset.Row) error {
	b.index[r.Identity] = len(b.rows)
	if b.truncated && len(b.earlier) == 0 && r.Op != writeset.OpInsert {
		return fmt.Errorf("apply: table %s: a row is changed that was truncated before", b.table)
	}
	b.rows = append(b.rows, pending{op: r.Op, image: r.Image})
	b.moves(len(b.rows)-1, r.Op)
	return nil
}

// sameKey reports whether a row has the key, to the byte, of what is pending under its identity. If it has not, it may
// be another row.
func (b *batch) sameKey(p *pending, r *writeset.Row) bool {
	if b.local == nil {
		return true
	}
	var places [8]int
	same, ok := writeset.SameKey(b.table.Format, b.local.keyPlaces(places[:0]), p.image, r.Record())
	return same || !ok
}

// addUp is add where one of the two operations adds to the row.
func (b *batch) addUp(i int, r *writeset.Row) (err error) {
	p := &b.rows[i]
	switch {
	case p.op != writeset.OpAdd && (p.op == 0 || p.op == writeset.OpDelete), r.Op == writeset.OpInsert:
		return fmt.Errorf("apply: table %s: operation %d on a row follows operation %d", b.table, r.Op, p.op)
	case r.Op.Locks():
	case r.Op != writeset.OpAdd:
		p.op, p.image = r.Op, r.Image
		b.moves(i, r.Op)
	case p.op.Locks():
		p.op, p.image = r.Op, r.Image
	case b.local == nil:
		return b.known()
	default:
		if p.image, err = writeset.Sum(p.image, r.Image, b.local.keyPlaces(nil)); err != nil {
			return fmt.Errorf("apply: table %s: %w", b.table, err)
		}
	}
	return nil
}

// merge is the net of two operations on one row; 0 is a row that came and went.
func merge(first, second writeset.Op) (writeset.Op, bool) {
	const ins, upd, del, repl = writeset.OpInsert, writeset.OpUpdate, writeset.OpDelete, writeset.OpReplace
	switch {
	case first.Locks() || second.Locks():
		return mergeLock(first, second)
	case first == 0 && second == ins:
		return ins, true
	case first == 0, first == del && second != ins, first != del && second == ins:
		return 0, false
	case first == ins && second == del:
		return 0, true
	case first == ins:
		return ins, true
	case first == del:
		return repl, true
	case second == del:
		return del, true
	case first == upd && second == upd:
		return upd, true
	default:
		return repl, true
	}
}

// mergeLock is merge where one of the operations only locks the row.
func mergeLock(first, second writeset.Op) (writeset.Op, bool) {
	switch {
	case first == 0, first == writeset.OpDelete, second == writeset.OpInsert: // there is no row to lock
		return 0, false
	case first.Locks() && second.Locks():
		return min(first, second), true // the stronger
	case second.Locks(): // what has changed the row has locked it
		return first, true
	default:
		return second, true
	}
}

func operations(batches []*batch, form Form) ([]Operation, error) {
	var out []Operation
	var names []string
	var gone [][]*writeset.Row
	for _, b := range batches {
		if b.truncated {
			names = append(names, quote(b.table.Schema)+"."+quote(b.table.Name))
			gone = append(gone, b.gone...)
		}
	}
	out = append(out, truncation(names, gone)...)
	for _, b := range batches {
		if b.locked != 0 {
			if err := b.known(); err != nil {
				return nil, err
			}
			out = append(out, b.lock(b.locked))
		}
		for _, rows := range append(b.earlier, b.rows) {
			ops, err := b.operations(rows, form)
			if err != nil {
				return nil, err
			}
			out = append(out, ops...)
		}
	}
	return out, nil
}

// truncation truncates tables, if there are any; gone is who asks for rows of them. It is one statement, because a
// table that another one references can only be truncated together with it; CASCADE reaches unlogged ones, which are
// local.
func truncation(names []string, gone [][]*writeset.Row) []Operation {
	if len(names) == 0 {
		return nil
	}
	return []Operation{{Table: strings.Join(names, ", "), SQL: "TRUNCATE ONLY " + strings.Join(names, ", ONLY ") +
		" CASCADE", Rows: AnyRows, Asks: gone}}
}

// Batches cuts writesets, in order, into runs of at most rowsMax rows and bytesMax image bytes; a
// writeset larger than a limit is a run of its own. Limits below 1 count as 1.
func Batches(writesets []*writeset.Writeset, rowsMax, bytesMax int) [][]*writeset.Writeset {
	var out [][]*writeset.Writeset
	start, rows, bytes := 0, 0, 0
	for i, w := range writesets {
		size := 0
		for j := range w.Rows {
			size += len(w.Rows[j].Image)
		}
		if i > start && (rows+len(w.Rows) > rowsMax || bytes+size > bytesMax) {
			out = append(out, writesets[start:i:i])
			start, rows, bytes = i, 0, 0
		}
		rows += len(w.Rows)
		bytes += size
	}
	if start < len(writesets) {
		out = append(out, writesets[start:len(writesets):len(writesets)])
	}
	return out
}
