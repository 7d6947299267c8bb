package capture

import (
	"bytes"
	"encoding/binary"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/tuttidb/tutti/internal/writeset"
)

// Blind says how statements change columns of the row that they find by its key, or delete it, whatever the row holds,
// such that nothing but the row's being there decides whether they do. It is not changed.
type Blind struct {
	Table    writeset.Table
	op       writeset.Op
	columns  []Column
	keys     []int // places of the key's columns, in its order
	equal    []string
	seed     uint64
	glances  string // the beginning of a glance at it
	settings []writeset.Setting
}

// BlindChange is a column that is set, or added to.
type BlindChange struct {
	Column string
	Add    bool
}

// blindColumnsMax bounds the columns of a table whose rows fit a page whatever they hold.
const blindColumnsMax = 200

// BlindTable tells which writes of a table can be carried out unseen.
type BlindTable struct{ *TableDesc }

// Change reports whether UPDATEs that make these changes to the row which they find by the columns in finds can be
// carried out unseen: finds is the row's key, of types whose hashes are known here, and the changed columns are of
// types whose values can be judged here, and no unique index, foreign key or other column depends on them. Whether
// something is computed from the rows, and which columns are in indexes that may be too small for their values, the
// caller knows.
func (t BlindTable) Change(changes []BlindChange, finds []string) (*Blind, bool) {
	if len(changes) == 0 {
		return nil, false
	}
	return t.change(changes, finds)
}

// Delete is Change for deletions. No other row or unique value may depend on the row.
func (t BlindTable) Delete(finds []string) (*Blind, bool) {
	if len(t.Indexes) != 1 || t.Referenced || len(t.Foreign) > 0 {
		return nil, false
	}
	b, ok := t.change(nil, finds)
	if ok {
		b.op = writeset.OpDrop
	}
	return b, ok
}

// Insert is Change for insertions that make anew, of all of its columns, a row that their transaction has deleted: they
// set the others. No other row or unique value may depend on the row.
func (t BlindTable) Insert(changes []BlindChange, finds []string) (*Blind, bool) {
	if len(t.Indexes) != 1 || t.Referenced || len(t.Foreign) > 0 || len(changes)+len(finds) != len(t.Columns) {
		return nil, false
	}
	return t.Change(changes, finds)
}

// Look is for statements that change nothing of the row: Row names it.
func (t BlindTable) Look(finds []string) (*Blind, bool) {
	b, ok := t.change(nil, finds)
	if ok {
		b.op = writeset.OpLock
	}
	return b, ok
}

// Put is for insertions into a table without a key, of which the caller knows that the columns which are not set
// are NULL then. What is inserted must be stored as it is: others know the row by that.
func (t BlindTable) Put(changes []BlindChange) (*Blind, bool) {
	if len(changes) == 0 || t.Key() != nil || len(t.Indexes) > 0 || len(t.Foreign) > 0 || !t.Portable() {
		return nil, false
	}
	b, ok := t.settings(changes)
	if !ok || slices.ContainsFunc(b.settings, func(s writeset.Setting) bool {
		return s.Add || t.Columns[s.Column].rounds() || t.Columns[s.Column].Length > blindBytesMax
	}) {
		return nil, false
	}
	b.op = writeset.OpPut
	return b, true
}

// rounds reports whether the column is a time of which less is stored than what it is given.
func (c *Column) rounds() bool {
	return (c.OID == 1114 || c.OID == 1184) && strings.Contains(c.Type, "(")
}

func (t BlindTable) change(changes []BlindChange, finds []string) (*Blind, bool) {
	key := t.Key()
	if key == nil || !key.expressible() || len(finds) != len(key.Parts) {
		return nil, false
	}
	b, ok := t.settings(changes)
	if !ok {
		return nil, false
	}
	b.seed = t.seedOf(key)
	for _, p := range key.Parts {
		i := slices.IndexFunc(t.Columns, func(c Column) bool { return c.Num == p.Num })
		if i < 0 || !slices.Contains(finds, t.Columns[i].Name) || !slices.Contains(blindKeys, t.Columns[i].OID) ||
			p.Form != blindForms[t.Columns[i].OID] {
			return nil, false
		}
		b.keys, b.equal = append(b.keys, i), append(b.equal, p.Equal)
	}
	g := generate(t.TableDesc)
	b.glances = g.glances()
	return b, true
}

// settings is a Blind of changes, without a key.
func (t BlindTable) settings(changes []BlindChange) (*Blind, bool) {
	if !t.Binary() || len(t.Columns) > blindColumnsMax ||
		slices.ContainsFunc(t.Columns, func(c Column) bool { return c.Generated }) {
		return nil, false
	}
	b := &Blind{op: writeset.OpSet, columns: t.Columns,
		Table: writeset.Table{Schema: t.Schema, Name: t.Name, Format: writeset.FormatBinary,
			Key: TableKey(t.Schema, t.Name)}}
	for _, x := range changes {
		i := slices.IndexFunc(t.Columns, func(c Column) bool { return c.Name == x.Column })
		switch {
		case i < 0 || t.Columns[i].Always || t.Columns[i].Domain || t.uses(t.Columns[i].Num),
			slices.ContainsFunc(b.settings, func(s writeset.Setting) bool { return s.Column == i }),
			x.Add && !t.Columns[i].Integer(), !x.Add && !slices.Contains(blindTypes, t.Columns[i].OID):
			return nil, false
		}
		b.settings = append(b.settings, writeset.Setting{Column: i, Add: x.Add})
	}
	return b, true
}

