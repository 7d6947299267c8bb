package collect

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/tuttidb/tutti/internal/capture"
	"github.com/tuttidb/tutti/internal/semantics"
	"github.com/tuttidb/tutti/internal/session"
	"github.com/tuttidb/tutti/internal/wire"
	"github.com/tuttidb/tutti/internal/writeset"
)

// blind is how a direct statement changes a row unseen.
type blind struct {
	*capture.Blind
	inserts    bool    // it makes a row anew
	puts       bool    // it makes one of a table without a key
	tag        string  // what the client is told if it has
	inputs     []input // as capture.Blind.Row has their values
	parameters int
	clocks     []string // the columns whose values are when the transaction began
}

// input is where a column's value, of a type, comes from: a parameter, from 1, or a constant.
type input struct {
	oid        uint32
	parameter  int
	prescribed uint32 // type of the parameter, 0 if it is that of the column
	constant   []byte
	minus      bool
	clock      semantics.Clock
}

// blindOf is how a statement changes a row unseen of a table of whose rows nothing is computed, or nil. unfit and
// vacant are JSON: columns that it must not change, and those that are NULL if an INSERT does not name them.
func blindOf(d *semantics.Direct, t *capture.TableDesc, unfit, vacant []byte) *blind {
	var not, null []string
	if d.Returns != "" || unfit == nil || json.Unmarshal(unfit, &not) != nil || json.Unmarshal(vacant, &null) != nil {
		return nil
	}
	values, keys := d.Changes, []semantics.Change(nil)
	for _, f := range d.Finds {
		keys = append(keys, semantics.Change{Column: f.Column, Value: f.Value})
	}
	if d.Verb == semantics.Insert {
		values, keys = apart(d.Changes, t)
	}
	var changes []capture.BlindChange
	var finds []string
	for _, c := range values {
		if slices.Contains(not, c.Column) {
			return nil
		}
		changes = append(changes, capture.BlindChange{Column: c.Column, Add: c.Add})
	}
	for _, k := range keys {
		finds = append(finds, k.Column)
	}
	b := &blind{inserts: d.Verb == semantics.Insert && t.Key() != nil,
		puts: d.Verb == semantics.Insert && t.Key() == nil}
	if !b.form(d.Verb, t, changes, finds, null) {
		return nil
	}
	for _, c := range values {
		if !b.take(c, d.Types) {
			return nil
		}
	}
	if !b.takeKeys(keys, finds, d.Types) {
		return nil
	}
	return b
}

// form says what the statement does to a row, if the table lets it be done unseen. null are the columns that are NULL
// if an INSERT does not name them.
func (b *blind) form(verb semantics.Verb, t *capture.TableDesc, changes []capture.BlindChange, finds, null []string) (
	ok bool) {
	writes := capture.BlindTable{TableDesc: t}
	switch {
	case b.puts:
		b.tag = "INSERT 0 1"
		b.Blind, ok = writes.Put(changes)
		return ok && !slices.ContainsFunc(t.Columns, func(c capture.Column) bool {
			return !slices.Contains(null, c.Name) && !slices.ContainsFunc(changes,
				func(x capture.BlindChange) bool { return x.Column == c.Name })
		})
	case b.inserts:
		b.tag = "INSERT 0 1"
		b.Blind, ok = writes.Insert(changes, finds)
	case verb == semantics.Delete:
		b.tag = "DELETE 1"
		b.Blind, ok = writes.Delete(finds)
	default:
		b.tag = "UPDATE 1"
		b.Blind, ok = writes.Change(changes, finds)
	}
	return ok
}

// takeKeys adds where the key's columns come from, which are named by finds and are the last; false if it is not clear,
// or if there are other parameters, which PostgreSQL reads, too.
func (b *blind) takeKeys(keys []semantics.Change, finds []string, types []uint32) bool {
	for _, key := range b.Keys() {
		if !b.take(keys[slices.Index(finds, key)], types) || b.inputs[len(b.inputs)-1].clock != semantics.NoClock {
			return false
		}
	}
	used := 0
	for i := range b.inputs {
		used += min(b.inputs[i].parameter, 1)
	}
	return b.parameters == used && len(types) <= used
}

