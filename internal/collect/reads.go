package collect

import (
	"slices"
	"strconv"

	"github.com/tuttidb/tutti/internal/capture"
	"github.com/tuttidb/tutti/internal/semantics"
	"github.com/tuttidb/tutti/internal/session"
	"github.com/tuttidb/tutti/internal/wire"
	"github.com/tuttidb/tutti/internal/writeset"
)

const statementPins = "tutti pins"

// pinsMax bounds the rows of a transaction that are certified one by one; a table with more is certified as a whole.
const pinsMax = 4096

// AskNames asks what relations are.
func (Collector) AskNames(relations []string) string {
	return capture.NamesSQL(relations, semantics.PlainFunctions())
}

// Names reads the answer.
func (Collector) Names(rows [][][]byte) (n session.Names, ok bool) {
	if len(rows) == 0 || len(rows[0]) != 2 {
		return n, false
	}
	n.Operators, n.Functions = string(rows[0][0]) == "true", string(rows[0][1]) == "true"
	for _, r := range rows[1:] {
		oid, err := strconv.ParseUint(string(r[0]), 10, 32)
		if err != nil {
			return n, false
		}
		if string(r[1]) != "true" {
			oid = 0 // equal texts are not the same: which of them is compared is not known here
		}
		n.OIDs = append(n.OIDs, uint32(oid))
	}
	return n, true
}

// Pins finds out which tables, read and written by statements that are all a transaction has run, were read by key.
func (c Collector) Pins(runs []session.Run, oids map[string]uint32) (session.Pins, bool) {
	p := pinning{tables: map[uint32]*pinned{}, scanned: map[uint64]bool{}}
	var relations []string
	var numbers []uint32
	for _, run := range runs {
		for i := range run.Reads.Tables {
			t := &run.Reads.Tables[i]
			desc := c.tables().ByOID(oids[t.Relation])
			if desc == nil || !p.read(desc, t, &run) {
				return nil, false
			}
			if !slices.Contains(relations, t.Relation) {
				relations, numbers = append(relations, t.Relation), append(numbers, oids[t.Relation])
			}
		}
	}
	out := &pins{}
	var list []capture.Pins
	for _, oid := range p.order {
		t := p.tables[oid]
		out.cover(&p, t.desc.PinTable().Key)
		if t.writes && !t.loses {
			for _, k := range t.desc.References() {
				out.cover(&p, k)
			}
		}
		if !p.scanned[t.desc.PinTable().Key] {
			list = append(list, capture.Pins{Table: t.desc, Rows: t.rows})
		}
	}
	for _, oid := range p.order {
		if t := p.tables[oid]; t.writes && t.loses { // what it has referred to is not all in the writeset
			out.uncover(t.desc.References())
		}
	}
	out.query = capture.QueryPins(relations, numbers, list)
	return out, true
}

// pinning gathers what is known of a transaction's tables.
type pinning struct {
	tables  map[uint32]*pinned
	order   []uint32
	scanned map[uint64]bool // keys of tables that were not read by key alone
	count   int
}

type pinned struct {
	desc   *capture.TableDesc
	rows   [][]capture.PinValue
	writes bool // rows may refer to other tables
	loses  bool // rows may go again, and with them what they referred to
}

// read adds one table of a statement. False if more may have been read than its text says.
func (p *pinning) read(d *capture.TableDesc, t *semantics.TableRead, run *session.Run) bool {
	if !d.Plainly() {
		return false
	}
	for _, name := range t.Named {
		if !slices.ContainsFunc(d.Columns, func(c capture.Column) bool { return c.Name == name }) {
			return false
		}
	}
	rekeys := len(t.Sets) > 0 && d.SetsUnique(t.Sets)
	if d.Referenced && (t.Verb == semantics.Delete || rekeys) { // who refers to it is looked for
		return false
	}
	of := p.tables[d.OID]
	if of == nil {
		of = &pinned{desc: d}
		p.tables[d.OID] = of
		p.order = append(p.order, d.OID)
	}
	of.writes = of.writes || t.Verb == semantics.Insert || t.Verb == semantics.Update
	of.loses = of.loses || t.Verb == semantics.Delete || rekeys
	rows, ok := lookups(d, t, run, pinsMax-p.count)
	if !ok {
		p.scanned[d.PinTable().Key] = true
	}
	of.rows = append(of.rows, rows...)
	p.count += len(rows)
	return true
}

