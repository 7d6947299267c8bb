package session_test

import (
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tuttidb/tutti/internal/session"
	"github.com/tuttidb/tutti/internal/wire"
)

// generation is a catalog: the lower half counts the definitions that concern all tables, the upper one those that
// concern none of them.
type generation int64

const concernsNone = 1 << 32

func (g generation) Holds(before any, _, _ string) bool {
	was, ok := before.(generation)
	return ok && int32(was) == int32(g)
}

// changing is a collector whose catalog is a generation.
type changing struct {
	unchanging
	n *atomic.Int64
}

func (c changing) Catalog() any { return generation(c.n.Load()) }

func (c changing) roles() session.Collector {
	roles := c.unchanging.roles()
	roles.Facts = c
	return roles
}

// wrapped is a host whose applied ordinal is a number.
type wrapped struct {
	*fakeHost
	base    *atomic.Uint64
	onEnter func()
}

func (w wrapped) roles() session.Host {
	roles := w.fakeHost.roles()
	roles.Snapshots, roles.Deferred = w, w
	return roles
}

func (w wrapped) DefinedUpTo() uint64 { return w.base.Load() }
func (w wrapped) Sees() uint64        { return w.base.Load() }
func (w wrapped) EnterSnapshot() (uint64, *wire.SQLError) {
	if w.onEnter != nil {
		w.onEnter()
	}
	return w.fakeHost.EnterSnapshot()
}

// liveAs is live with these.
func (s *stage) liveAs(t testing.TB, n *atomic.Int64, base *atomic.Uint64, onEnter func()) *live {
	s.reset(t)
	conn, reader := s.backend(t)
	near, far := socketPair(t)
	l := &live{client: newClient(near), t: t, host: &fakeHost{admin: s.admin, client: far, backend: conn},
		done: make(chan error, 1)}
	x := session.New(session.Options{Strict: true,
		Client: wire.NewReader(far, wire.FrontendLimits()), ClientOut: wire.NewWriter(far),
		Server: reader, ServerOut: wire.NewWriter(conn), Host: wrapped{l.host, base, onEnter}.roles(),
		Collector: changing{s.unchanging(), n}.roles(), BytesMax: s.returnedMax,
	})
	go func(conn net.Conn) {
		err := x.Run()
		_ = far.Close()
		_ = conn.Close()
		l.done <- err
	}(conn)
	t.Cleanup(func() { _ = near.Close(); <-l.done })
	l.until(wire.TypeReadyForQuery)
	return l
}

// knowing is a new session that begins with what another one has found out, and where what it does unseen is put.
func (s *stage) knowing(t *testing.T, first *live) (*live, *[]session.Submission) {
	t.Helper()
	seen := &[]session.Submission{}
	l := s.live(t)
	l.host.forms = first.host.forms
	l.host.onBlind = func(sub session.Submission) (session.Decision, bool) {
		*seen = append(*seen, sub)
		return session.Decision{Commit: true}, true
	}
	l.do(addAll)
	return l, seen
}

// schemas are those of the tables that were changed.
func schemas(seen *[]session.Submission) (out []string) {
	for _, x := range *seen {
		out = append(out, x.Writeset.Tables[0].Schema)
	}
	*seen = nil
	return out
}

// TestForeknownNames: what is known of a statement is of the table that it means under the session's search_path.
func TestForeknownNames(t *testing.T) {
	s, first := unseeing(t)
	l, seen := s.knowing(t, first)
	l.do("Q SET search_path = other\nP far|UPDATE counters SET b = $1 WHERE id = $2\nS")
	l.host.onBlind = nil
	for range 4 {
		l.do("B |far|0|1\nE |0\nS")
	}
	l, seen = s.knowing(t, first)
	unseen := l.host.onBlind
	l.host.onBlind = func(session.Submission) (session.Decision, bool) { return session.Decision{}, false }
	for range 3 {
		l.do("B |add|0|1\nE |0\nS")
	}
	l.host.onBlind = unseen
	l.do("Q SET search_path = other\nP far|UPDATE counters SET b = $1 WHERE id = $2\nS")
	schemas(seen)
	if l.do("Q BEGIN\nB |far|7|1\nE |0\nS\nQ COMMIT"); fmt.Sprint(schemas(seen)) != "[other]" {
		t.Error("what another session knows does not help")
	}
	if l.do("B |add|5|1\nE |0\nS"); strings.Contains(fmt.Sprint(schemas(seen)), "public") {
		t.Error("behind a block without a transaction the session takes itself for who it was before")
	}
	l, seen = s.knowing(t, first)
	l.do("Q BEGIN\nQ SELECT n FROM pairs\nB |add|5|1\nE |0\nS\nB |add|5|2\nE |0\nS\nQ COMMIT")
	schemas(seen)
	l.do("Q SET search_path = other\nQ BEGIN\nQ SELECT 1\nQ COMMIT\nQ RESET search_path\nQ BEGIN\nB |put|5|1\nE " +
		"|0\nS\nQ COMMIT")
	schemas(seen)
	if l.do("B |add|5|1\nE |0\nS"); strings.Contains(fmt.Sprint(schemas(seen)), "other") {
		t.Error("a statement that was prepared under another search_path changes the table that it meant there")
	}
}

