package session_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tuttidb/tutti/internal/session"
	"github.com/tuttidb/tutti/internal/wire"
	"github.com/tuttidb/tutti/internal/writeset"
)

// relying is an unseeing session that has more statements.
func relying(t *testing.T) (*stage, *live) {
	t.Helper()
	s, l := unseeing(t)
	s.define(t, "CREATE VIEW public.seen AS SELECT id, n FROM public.counters; GRANT SELECT ON public.seen TO app; "+
		"CREATE VIEW public.huge AS SELECT repeat('x', 1100000) AS x; CREATE VIEW public.slow AS SELECT "+
		"pg_sleep(0.6)::text AS x; GRANT SELECT ON public.huge, public.slow TO app; CREATE FUNCTION public.look() "+
		"RETURNS int LANGUAGE sql STABLE AS 'SELECT n FROM public.counters WHERE id = 1'")
	l.do("P see|SELECT n FROM counters WHERE id = $1\nP drop|DELETE FROM counters WHERE id = $1\nP make|INSERT INTO " +
		"counters (id, n, b) VALUES ($1, $2, 0)\nS")
	for range 4 {
		l.do("B |put|10|1\nE |0\nS\nB |put|20|2\nE |0\nS\nB |drop|1\nE |0\nS\nB |make|1|10\nE |0\nS\nQ BEGIN\nB " +
			"|put|10|1\nE |0\nS\nB |see|1\nE |0\nS\nQ COMMIT")
	}
	l.host.shy = nil
	return s, l
}

const put = "B |put|90|1\nE |0\nS"

// TestRelyHeld: what a block changes behind what it has read is certified as seen from then on, or locked; what it
// changes without having read is not.
func TestRelyHeld(t *testing.T) {
	s, l := relying(t)
	const see, other = "B |see|1\nE |0\nS", "B |put|20|2\nE |0\nS"
	for _, c := range []struct {
		name, before, write string
		want                string // for each row, whether it is held; empty: its row is locked at once
	}{
		{"nothing", "", put, "free"},
		{"another row was changed", other, put, "free free"},
		{"a Query", "Q SELECT n FROM counters WHERE id = 1", put, "held"},
		{"another table", "Q SELECT count(*) FROM notes", put, "held"},
		{"another table, as the text tells", "Q SELECT id FROM notes", put, "free"},
		{"by key", see, put, "held"},
		{"in pieces", "B |see|1\nE |0\nH\nS", put, "held"},
		{"a view", "Q SELECT n FROM seen WHERE id = 1", put, ""}, // which may call anything
		{"WITH", "Q WITH x AS (SELECT n FROM counters) SELECT max(n) FROM x", put, ""},
		{"a function", "Q SELECT look()", put, ""},
		{"EXPLAIN ANALYZE", "Q EXPLAIN ANALYZE SELECT n FROM counters WHERE id = 1", put, ""},
		{"FOR UPDATE", "Q SELECT n FROM counters WHERE id = 1 FOR UPDATE", put, ""},
		{"FOR UPDATE of another row", "Q SELECT n FROM counters WHERE id = 2 FOR UPDATE", put, ""},
		{"FOR UPDATE in a sub-select", "Q SELECT count(*) FROM (SELECT n FROM counters WHERE id = 2 FOR UPDATE) AS x",
			put, ""},
		{"FOR UPDATE in a condition", "Q SELECT id FROM notes WHERE id IN (SELECT id FROM counters WHERE id = 2 FOR " +
			"NO KEY UPDATE)", put, ""},
		{"FOR UPDATE in a write", "Q UPDATE notes SET id = id WHERE id IN (SELECT id FROM counters WHERE id = 2 FOR " +
			"UPDATE)", put, ""},
		{"FOR KEY SHARE", "Q SELECT n FROM counters WHERE id = 2 FOR KEY SHARE", put, ""},
		{"a cursor", "Q DECLARE c CURSOR FOR SELECT n FROM counters\nQ FETCH ALL FROM c", put, ""},
		{"a portal", "B p|see|1\nE p|0\nS", put, ""},
		{"RETURNING", "B |ret|0|1\nE |0\nS", put, ""},
		{"COPY", "Q COPY counters TO STDOUT", put, ""},
		{"much", "Q SELECT x FROM huge", put, ""},
		{"for long", "Q SELECT x FROM slow", put, ""},
		{"one request", "", "B |see|1\nE |0\nB |put|90|1\nE |0\nS", ""},
		{"a glance at it", other + "\n" + see, put, "held held"},
		{"a glance at another row", other + "\nB |see|2\nE |0\nS", put, "held free"},
		{"an addition", see, "B |add|1|1\nE |0\nS", "held"},
		{"a deletion", see, "B |drop|1\nE |0\nS", "held"},
		{"a deletion, and made anew", see, "B |drop|1\nE |0\nS\nB |make|1|90\nE |0\nS", "held"},
		{"two rows", see, other + "\n" + put, "held held"},
	} {
		got := ""
		l.host.onBlind = func(sub session.Submission) (session.Decision, bool) {
			var rows []string
			for _, r := range sub.Writeset.Rows {
				if slices.ContainsFunc(sub.Writeset.Keys,
					func(k writeset.Key) bool { return k.Hash == r.Identity && k.Mode >= writeset.Update }) {
					rows = append(rows, "held")
				} else {
					rows = append(rows, "free")
				}
			}
			got = strings.Join(rows, " ")
			return session.Decision{Commit: true}, true
		}
		l.do("Q BEGIN")
		if c.before != "" {
			l.do(c.before)
		}
		l.do(c.write)
		if free := s.free(); free != (c.want != "") {
			t.Errorf("%s: its row is free: %v", c.name, free)
		}
		if l.want("Q COMMIT", "COMMIT"); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
		l.host.onBlind = nil
		l.do("B |put|20|2\nE |0\nS") // who it is, again
	}
}

