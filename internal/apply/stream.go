package apply

import (
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/tuttidb/tutti/internal/writeset"
)

// Stream makes operations of rows of one writeset while they come, some thousands at a time. It knows rows of tables
// with keys that are inserted, updated or deleted, rows of others that are inserted, and tables that are truncated
// before any row comes. The rest is left to Plan.
// What Plan would refuse, a Stream may let through: rows are not compared with each other. Operations follow the order
// in which rows come, and so may fail where Plan's do not.
type Stream struct {
	left   *Table // of which the last row was deleted
	lookup Lookup
	tables []*streamed // by their index in the writeset; nil: no row has come
	rows   int
	bytes  int
	full   int // bytes

	truncated []string // to be
	begun     bool     // a row has come
}

type streamed struct {
	table writeset.Table
	local *Table
	work  work

	half  writeset.Op // of a row whose other half may follow (see batch.moves), or 0
	image []byte      // its
}

// Of one operation of a Stream, about.
const (
	streamRows  = 5_000
	streamBytes = 1 << 20
)

// NewStream makes operations for the tables that lookup knows, each of bytesMax bytes at most, about.
func NewStream(lookup Lookup, bytesMax int) *Stream {
	return &Stream{lookup: lookup, full: min(streamBytes, bytesMax)}
}

// Add takes a row. False: this writeset is for Plan. Tables that were locked are for TableLocks.
func (s *Stream) Add(table writeset.Table, r writeset.Row) bool {
	if r.LocksTable() {
		return true
	}
	for int(r.Table) >= len(s.tables) {
		s.tables = append(s.tables, nil)
	}
	t := s.tables[r.Table]
	if t == nil {
		t = &streamed{table: table, local: s.lookup(table)}
		s.tables[r.Table] = t
	}
	if t.local == nil || t.local.made == nil {
		return false
	}
	if r.Op == writeset.OpTruncate {
		s.truncated = append(s.truncated, quote(table.Schema)+"."+quote(table.Name))
		return !s.begun
	}
	s.begun = true
	if t.local.made.deleteWhole != "" && r.Identity == 0 && r.Op == writeset.OpInsert {
		t.put(r.Op, r.Image)
		s.rows++
		s.bytes += len(r.Image)
		return true
	}
	if len(t.local.Key) == 0 || r.Identity == 0 || s.departs(t.local, r.Op) {
		return false
	}
	ok, counts := t.take(&r, t.local.made.move != "")
	if counts {
		s.rows++
		s.bytes += len(r.Image)
	}
	return ok
}

// take takes a row of a table with a key, which can be given another one if it moves. The row counts when it is
// decided what is to be done with it.
func (t *streamed) take(r *writeset.Row, moves bool) (ok, counts bool) {
	switch {
	case r.Op == writeset.OpUpdate, r.Op == writeset.OpReplace && moves:
		t.work.updates = append(t.work.updates, r.Image)
	case r.Op != writeset.OpInsert && r.Op != writeset.OpDelete:
		return false, false
	case !moves && t.half != 0 && t.half != r.Op:
		return false, false // the table is to be locked before
	case !moves:
		t.half = r.Op
		t.put(r.Op, r.Image)
	case t.half == 0:
		t.half, t.image = r.Op, r.Image
		return true, false
	default:
		t.pair(r)
	}
	return true, true
}

// pair takes a row behind one of which it may be the other half.
func (t *streamed) pair(r *writeset.Row) {
	switch {
	case t.half == r.Op:
		t.put(r.Op, t.image)
		t.image = r.Image
		return
	case r.Op == writeset.OpInsert:
		t.work.from, t.work.to = append(t.work.from, t.image), append(t.work.to, r.Image)
	default:
		t.work.from, t.work.to = append(t.work.from, r.Image), append(t.work.to, t.image)
	}
	t.half, t.image = 0, nil
}

// departs reports whether a row has just left a partition for this one.
func (s *Stream) departs(to *Table, op writeset.Op) bool {
	departed := op == writeset.OpInsert && siblings(s.left, to)
	if s.left = nil; op == writeset.OpDelete {
		s.left = to
	}
	return departed
}

