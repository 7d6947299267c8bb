package session_test

import (
	"strings"
	"testing"

	"github.com/tuttidb/tutti/internal/session"
	"github.com/tuttidb/tutti/internal/wire"
)

// TestStays: a block says that it writes before its first request that does, and a query of several statements before
// one that defines something. If it has lost to a definition by then, it has seen that from then on, at READ COMMITTED.
func TestStays(t *testing.T) {
	s := newStage(t, true)
	const put = "Q INSERT INTO t VALUES (3, 'x')"
	for _, c := range []struct {
		name, before, last string
		stays              bool // the last one makes it so
		old                bool // it has not seen the definition
	}{
		{"write", "Q BEGIN", put, true, false},
		{"write behind what was read", "Q BEGIN\nQ SELECT v FROM t WHERE id = 1", put, true, false},
		{"what is read", "Q BEGIN\nQ SELECT v FROM t WHERE id = 1", "Q SELECT v FROM t WHERE id = 2", false, false},
		{"definition", "Q BEGIN", "Q CREATE TABLE stays_made ()", true, false},
		{"definition behind what was read", "Q BEGIN\nQ SELECT v FROM t WHERE id = 1", "Q CREATE TABLE stays_made ()",
			true, false},
		{"cursor", "Q BEGIN\nQ DECLARE c CURSOR FOR SELECT 1", "Q FETCH c", true, false},
		{"row lock", "Q BEGIN", "Q SELECT v FROM t WHERE id = 1 FOR UPDATE", true, false},
		{"definition at SERIALIZABLE", "Q BEGIN ISOLATION LEVEL SERIALIZABLE", "Q CREATE TABLE stays_made ()", true,
			false},
		{"snapshot", "Q BEGIN ISOLATION LEVEL REPEATABLE READ\nQ SELECT v FROM t WHERE id = 1", put, true, true},
		{"snapshot that reads", "Q BEGIN ISOLATION LEVEL REPEATABLE READ", "Q SELECT v FROM t WHERE id = 1", false,
			false},
		{"several statements", "", "Q INSERT INTO t VALUES (5, 'x'); SELECT 1", true, false},
		{"several statements with a definition", "", "Q SELECT 1; CREATE TABLE stays_made (); SELECT 2", true, false},
		{"definition alone", "", "Q CREATE TABLE stays_made ()", false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := s.live(t)
			l.do("Q BEGIN\n" + put + "\nQ ROLLBACK") // what it said did not outlive it
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
			var base uint64
			submitted := false
			l.host.mu.Lock()
			l.host.onSubmit = func(sub session.Submission) *session.Decision {
				base, submitted = sub.Base, true
				return nil
			}
			l.host.mu.Unlock()
			defer l.do("Q DROP TABLE IF EXISTS stays_made\nQ DELETE FROM t WHERE id IN (3, 5)")
			if c.before == "" {
				return
			}
			if got := l.do("Q COMMIT"); !strings.Contains(got, "CommandComplete COMMIT") {
				t.Errorf("COMMIT is told\n%s", got)
			}
			if c.stays && submitted && (base < at) != c.old {
				t.Errorf("it has seen what was applied up to %d, and %d has the definition", base, at)
			}
		})
	}
}

// TestStaysBehindRows: a block that has written something by then does not say that it has seen the definition.
func TestStaysBehindRows(t *testing.T) {
	s := newStage(t, true)
	l := s.live(t)
	l.do("Q BEGIN\nQ INSERT INTO t VALUES (3, 'x')")
	var bases []uint64
	l.host.mu.Lock()
	before := l.host.ordinal
	l.host.ordinal += 10
	l.host.barred = l.host.ordinal
	l.host.onSubmit = func(sub session.Submission) *session.Decision {
		bases = append(bases, sub.Base)
		return nil
	}
	l.host.mu.Unlock()
	l.want("Q CREATE TABLE stays_made ()", "CommandComplete CREATE TABLE")
	l.want("Q COMMIT", "CommandComplete COMMIT")
	if len(bases) != 1 || bases[0] != before {
		t.Errorf("it has seen what was applied up to %d, and had up to %d", bases, before)
	}
	l.do("Q DROP TABLE stays_made\nQ DELETE FROM t WHERE id = 3")
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

// TestStaysAlone: a statement of its own that writes says so before each try, and whether it is done again if it loses.
// One that defines something, and is done again, says that instead. One that waits in vain is told why.
func TestStaysAlone(t *testing.T) {
	s := newStage(t, true)
	s.define(t, "CREATE FUNCTION public.tells() RETURNS int LANGUAGE plpgsql AS $f$ BEGIN PERFORM "+
		"pg_logical_emit_message(false, 'a', 'b'); RETURN 1; END $f$")
	l := s.live(t)
	for _, c := range []struct {
		line    string
		stays   int
		again   bool
		defines int
	}{
		{"Q INSERT INTO t VALUES (3, 'x')", 2, true, 0},
		{"Q DELETE FROM t WHERE id = 3", 2, true, 0},
		{"Q SELECT v FROM t", 0, false, 0},
		{"Q CREATE TYPE stays_alone AS ENUM ('a')", 0, false, 0}, // at its place in the order,
		{"Q ALTER TYPE stays_alone RENAME VALUE 'a' TO 'b'", 0, false, 1},
		{"Q ALTER TYPE stays_alone RENAME VALUE 'b' TO 'tells'", 1, false, 0}, // as if it called it
		{"Q INSERT INTO t SELECT 4, tells()", 1, false, 0},
	} {
		l.host.mu.Lock()
		l.host.stays, l.host.staysAgain, l.host.defines, l.host.lose = 0, false, 0, c.stays > 1
		l.host.mu.Unlock()
		if got := l.do(c.line); strings.Contains(got, "ERROR") || l.host.stays != c.stays ||
			l.host.staysAgain != c.again || l.host.defines != c.defines {
			t.Errorf("%s: %d times, again %v, defines %d times:\n%s", c.line, l.host.stays, l.host.staysAgain,
				l.host.defines, got)
		}
	}
	l.host.mu.Lock()
	l.host.staysNot = wire.Errorf(wire.CodeLockNotAvailable, "canceling statement due to lock timeout")
	l.host.mu.Unlock()
	l.want("Q INSERT INTO t VALUES (5, 'x')", "ERROR 55P03")
	l.host.mu.Lock()
	l.host.staysNot = nil
	l.host.mu.Unlock()
	l.want("Q SELECT count(*) FROM t WHERE id = 5", "DataRow 0")
	l.do("Q DELETE FROM t WHERE id = 4\nQ DROP TYPE stays_alone")
}