// TestForeknownEncoding: a session that sends text in another encoding from the start does not put it off.
func TestForeknownEncoding(t *testing.T) {
	s, first := unseeing(t)
	first.do("Q CREATE TABLE doc (id int PRIMARY KEY, body text)\nQ INSERT INTO doc VALUES (1, 'a')\nP doc|UPDATE " +
		"doc SET body = $1 WHERE id = $2\nS")
	for range 4 {
		first.do("B |doc|x|1\nE |0\nS")
	}
	s.exec(t, "ALTER ROLE app SET client_encoding = 'LATIN1'")
	l, seen := s.knowing(t, first)
	s.exec(t, "ALTER ROLE app RESET client_encoding")
	l.want("P doc|UPDATE doc SET body = $1 WHERE id = $2\nS\nB |doc|\u00e9|1\nE |0\nS", "UPDATE 1")
	if len(*seen) > 0 {
		t.Errorf("the row becomes %q", (*seen)[0].Writeset.Rows[0].Image)
	}
}

// TestForeknownUnprepared: a statement that was to be prepared with what failed before it is not taken to be.
func TestForeknownUnprepared(t *testing.T) {
	s, first := unseeing(t)
	l, _ := s.knowing(t, first)
	l.do("Q SET lock_timeout = '50ms'")
	s.exec(t, "BEGIN; SELECT FROM public.counters WHERE id = 2 FOR UPDATE")
	l.want("Q BEGIN\nB |add|1|2\nE |0\nS\nB |put|30|3\nE |0\nS", "UPDATE 1")
	l.do("Q SELECT n FROM pairs\nQ ROLLBACK")
	s.exec(t, "COMMIT")
	l.want("Q BEGIN ISOLATION LEVEL REPEATABLE READ\nQ SELECT n FROM pairs\nB |put|30|3\nE |0\nS", "UPDATE 1")
	l.do("Q ROLLBACK")
}

// TestGlanceDoomed: who is cancelled in a glance because he is in the order's way is not told that he has asked for it.
func TestGlanceDoomed(t *testing.T) {
	s, first := unseeing(t)
	l, _ := s.knowing(t, first)
	l.do("P see|SELECT n FROM counters WHERE id = $1\nS")
	for range 2 {
		l.do("Q BEGIN\nB |add|0|1\nE |0\nS\nB |see|1\nE |0\nS\nQ COMMIT")
	}
	l.want("Q BEGIN\nB |add|0|1\nE |0\nS", "UPDATE 1")
	s.exec(t, "BEGIN; LOCK TABLE public.counters IN ACCESS EXCLUSIVE MODE")
	done := make(chan error, 1)
	go func() {
		pid := 0
		for end := time.Now().Add(waitMax); pid == 0 && time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
			_ = s.admin.QueryRow(context.Background(),
				"SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND usename = 'app' AND datname = "+
					"current_database()").Scan(&pid)
		}
		l.host.kill(lost())
		_, err := s.admin.Exec(context.Background(), fmt.Sprintf("SELECT pg_cancel_backend(%d); COMMIT", pid))
		done <- err
	}()
	if got := l.do("B |see|1\nE |0\nS"); strings.Contains(got, "57014") {
		t.Errorf("the client is told\n%s", got)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	l.do("Q ROLLBACK")
}

