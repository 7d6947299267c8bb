package session_test

import (
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
