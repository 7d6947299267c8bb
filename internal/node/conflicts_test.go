package node

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/tuttidb/tutti/internal/metrics"
	"github.com/tuttidb/tutti/internal/session"
)

// counted reads a metric by the values of its labels but the database.
func counted(d *metrics.Database, name string) (out []string) {
	r := metrics.New()
	defer r.Enter("db", d, nil)()
	r.Read(func(s metrics.Sample) {
		if s.Name == metrics.Prefix+name {
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
	var d metrics.Database
	var c commitClock
	c.begin()
	c.committed(&d.Transactions, time.Now())
	for _, blind := range []bool{false, true} {
		if !blind {
			c.begin()
		}
		c.ask() // along with its last statement
		c.enter(session.PhaseWaiting)
		c.collect()
		first := c.collected
		if c.collect(); c.collected != first {
			t.Error("it is collected twice")
		}
		c.hand()
		c.decide()
		c.committed(&d.Transactions, time.Now())
		c.committed(&d.Transactions, time.Now()) // there is nothing left
	}
	want := []string{"[run] 1", "[collect] 2", "[admit] 2", "[order] 2", "[commit] 2", "[slowed] 2", "[whole] 2"}
	if got := counted(&d, "commit_phase_duration_seconds"); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	parts := time.Duration(0)
	for p := metrics.PhaseCollect; p < metrics.PhaseWhole; p++ {
		parts += d.Transactions.Phases.Of(p).Sum()
	}
	if whole := d.Transactions.Phases.Of(metrics.PhaseWhole).Sum(); parts != whole {
		t.Errorf("the parts are %s, all of it %s", parts, whole)
	}
}
