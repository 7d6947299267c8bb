package sim

import (
	"encoding/binary"
	"errors"
	"slices"
	"strconv"

	"github.com/tuttidb/tutti/internal/semantics"
	"github.com/tuttidb/tutti/internal/session"
	"github.com/tuttidb/tutti/internal/wire"
	"github.com/tuttidb/tutti/internal/writeset"
)

// returned is a row that a direct statement has returned.
type returned struct {
	change
	tag, root, order uint64
	caught, alone    bool
}

func (r *returned) Captured() bool   { return r.caught }
func (r *returned) Forged() bool     { return false }
func (r *returned) Alone(bool) bool  { return r.alone }
func (r *returned) Size() int        { return 100 }
func (r *returned) Who() string      { return modelWho }
func (r *returned) Identity() uint64 { return r.key.identity() }
func (r *returned) Order() uint64    { return r.order }

// rewritten is a client's statement that returns what it changes.
type rewritten struct {
	by    *callers // sessions share it
	of    semantics.Direct
	st    *dataStatement
	shape int64 // of its table's rows when it was made
}

func (r *rewritten) SQL() string {
	if r.of.Returns != "" {
		return ownDirect + r.of.Text + returningN
	}
	return ownDirect + r.of.Text
}
func (r *rewritten) Columns() int  { return 1 }
func (r *rewritten) Probe() string { return ownProbe + r.of.Text }

// Target is what it changes.
func (r *rewritten) Target() session.Target {
	return session.Target{Table: r.st.table.oid(), Name: r.st.table.sql(), Inserts: r.st.verb == dataInsert}
}

// Read decodes what backend.changed has returned.
func (r *rewritten) Read(values [][]byte) (session.Returned, error) {
	if len(values) != 1 || len(values[0]) < 3 {
		return nil, errors.New("sim: a returned row is none")
	}
	b := values[0]
	out := &returned{caught: b[1] == 1, alone: b[2] == 1}
	op := writeset.Op(b[0])
	order, n := binary.Uvarint(b[3:])
	b = b[3+n:]
	root, n := binary.Uvarint(b)
	out.order, out.root = order, root
	out.change, out.tag = parseImage(op, b[n:])
	return out, nil
}

// bound are the parameters of a Bind.
func bound(bind []byte) [][]byte {
	b, err := wire.DecodeBind(wire.Frame{Raw: bind}.Body())
	must(err)
	_, values, err := wire.DecodeBindValues(b.Rest)
	must(err)
	return values
}

// Blind reports whether the statement finds its row by the key alone, and needs to see nothing of it.
func (r *rewritten) Blind() bool {
	if len(r.of.Finds) != 1 || r.st.table == tList || r.of.Returns != "" {
		return false
	}
	return r.of.Verb == semantics.Update && len(r.of.Changes) == 1 || r.of.Verb == semantics.Delete
}

// Unseen makes a blind change. The rows of these tables have no list: its place has the shape for which it was made.
func (r *rewritten) Buffered(bind []byte, _ session.Began) (session.Unseen, bool) {
	if !r.Blind() {
		return session.Unseen{}, false
	}
	values := bound(bind)
	c := change{key: r.st.key(values), op: writeset.OpSet, adds: r.st.verb == dataAdd,
		v: value{n: r.st.by(values), list: []uint64{uint64(r.shape) + 1}}}
	tag := "UPDATE 1"
	if r.st.verb == dataDelete {
		c.op, tag = writeset.OpDrop, "DELETE 1"
	}
	t := modelTable(r.st.table)
	t.Name = r.st.table.sql() // as clients know it
	return session.Unseen{
		Table: t, Shape: "digits", Tag: tag,
		Row: writeset.Row{Op: c.op, Identity: c.key.identity(), Image: c.image(r.by.runs.tag())},
	}, true
}

// Proves reports whether a row is the one that Unseen would have changed.
func (r *rewritten) Proves(bind []byte, row session.Returned) (string, bool) {
	x, ok := row.(*returned)
	return "digits", ok && r.Blind() && x.key == r.st.key(bound(bind))
}

func (r *rewritten) AppendProbe(dst []byte, name string, what *session.Unseen) ([]byte, error) {
	c, _ := parseImage(what.Row.Op, what.Row.Image)
	v := []byte(strconv.Itoa(int(c.key.id)))
	return wire.AppendBind(dst, "", name, nil, [][]byte{v, v}, []int16{1}), nil
}

// Adds tells what it adds to which counter.
func (r *rewritten) Adds(bind []byte) (session.Adds, bool) {
	if r.st.table != tCounter || len(r.of.Adds) != 1 || r.of.Returns != "" {
		return session.Adds{}, false
	}
	values := bound(bind)
	of := r.Target()
	return session.Adds{Table: of.Table, Name: of.Name, Row: r.st.key(values).String(), Shape: "digits",
		By: []int64{r.st.by(values)}}, true
}

// Counted is what is known of a row before by was added.
func (r *rewritten) Counted(row session.Returned, by []int64) (session.Counted, bool) {
	x := row.(*returned)
	return session.Counted{Identity: x.Identity(), Values: []int64{x.v.n - by[0], int64(x.root)},
		Columns: counterColumns{}}, true
}

// Addition is what others are told of an addition.
func (r *rewritten) Delta(row session.Counted, by []int64) (writeset.Addition, bool) {
	for id := range rowsOf[tCounter] {
		if k := (rowKey{tCounter, id}); k.identity() == row.Identity {
			c := change{key: k, op: writeset.OpAdd, prev: uint64(row.Values[1]), v: value{n: by[0]}}
			return writeset.Addition{Table: modelTable(tCounter), Identity: row.Identity, Image: c.image(r.by.runs.tag())}, true
		}
	}
	return writeset.Addition{}, false
}

// readThrough is a SELECT of one row that shows it as it will be.
type readThrough struct {
	text string
	st   *dataStatement
}

func (g *readThrough) SQL() string  { return ownReadThrough + g.text }
func (g *readThrough) Columns() int { return 1 }

// Target is what it looks at.
func (g *readThrough) Target() session.Target { return session.Target{Name: g.st.table.sql()} }

func (g *readThrough) At(bind []byte) (uint64, bool) { return g.st.key(bound(bind)).identity(), true }

func (g *readThrough) AppendBind(dst []byte, name string, bind, image []byte, formats []int16) ([]byte, error) {
	values := append(slices.Clone(bound(bind)), image)
	return wire.AppendBind(dst, "", name, nil, values, append([]int16{1}, formats...)), nil
}

func (g *readThrough) Read(values [][]byte) (session.Began, string, error) {
	if len(values) != 1 {
		return session.Began{}, "", errors.New("sim: a glance has returned no column of its own")
	}
	return session.Began{Known: true, Stamp: 1}, string(values[0]), nil
}
