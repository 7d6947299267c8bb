package capture

import (
	"slices"

	"github.com/tuttidb/tutti/internal/writeset"
)

// Addable says where in a table's rows a statement adds, and which columns name the row. It is not changed.
type Addable struct {
	Table  writeset.Table
	fields int   // of a row's record
	places []int // of the columns that are added to, in it
	sizes  []int // of their values, in bytes
	keys   []int // places of the key's columns
}

// Addable reports whether UPDATEs of the table that add to these columns of the row which they find by the columns in
// finds may be ordered without the row's lock: those are the row's key, of types whose values are always read alike,
// these integers in no key, and nothing else depends on them. types are those of the parameters that the finds are
// compared with, zero if they are the columns'. Whether something is computed from the rows the caller knows.
func (t *TableDesc) Addable(columns, finds []string, types []uint32) (*Addable, bool) {
	key := t.Key()
	if key == nil || !t.Binary() || len(finds) != len(key.Parts) || len(columns) == 0 {
		return nil, false
	}
	a := &Addable{fields: len(t.Columns),
		Table: writeset.Table{Schema: t.Schema, Name: t.Name, Format: writeset.FormatBinary,
			Key: TableKey(t.Schema, t.Name)}}
	for _, p := range key.Parts {
		i := slices.IndexFunc(t.Columns, func(c Column) bool { return c.Num == p.Num })
		if i < 0 {
			return nil, false
		}
		at := slices.Index(finds, t.Columns[i].Name)
		if at < 0 || !alike(t.Columns[i].OID, types[at]) {
			return nil, false
		}
		a.keys = append(a.keys, i)
	}
	if slices.ContainsFunc(t.Columns, func(c Column) bool { return c.Generated }) {
		return nil, false
	}
	for _, name := range columns {
		i := slices.IndexFunc(t.Columns, func(c Column) bool { return c.Name == name })
		if i < 0 || slices.Contains(a.places, i) || !t.adds(&t.Columns[i]) {
			return nil, false
		}
		size := 8
		if t.Columns[i].OID == 23 {
			size = 4
		}
		a.places, a.sizes = append(a.places, i), append(a.sizes, size)
	}
	return a, true
}

// adds reports whether a column's values can be added to: nothing depends on them.
func (t *TableDesc) adds(c *Column) bool { return c.Integer() && !c.Always && !t.uses(c.Num) }

// uses reports whether a unique index, an exclusion constraint or a foreign key reads a column.
func (t *TableDesc) uses(num int) bool {
	return slices.ContainsFunc(t.Indexes, func(x Index) bool {
		return slices.Contains(x.Uses, num) ||
			slices.Contains(x.Uses, 0)
	}) ||
		slices.ContainsFunc(t.Foreign, func(f Ref) bool {
			return slices.ContainsFunc(f.Parts, func(p RefPart) bool { return p.Num == num })
		})
}

// alike reports whether a column of a type is equal to a parameter of another (zero: of the same) only where it holds
// the parameter's value, and what that is does not depend on time or settings.
func alike(column, parameter uint32) bool {
	same := func(types ...uint32) bool { return slices.Contains(types, column) && slices.Contains(types, parameter) }
	return slices.Contains(steadyTypes, column) && (parameter == 0 || parameter == column || same(20, 21, 23) ||
		same(25, 1043))
}

// Read takes from a row's image what its columns hold, and the image of its key alone; false if one of them is NULL.
func (a *Addable) Read(image []byte) (values []int64, key []byte, ok bool) {
	fields, err := writeset.ReadRecord(image)
	if err != nil || len(fields) != a.fields {
		return nil, nil, false
	}
	for _, i := range a.places {
		v, ok := writeset.Integer(fields[i].Value)
		if !ok {
			return nil, nil, false
		}
		values = append(values, v)
	}
	for i := range fields {
		if !slices.Contains(a.keys, i) {
			fields[i].Value = nil
		}
	}
	return values, writeset.AppendRecord(nil, fields), true
}

// Sum adds an addition's image to values; false if it is none, or too much.
func (a *Addable) Sum(values []int64, image []byte) bool {
	fields, err := writeset.ReadRecord(image)
	if err != nil || len(fields) != a.fields {
		return false
	}
	for n, i := range a.places {
		by, ok := writeset.Integer(fields[i].Value)
		if fields[i].Value == nil {
			by, ok = 0, true
		}
		if !ok || !writeset.CanAdd(a.sizes[n], values[n], by) {
			return false
		}
		values[n] += by
	}
	return true
}

// Addition is one to the row with a key, which Read gave, while its columns held values: false if it is not certain
// that they can hold what they will once it is applied.
func (a *Addable) Addition(identity uint64, key []byte, values, by []int64) (writeset.Addition, bool) {
	fields, err := writeset.ReadRecord(key)
	if err != nil || len(values) != len(a.places) || len(by) != len(a.places) {
		return writeset.Addition{}, false
	}
	for n, i := range a.places {
		if !writeset.CanAdd(a.sizes[n], values[n], by[n]) {
			return writeset.Addition{}, false
		}
		fields[i].Value = writeset.AppendInteger(nil, by[n], a.sizes[n])
	}
	return writeset.Addition{Table: a.Table, Identity: identity, Image: writeset.AppendRecord(nil, fields)}, true
}

// Image is the image of a row that Read has taken.
func (r *Returned) Image() []byte { return r.image }

// Order is the position of the server's WAL when the statement had the row.
func (r *Returned) Order() uint64 { return r.order }

// Identity is its identity.
func (r *Returned) Identity() uint64 { return r.ident }
