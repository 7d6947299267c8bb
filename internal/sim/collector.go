package sim

import (
	"encoding/binary"
	"errors"
	"strconv"
	"strings"

	"github.com/tuttidb/tutti/internal/semantics"
	"github.com/tuttidb/tutti/internal/session"
	"github.com/tuttidb/tutti/internal/wire"
	"github.com/tuttidb/tutti/internal/writeset"
)

// collector plays internal/collect for one session: it makes the writesets of the model's rows. What it does not have
// no simulated client asks for.
type collector struct{ s *served }

func (k collector) roles() session.Collector {
	return session.Collector{Captures: k, Rewriting: k, Facts: facts(k), Marks: marks{}}
}

// marks are those of the model.
type marks struct{}

func (marks) Secret() string   { return " of the model" }
func (marks) Mark() string     { return "/*tutti*/" }
func (marks) BulkMark() string { return "/*tutti bulk*/" }

const (
	collectName = "tutti collect of the model"
	markName    = "tutti mark of the model"
)

func (collector) AppendPrepare(dst []byte) []byte {
	for _, p := range [...][2]string{{collectName, ownCollect}, {markName, ownMark}} {
		dst = wire.AppendParse(wire.AppendClose(dst, 'S', p[0]), p[0], p[1], nil)
	}
	return dst
}

func (collector) AppendCollect(dst []byte, slot uint32, incarnation, seq uint64, anyway bool) []byte {
	return appendCall(dst, collectName, uint64(slot), incarnation, seq, uint64(bit(anyway)))
}

func (k collector) AppendAhead(dst []byte, slot uint32, incarnation, seq uint64, anyway bool) []byte {
	return k.AppendCollect(dst, slot, incarnation, seq, anyway)
}

func (collector) AppendMark(dst []byte, slot uint32, incarnation, seq uint64) []byte {
	return appendCall(dst, markName, uint64(slot), incarnation, seq)
}

func appendCall(dst []byte, name string, args ...uint64) []byte {
	values := make([][]byte, len(args))
	for i, a := range args {
		values[i] = strconv.AppendUint(nil, a, 10)
	}
	return wire.AppendExecute(wire.AppendBind(dst, "", name, nil, values, []int16{1}), "", 0)
}

// Decode reads what the collect step has found, behind what direct statements have returned.
func (k collector) Decode(rows [][][]byte, own []session.Returned) (session.Collected, error) {
	out := &collectedRows{tag: k.s.tag()}
	for _, r := range own {
		x := r.(*returned)
		out.changes = append(out.changes, x.change)
		out.order = max(out.order, x.order)
	}
	if len(rows) == 0 {
		return out, nil
	}
	if len(rows) != 1 || len(rows[0]) < 2 {
		return nil, errors.New("sim: a collect step has no answer")
	}
	order, _ := binary.Uvarint(rows[0][0])
	out.order, out.level = max(out.order, order), string(rows[0][1])
	for _, v := range rows[0][2:] {
		c, _ := parseImage(writeset.Op(v[0]), v[1:])
		out.changes = append(out.changes, c)
	}
	return out, nil
}

// collectedRows is what a transaction has changed.
type collectedRows struct {
	tag, order uint64
	level      string
	changes    []change
}

func (c *collectedRows) Order() uint64                      { return c.order }
func (c *collectedRows) Unfollowed() bool                   { return false }
func (c *collectedRows) All() bool                          { return true }
func (c *collectedRows) Isolation() string                  { return c.level }
func (c *collectedRows) Rereads() ([]session.Reread, error) { return nil, nil }
func (c *collectedRows) Complete(int, [][][]byte) error     { return nil }
func (c *collectedRows) Writeset() (*writeset.Writeset, error) {
	net := netted(c.changes)
	if len(net) == 0 {
		return &writeset.Writeset{}, nil
	}
	return encode(net, c.tag), nil
}

// facts are session.Facts: a database without functions.
type facts struct{ s *served }

// Catalog changes whenever a definition is carried out in the member's database.
func (f facts) Catalog() any {
	d := f.s.m.db
	var as defined
	for t := range tables {
		as[t] = d.shape(t)
	}
	return as
}

// defined are the shapes of all tables.
type defined [tables]int64

// Holds reports whether a table has its shape of before.
func (as defined) Holds(before any, _, name string) bool {
	was, ok := before.(defined)
	t, known := tableOf(name)
	return ok && known && was[t] == as[t]
}

func (facts) Code() bool                         { return false }
func (facts) EventTriggers() bool                { return false }
func (facts) View(string) bool                   { return false }
func (facts) Reach(string) session.Reach         { return session.Reach{} }
func (facts) Unkeyed(*semantics.Compared) bool   { return false }
func (facts) Piecewise(schema, name string) bool { return true }

// AskDirect and AskGlance ask for the shape of a table's rows.
func (collector) AskDirect(d *semantics.Direct) string {
	return ownDescribe + strings.Trim(d.Relation, `"`)
}

func (k collector) Direct(d *semantics.Direct, answer [][]byte) (session.Rewritten, bool) {
	st := understand(d.Text)
	if st == nil || st.verb < dataAdd {
		return nil, false
	}
	shape, err := strconv.ParseInt(string(answer[0]), 10, 64)
	must(err)
	return &rewritten{by: k.s.m.w.callers, of: *d, st: st, shape: shape}, true
}

func (collector) AskReadThrough(g *semantics.Glance) string {
	return ownDescribe + strings.Trim(g.Relation, `"`)
}

func (collector) Settings(image []byte) []byte {
	if image == nil {
		return nil
	}
	c, _ := parseImage(writeset.OpSet, image)
	return []byte{1 + bit(c.adds)}
}

func (collector) ReadOwn(values [][]byte) (session.Began, string, error) {
	return (&readThrough{}).Read(values)
}

func (collector) ReadThrough(g *semantics.Glance, _ []uint32, _ [][]byte, _ []byte) (session.Glance, bool) {
	text := strings.Join(strings.Fields("SELECT "+g.Text[0]+" "+strings.Trim(g.Relation, `"`)+" "+g.Text[1]), " ")
	st := understand(text)
	return &readThrough{text, st}, st != nil && st.verb == dataRead
}
