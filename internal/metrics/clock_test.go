package metrics

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// counted reads a metric by the values of its labels but the database.
func counted(d *Database, name string) (out []string) {
	r := New()
	defer r.Enter("db", d, nil)()
	r.Read(func(s Sample) {
		if s.Name == Prefix+name {
			n := s.Value
			if s.Times != nil {
				n = float64(s.Times.Count)
			}
			out = append(out, fmt.Sprint(s.Values[1:], n))
		}
	})
	return out
}

// TestCommitClock: a transaction that comes through all phases is counted in each once; one that has not been collected
// or decided, in none. The time of the client is in the first one.
func TestCommitClock(t *testing.T) {
	var d Database
	var c CommitClock
	c.Begin()
	c.Committed(&d.Transactions, time.Now())
	for _, blind := range []bool{false, true} {
		if !blind {
			c.Begin()
		}
		c.Ask() // along with its last statement
		c.Waits()
		c.Collect()
		first := c.collected
		if c.Collect(); c.collected != first {
			t.Error("it is collected twice")
		}
		c.Hand()
		c.Decide()
		c.Committed(&d.Transactions, time.Now())
		c.Committed(&d.Transactions, time.Now()) // there is nothing left
	}
	want := []string{"[run] 1", "[collect] 2", "[admit] 2", "[order] 2", "[commit] 2", "[slowed] 2", "[whole] 2"}
	if got := counted(&d, "commit_phase_duration_seconds"); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	parts := time.Duration(0)
	for p := PhaseCollect; p < PhaseWhole; p++ {
		parts += d.Transactions.Phases.Of(p).Sum()
	}
	if whole := d.Transactions.Phases.Of(PhaseWhole).Sum(); parts != whole {
		t.Errorf("the parts are %s, all of it %s", parts, whole)
	}
}