// apart parts what an INSERT gives to columns of the key from the others.
func apart(all []semantics.Change, t *capture.TableDesc) (values, keys []semantics.Change) {
	for _, c := range all {
		if key := t.Key(); key != nil && slices.ContainsFunc(t.Columns,
			func(x capture.Column) bool { return x.Name == c.Column && slices.Contains(key.Uses, x.Num) }) {
			keys = append(keys, c)
		} else {
			values = append(values, c)
		}
	}
	return values, keys
}

// take adds where a column's value comes from; false if it is not clear that PostgreSQL would take it as we do.
func (b *blind) take(c semantics.Change, types []uint32) bool {
	in := input{oid: b.Type(c.Column), parameter: c.Value.Parameter, minus: c.Minus, clock: c.Clock}
	ok := true
	switch {
	case c.Clock != semantics.NoClock:
		ok = in.oid == 1114 || in.oid == 1184 && c.Clock == semantics.StampClock
		b.clocks = append(b.clocks, c.Column)
	case in.parameter == 0 || c.Bool != nil || c.Text != nil:
		ok = in.fix(c)
	default:
		if in.parameter <= len(types) {
			in.prescribed = types[in.parameter-1]
		}
		// it has one type, whatever the columns have
		ok = in.fits() && !slices.ContainsFunc(b.inputs, func(x input) bool { return x.parameter == in.parameter })
		b.parameters = max(b.parameters, in.parameter)
	}
	b.inputs = append(b.inputs, in)
	return ok
}

// fix takes a constant for the value.
func (in *input) fix(c semantics.Change) (ok bool) {
	switch {
	case c.Bool != nil:
		in.constant, ok = binaryOf(in.oid, strconv.AppendBool(nil, *c.Bool))
		return ok && in.oid == 16
	case c.Text != nil:
		in.constant, ok = binaryOf(in.oid, []byte(*c.Text))
		return ok && !isInteger(in.oid)
	}
	in.constant, ok = binaryOf(in.oid, strconv.AppendInt(nil, c.Value.Value, 10))
	return ok && isInteger(in.oid)
}

// fits reports whether a parameter of the type that is prescribed for it becomes a value of the column as it is.
func (in *input) fits() bool {
	p, oid := in.prescribed, in.oid
	words := func(oid uint32) bool { return oid == 25 || oid == 1043 }
	return p == 0 || p == oid || isInteger(p) && isInteger(oid) || words(p) && (words(oid) || oid == 1042)
}

func isInteger(oid uint32) bool { return oid == 20 || oid == 21 || oid == 23 }

// Blind reports whether it can be carried out unseen, by itself.
func (r rewritten) Blind() bool {
	return r.blind != nil && !r.blind.inserts && len(r.blind.clocks) == 0
}

// Buffered is the change that does so with the parameters of a Bind, in a transaction that has begun at began; false if
// that cannot be with these.
func (r rewritten) Buffered(bind []byte, began session.Began) (session.Unseen, bool) {
	return r.blind.unseen(bind, began)
}

// Proves reports whether a row that the statement has returned is what Buffered would have made of it.
func (r rewritten) Proves(bind []byte, row session.Returned) (shape string, ok bool) {
	what, ok := r.Buffered(bind, session.Began{Known: true})
	return what.Shape, ok && r.blind.Finds(what.Row, row.(*capture.Returned), r.blind.clocks)
}

