package session_test

import (
	"context"
	"strings"
	"testing"

	"github.com/tuttidb/tutti/internal/session"
	"github.com/tuttidb/tutti/internal/wire"
)

// TestToldEarly: a NOTICE leaves while its statement goes on, and is not repeated when the statement is run
// again.
func TestToldEarly(t *testing.T) {
	s := newStage(t, true)
	s.define(t, `CREATE FUNCTION slowly(n int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN
		RAISE NOTICE 'begun'; PERFORM pg_advisory_xact_lock_shared(7); RAISE NOTICE 'woken'; RETURN n; END $$`)
	lock := func(f string) {
		t.Helper()
		if _, err := s.admin.Exec(context.Background(), "SELECT "+f+"(7)"); err != nil {
			t.Fatal(err)
		}
	}
	// the last keeps the lock
	for _, c := range [][2]string{{"", "INSERT INTO t VALUES (slowly(3), 'x')"}, {"Q BEGIN", "SELECT slowly(4)"}} {
		begin, sql := c[0], c[1]
		l := s.live(t)
		l.host.lose = begin == ""
		l.do(begin)
		lock("pg_advisory_lock")
		l.trace = nil
		l.out.Append(message(t, "Q", sql))
		l.until(wire.TypeNoticeResponse)
		if got := strings.Join(l.trace, "\n"); !strings.Contains(got, "begun") {
			t.Errorf("%s: %q", sql, got)
		}
		lock("pg_advisory_unlock")
		l.trace = nil
		l.until(wire.TypeReadyForQuery)
		got := strings.Join(l.trace, "\n")
		if strings.Count(got, "woken") != 1 || strings.Contains(got, "begun") ||
			!strings.Contains(got, "CommandComplete") {
			t.Errorf("%s: then %q", sql, got)
		}
		if begin == "" && l.host.submits != 2 {
			t.Errorf("%s was submitted %d times", sql, l.host.submits)
		}
	}
}

// define runs a definition as superuser, as a node does.
func (s *stage) define(t *testing.T, sql string) {
	t.Helper()
	h := fakeHost{admin: s.admin}
	if r := h.Define(session.Definition{SQL: sql}); r.Err != nil {
		t.Fatal(r.Err)
	}
}

// TestToldAnnounced: what was announced ahead of a NOTICE is not announced again when the statement is run
// again; if its results have changed meanwhile, the client is told so.
func TestToldAnnounced(t *testing.T) {
	s := newStage(t, true)
	for _, changed := range []bool{false, true} {
		l := s.live(t)
		l.host.onSubmit = func(session.Submission) *session.Decision {
			if l.host.submits > 1 {
				return nil
			}
			return &session.Decision{Retry: true, Err: lost()}
		}
		l.host.onPhase = func(p session.Phase) {
			if p == session.PhaseIdle && changed && l.host.submits == 1 {
				l.host.onPhase = nil
				s.define(t, "ALTER TABLE t ADD COLUMN w int")
			}
		}
		got := l.do("Q SELECT quietly(), put(3, 'x'), t.* FROM t WHERE id = 1")
		answer := "CommandComplete SELECT 1"
		if changed {
			answer = "40001"
		}
		if strings.Count(got, "RowDescription") != 1 || strings.Count(got, "psst") != 1 ||
			!strings.Contains(got, answer) {
			t.Errorf("changed %t:\n%s", changed, got)
		}
		if changed && strings.Contains(got, "DataRow") {
			t.Errorf("rows of another form:\n%s", got)
		}
	}
}
