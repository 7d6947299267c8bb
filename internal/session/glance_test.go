package session_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tuttidb/tutti/internal/session"
	"github.com/tuttidb/tutti/internal/wire"
	"github.com/tuttidb/tutti/internal/writeset"
)

// TestGlanceOnce: what was put off, and looked at, is done once, whatever comes in between, or of its first try; and
// its row is held as one that was seen.
func TestGlanceOnce(t *testing.T) {
	no := session.Decision{}
	s, l := unseeing(t)
	l.do("P see|SELECT n FROM counters WHERE id = $1\nS\nP all|SELECT * FROM counters WHERE id = $1\nS\nQ PREPARE " +
		"hidden AS SELECT 1")
	for _, x := range []struct {
		name, between string
		decision      session.Decision
		done          bool
		asked         int
	}{
		{"somebody is in the way", "", no, false, 1},
		{"a row is missing", "", session.Decision{Retry: true}, false, 1},
		{"it loses", "", session.Decision{Retry: true,
			Err: wire.Errorf(wire.CodeSerializationFailure, "lost for the test")}, true, 1},
		{"silence", "silence", no, false, 0},
		{"another glance", "B |see|2\nE |0\nS\nB |all|1\nE |0\nS", no, false, 1},
		{"a Query", "Q SELECT n FROM counters WHERE id = 1", no, false, 1},
		{"a Query of one row at most", "Q SELECT n FROM counters WHERE id = 1 LIMIT 1", no, false, 1},
		{"without a name", "P |SELECT n FROM counters WHERE id = $1\nB ||1\nE |0\nS", no, false, 1},
		{"a row that is not there", "B |see|99\nE |0\nS", no, false, 1},
		{"the statement is another", "C S see\nS\nP see|SELECT b FROM counters WHERE id = $1\nS\nB |see|1\nE " +
			"|0\nS\nC S see\nS\nP see|SELECT n FROM counters WHERE id = $1\nS", no, false, 0},
		{"some rows only", "B |see|1\nE |1\nS", no, false, 0},
		{"a portal", "B p|see|1\nE p|0\nS", no, false, 0},
		{"a prepared statement of SQL's", "B |hidden\nE |0\nS", no, false, 0},
		{"a notice of the transaction's end", "Q SAVEPOINT s\nQ ROLLBACK TO s", no, false, 0},
		{"a Query of more than columns", "Q SELECT n + 1 FROM counters WHERE id = 1", no, false, 0},
		{"a Query with a number that is no key", "Q SELECT n FROM counters WHERE id = 1.5", no, false, 0},
		{"a Query that sorts", "Q SELECT n FROM counters WHERE id = 1 ORDER BY 1", no, false, 0},
	} {
		for range 2 { // who has lost once does without
			l.do("B |add|0|1\nE |0\nS\nQ BEGIN\nB |add|0|1\nE |0\nS\nB |see|1\nE |0\nS\nQ COMMIT")
		}
		l.host.mu.Lock()
		l.host.shy = nil
		l.host.mu.Unlock()
		asked, held := 0, true
		l.host.onBlind = func(sub session.Submission) (session.Decision, bool) {
			asked++
			row := sub.Writeset.Rows[0]
			held = held && slices.ContainsFunc(sub.Writeset.Keys,
				func(k writeset.Key) bool { return k.Hash == row.Identity && k.Mode == writeset.Update })
			return x.decision, x.done
		}
		before := s.counter(t)
		l.want("Q BEGIN\nB |add|5|1\nE |0\nS", "UPDATE 1")
		l.want("B |see|1\nE |0\nS", "SELECT 1")
		switch x.between {
		case "":
		case "silence":
			if !s.free() {
				t.Errorf("%s: its row is locked", x.name)
			}
			for end := time.Now().Add(waitMax); s.free(); time.Sleep(time.Millisecond) {
				l.host.poke() // it counts only when the session waits already
				if time.Now().After(end) {
					t.Fatalf("%s: its row is not locked", x.name)
				}
			}
		default:
			l.do(x.between)
		}
		l.want("Q COMMIT", "COMMIT")
		if gain := s.counter(t) - before; gain != 5 || asked != x.asked || !held {
			t.Errorf("%s: it gains %d, want 5, the node was asked %d times, want %d, and the row was held: %v", x.name,
				gain, asked, x.asked, held)
		}
		l.host.onBlind = nil
		l.do("Q BEGIN\nB |add|0|1\nE |0\nS\nQ COMMIT")
	}
}