func (u *blind) unseen(bind []byte, began session.Began) (out session.Unseen, ok bool) {
	if u == nil || len(u.clocks) > 0 && !began.Known {
		return out, false
	}
	b, err := wire.DecodeBind(wire.Frame{Raw: bind}.Body())
	if err != nil {
		return out, false
	}
	formats, params, err := wire.DecodeBindValues(b.Rest)
	if err != nil || len(params) != u.parameters || len(formats) > 1 && len(formats) != len(params) {
		return out, false
	}
	kinds := make([]byte, len(params))
	values := make([][]byte, len(u.inputs))
	for i := range u.inputs {
		in := &u.inputs[i]
		var v []byte
		if n := in.parameter - 1; n >= 0 && in.clock == semantics.NoClock {
			kinds[n] = '0' + byte(format(formats, n))
			v = params[n]
		}
		if values[i], ok = in.value(v, formats, began); !ok {
			return out, false
		}
	}
	row, ok := u.Row(values)
	if !ok || (row.Identity == 0) != u.puts {
		return out, false
	}
	return session.Unseen{Table: u.Table, Row: row, Shape: string(kinds), Tag: u.tag, Inserts: u.inserts, Puts: u.puts},
		true
}

// value is the column's value: of the parameter, the clock, or the constant.
func (in *input) value(parameter []byte, formats []uint16, began session.Began) (v []byte, ok bool) {
	v, ok = in.constant, true
	switch {
	case in.clock != semantics.NoClock && in.oid == 1184:
		v = binary.BigEndian.AppendUint64(nil, uint64(began.Stamp))
	case in.clock != semantics.NoClock:
		v = binary.BigEndian.AppendUint64(nil, uint64(began.Local))
	case in.parameter > 0:
		v, ok = in.read(parameter, format(formats, in.parameter-1))
	}
	if ok && in.minus {
		n, _ := writeset.Integer(v)
		v = integerOf(in.oid, -n)
		ok = v != nil
	}
	return v, ok
}

// format is that of the n-th parameter, from 0.
func format(formats []uint16, n int) uint16 {
	switch len(formats) {
	case 0:
		return 0
	case 1:
		return formats[0]
	}
	return formats[n]
}

// read makes a column's value of a parameter.
func (in *input) read(v []byte, format uint16) ([]byte, bool) {
	switch {
	case v == nil || format > 1:
		return nil, false
	case format == 0 && in.prescribed != 0 && isInteger(in.prescribed):
		if v, ok := binaryOf(in.prescribed, v); ok {
			return convert(in.prescribed, in.oid, v)
		}
		return nil, false
	case format == 0:
		return binaryOf(in.oid, v)
	case isInteger(in.oid):
		from := in.prescribed
		if from == 0 {
			from = in.oid
		}
		return convert(from, in.oid, v)
	}
	return v, true
}

// convert makes an integer of one type one of another, if it is such and fits.
func convert(from, to uint32, v []byte) ([]byte, bool) {
	if len(v) != map[uint32]int{20: 8, 21: 2, 23: 4}[from] {
		return nil, false
	}
	n, ok := integer(v, 1)
	out := integerOf(to, n)
	return out, ok && out != nil
}

// integerOf is an integer in binary, nil if it does not fit.
func integerOf(oid uint32, n int64) []byte {
	switch {
	case oid == 21 && n == int64(int16(n)):
		return binary.BigEndian.AppendUint16(nil, uint16(n))
	case oid == 23 && n == int64(int32(n)):
		return binary.BigEndian.AppendUint32(nil, uint32(n))
	case oid == 20:
		return binary.BigEndian.AppendUint64(nil, uint64(n))
	}
	return nil
}

// binaryOf makes of a value that is written as PostgreSQL would write it one in binary. What else PostgreSQL
// understands is left to it.
func binaryOf(oid uint32, text []byte) ([]byte, bool) {
	switch oid {
	case 20, 21, 23:
		n, err := strconv.ParseInt(string(text), 10, 64)
		v := integerOf(oid, n)
		return v, err == nil && v != nil
	case 25, 1042, 1043:
		return append([]byte{}, text...), true
	case 16:
		switch string(text) {
		case "t", "true":
			return []byte{1}, true
		case "f", "false":
			return []byte{0}, true
		}
	case 2950:
		s := string(text)
		if len(s) == 36 && s[8] == '-' && s[13] == '-' && s[18] == '-' && s[23] == '-' {
			v, err := hex.DecodeString(strings.ReplaceAll(s, "-", ""))
			return v, err == nil && len(v) == 16
		}
	}
	return nil, false
}
