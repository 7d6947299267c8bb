package session_test

import (
	"fmt"
	"strings"
	"testing"
)

// TestPlanWithoutOwnTriggers: EXPLAIN ANALYZE tells of the triggers of users only, and what it explains is done
// once.
func TestPlanWithoutOwnTriggers(t *testing.T) {
	s := newStage(t, true)
	l := s.live(t)
	got := l.do("Q EXPLAIN (ANALYZE, COSTS off, TIMING off, SUMMARY off) INSERT INTO t VALUES (71, 'x'); SELECT " +
		"'Trigger !!tutti', count(*) FROM t WHERE id = 71")
	if strings.Contains(got, "Trigger !!tutti:") || !strings.Contains(got, "Insert on t") ||
		!strings.Contains(got, "Trigger !!tutti") {
		t.Error(got)
	}
}

// TestPreparedWrites: a prepared SELECT that has turned out to write is known to do so the next time.
func TestPreparedWrites(t *testing.T) {
	l := newStage(t, true).live(t)
	l.do("P w|SELECT repeat('x', 1000), CASE WHEN g = 400 THEN put($1, 'c') END FROM generate_series(1, 400) g\nS")
	for i, want := range []string{"ERROR 0A000", "SELECT 400"} {
		l.plans = nil
		got := l.do(fmt.Sprintf("B |w|%d\nE |0\nS", 10+i))
		if last := got[max(0, len(got)-300):]; !strings.Contains(last, want) || len(l.plans) != 1 {
			t.Errorf("at %d: %d plans, and the client got …%s", i, len(l.plans), last)
		}
	}
}