// TestGlanceWho: what a glance is at is what the statement names under the role and search_path of the moment.
func TestGlanceWho(t *testing.T) {
	_, l := unseeing(t)
	l.do("P see|SELECT n FROM counters WHERE id = $1\nS\nP far|UPDATE other.counters SET n = n + $1 WHERE id = $2\nS")
	for range 4 {
		l.do("Q BEGIN\nB |add|1|1\nE |0\nS\nB |see|1\nE |0\nS\nQ COMMIT\nQ BEGIN\nB |far|1|1\nE |0\nS\nQ COMMIT\nB " +
			"|far|1|1\nE |0\nS")
	}
	l.do("Q SET search_path = other, public\nB |far|0|1\nE |0\nS")
	row := func() string {
		for _, line := range strings.Split(l.do("B |see|1\nE |0\nS"), "\n") {
			if strings.HasPrefix(line, "DataRow") {
				return line
			}
		}
		return "none"
	}
	before := row()
	l.want("Q BEGIN\nB |far|5|1\nE |0\nS", "UPDATE 1")
	behind := row()
	l.want("Q COMMIT", "COMMIT")
	if after := row(); before == behind || behind != after || after == "none" {
		t.Errorf("the row shows %s before it is changed, %s behind that, and %s after COMMIT", before, behind, after)
	}
}

// TestProbeFails: who asks whether a row is there, and is not answered, has asked for nothing else.
func TestProbeFails(t *testing.T) {
	ctx := context.Background()
	s, l := unseeing(t)
	if _, err := s.admin.Exec(ctx, "SET backtrace_functions = 'tutti_applies'; SET session_replication_role = "+
		"replica; INSERT INTO public.counters VALUES (77, 1); RESET session_replication_role"); err != nil {
		t.Fatal(err)
	}
	l.do("Q SET lock_timeout = '50ms'\nB |add|0|1\nE |0\nS")
	for range 2 {
		if _, err := s.admin.Exec(ctx, "BEGIN; LOCK TABLE public.counters IN ACCESS EXCLUSIVE MODE"); err != nil {
			t.Fatal(err)
		}
		l.want("Q BEGIN\nB |add|1|77\nE |0\nS", "55P03")
		l.want("B |add|1|77\nE |0\nS", "25P02")
		l.want("Q COMMIT", "ROLLBACK")
		if _, err := s.admin.Exec(ctx, "COMMIT"); err != nil {
			t.Fatal(err)
		}
	}
	l.want("Q BEGIN\nB |add|1|77\nE |0\nS", "UPDATE 1")
	l.want("Q COMMIT", "COMMIT")
}

// TestGlanceGivesUp: what cannot be as it was put off is told once as a loss, and then by PostgreSQL.
func TestGlanceGivesUp(t *testing.T) {
	_, l := unseeing(t)
	l.do("P see|SELECT n FROM counters WHERE id = $1\nS")
	for range 4 {
		l.do("Q BEGIN\nB |add|0|1\nE |0\nS\nB |see|1\nE |0\nS\nQ COMMIT")
	}
	lost := 0
	for range 6 {
		l.do("Q BEGIN")
		if got := l.do("B |add|2000000000|5\nE |0\nS"); strings.Contains(got, "22003") {
			lost--
		}
		if got := l.do("B |see|5\nE |0\nS"); strings.Contains(got, "40001") {
			lost++
		}
		l.do("Q ROLLBACK")
	}
	if lost > -2 {
		t.Errorf("a sum that is too large is told as a loss too often: %d", lost)
	}
}