var (
	blindKeys  = []uint32{20, 21, 23, 2950}                                                 // int8, int2, int4, uuid
	blindForms = map[uint32]string{20: "int8", 21: formOwn, 23: formOwn, 2950: formOwn}     // see Part.Form
	blindTypes = []uint32{16, 20, 21, 23, 25, 700, 701, 1042, 1043, 1082, 1114, 1184, 2950} // bool to uuid
)

// Type is that of a column, which is one of the key's, or is changed.
func (b *Blind) Type(column string) uint32 {
	return b.columns[slices.IndexFunc(b.columns, func(c Column) bool { return c.Name == column })].OID
}

// Keys are the names of the key's columns, in its order.
func (b *Blind) Keys() (names []string) {
	for _, i := range b.keys {
		names = append(names, b.columns[i].Name)
	}
	return names
}

// Row makes the change of a row: values, in binary, are those of what changes, and then of the key's columns in its
// order. False if a value cannot be stored.
func (b *Blind) Row(values [][]byte) (row writeset.Row, ok bool) {
	fields := make([]writeset.Field, len(b.columns))
	for i := range b.columns {
		fields[i].OID = b.columns[i].OID
	}
	take := func(i int, v []byte) bool {
		fields[i].Value = v
		return v != nil && b.columns[i].stores(v)
	}
	row.Op = b.op
	for n, i := range b.keys {
		if !take(i, values[len(b.settings)+n]) {
			return row, false
		}
		h, ok := hashColumn(b.columns[i].OID, fields[i].Value, b.seed)
		if !ok {
			return row, false
		}
		row.Identity = 31*row.Identity + h
	}
	for n, s := range b.settings {
		if !take(s.Column, values[n]) {
			return row, false
		}
		if c := &b.columns[s.Column]; b.op == writeset.OpPut && c.OID == 1042 {
			fields[s.Column].Value = c.padded(values[n])
		}
		if by, _ := writeset.Integer(fields[s.Column].Value); s.Add && !writeset.CanAdd(8, 0, by) {
			return row, false
		}
	}
	size := 0
	for _, v := range values {
		size += len(v)
	}
	image := make([]byte, 0, size+8*len(fields)+16)
	if b.op == writeset.OpSet {
		row.Image = writeset.AppendSet(image, b.settings, fields)
	} else {
		row.Image = writeset.AppendRecord(image, fields)
	}
	return row, true
}

// padded is a value of type character(n) as it is stored.
func (c *Column) padded(v []byte) []byte {
	if n := c.Length - utf8.RuneCount(v); n > 0 {
		return append(slices.Clip(v), strings.Repeat(" ", n)...)
	}
	return v
}

// Finds reports whether a row that a statement has returned is the one that Row makes its change of; of a row that is
// put, whether it holds the same in all columns but these.
func (b *Blind) Finds(row writeset.Row, is *Returned, but []string) bool {
	if b.op != writeset.OpPut {
		return row.Identity == is.ident
	}
	want, err := writeset.ReadRecord(row.Image)
	got, err2 := writeset.ReadRecord(is.image)
	if err != nil || err2 != nil || len(want) != len(got) || len(want) != len(b.columns) {
		return false
	}
	for i := range want {
		if !slices.Contains(but, b.columns[i].Name) &&
			((want[i].Value == nil) != (got[i].Value == nil) || !bytes.Equal(want[i].Value, got[i].Value)) {
			return false
		}
	}
	return true
}

// blindBytesMax bounds a value that is written unseen.
const blindBytesMax = 64 << 10

// Bounds of PostgreSQL's dates and times: days, and microseconds, from the year 2000 on, and what stands for infinity.
const (
	daysLeast, daysMost     = -2451545, 2145031948
	microsLeast, microsMost = -211813488000000000, 9223371331200000000
)

// stores reports whether a column of one of blindTypes can certainly hold a value in binary.
func (c *Column) stores(v []byte) bool {
	if n := storedBytes(c.OID); n > 0 && len(v) != n {
		return false
	}
	switch c.OID {
	case 21, 23, 700, 20, 701, 2950:
		return true
	case 16:
		return v[0] <= 1
	case 25, 1042, 1043:
		return len(v) <= blindBytesMax && utf8.Valid(v) && !slices.Contains(v, 0) &&
			(c.Length == 0 || utf8.RuneCount(v) <= c.Length)
	case 1082:
		d := int32(binary.BigEndian.Uint32(v))
		return d == math.MinInt32 || d == math.MaxInt32 || d >= daysLeast && d < daysMost
	case 1114, 1184:
		return c.storesTime(int64(binary.BigEndian.Uint64(v)))
	}
	return false
}

// storesTime is stores for a time in microseconds.
func (c *Column) storesTime(m int64) bool {
	most := int64(microsMost)
	if c.rounds() {
		most -= 1000000 // it might become the end of time, which nobody can read in
	}
	return m == math.MinInt64 || m == math.MaxInt64 || m >= microsLeast && m < most
}

// storedBytes is how many bytes all values of a type have, or zero.
func storedBytes(oid uint32) int {
	switch oid {
	case 16: // bool
		return 1
	case 21: // int2
		return 2
	case 23, 700, 1082: // int4, float4, date
		return 4
	case 20, 701, 1114, 1184: // int8, float8, the timestamps
		return 8
	case 2950: // uuid
		return 16
	}
	return 0
}
