package node

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/tuttidb/tutti/internal/certify"
	"github.com/tuttidb/tutti/internal/metrics"
	"github.com/tuttidb/tutti/internal/session"
	"github.com/tuttidb/tutti/internal/writeset"
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

// TestConflictsByTable: what a verdict names is counted, a table that stands for the locks of another one under that
// one's name, and what names none without a table.
func TestConflictsByTable(t *testing.T) {
	var d metrics.Database
	ws := &writeset.Writeset{Tables: []writeset.Table{{Schema: "public", Name: "a"}, {Schema: "public", Name: "b"}}}
	key := func(table uint32, mode writeset.Mode) certify.Verdict {
		return certify.Verdict{Reason: certify.KeyConflict, Key: writeset.Key{Table: table, Mode: mode}}
	}
	for _, v := range []certify.Verdict{key(0, writeset.Exclusive), key(0, writeset.Exclusive), key(1, writeset.Read),
		key(7, writeset.Exclusive), {Reason: certify.Barrier}, {Reason: certify.TooOld}} {
		countConflict(&d.Transactions, ws, v)
	}
	want := []string{"[  ] 1", "[  definition] 1", "[  too_old] 1", "[public a row] 2", "[public b read] 1"}
	if got := counted(&d, "conflicts_total"); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
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
