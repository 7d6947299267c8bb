package plancache

import (
	"fmt"
	"slices"
	"testing"

	"github.com/tuttidb/tutti/internal/session"
	"github.com/tuttidb/tutti/internal/session/plan"
)

// TestOneCatalog: what is known counts as of one catalog (PC1), and one identity is known once.
func TestOneCatalog(t *testing.T) {
	var c Cache
	first, second := new(int), new(int)
	if got := c.CachedPlans(first, []byte("k")); got != nil {
		t.Errorf("an empty cache knows %v", got)
	}
	c.CachePlan(first, []byte("k"), session.Foreknown{Who: "a", Shape: "x"})
	c.CachePlan(first, []byte("k"), session.Foreknown{Who: "a", Shape: "y"})
	if got := c.CachedPlans(first, []byte("k")); len(got) != 1 || got[0].Shape != "x" {
		t.Errorf("of one identity is known %v", got)
	}
	if c.CachedPlans(second, []byte("k")) != nil {
		t.Error("what is known of one catalog counts for another one")
	}
	c.CachePlan(second, []byte("l"), session.Foreknown{Who: "a"})
	if c.CachedPlans(first, []byte("k")) != nil || len(c.CachedPlans(second, []byte("l"))) != 1 {
		t.Error("the catalog before the last one is still known")
	}
}

// definitions are a catalog: those of a table are counted.
type definitions struct{ of string }

func (d definitions) Holds(_ any, _, name string) bool { return name != d.of }

// about is how a statement is run that changes a table.
type about struct {
	session.Rewritten
	table string
}

func (a about) Target() session.Target { return session.Target{Name: a.table} }

// TestDefinedElsewhere: what is known of tables that a definition does not concern stays.
func TestDefinedElsewhere(t *testing.T) {
	var c Cache
	first, second := definitions{"none"}, definitions{"b"}
	for _, table := range []string{"a", "b"} {
		c.CachePlan(first, []byte(table), session.Foreknown{How: about{table: table}})
	}
	for _, table := range []string{"a", "b", "c"} { // one text, by the search_path of who sends it
		c.CachePlan(first, []byte("any"), session.Foreknown{Who: table, How: about{table: table}})
	}
	c.CachePlan(first, []byte("told"), session.Foreknown{Answer: [][]byte{nil}})
	for range 2 {
		for table, want := range map[string]int{"a": 1, "b": 0, "told": 0, "any": 2} {
			if got := c.CachedPlans(second, []byte(table)); len(got) != want {
				t.Errorf("of %s is known %v", table, got)
			}
		}
		if slices.ContainsFunc(c.CachedPlans(second, []byte("any")),
			func(k session.Foreknown) bool { return k.Who == "b" }) {
			t.Error("what a definition concerns is known to who was not the first to tell it")
		}
		c.CachePlan(second, []byte("c"), session.Foreknown{How: about{table: "c"}})
	}
	if len(c.CachedPlans(second, []byte("c"))) != 1 {
		t.Error("what was told last is not known")
	}
}

// TestBounds: identities beyond the bound are not taken, and a statement beyond it begins anew (PC2). What was given
// out stays as it was (PC3).
func TestBounds(t *testing.T) {
	var c Cache
	var given [][]session.Foreknown
	for i := range WhoMax + 3 {
		c.CachePlan(1, []byte("k"), session.Foreknown{Who: fmt.Sprint(i)})
		given = append(given, c.CachedPlans(1, []byte("k")))
	}
	for i, g := range given {
		if want := min(i+1, WhoMax); len(g) != want || g[want-1].Who != fmt.Sprint(want-1) {
			t.Errorf("after %d identities there were %v", i+1, g)
		}
	}
	for i := range FormsMax - 1 {
		c.CachePlan(1, fmt.Append(nil, i), session.Foreknown{})
	}
	if c.CachedPlans(1, []byte("k")) == nil {
		t.Error("as many statements as may be known are not")
	}
	c.CachePlan(1, []byte("one more"), session.Foreknown{})
	if c.CachedPlans(1, []byte("k")) != nil || len(c.CachedPlans(1, []byte("one more"))) != 1 {
		t.Error("a statement that is one too many does not begin anew")
	}
}

// TestShow: every plan has a row with its count, and reasons come behind them, the commonest first.
func TestShow(t *testing.T) {
	var c Cache
	better, lesser := plan.Kind(0), plan.Kind(1)
	rare, common := plan.None+1, plan.None+2
	c.Count(plan.Plan{Kind: lesser, Refused: better, Because: rare})
	for range 2 {
		c.Count(plan.Plan{Kind: lesser, Refused: better, Because: common})
	}
	c.Count(plan.Plan{Kind: better})
	r := c.Show()
	want := [][]string{{better.String(), "2", common.String()}, {better.String(), "1", rare.String()}}
	if n := int(plan.KindsMax); len(r.Rows) != n+2 || !slices.Equal(r.Rows[0], []string{better.String(), "1", ""}) ||
		!slices.Equal(r.Rows[1], []string{lesser.String(), "3", ""}) || !slices.Equal(r.Rows[n], want[0]) ||
		!slices.Equal(r.Rows[n+1], want[1]) {
		t.Errorf("%q, want %q at the end", r.Rows, want)
	}
}