// lookups are the keys by which a statement has looked for rows. False if it has not done so by key, or by more than
// rowsMax.
func lookups(d *capture.TableDesc, t *semantics.TableRead, run *session.Run, rowsMax int) (rows [][]capture.PinValue,
	ok bool) {
	if t.Scans || t.Verb == semantics.Insert && len(t.Looks) > 0 && len(d.Indexes) != 1 {
		return nil, false
	}
	columns := d.PinColumns()
	for i := range t.Looks {
		l := &t.Looks[i]
		some := [][]capture.PinValue{nil}
		for _, c := range columns {
			at := slices.Index(l.Columns, c.Name)
			if l.Columns == nil {
				at = slices.IndexFunc(d.Columns, func(x capture.Column) bool { return x.Num == c.Num })
			}
			if at < 0 || at >= len(l.Values) || len(some)*len(l.Values[at]) > rowsMax {
				return nil, false
			}
			var more [][]capture.PinValue
			for j := range l.Values[at] {
				v, ok := value(c.OID, &l.Values[at][j], run)
				if !ok {
					return nil, false
				}
				for _, row := range some {
					more = append(more, append(row[:len(row):len(row)], v))
				}
			}
			some = more
		}
		if rows = append(rows, some...); len(columns) == 0 || len(rows) > rowsMax {
			return nil, false
		}
	}
	return rows, true
}

// value is what a column is compared with; false if it cannot be told that it is compared as a value of the
// column's type.
func value(column uint32, o *semantics.Operand, run *session.Run) (v capture.PinValue, ok bool) {
	if o.Cast != "" {
		if v.Cast = capture.PinType(o.Cast); v.Cast == 0 {
			return v, false
		}
	}
	means := v.Cast
	switch o.Kind {
	case semantics.TextOperand:
		if means == 0 {
			means = column
		}
		if v.Type, v.Cast = means, 0; capture.PinMoment(means) {
			return v, false
		}
		v.Value = []byte(o.Text)
	case semantics.NumberOperand:
		if means != 0 && !capture.PinInteger(means) {
			return v, false
		}
		means = 20
		v.Type, v.Cast, v.Value = means, 0, []byte(o.Text)
	case semantics.BoolOperand:
		v.Type, v.Value = 16, []byte(o.Text)
		if means == 0 {
			means = 16
		}
	case semantics.ParamOperand, semantics.ArrayOperand:
		if o.Param < 1 || o.Param > len(run.Values) {
			return v, false
		}
		v.Value, v.Format, v.Array = run.Values[o.Param-1], run.Format(o.Param-1), o.Kind == semantics.ArrayOperand
		if means, ok = parameter(column, o, run, &v); !ok {
			return v, false
		}
	default:
		return v, false
	}
	return v, capture.PinFits(column, means)
}

// parameter finds a parameter's type, as the client has said it or the server infers it, and the one it is compared as.
func parameter(column uint32, o *semantics.Operand, run *session.Run, v *capture.PinValue) (means uint32, ok bool) {
	const unknown = 705
	if o.Param <= len(run.Types) {
		v.Type = run.Types[o.Param-1]
	}
	switch {
	case v.Type != 0 && v.Type != unknown:
	case !o.Alone:
		return 0, false
	case v.Cast != 0:
		v.Type = v.Cast
	case v.Array:
		v.Type = capture.PinArray(column)
	default:
		v.Type = column
	}
	means = v.Type
	if v.Array {
		return capture.PinElement(v.Type), v.Cast == 0
	}
	if v.Cast != 0 {
		means = v.Cast
	}
	return means, capture.PinArray(v.Type) != 0
}

// pins is a query for pinned rows, as the session wants it.
type pins struct {
	query   *capture.PinQuery
	covered []uint64 // keys of tables of which nothing else was read
}

func (p *pins) cover(of *pinning, key uint64) {
	if !of.scanned[key] && !slices.Contains(p.covered, key) {
		p.covered = append(p.covered, key)
	}
}

func (p *pins) uncover(keys []uint64) {
	p.covered = slices.DeleteFunc(p.covered, func(k uint64) bool { return slices.Contains(keys, k) })
}

func (p *pins) Append(dst []byte) []byte {
	dst = wire.AppendClose(dst, 'S', statementPins)
	dst = wire.AppendParse(dst, statementPins, p.query.SQL, p.query.OIDs)
	dst = wire.AppendBind(dst, "", statementPins, p.query.Formats, p.query.Values, binaryFormat)
	return wire.AppendExecute(dst, "", 0)
}

func (p *pins) Read(rows [][][]byte) ([]uint64, []writeset.Pinned, bool, error) {
	found, ok, err := p.query.Read(rows)
	return p.covered, found, ok, err
}
