package collect

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"

	"github.com/tuttidb/tutti/internal/capture"
	"github.com/tuttidb/tutti/internal/semantics"
	"github.com/tuttidb/tutti/internal/session"
	"github.com/tuttidb/tutti/internal/wire"
	"github.com/tuttidb/tutti/internal/writeset"
)

// adding is how a direct statement adds to a row.
type adding struct {
	*capture.Addable
	adds  []semantics.Add
	finds []semantics.Find // in the order of the columns' names
	types []uint32
}

// addingOf is what a statement adds to a table without CHECK constraints, or nil.
func addingOf(d *semantics.Direct, t *capture.TableDesc) *adding {
	if len(d.Adds) == 0 || d.Returns != "" || !capture.Steadily(d.Types) {
		return nil
	}
	a := &adding{adds: d.Adds, finds: slices.Clone(d.Finds), types: d.Types}
	slices.SortFunc(a.finds, func(x, y semantics.Find) int { return cmp.Compare(x.Column, y.Column) })
	var columns, finds []string
	for _, x := range a.adds {
		if p := x.By.Parameter; p > 0 && p <= len(a.types) && !slices.Contains([]uint32{0, 20, 21, 23}, a.types[p-1]) {
			return nil
		}
		columns = append(columns, x.Column)
	}
	for _, f := range a.finds {
		finds = append(finds, f.Column)
	}
	var ok bool
	if a.Addable, ok = t.Addable(columns, finds); !ok {
		return nil
	}
	return a
}

// Table is the OID of the table that it changes.
func (r rewritten) Table() uint32 { return r.oid }

// Inserts reports whether it is an INSERT.
func (r rewritten) Inserts() bool { return r.verb == semantics.Insert }

// Adds tells what it adds to which row with the parameters of a Bind; false if it does something else.
func (r rewritten) Adds(bind []byte) (session.Adds, bool) {
	a := r.adding
	if a == nil {
		return session.Adds{}, false
	}
	b, err := wire.DecodeBind(wire.Frame{Raw: bind}.Body())
	if err != nil {
		return session.Adds{}, false
	}
	formats, values, err := wire.DecodeBindValues(b.Rest)
	if err != nil {
		return session.Adds{}, false
	}
	format := func(n int) uint16 {
		switch len(formats) {
		case 0:
			return 0
		case 1:
			return formats[0]
		}
		return formats[min(n, len(formats)-1)]
	}
	row := fmt.Appendf(nil, "%d", r.oid)
	for _, x := range a.adds {
		row = fmt.Appendf(row, " %q", x.Column)
	}
	for _, f := range a.finds {
		n := f.Value.Parameter
		if n == 0 {
			row = fmt.Appendf(row, " %d", f.Value.Value)
			continue
		}
		if n > len(values) || values[n-1] == nil {
			return session.Adds{}, false
		}
		typ := uint32(0)
		if n <= len(a.types) {
			typ = a.types[n-1]
		}
		row = fmt.Appendf(row, " $%d,%d,%d:", typ, format(n-1), len(values[n-1]))
		row = append(row, values[n-1]...)
	}
	out := session.Adds{Row: string(row), Table: r.oid}
	for _, x := range a.adds {
		by := x.By.Value
		if n := x.By.Parameter; n > 0 {
			var ok bool
			if n > len(values) {
				return session.Adds{}, false
			}
			if by, ok = integer(values[n-1], format(n-1)); !ok {
				return session.Adds{}, false
			}
		}
		if x.Minus {
			by = -by
		}
		out.By = append(out.By, by)
	}
	return out, true
}

// integer reads a parameter that is one.
func integer(value []byte, format uint16) (int64, bool) {
	if format == 1 {
		if len(value) == 2 {
			return int64(int16(binary.BigEndian.Uint16(value))), true
		}
		return writeset.Integer(value)
	}
	n, err := strconv.ParseInt(string(value), 10, 64)
	return n, err == nil
}

// Counted is what a row held that it has returned, before by was added; false if that is not known.
func (r rewritten) Counted(row session.Returned, by []int64) (session.Counted, bool) {
	x := row.(*capture.Returned)
	values, key, ok := r.adding.Read(x.Image())
	if !ok || len(by) != len(values) {
		return session.Counted{}, false
	}
	for i := range values {
		values[i] -= by[i]
	}
	return session.Counted{Identity: x.Identity(), Key: key, Values: values, Columns: r.adding.Addable}, true
}

// Addition is what an addition to a row is to others.
func (r rewritten) Addition(row session.Counted, by []int64) (writeset.Addition, bool) {
	return r.adding.Addition(row.Identity, row.Key, row.Values, by)
}