// put takes a row that is inserted or deleted, and no half.
func (s *streamed) put(op writeset.Op, image []byte) {
	if op == writeset.OpInsert {
		s.work.inserts = append(s.work.inserts, image)
	} else {
		s.work.deletes = append(s.work.deletes, image)
	}
}

// Full reports whether it is time to take Operations.
func (s *Stream) Full() bool { return s.rows >= streamRows || s.bytes >= s.full }

// Empty reports whether Operations would give nothing, unless the last row has come.
func (s *Stream) Empty() bool { return s.rows+len(s.truncated) == 0 }

// Operations are those of the rows that came since the last call, apart from rows that may belong together with the
// next one, unless the last has come. Images are not kept.
func (s *Stream) Operations(last bool) ([]Operation, error) {
	out := truncation(s.truncated, nil)
	s.truncated = nil
	for _, t := range s.tables {
		if t == nil {
			continue
		}
		if last && t.half != 0 && t.image != nil {
			t.put(t.half, t.image)
			t.half, t.image = 0, nil
		}
		ops, err := t.operations()
		if err != nil {
			return nil, err
		}
		out = append(out, ops...)
	}
	s.rows, s.bytes = 0, 0
	return out, nil
}

func (s *streamed) operations() (out []Operation, err error) {
	t, made, w := s.local, s.local.made, &s.work
	for _, x := range []struct {
		sql            string
		images, others *[][]byte
	}{{made.delete, &w.deletes, nil}, {made.update, &w.updates, nil}, {made.move, &w.from, &w.to},
		{made.insert, &w.inserts, nil}} {
		if len(*x.images) == 0 {
			continue
		}
		o := Operation{Table: s.table.String(), Relation: t.qualified(), Format: s.table.Format, Rows: len(*x.images),
			SQL: x.sql}
		if x.sql == made.insert && s.table.Format == writeset.FormatBinary && made.copy != "" {
			o.SQL = made.copy
			if o.Copy, err = t.copyData(*x.images); err != nil {
				return nil, err
			}
		} else {
			o.Args = [][]byte{writeset.AppendArray(nil, s.table.Format, *x.images)}
		}
		if x.others != nil {
			o.Args = append(o.Args, writeset.AppendArray(nil, s.table.Format, *x.others))
			*x.others = (*x.others)[:0]
		}
		*x.images = (*x.images)[:0]
		out = append(out, o)
	}
	return out, nil
}

// copySQL is COPY of all columns that can be given, empty if there are none.
func (t *Table) copySQL() string {
	var columns []string
	for _, c := range t.Columns {
		if !c.Generated {
			columns = append(columns, quote(c.Name))
		}
	}
	if len(columns) == 0 {
		return ""
	}
	return "COPY " + t.qualified() + " (" + strings.Join(columns, ", ") + ") FROM STDIN (FORMAT binary)"
}

// copyData makes the data of copySQL of images in binary: of each the values of columns, without their types.
func (t *Table) copyData(images [][]byte) ([]byte, error) {
	given := 0
	for _, c := range t.Columns {
		if !c.Generated {
			given++
		}
	}
	size := 32
	for _, m := range images {
		size += len(m)
	}
	out := append(make([]byte, 0, size), "PGCOPY\n\xff\r\n\x00"...)
	out = append(out, 0, 0, 0, 0, 0, 0, 0, 0) // flags, extension
	for _, m := range images {
		if len(m) < 4 || int(binary.BigEndian.Uint32(m)) != len(t.Columns) {
			return nil, fmt.Errorf("apply: a row of table %s.%s has other columns than the local table", t.Schema,
				t.Name)
		}
		m = m[4:]
		out = binary.BigEndian.AppendUint16(out, uint16(given))
		for _, c := range t.Columns {
			if len(m) < 8 {
				return nil, t.cutShort()
			}
			n := 8
			if size := binary.BigEndian.Uint32(m[4:]); size != 1<<32-1 {
				n += int(size)
			}
			if n > len(m) {
				return nil, t.cutShort()
			}
			if !c.Generated {
				out = append(out, m[4:n]...)
			}
			m = m[n:]
		}
		if len(m) > 0 {
			return nil, t.cutShort()
		}
	}
	return append(out, 0xff, 0xff), nil
}

func (t *Table) cutShort() error {
	return fmt.Errorf("apply: a row of table %s.%s is malformed", t.Schema, t.Name)
}