// TestRelyBase: a row is held from the moment on when the client was told, and not from COMMIT on.
func TestRelyBase(t *testing.T) {
	_, l := relying(t)
	base := uint64(0)
	l.host.onBlind = func(sub session.Submission) (session.Decision, bool) {
		base = sub.Base
		return session.Decision{Commit: true}, true
	}
	l.host.applied.Store(7)
	l.do("Q BEGIN\nQ SELECT n FROM counters WHERE id = 1\n" + put)
	l.host.applied.Store(9)
	if l.want("Q COMMIT", "COMMIT"); base != 7 {
		t.Errorf("the base is %d", base)
	}
}

// TestRelyLoses: if somebody has changed a row since UPDATE 1 was told to who has read it before, that is not
// overwritten, whatever comes in between; and a block that would show the same goes on.
func TestRelyLoses(t *testing.T) {
	s, l := relying(t)
	change := func(n int) {
		t.Helper()
		s.exec(t, fmt.Sprintf("SET session_replication_role = replica; UPDATE counters SET n = %d WHERE id = 1; "+
			"RESET session_replication_role", n))
	}
	for _, c := range []struct{ name, between string }{
		{"COMMIT", ""}, {"silence", "silence"}, {"a SELECT", "Q SELECT count(*) FROM notes"},
		{"a savepoint", "Q SAVEPOINT s"}, {"SHOW", "P |SHOW tutti.applied\nB |\nE |0\nS"},
		{"an INSERT", fmt.Sprintf(addIns, 5000)}, {"a change of many rows", "Q UPDATE counters SET b = 1 WHERE id > 1"},
	} {
		for _, changed := range []bool{true, false} {
			change(100)
			l.host.shy = nil
			for range 2 { // who has lost once does without
				l.do("B |put|20|2\nE |0\nS")
			}
			lost := changed
			l.host.onBlind = func(session.Submission) (session.Decision, bool) {
				if lost {
					return session.Decision{Retry: true,
						Err: wire.Errorf(wire.CodeSerializationFailure, "lost for the test")}, true
				}
				return session.Decision{}, false // somebody is in the way
			}
			l.want("Q BEGIN\nQ SELECT n FROM counters WHERE id = 1\n"+put, "UPDATE 1")
			if !s.free() {
				t.Errorf("%s: it was not put off", c.name)
			}
			if changed {
				change(150)
			}
			got := ""
			switch c.between {
			case "":
			case "silence":
				for end := time.Now().Add(waitMax); !changed && s.free(); time.Sleep(time.Millisecond) {
					l.host.poke()
					if time.Now().After(end) {
						t.Fatal("its row is not locked")
					}
				}
				for range 200 {
					l.host.poke()
					time.Sleep(time.Millisecond)
				}
			default:
				got = l.do(c.between)
			}
			got += "\n" + l.do("Q COMMIT")
			n, want := s.counter(t), 90
			if changed {
				want = 150
			}
			if n != want || strings.Contains(got, "ERROR 40001") != changed {
				t.Errorf("%s, changed %v: the row holds %d; the client got\n%s", c.name, changed, n, got)
			}
			l.host.onBlind = nil
			l.do("Q ROLLBACK\nQ DELETE FROM notes WHERE id = 5000")
		}
	}
}

// TestRelyAdditions: additions behind what was read count from when they were told, and are not run later on another
// row than that.
func TestRelyAdditions(t *testing.T) {
	s, l := relying(t)
	block := fmt.Sprintf("Q BEGIN\n"+addIns+"\nQ SELECT n FROM counters WHERE id = 1\n"+addTo+"\n"+addIns, 6000, 5, 1,
		6001)
	bases := func(of string) (at []uint64) {
		l.host.onSubmit = func(sub session.Submission) *session.Decision {
			at = sub.AddBases
			return nil
		}
		l.want(of, "UPDATE 1")
		l.host.mu.Lock()
		for name, c := range l.host.known { // order-free: each is changed alike
			c.At = 3
			l.host.known[name] = c
		}
		l.host.mu.Unlock()
		l.want("Q COMMIT", "COMMIT")
		l.host.onSubmit = nil
		l.do("Q DELETE FROM notes WHERE id >= 6000")
		return at
	}
	if at := bases(block); len(at) != 1 || at[0] != 0 {
		t.Errorf("the addition counts from %v", at)
	}
	l.host.mu.Lock()
	for name, c := range l.host.known { // order-free: each is changed alike
		c.At = 0
		l.host.known[name] = c
	}
	l.host.mu.Unlock()
	if at := bases(fmt.Sprintf("Q BEGIN\n"+addIns+"\n"+addTo+"\n"+addIns, 6000, 5, 1, 6001)); len(at) != 1 ||
		at[0] != 3 {
		t.Errorf("one of a block that has read nothing counts from %v", at)
	}
	l.want(block, "UPDATE 1")
	s.exec(t, "SET session_replication_role = replica; UPDATE counters SET n = 1000 WHERE id = 1; RESET "+
		"session_replication_role")
	l.want("Q SELECT 1", "ERROR 40001")
	l.want("Q COMMIT", "ROLLBACK")
	if n := s.counter(t); n != 1000 {
		t.Errorf("the row holds %d", n)
	}
	for i := range 2 * 8 { // caughtMax
		l.do(block + "\nQ SELECT 1\nQ ROLLBACK")
		if l.do(block); i >= 8 && s.free() {
			t.Errorf("time %d: it is put off although that is always in vain", i)
		}
		l.do("Q SELECT 1\nQ ROLLBACK")
	}
}
