package audit

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/tuttidb/tutti/internal/config"
)

// TestJudgePart: who is not with most of those that have answered differs; who has not answered says nothing.
func TestJudgePart(t *testing.T) {
	for _, c := range []struct {
		sums     []string // of members 1…; "": no answer, "!": an error
		compared bool
		differs  []uint32
	}{
		{[]string{"a", "a", "a"}, true, nil},
		{[]string{"a", "b", "a"}, true, []uint32{2}},
		{[]string{"a", "b", "c"}, true, []uint32{1, 2, 3}},
		{[]string{"a", "b", ""}, false, []uint32{1, 2}},
		{[]string{"a", "", "a"}, false, nil},
		{[]string{"!", "a", "a"}, false, nil},
		{[]string{"!", "!", "!"}, false, nil},
		{[]string{"b", "a", "a", "b", "a"}, true, []uint32{1, 4}},
		{[]string{"a"}, true, nil},
	} {
		got := map[uint32]report{}
		for i, s := range c.sums {
			r := report{Member: uint32(i + 1), Ordinal: 7, Micros: int64(i)}
			switch s {
			case "":
				continue
			case "!":
				r.Error = "busy"
			default:
				r.Tables = []Sum{{Table: "t", Rows: 1, Sum: s}}
			}
			got[r.Member] = r
		}
		v := judgePart("t", len(c.sums), got)
		var differs []uint32
		if v.differs != nil {
			differs = v.differs.Members
		}
		if v.compared != c.compared || !slices.Equal(differs, c.differs) {
			t.Errorf("%v: compared %v, differs %v", c.sums, v.compared, differs)
		}
		if want := time.Duration(len(c.sums)-1) * time.Microsecond; c.compared && v.took != want {
			t.Errorf("%v: took %v, want that of the slowest, %v", c.sums, v.took, want)
		}
	}
}

// TestPartCondition: a part is behind one key and up to another, whatever its values look like.
func TestPartCondition(t *testing.T) {
	p := part{Table: "t", Key: []keyColumn{{"a", "integer"}, {`"B"`, "text"}}, After: []string{"1", "it's"},
		UpTo: []string{"2", ""}}
	const want = `true AND ROW(a, "B") > ROW('1'::integer, 'it''s'::text) AND ROW(a, "B") <= ROW('2'::integer, ` +
		`''::text)`
	if got := p.condition(); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func FuzzDecodePart(f *testing.F) {
	f.Add([]byte(`{"table":"t","key":[{"name":"a","type":"int"}],"after":["1"],"up_to":["2"]}`))
	f.Add([]byte(`{"table":"t","after":["1"]}`))
	f.Add([]byte(`null`))
	f.Fuzz(func(_ *testing.T, data []byte) {
		if p, err := decodePart(data); err == nil && p != nil {
			_ = fmt.Sprint(p.condition())
		}
	})
}

// TestNoAuditAwaitsHalted: an audit waits for members that are alive, unless they are halted.
func TestNoAuditAwaitsHalted(t *testing.T) {
	members := func() []config.Member { return []config.Member{{Member: 1}, {Member: 2}, {Member: 3}, {Member: 4}} }
	a := New(Replica{Members: members, State: func(m uint32) (State, bool) {
		return State{Halted: m == 3}, m != 4
	}})
	answered := map[uint32]report{1: {Member: 1}, 2: {Member: 2}}
	if a.awaited(answered) {
		t.Error("the audit waits for a halted member")
	}
	if delete(answered, 2); !a.awaited(answered) {
		t.Error("the audit does not wait for a member that has not answered")
	}
}
