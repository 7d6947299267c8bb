package writeset

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
)

// Addition is what a transaction adds to one row, whatever the row's columns are by then; see AddAdditions.
type Addition struct {
	Table    Table
	Identity uint64
	Image    []byte // see OpAdd
}

// AddAdditions adds these to a transaction that changes none of their rows otherwise, and has no steps. It comes after
// AddTableKeys.
func (w *Writeset) AddAdditions(additions []Addition) {
	for _, a := range additions {
		if !slices.ContainsFunc(w.Tables, func(x Table) bool { return x.Key == a.Table.Key }) {
			w.Keys = append(w.Keys, Key{Hash: a.Table.Key, Mode: Shared, Table: w.number(a.Table)})
		}
		w.Rows = append(w.Rows, Row{Table: w.number(a.Table), Op: OpAdd, Identity: a.Identity, Image: a.Image})
	}
}

// Adds reports whether w adds to rows.
func (w *Writeset) Adds() bool {
	return slices.ContainsFunc(w.Rows, func(r Row) bool { return r.Op == OpAdd })
}

// Field is a column's value in a record: its type's OID, and the value in binary, or nil.
type Field struct {
	OID   uint32
	Value []byte
}

// ReadRecord reads a composite value in PostgreSQL's binary form (record_send). The fields alias it.
func ReadRecord(image []byte) ([]Field, error) {
	bad := errors.New("writeset: an image is no record")
	if len(image) < 4 {
		return nil, bad
	}
	n := binary.BigEndian.Uint32(image)
	b := image[4:]
	if uint64(n) > uint64(len(b)/8) {
		return nil, bad
	}
	fields := make([]Field, n)
	for i := range fields {
		if len(b) < 8 {
			return nil, bad
		}
		fields[i].OID = binary.BigEndian.Uint32(b)
		size := binary.BigEndian.Uint32(b[4:])
		b = b[8:]
		if size == math.MaxUint32 {
			continue
		}
		if uint64(size) > uint64(len(b)) {
			return nil, bad
		}
		fields[i].Value, b = b[:size:size], b[size:]
	}
	if len(b) > 0 {
		return nil, bad
	}
	return fields, nil
}

// AppendRecord is the opposite of ReadRecord.
func AppendRecord(dst []byte, fields []Field) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(fields)))
	for _, f := range fields {
		dst = binary.BigEndian.AppendUint32(dst, f.OID)
		if f.Value == nil {
			dst = binary.BigEndian.AppendUint32(dst, math.MaxUint32)
			continue
		}
		dst = append(binary.BigEndian.AppendUint32(dst, uint32(len(f.Value))), f.Value...)
	}
	return dst
}

// Integer reads an int4 or int8 in binary.
func Integer(value []byte) (n int64, ok bool) {
	switch len(value) {
	case 4:
		return int64(int32(binary.BigEndian.Uint32(value))), true
	case 8:
		return int64(binary.BigEndian.Uint64(value)), true
	}
	return 0, false
}

// AppendInteger writes one of 4 or 8 bytes.
func AppendInteger(dst []byte, n int64, size int) []byte {
	if size == 4 {
		return binary.BigEndian.AppendUint32(dst, uint32(n))
	}
	return binary.BigEndian.AppendUint64(dst, uint64(n))
}

// LongMost is what an int8 column that is added to may hold at most, one way or the other.
const LongMost = 1 << 62

// CanAdd reports whether a column of 4 or 8 bytes that held value can hold what others add to it, up to 2^16 times and
// each as much as is allowed, and by as well. So what is added never overflows, in whatever order.
func CanAdd(size int, value, by int64) bool {
	each, most := int64(1)<<44, int64(LongMost)
	if size == 4 {
		each, most = 1<<14, 1<<30
	}
	return by >= -each && by <= each && value >= -most && value <= most
}

// Sum adds an addition's image to that of the row, or to another addition's to the same row. keys are the places of the
// key's columns.
func Sum(image, addition []byte, keys []int) ([]byte, error) {
	fields, err := ReadRecord(image)
	if err != nil {
		return nil, err
	}
	more, err := ReadRecord(addition)
	if err != nil {
		return nil, err
	}
	if len(fields) != len(more) {
		return nil, fmt.Errorf("writeset: %d columns are added to %d", len(more), len(fields))
	}
	for i, m := range more {
		switch {
		case m.Value == nil || slices.Contains(keys, i):
		case fields[i].Value == nil: // nothing was added to it yet
			fields[i] = m
		default:
			if fields[i].Value, err = sum(fields[i].Value, m.Value); err != nil {
				return nil, err
			}
		}
	}
	return AppendRecord(nil, fields), nil
}

func sum(a, b []byte) ([]byte, error) {
	x, ok := Integer(a)
	y, also := Integer(b)
	if !ok || !also || len(a) != len(b) || y > 0 && x > math.MaxInt64-y || y < 0 && x < math.MinInt64-y {
		return nil, errors.New("writeset: what is added to a row is no integer, or too much")
	}
	if len(a) == 4 && int64(int32(x+y)) != x+y {
		return nil, errors.New("writeset: more is added to a row than it can hold")
	}
	return AppendInteger(nil, x+y, len(a)), nil
}
