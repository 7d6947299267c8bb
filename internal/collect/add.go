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

	parameters int
}

// addingOf is what a statement adds to a table of whose rows nothing is computed, or nil.
func addingOf(d *semantics.Direct, t *capture.TableDesc) *adding {
	if len(d.Adds) == 0 || d.Returns != "" {
		return nil
	}
	a := &adding{adds: d.Adds, finds: slices.Clone(d.Finds), types: d.Types}
	slices.SortFunc(a.finds, func(x, y semantics.Find) int { return cmp.Compare(x.Column, y.Column) })
	var columns, finds []string
	var types []uint32
	for _, x := range a.adds {
		if !slices.Contains([]uint32{0, 20, 21, 23}, a.typeOf(x.By)) {
			return nil
		}
		columns = append(columns, x.Column)
		a.parameters = max(a.parameters, x.By.Parameter)
	}
	for _, f := range a.finds {
		finds, types = append(finds, f.Column), append(types, a.typeOf(f.Value))
		a.parameters = max(a.parameters, f.Value.Parameter)
	}
	var ok bool
	if a.Addable, ok = t.Addable(columns, finds, types); !ok {
		return nil
	}
	return a
}

// typeOf is the type of a parameter, as far as it is prescribed, or of an integer.
func (a *adding) typeOf(x semantics.Addend) uint32 {
	switch {
	case x.Parameter == 0:
		return 23
	case x.Parameter <= len(a.types):
		return a.types[x.Parameter-1]
	}
	return 0
}

// Target is what it changes.
func (r rewritten) Target() session.Target {
	return session.Target{Table: r.oid, Schema: r.schema, Name: r.name, Inserts: r.verb == semantics.Insert}
}

// nameMax bounds the names of rows, in bytes: nodes keep them.
const nameMax = 1 << 10

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
	if err != nil || len(values) != a.parameters || len(formats) > 1 && len(formats) != len(values) {
		return session.Adds{}, false
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
		if values[n-1] == nil {
			return session.Adds{}, false
		}
		row = fmt.Appendf(row, " $%d,%d,%d:", a.typeOf(f.Value), format(formats, n-1), len(values[n-1]))
		row = append(row, values[n-1]...)
	}
	if len(row) > nameMax {
		return session.Adds{}, false
	}
	out := session.Adds{Row: string(row), Table: r.oid, Name: a.Table.Name}
	for _, x := range a.adds {
		by := x.By.Value
		if n := x.By.Parameter; n > 0 {
			var ok bool
			if by, ok = integer(values[n-1], format(formats, n-1)); !ok {
				return session.Adds{}, false
			}
			out.Shape += fmt.Sprint(" ", format(formats, n-1)*uint16(len(values[n-1])))
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
	switch {
	case format == 0:
		n, err := strconv.ParseInt(string(value), 10, 64)
		return n, err == nil
	case format == 1 && len(value) == 2:
		return int64(int16(binary.BigEndian.Uint16(value))), true
	}
	n, ok := writeset.Integer(value)
	return n, ok && format == 1
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

// Delta is what an addition to a row is to others.
func (r rewritten) Delta(row session.Counted, by []int64) (writeset.Addition, bool) {
	return r.adding.Addition(row.Identity, row.Key, row.Values, by)
}
