package collect

import (
	"slices"

	"github.com/tuttidb/tutti/internal/capture"
	"github.com/tuttidb/tutti/internal/semantics"
	"github.com/tuttidb/tutti/internal/session"
	"github.com/tuttidb/tutti/internal/wire"
	"github.com/tuttidb/tutti/internal/writeset"
)

// glance is a SELECT of one row as it is with a change that was put off.
type glance struct {
	*blind
	sql string
	oid uint32
}

// AskReadThrough is AskDirect for a glance.
func (Collector) AskReadThrough(g *semantics.Glance) string {
	return capture.DirectSQL(g.Relation, "SELECT", nil)
}

// Glance makes a glance of a SELECT, given the answer and the types of its parameters, at a row that is changed as one
// with this image is, or not if it is nil.
func (c Collector) ReadThrough(g *semantics.Glance, types []uint32, answer [][]byte, image []byte) (
	session.Glance, bool) {
	if len(answer) != 6 || string(answer[2]) != "t" {
		return nil, false
	}
	t := c.tables().Capture(string(answer[0]), string(answer[1]))
	if t == nil || slices.ContainsFunc(g.Columns, func(name string) bool {
		return !slices.ContainsFunc(t.Columns, func(c capture.Column) bool { return c.Name == name })
	}) {
		return nil, false
	}
	b := &blind{}
	var keys []semantics.Change
	var finds []string
	for _, f := range g.Finds {
		keys, finds = append(keys, semantics.Change{Column: f.Column, Value: f.Value}), append(finds, f.Column)
	}
	table, ok := capture.BlindTable{TableDesc: t}, false
	if b.Blind, ok = table.Look(finds); !ok || !b.takeKeys(keys, finds, types) {
		return nil, false
	}
	sql, ok := t.GlanceSQL(g.Alias, g.Text, image, b.parameters+1)
	return glance{b, sql, t.OID}, ok
}

func (g glance) SQL() string { return g.sql }

// Target is what it looks at.
func (g glance) Target() session.Target {
	return session.Target{Table: g.oid, Schema: g.Table.Schema, Name: g.Table.Name}
}

func (glance) Columns() int { return capture.GlanceColumns }

// At is which row the glance is at, with the parameters of a Bind.
func (g glance) At(bind []byte) (identity uint64, ok bool) {
	what, ok := g.unseen(bind, session.Began{})
	return what.Row.Identity, ok
}

// Probe is the statement that tells whether the row of an Unseen is there, and AppendProbe binds it. It returns a
// glance's own columns.
func (r rewritten) Probe() string { return r.blind.ProbeSQL() }

func (r rewritten) AppendProbe(dst []byte, name string, what *session.Unseen) ([]byte, error) {
	values, err := r.blind.KeyValues(what.Row)
	return wire.AppendBind(dst, "", name, []int16{1}, values, []int16{1}), err
}

// ReadOwn is Glance.Read.
func (Collector) ReadOwn(values [][]byte) (session.Began, string, error) {
	return readGlance(values)
}

// Settings is what of the image of a change decides what a glance at the row is.
func (Collector) Settings(image []byte) []byte {
	_, record, err := writeset.ReadSet(image)
	if err != nil {
		return nil
	}
	return image[:len(image)-len(record)]
}

// AppendBind binds it, with those and the values of the change.
func (glance) AppendBind(dst []byte, name string, bind, image []byte, formats []int16) ([]byte, error) {
	b, err := wire.DecodeBind(wire.Frame{Raw: bind}.Body())
	if err != nil {
		return dst, err
	}
	given, values, err := wire.DecodeBindValues(b.Rest)
	if err != nil {
		return dst, err
	}
	all := make([]int16, len(values))
	for i := range all {
		all[i] = int16(format(given, i))
	}
	if image != nil {
		more, err := capture.GlanceValues(image)
		if err != nil {
			return dst, err
		}
		values = append(values, more...)
		all = append(all, slices.Repeat([]int16{1}, len(more))...)
	}
	own := slices.Repeat([]int16{1}, capture.GlanceColumns)
	return wire.AppendBind(dst, "", name, all, values, append(own, formats...)), nil
}

func (glance) Read(values [][]byte) (session.Began, string, error) { return readGlance(values) }

func readGlance(values [][]byte) (began session.Began, who string, err error) {
	g, err := capture.ReadGlance(values)
	return session.Began{Known: true, Stamp: g.Stamp, Local: g.Local}, g.Who, err
}
