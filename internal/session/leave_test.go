package session_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/tuttidb/tutti/internal/wire"
)

// TestDismissed: a session that its node wants to end does so between two transactions, wherever it is when it is
// told. What it has begun is carried out and answered, and what has come with it is not.
func TestDismissed(t *testing.T) {
	s := newStage(t, true)
	why := wire.Fatalf(wire.CodeAdminShutdown, "terminating connection due to administrator command")
	const last = "FATAL 57P01 terminating connection due to administrator command\nconnection closed"
	for _, c := range []struct{ before, after, want, rows string }{
		{"Q SELECT 1", "", "", ""},
		{"Q LISTEN a", "", "", ""},
		{"Q BEGIN", "Q SELECT 1\nQ ROLLBACK", "CommandComplete ROLLBACK\nReadyForQuery I", ""},
		{"Q BEGIN\nQ INSERT INTO t VALUES (101, 'x')", "Q UPDATE t SET v = 'y' WHERE id = 101\nQ COMMIT",
			"CommandComplete COMMIT\nReadyForQuery I", "101y"},
		{"Q BEGIN\nQ SELECT 1/0", "Q COMMIT", "CommandComplete ROLLBACK\nReadyForQuery I", ""},
		{"P |INSERT INTO t VALUES (102, 'x')\nB |\nE |0\npause 100", "S", "ReadyForQuery I", "102x"},
	} {
		l := s.live(t)
		l.do(c.before)
		l.host.dismiss(why)
		got := ""
		if c.after != "" {
			got = l.do(c.after)
		}
		if !strings.HasSuffix(got, c.want) {
			t.Errorf("%s, dismissed, %s gave\n%s", c.before, c.after, got)
		}
		if got := l.next(0); got != last {
			t.Errorf("behind %s the client was told\n%s", c.after, got)
		}
		var rows string
		if err := s.admin.QueryRow(t.Context(), "SELECT coalesce(string_agg(id || v, ' '), '') FROM t WHERE "+
			"id > 100").Scan(&rows); err != nil || rows != c.rows {
			t.Errorf("behind %s there is %q: %v", c.after, rows, err)
		}
	}
}

// TestServes: the host is told when a request begins, outside of a block, and when it has ended and no block is open.
func TestServes(t *testing.T) {
	s := newStage(t, true)
	for _, c := range []struct {
		script string
		told   []bool
	}{
		{"Q SELECT 1", []bool{true, false}},
		{"Q SELECT 1/0", []bool{true, false}},
		{"Q BEGIN", []bool{true}},
		{"Q BEGIN\nQ SELECT 1/0", []bool{true}},
		{"Q BEGIN\nQ SELECT 1\nQ COMMIT\nQ SELECT 1", []bool{true, false, true, false}},
		{"P |SELECT 1\nB |\nE |0\nS", []bool{true, false}},
		{"P |SELECT 1\nB |\nE |0\npause 100", []bool{true}},
	} {
		l := s.live(t)
		l.do(c.script)
		l.host.mu.Lock()
		if !slices.Equal(l.host.serves, c.told) {
			t.Errorf("by %q the host is told %v, want %v", c.script, l.host.serves, c.told)
		}
		l.host.mu.Unlock()
	}
}