// TestForeknownSnapshot: a transaction with one snapshot takes it between two groups, also where the session does not
// know who it is.
func TestForeknownSnapshot(t *testing.T) {
	s, first := unseeing(t)
	var catalog atomic.Int64
	var base atomic.Uint64
	s.exec(t, "SET backtrace_functions = 'tutti_applies'; SET session_replication_role = replica; UPDATE "+
		"public.pairs SET n = 1; RESET session_replication_role")
	l := s.liveAs(t, &catalog, &base, func() {
		s.exec(t, "SET backtrace_functions = 'tutti_applies'; SET session_replication_role = replica; UPDATE "+
			"public.pairs SET n = 2; RESET session_replication_role")
	})
	l.host.forms = first.host.forms
	l.do(addAll + "\nQ BEGIN ISOLATION LEVEL REPEATABLE READ")
	for l.host.waits() != session.PhaseWaiting {
		l.host.poke() // it counts only when the session waits already
		time.Sleep(time.Millisecond)
	}
	l.do("B |add|0|3\nE |0\nS")
	l.want("Q SELECT n FROM pairs", "DataRow 2")
	l.do("Q ROLLBACK")
}

// TestGlanceDefined: a definition between what was put off and a glance is not taken for one that was seen.
func TestGlanceDefined(t *testing.T) {
	s, _ := unseeing(t)
	var catalog atomic.Int64
	var base atomic.Uint64
	base.Store(1)
	l := s.liveAs(t, &catalog, &base, nil)
	l.do(addAll + "\nP see|SELECT n FROM counters WHERE id = $1\nS")
	for range 4 {
		l.do("B |add|0|1\nE |0\nS\nQ BEGIN\nB |add|0|1\nE |0\nS\nB |see|1\nE |0\nS\nQ COMMIT")
	}
	before := s.counter(t)
	l.host.onBlind = func(sub session.Submission) (session.Decision, bool) {
		t.Errorf("the row %x is changed as of ordinal %d", sub.Writeset.Rows[0].Image, sub.Base)
		return session.Decision{Commit: true}, true
	}
	l.want("Q BEGIN\nB |add|5|1\nE |0\nS", "UPDATE 1")
	s.define(t, "ALTER TABLE public.counters ADD COLUMN x int")
	catalog.Add(1)
	base.Store(2)
	l.want("B |see|1\nE |0\nS", "SELECT 1")
	l.want("Q COMMIT", "COMMIT")
	if gain := s.counter(t) - before; gain != 5 {
		t.Errorf("it gains %d, want 5", gain)
	}
}

// TestDefinedElsewhere: a definition that concerns none of its tables leaves a session all that it knows, also what it
// has put off; one that does has it forget.
func TestDefinedElsewhere(t *testing.T) {
	s, _ := unseeing(t)
	var catalog atomic.Int64
	var base atomic.Uint64
	l := s.liveAs(t, &catalog, &base, nil)
	l.do(addAll + "\nP see|SELECT n FROM counters WHERE id = $1\nS")
	for range 4 {
		l.do("B |add|0|1\nE |0\nS\nQ BEGIN\nB |add|0|1\nE |0\nS\nB |see|1\nE |0\nS\nQ COMMIT")
	}
	unseen := 0
	l.host.onBlind = func(session.Submission) (session.Decision, bool) {
		unseen++
		return session.Decision{Commit: true}, true
	}
	l.host.forms = nil                      // what the session has forgotten it does not learn from its node
	for what, f := range map[string]func(){ // order-free: each is for itself
		"alone": func() { l.want("B |add|5|1\nE |0\nS", "UPDATE 1") },
		"in a block": func() {
			l.want("Q BEGIN\nB |add|5|1\nE |0\nS", "UPDATE 1")
			catalog.Add(concernsNone)
			l.want("B |see|1\nE |0\nS\nQ COMMIT", "COMMIT")
		},
	} {
		unseen = 0
		catalog.Add(concernsNone)
		if f(); unseen != 1 {
			t.Errorf("behind a definition that concerns no table of it, what is done %s is done unseen %d times", what,
				unseen)
		}
	}
	unseen = 0
	catalog.Add(1)
	if l.want("B |add|0|1\nE |0\nS", "UPDATE 1"); unseen != 0 {
		t.Error("behind a definition that concerns its table it is done unseen")
	}
}

