package session_test

import (
	"strings"
	"testing"

	"github.com/tuttidb/tutti/internal/session"
	"github.com/tuttidb/tutti/internal/wire"
)

// TestStays: a block says that it cannot be done again before the first request that makes it so, and only then. If it
// has lost to a definition by then, it is done again first.
func TestStays(t *testing.T) {
	s := newStage(t, true)
	const put = "Q INSERT INTO t VALUES (3, 'x')"
	for _, c := range []struct {
		name, before, last string
		stays              bool // the last one makes it so
	}{
		{"write", "Q BEGIN\n" + put, "Q UPDATE t SET v = 'y' WHERE v = 'x'", false},
		{"definition", "Q BEGIN\n" + put, "Q CREATE TABLE stays_made ()", true},
		{"definition, first of all", "Q BEGIN", "Q CREATE TABLE stays_made ()", true},
		{"definition, behind what was read", "Q BEGIN\nQ SELECT v FROM t WHERE id = 1", "Q CREATE TABLE stays_made ()",
			true},
		{"temporary table", "Q BEGIN\n" + put, "Q CREATE TEMP TABLE stays_made ()", true},
		{"cursor", "Q BEGIN\n" + put + "\nQ DECLARE c CURSOR FOR SELECT 1", "Q FETCH c", true},
		{"savepoint, first of all", "Q BEGIN", "Q SAVEPOINT a\n" + put, true},
		{"definition at SERIALIZABLE", "Q BEGIN ISOLATION LEVEL SERIALIZABLE", "Q CREATE TABLE stays_made ()", true},
		{"row lock", "Q BEGIN\n" + put, "Q SELECT v FROM t WHERE id = 1 FOR UPDATE", true},
		{"snapshot that reads", "Q BEGIN ISOLATION LEVEL REPEATABLE READ", "Q SELECT v FROM t WHERE id = 1", false},
		{"several statements", "", "Q INSERT INTO t VALUES (5, 'x'); SELECT 1", false},
		{"several statements with a definition", "", "Q SELECT 1; CREATE TABLE stays_made (); SELECT 2", true},
		{"block at once", "", "Q BEGIN\nQ CREATE TABLE stays_made ()", true},
		{"definition alone", "", "Q CREATE TABLE stays_made ()", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := s.live(t)
			l.do("Q BEGIN\nQ SAVEPOINT a\nQ SAVEPOINT b\nQ COMMIT") // which did not outlive it
			l.host.stays = 0
			if got := l.do(c.before); strings.Contains(got, "ERROR") || l.host.stays > 0 {
				t.Fatalf("%d times before the last request:\n%s", l.host.stays, got)
			}
			l.host.mu.Lock()
			l.host.ordinal += 10
			l.host.barred = l.host.ordinal
			at := l.host.ordinal
			l.host.mu.Unlock()
			if got := l.do(c.last); strings.Contains(got, "ERROR") || (l.host.stays > 0) != c.stays {
				t.Fatalf("%d times:\n%s", l.host.stays, got)
			}
			if c.stays && l.host.staysAt >= at && !strings.HasPrefix(c.last, "Q SELECT 1;") {
				t.Error("it says so when its transaction has begun already")
			}
			var base uint64
			submitted := false
			l.host.mu.Lock()
			l.host.onSubmit = func(sub session.Submission) *session.Decision {
				base, submitted = sub.Base, true
				return nil
			}
			l.host.mu.Unlock()
			defer l.do("Q DROP TABLE IF EXISTS stays_made\nQ DELETE FROM t WHERE id = 3")
			if c.before == "" {
				return
			}
			if got := l.do("Q COMMIT"); !strings.Contains(got, "CommandComplete COMMIT") {
				t.Errorf("COMMIT is told\n%s", got)
			}
			if strings.Contains(c.before, put) {
				l.want("Q SELECT count(*) FROM t WHERE id = 3", "DataRow 1")
			}
			if c.stays && submitted && base != at {
				t.Errorf("it has seen what was applied up to %d, not %d", base, at)
			}
		})
	}
}

// TestStaysNot: who waits in vain is told why.
func TestStaysNot(t *testing.T) {
	s := newStage(t, true)
	l := s.live(t)
	l.do("Q BEGIN\nQ INSERT INTO t VALUES (3, 'x')")
	l.host.mu.Lock()
	l.host.staysNot = wire.Errorf(wire.CodeLockNotAvailable, "canceling statement due to lock timeout")
	l.host.mu.Unlock()
	l.want("Q CREATE TABLE stays_made ()", "ERROR 55P03")
	l.want("Q COMMIT", "CommandComplete ROLLBACK")
	l.want("Q SELECT count(*) FROM t WHERE id = 3", "DataRow 0")
}
