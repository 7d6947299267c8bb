package session

import (
	"strings"
	"testing"

	"github.com/tuttidb/tutti/internal/wire"
)

type ownMarks struct{}

func (ownMarks) Secret() string   { return " 1" }
func (ownMarks) Mark() string     { return "/*own*/" }
func (ownMarks) BulkMark() string { return "/*own bulk*/" }

func newNamed() *named {
	return &named{texts: &texts{reserved: ownMarks{}, cache: newCache(16)}, locks: &locks{},
		statements: map[string]*prepared{}, portals: map[string]*prepared{}}
}

// TestNamedTakeBack sends messages of which some are carried out and the others are not, as after an error. What the
// names stand for is what they stand for at the server then.
func TestNamedTakeBack(t *testing.T) {
	parse := func(name, sql string) []byte { return wire.AppendParse(nil, name, sql, nil) }
	bind := func(portal, name string) []byte { return wire.AppendBind(nil, portal, name, nil, nil, nil) }
	closes := func(kind byte, name string) []byte { return wire.AppendClose(nil, kind, name) }
	for _, c := range []struct {
		name string
		sent [][]byte
		done int
		want string // statements, then portals
	}{
		{"all", [][]byte{parse("a", "SELECT 1"), bind("p", "a")}, 2, "a=SELECT 1; p=SELECT 1"},
		{"none", [][]byte{parse("a", "SELECT 1"), bind("p", "a")}, 0, "; "},
		{"a portal only", [][]byte{parse("a", "SELECT 1"), bind("p", "a")}, 1, "a=SELECT 1; "},
		{"a name given away", [][]byte{parse("a", "SELECT 1"), closes('S', "a"), parse("a", "SELECT 2")}, 1,
			"a=SELECT 1; "},
		{"given away and carried out", [][]byte{parse("a", "SELECT 1"), closes('S', "a"), parse("a", "SELECT 2")}, 3,
			"a=SELECT 2; "},
		{"carried out in part", [][]byte{parse("a", "SELECT 1"), closes('S', "a"), parse("a", "SELECT 2")},
			2, "; "},
		{"the one without a name", [][]byte{parse("", "SELECT 1"), parse("", "SELECT 2"), parse("", "SELECT 3")}, 2,
			"=SELECT 2; "},
		{"a portal that is bound again", [][]byte{parse("a", "SELECT 1"), parse("b", "SELECT 2"), bind("p", "a"),
			bind("p", "b")}, 3, "a=SELECT 1 b=SELECT 2; p=SELECT 1"},
		{"a portal that is closed", [][]byte{parse("a", "SELECT 1"), bind("p", "a"), closes('P', "p")}, 2,
			"a=SELECT 1; p=SELECT 1"},
		{"what is refused changes nothing", [][]byte{parse("a", "COMMIT"), parse("a", "SELECT 1")}, 1,
			"a=COMMIT; "},
		{"what only looks", [][]byte{parse("a", "SELECT 1"), bind("p", "a"), wire.AppendExecute(nil, "p", 0),
			wire.AppendDescribe(nil, 'P', "p"), wire.AppendExecute(nil, "b", 0)}, 2, "a=SELECT 1; p=SELECT 1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := newNamed()
			var sent []message
			for _, raw := range c.sent {
				f := wire.Frame{Type: raw[0], Raw: raw}
				m, err := k.examine(f)
				if err != nil {
					t.Fatal(err)
				}
				m.typ = f.Type
				sent = append(sent, m)
			}
			k.takeBack(sent[c.done:])
			got := shown(k.statements) + "; " + shown(k.portals)
			if got != c.want {
				t.Errorf("the names stand for %q, want %q", got, c.want)
			}
		})
	}
}

// shown are names of at most one letter and their texts.
func shown(of map[string]*prepared) string {
	var list []string
	for _, name := range []string{"", "a", "b", "p"} {
		if p := of[name]; p != nil {
			list = append(list, name+"="+p.sql)
		}
	}
	return strings.Join(list, " ")
}

// TestNamedRefuses sends messages that nobody but the session may send, or that PostgreSQL would take otherwise.
func TestNamedRefuses(t *testing.T) {
	for _, c := range []struct {
		name string
		raw  []byte
		code string
	}{
		{"a name of ours", wire.AppendParse(nil, ownBegin, "SELECT 1", nil), wire.CodeInsufficientPrivilege},
		{"a portal with a name of ours", wire.AppendBind(nil, ownBegin, "", nil, nil, nil),
			wire.CodeInsufficientPrivilege},
		{"to close a name of ours", wire.AppendClose(nil, 'S', ownCommit), wire.CodeInsufficientPrivilege},
		{"a comment of ours", wire.AppendParse(nil, "a", "/*own*/ INSERT INTO t VALUES (1)", nil),
			wire.CodeInsufficientPrivilege},
		{"a name that COMMIT has", wire.AppendParse(nil, "c", "SELECT 1", nil), wire.CodeDuplicatePreparedStmt},
		{"parameters for COMMIT", wire.AppendBind(nil, "", "c", nil, [][]byte{nil}, nil), wire.CodeProtocolViolation},
		{"a name that SELECT has", wire.AppendParse(nil, "s", "SELECT 2", nil), ""}, // the backend refuses that
	} {
		t.Run(c.name, func(t *testing.T) {
			k := newNamed()
			for name, sql := range map[string]string{"c": "COMMIT", "s": "SELECT 1"} { // order-free: two names
				k.examineParse(wire.Parse{Name: name, SQL: sql})
			}
			m, err := k.examine(wire.Frame{Type: c.raw[0], Raw: c.raw})
			if err != nil {
				t.Fatal(err)
			}
			code := ""
			if m.err != nil {
				code = m.err.Code
			}
			if code != c.code {
				t.Errorf("refused with %q, want %q", code, c.code)
			}
		})
	}
}