// TestForeknownAnew: what others know of a statement after a definition is not mixed with what the session has prepared
// before it.
func TestForeknownAnew(t *testing.T) {
	s, _ := unseeing(t)
	var catalog atomic.Int64
	var base atomic.Uint64
	var all [3]*live
	for i := range all {
		all[i] = s.liveAs(t, &catalog, &base, nil)
		all[i].host.forms = all[0].host.forms
		all[i].do(addAll)
		for range 4 {
			all[i].do("B |add|0|1\nE |0\nS")
		}
	}
	s.define(t, "ALTER TABLE public.counters ADD COLUMN y int")
	catalog.Add(1)
	for range 4 {
		all[0].do("B |add|0|1\nE |0\nS")
	}
	// there is no such row
	all[1].host.onBlind = func(session.Submission) (session.Decision, bool) {
		return session.Decision{Retry: true},
			false
	}
	all[1].want("B |add|1|99999\nE |0\nS", "UPDATE 0")
	all[2].want("Q BEGIN\nB |add|1|99999\nE |0\nS", "UPDATE 0")
	all[2].want("Q COMMIT", "COMMIT")
}

// TestForeknown: a session begins with what another one has found out, also in a block that has read, and whose COMMIT
// it expects; what is not done unseen after all is run.
func TestForeknown(t *testing.T) {
	s, first := unseeing(t)
	l := s.live(t)
	l.host.forms = first.host.forms
	l.do(addAll)
	blind := 0
	l.host.onBlind = func(session.Submission) (session.Decision, bool) { blind++; return session.Decision{}, false }
	for range 3 { // its answer is collected ahead of the COMMIT that comes here
		l.want("Q BEGIN\nQ SELECT n FROM pairs\nQ COMMIT", "COMMIT")
	}
	before := s.counter(t)
	l.want("Q BEGIN\nQ SELECT n FROM pairs\nB |add|5|1\nE |0\nS", "UPDATE 1")
	l.want("Q SELECT n FROM pairs", "SELECT 1")
	l.want("Q COMMIT\nQ BEGIN\nB |add|5|1\nE |0\nS\nQ COMMIT", "COMMIT")
	if gain := s.counter(t) - before; gain != 10 || blind == 0 {
		t.Errorf("it gains %d, want 10, and the node was asked to do so unseen %d times", gain, blind)
	}
}

// TestForeknownEscapes: a statement that was parsed while texts were read otherwise is not parsed anew.
func TestForeknownEscapes(t *testing.T) {
	s, first := unseeing(t)
	first.do("Q CREATE TABLE doc (id int PRIMARY KEY, body text)\nQ INSERT INTO doc VALUES (1, 'a')\nP doc|UPDATE " +
		"doc SET body = 'x\\bz' WHERE id = $1\nS")
	for range 4 {
		first.do("B |doc|1\nE |0\nS")
	}
	l, _ := s.knowing(t, first)
	l.host.onBlind = func(session.Submission) (session.Decision, bool) { return session.Decision{}, false }
	for range 3 {
		l.do("B |add|0|1\nE |0\nS")
	}
	l.do("P doc|UPDATE doc SET body = 'x\\bz' WHERE id = $1\nS\nQ BEGIN\nB |doc|1\nE |0\nS\nQ ROLLBACK\nQ SET " +
		"standard_conforming_strings = off")
	for range 3 {
		l.do("B |add|0|1\nE |0\nS")
	}
	l.want("Q BEGIN\nB |doc|1\nE |0\nS", "UPDATE 1")
	l.want("Q SELECT length(body) FROM doc", "DataRow 4")
	l.do("Q ROLLBACK")
}

// TestAskedOnce: what one session was told of a table, the others of its node do not ask again: by an answer that says
// that the role may not read it, they do not look at its rows unseen; without it they ask, and do.
func TestAskedOnce(t *testing.T) {
	s, first := unseeing(t)
	const see = "P see|SELECT n FROM counters WHERE id = $1\nS"
	const block = "Q BEGIN\nB |add|5|1\nE |0\nS\nB |see|1\nE |0\nS\nQ COMMIT"
	first.do(see + "\n" + block)
	told := 0
	for key, known := range first.host.forms {
		if key[0] != 0 {
			continue
		}
		for i := range known {
			told++
			known[i].Answer = slices.Clone(known[i].Answer)
			known[i].Answer[2] = []byte("f")
		}
	}
	if told == 0 {
		t.Fatal("nobody is told of the table")
	}
	for _, unseen := range []int{0, 1} {
		l, seen := s.knowing(t, first)
		l.do(see + "\n" + block)
		if len(*seen) != unseen {
			t.Errorf("%d blocks are carried out unseen, want %d", len(*seen), unseen)
		}
		maps.DeleteFunc(first.host.forms, func(key string, _ []session.Foreknown) bool { return key[0] == 0 })
	}
}
