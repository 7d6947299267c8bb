package apply

import (
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/tuttidb/tutti/internal/writeset"
)

// Stream makes operations of rows of one writeset while they come, some thousands at a time. It knows writesets
// that do one thing to each table: insert rows, update or delete them by their keys. The rest is left to Plan.
// What Plan would refuse, a Stream may let through: rows are not compared with each other.
type Stream struct {
	lookup Lookup
	tables map[uint32]*streamed
	rows   int
	bytes  int
	full   int // bytes
}

type streamed struct {
	table  writeset.Table
	local  *Table
	op     writeset.Op
	images [][]byte
}

// Of one operation of a Stream, about.
const (
	streamRows  = 5_000
	streamBytes = 1 << 20
)

// NewStream makes operations for the tables that lookup knows, each of bytesMax bytes at most, about.
func NewStream(lookup Lookup, bytesMax int) *Stream {
	return &Stream{lookup: lookup, tables: map[uint32]*streamed{}, full: min(streamBytes, bytesMax)}
}

// Add takes a row. False: this writeset is for Plan.
func (s *Stream) Add(table writeset.Table, r writeset.Row) bool {
	t := s.tables[r.Table]
	if t == nil {
		t = &streamed{table: table, local: s.lookup(table), op: r.Op}
		s.tables[r.Table] = t
	}
	if t.local == nil || t.local.made == nil || len(t.local.Key) == 0 || r.Identity == 0 || r.Op != t.op || r.Op > writeset.OpDelete || r.Op < writeset.OpInsert {
		return false
	}
	t.images = append(t.images, r.Image)
	s.rows++
	s.bytes += len(r.Image)
	return true
}

// Full reports whether it is time to take Operations.
func (s *Stream) Full() bool { return s.rows >= streamRows || s.bytes >= s.full }

// Empty reports whether no row has come since the last Operations.
func (s *Stream) Empty() bool { return s.rows == 0 }

// Operations are those of the rows that came since the last call. Images are not kept.
func (s *Stream) Operations() ([]Operation, error) {
	var out []Operation
	for n := uint32(0); s.rows > 0; n++ {
		t := s.tables[n]
		if t == nil || len(t.images) == 0 {
			continue
		}
		o, err := t.operation()
		if err != nil {
			return nil, err
		}
		out = append(out, o)
		s.rows -= len(t.images)
		t.images = t.images[:0]
	}
	s.bytes = 0
	return out, nil
}

func (s *streamed) operation() (Operation, error) {
	t, made := s.local, s.local.made
	o := Operation{Table: s.table.String(), Relation: t.qualified(), Format: s.table.Format, Rows: len(s.images)}
	if s.op == writeset.OpInsert && s.table.Format == writeset.FormatBinary && made.copy != "" {
		o.SQL = made.copy
		var err error
		o.Copy, err = t.copyData(s.images)
		return o, err
	}
	o.SQL = map[writeset.Op]string{writeset.OpInsert: made.insert, writeset.OpUpdate: made.update, writeset.OpDelete: made.delete}[s.op]
	o.Args = [][]byte{writeset.AppendArray(nil, s.table.Format, s.images)}
	return o, nil
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
			return nil, fmt.Errorf("apply: a row of table %s.%s has other columns than the local table", t.Schema, t.Name)
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
