package session_test

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tuttidb/tutti/internal/session"
	"github.com/tuttidb/tutti/internal/session/plan"
	"github.com/tuttidb/tutti/internal/wire"
)

// live is a session that a test drives step by step.
type live struct {
	*client
	t     testing.TB
	host  *fakeHost
	done  chan error
	plans []plan.Plan // as the session says while it is asked something
}

func (s *stage) live(t testing.TB) *live {
	t.Helper()
	s.reset(t)
	conn, reader := s.backend(t)
	return s.liveWith(t, conn, reader)
}

// liveWith is live with the given connection to the backend.
func (s *stage) liveWith(t testing.TB, conn net.Conn, reader *wire.Reader) *live {
	t.Helper()
	near, far := socketPair(t)
	l := &live{client: newClient(near), t: t, host: &fakeHost{admin: s.admin, client: far, backend: conn},
		done: make(chan error, 1)}
	x := session.New(session.Options{Strict: true,
		Client: wire.NewReader(far, wire.FrontendLimits()), ClientOut: wire.NewWriter(far),
		Server: reader, ServerOut: wire.NewWriter(conn), Host: l.host.roles(), Collector: s.unchanging().roles(),
		BytesMax: s.returnedMax,
		Planned:  func(p plan.Plan) { l.plans = append(l.plans, p) },
	})
	go func() {
		err := x.Run()
		_ = far.Close()
		_ = conn.Close()
		l.done <- err
	}()
	t.Cleanup(func() {
		_ = near.Close()
		select {
		case <-l.done:
		case <-time.After(waitMax):
			t.Error("the session does not end")
		}
	})
	l.until(wire.TypeReadyForQuery)
	return l
}

// do plays lines and returns what came back.
func (l *live) do(lines string) string {
	l.t.Helper()
	l.trace = nil
	for _, line := range strings.Split(lines, "\n") {
		l.step(l.t, line)
	}
	return strings.Join(l.trace, "\n")
}

func (l *live) want(lines, want string) {
	l.t.Helper()
	if got := l.do(lines); !strings.Contains(got, want) {
		l.t.Errorf("%s\nanswered\n%s\nwithout %q", lines, got, want)
	}
}

func lost() *wire.SQLError { return wire.Errorf(wire.CodeSerializationFailure, "doomed for the test") }

func TestReservedNames(t *testing.T) {
	l := newStage(t, true).live(t)
	for _, m := range []string{"C S tutti collect", "P tutti collect|SELECT 1", "B |tutti collect", "D S tutti commit",
		"B tutti x|y", "C P tutti x"} {
		l.want(m+"\nS", "42501 the name \"tutti ")
	}
	for _, sql := range []string{`DEALLOCATE "tutti collect"`, `DEALLOCATE PREPARE "tutti collect"`,
		`PREPARE "tutti x" AS SELECT 1`, `EXECUTE "tutti commit"`, `EXECUTE U&"!0074utti commit" UESCAPE '!'`,
		`SELECT 1; EXECUTE "tutti commit"`,
		`EXPLAIN EXECUTE "tutti collect"(1, 2, 3, 4)`, `CREATE TEMP TABLE x AS EXECUTE "tutti collect"(1, 2, 3, 4)`,
		`EXPLAIN ANALYZE CREATE TEMP TABLE x AS EXECUTE "tutti collect"(1, 2, 3, 4)`} {
		l.want("Q "+sql, "42501 the name \"tutti ")
		if !strings.Contains(sql, ";") {
			l.want("P |"+sql+"\nB |\nE |0\nS", "42501 the name \"tutti ")
		}
	}
	l.do("Q BEGIN\nQ INSERT INTO t VALUES (4, 'x')\nQ EXECUTE \"tutti commit\"\nQ ROLLBACK")
	l.want("Q BEGIN\nQ INSERT INTO t VALUES (4, 'x')\nQ DO $$ BEGIN EXECUTE 'EXECUTE \"tutti commit\"'; END $$\nQ "+
		"COMMIT", "26000")
	l.want("Q SELECT count(*) FROM t WHERE id = 4", "DataRow 0\n") // nobody has ordered it
	l.want("Q INSERT INTO t VALUES (3, 'x')", "INSERT 0 1")
	if l.host.committed != 1 {
		t.Errorf("%d transactions were ordered, want 1", l.host.committed)
	}
}

// TestParseTakesTheSnapshot: the gate is passed before the backend sees the first message
// about a query, or a command for which it takes a snapshot, too.
func TestParseTakesTheSnapshot(t *testing.T) {
	s := newStage(t, true)
	for _, first := range []string{"P q|SELECT count(*) FROM t\nS", "P q|SELECT count(*) FROM t\nH\nwait 1",
		"Q DEALLOCATE ALL", "Q DISCARD PLANS", "Q ANALYZE t", "Q LOAD '$libdir/plpgsql'",
		"P |DEALLOCATE ALL\nB |\nE |0\nS"} {
		l := s.live(t)
		l.do("Q BEGIN ISOLATION LEVEL REPEATABLE READ")
		l.do(first)
		if l.host.snapshots != 1 {
			t.Errorf("%q passed the gate %d times, want once", first, l.host.snapshots)
		}
		l.do("S\nQ SET TRANSACTION READ WRITE\nQ ROLLBACK\nQ BEGIN ISOLATION LEVEL REPEATABLE READ\nQ SAVEPOINT a")
		if l.host.snapshots != 1 {
			t.Errorf("settings and savepoints passed the gate")
		}
	}
}

func TestDefinitionsInBlock(t *testing.T) {
	l := newStage(t, true).live(t)
	l.do("Q BEGIN")
	l.want("Q CREATE TABLE x1 (); CREATE TABLE x2 ()", "CREATE TABLE")
	l.want("Q ROLLBACK", "ROLLBACK")
	l.want("Q SELECT to_regclass('x1') IS NULL", "DataRow t")
	l.want("Q CREATE TABLE x1 (id int PRIMARY KEY); CREATE TABLE x2 ()", "CREATE TABLE")
	l.want("Q INSERT INTO x1 VALUES (1)", "INSERT 0 1")
	l.want("Q CREATE TEMP TABLE tt (id int)", "CREATE TABLE")
	l.want("Q BEGIN; CREATE INDEX ON tt (id); DROP TABLE tt; COMMIT", "DROP TABLE\nCommandComplete COMMIT")
	l.want("Q DROP TABLE x1; DROP TABLE x2", "DROP TABLE")
}

// TestLargeMessagesDoNotBlock: neither side waits for the other to read (S5).
func TestLargeMessagesDoNotBlock(t *testing.T) {
	l := newStage(t, true).live(t)
	big := strings.Repeat("x", 3<<20)
	l.do("P out|SELECT repeat('y', 1000) FROM generate_series(1, 20000)\nP in|SELECT length($1::text)\nS")
	l.trace = nil
	for range 2 {
		l.out.Append(message(t, "B", "|out"))
		l.out.Append(message(t, "E", "|0"))
		l.out.Append(message(t, "B", "|in|"+big))
		l.out.Append(message(t, "E", "|0"))
	}
	l.out.Append(message(t, "S", ""))
	sent := make(chan struct{})
	go func() { // the client may wait for itself, too
		defer close(sent)
		_ = l.out.Flush()
	}()
	l.in.SetLimits(wire.BackendLimits())
	rows := 0
	_ = l.conn.SetReadDeadline(time.Now().Add(waitMax))
	for {
		f, err := l.in.Next()
		if err != nil {
			t.Fatal(err)
		}
		if f.Type == wire.TypeDataRow {
			rows++
		}
		if f.Type == wire.TypeReadyForQuery {
			break
		}
	}
	<-sent
	if rows != 2*20001 {
		t.Errorf("%d rows came, want %d", rows, 2*20001)
	}
}

// TestDooms: a transaction is rolled back under its client in every state.
func TestDooms(t *testing.T) {
	s := newStage(t, true)
	begin := "Q BEGIN ISOLATION LEVEL REPEATABLE READ\nQ INSERT INTO t VALUES (3, 'x')"
	for _, c := range []struct{ name, first, next, want, then string }{
		{"statement", begin, "Q SELECT 1", "ERROR 40001 doomed for the test\nReadyForQuery E", "Q ROLLBACK"},
		{"commit", begin, "Q COMMIT", "ERROR 40001 doomed for the test\nReadyForQuery I", ""},
		{"rollback", begin, "Q ROLLBACK", "CommandComplete ROLLBACK\nReadyForQuery I", ""},
		{"parse", begin, "P a|SELECT 1\nS", "ParseComplete\nReadyForQuery T", "Q ROLLBACK"},
		{"prepared by SQL", "Q PREPARE made AS SELECT 1\n" + begin, "B |made\nE |0\nS",
			"ERROR 40001 doomed for the test\nReadyForQuery E", "Q ROLLBACK"},
		{"execute", begin, "P a|SELECT 1\nB |a\nE |0\nS", "ERROR 40001 doomed for the test\nReadyForQuery E",
			"Q ROLLBACK"},
		{"savepoint", begin + "\nQ SAVEPOINT a", "Q ROLLBACK TO a", "ERROR 40001 doomed for the test\nReadyForQuery E",
			"Q ROLLBACK"},
		{"failed block", begin + "\nQ SELECT 1/0", "Q ROLLBACK", "CommandComplete ROLLBACK\nReadyForQuery I", ""},
		{"flushed", "P |INSERT INTO t VALUES (3, 'x')\nB |\nE |0\nH\nwait C", "S",
			"ERROR 40001 doomed for the test\nReadyForQuery I", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := s.live(t)
			l.do(c.first)
			l.host.kill(lost())
			l.want(c.next, c.want)
			if c.then != "" {
				l.want(c.then, "ReadyForQuery I")
			}
			l.want("Q SELECT count(*) FROM t", "DataRow 2")
			l.want("Q INSERT INTO t VALUES (4, 'y')", "INSERT 0 1")
		})
	}
}

// TestDoomBesideAFrame: a doom counts before a frame that comes with it, although the read then
// does not time out.
func TestDoomBesideAFrame(t *testing.T) {
	l := newStage(t, true).live(t)
	l.do("Q BEGIN ISOLATION LEVEL REPEATABLE READ\nQ INSERT INTO t VALUES (3, 'x')\nQ SELECT 1")
	for l.host.waits() != session.PhaseWaiting {
		time.Sleep(time.Millisecond)
	}
	l.host.mu.Lock()
	l.host.doom = lost()
	l.host.mu.Unlock()
	l.want("Q SELECT 1", "ERROR 40001 doomed for the test\nReadyForQuery E")
	l.want("Q ROLLBACK", "ReadyForQuery I")
}

// TestDoomDuringParse: the transaction is lost while a Parse waits for a lock. Preparing must
// succeed; the client is told when it executes.
func TestDoomDuringParse(t *testing.T) {
	s := newStage(t, true)
	l := s.live(t)
	l.do("Q BEGIN\nQ INSERT INTO t VALUES (3, 'x')\nP known|SELECT 1\nS")
	other, err := pgx.ConnectConfig(context.Background(), s.admin.Config())
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close(context.Background())
	if _, err := other.Exec(context.Background(), "BEGIN; LOCK TABLE parent"); err != nil {
		t.Fatal(err)
	}
	l.do("P a|SELECT 2\nP b|SELECT * FROM parent\nS&")
	if err := l.out.Flush(); err != nil {
		t.Fatal(err)
	}
	const waiting = " FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
	s.until(t, "SELECT count(*) = 1"+waiting)
	l.host.kill(lost())
	for _, sql := range []string{"SELECT pg_cancel_backend(pid)" + waiting, "ROLLBACK"} {
		if tag, err := other.Exec(context.Background(), sql); err != nil ||
			sql != "ROLLBACK" && tag.RowsAffected() != 1 {
			t.Fatal(tag, err)
		}
	}
	l.want("wait Z", "ParseComplete\nParseComplete\nReadyForQuery T")
	l.want("B |a\nE |0\nS", "ERROR 40001 doomed for the test\nReadyForQuery E")
	l.want("Q ROLLBACK", "ReadyForQuery I")
	l.want("B |b\nE |0\nS", "ReadyForQuery I")
}

// TestDoomDuringCopy: the client of a COPY is silent, and must not keep its locks.
func TestDoomDuringCopy(t *testing.T) {
	s := newStage(t, true)
	for _, c := range [][2]string{
		{"Q& COPY t FROM STDIN\nwait G\nd 30\\ta\\n", "wait Z"},
		{"Q BEGIN\nQ& COPY t FROM STDIN\nwait G", "wait Z"},
		{"P |COPY t FROM STDIN\nB |\nE |0\nS&\nwait G", "S"},
	} {
		l := s.live(t)
		l.do(c[0])
		l.host.kill(lost())
		l.want("wait E", "ERROR 40001 doomed for the test")
		l.want(c[1], "ReadyForQuery")
		l.do("c\nQ ROLLBACK")
		l.want("Q SELECT count(*) FROM t", "DataRow 2")
	}
}

// endBackends ends the sessions' backends and waits until they have ended.
const endBackends = "SELECT pg_terminate_backend(pid, 20000) FROM pg_stat_activity WHERE usename = 'app' AND datname " +
	"= current_database()"

// TestBackendBreaks: the client hears of it, whatever it was doing.
func TestBackendBreaks(t *testing.T) {
	s := newStage(t, true)
	terminate := func() {
		s.exec(t, endBackends)
	}
	for _, c := range []struct{ first, next string }{
		{"Q SELECT 1", "Q SELECT 2"},
		{"Q SELECT 1", "Q INSERT INTO t VALUES (3, 'x')"},
		{"Q BEGIN\nQ INSERT INTO t VALUES (3, 'x')", "Q COMMIT"},
		{"Q BEGIN\nQ INSERT INTO t VALUES (3, 'x')", "Q ROLLBACK"},
		{"P a|SELECT 1\nS", "B |a\nE |0\nS"},
	} {
		l := s.live(t)
		l.do(c.first)
		terminate()
		l.want(c.next, "FATAL 57P01 terminating connection due to administrator command")
	}
	l := s.live(t)
	l.host.onSubmit = func(session.Submission) *session.Decision { terminate(); return nil }
	got := l.do("Q INSERT INTO t VALUES (3, 'x')\nQ SELECT 1")
	if want := "CommandComplete INSERT 0 1\nReadyForQuery I\nFATAL 57P01"; !strings.HasPrefix(got, want) ||
		l.host.orphans != 1 {
		t.Errorf("%d orphans, after a decided commit the client got\n%s", l.host.orphans, got)
	}
	l = s.live(t)
	unknown := &session.Decision{Err: wire.Fatalf(wire.CodeStatementUnknown, "unknown")}
	for i, decide := range []func(session.Submission) *session.Decision{
		func(session.Submission) *session.Decision { return unknown },
		func(session.Submission) *session.Decision { terminate(); return unknown },
	} {
		for _, q := range []string{"Q INSERT INTO t VALUES (3, 'x')",
			"Q BEGIN; INSERT INTO t VALUES (3, 'x'); COMMIT"} {
			l = s.live(t)
			l.host.onSubmit = decide
			got := l.do(q)
			if !strings.Contains(got, "FATAL 40003 unknown\nconnection closed") || strings.Contains(got, "57P01") {
				t.Errorf("an unknown outcome (%d) was told as\n%s", i, got)
			}
		}
	}
}

// TestHoldIsBounded: a large result passes although it may have to be run again.
func TestHoldIsBounded(t *testing.T) {
	l := newStage(t, true).live(t)
	l.host.lose = true
	l.want("Q INSERT INTO t SELECT i, repeat('x', 1000) FROM generate_series(3, 2000) i RETURNING v",
		"ERROR 40001 lost for the test")
	l.want("Q SELECT count(*) FROM t", "DataRow 2")
	l.want("Q SELECT repeat('x', 1000), put(3, 'x') FROM generate_series(1, 1)", "SELECT 1")
	for i := range 3 {
		l.want(fmt.Sprintf("Q SELECT repeat('x', 1000), CASE WHEN i = 2000 THEN put(%d, 'x') END FROM "+
			"generate_series(1, 2000) i", 10+i), "ReadyForQuery I")
	}
}

// TestDoomOutsideOfBlocks: a statement of its own that reads, and is ended because it stands in the way, fails; what
// comes next does not.
func TestDoomOutsideOfBlocks(t *testing.T) {
	s := newStage(t, true)
	l := s.live(t)
	const sleeping = " FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND datname = current_database()"
	for _, next := range []string{"Q BEGIN\nQ ROLLBACK",
		"Q INSERT INTO t VALUES (9, 'x')\nQ DELETE FROM t WHERE id = 9",
		"Q SHOW tutti.applied", "P |SELECT 1\nB |\nE |0\nS"} {
		l.trace = nil
		l.out.Append(message(t, "Q", "SELECT pg_sleep(60)"))
		if err := l.out.Flush(); err != nil {
			t.Fatal(err)
		}
		s.until(t, "SELECT count(*) = 1"+sleeping)
		l.host.kill(lost())
		if _, err := s.admin.Exec(context.Background(), "SELECT pg_cancel_backend(pid)"+sleeping); err != nil {
			t.Fatal(err)
		}
		l.until(wire.TypeReadyForQuery)
		if got := strings.Join(l.trace, "\n"); !strings.Contains(got,
			"ERROR 40001 doomed for the test\nReadyForQuery I") {
			t.Fatalf("the statement was told %q", got)
		}
		if got := l.do(next); strings.Contains(got, "ERROR") || strings.Contains(got, "ReadyForQuery E") {
			t.Errorf("then %q was told %q", next, got)
		}
	}
}

// TestMaintenanceGoesOn: VACUUM, CLUSTER, REINDEX and ANALYZE that are ended because they stand in the way are run
// again, also if others make them lose before that.
func TestMaintenanceGoesOn(t *testing.T) {
	s := newStage(t, true)
	l := s.live(t)
	s.define(t, "ALTER TABLE public.t OWNER TO app")
	const waiting = "FROM pg_locks WHERE NOT granted AND relation = 'public.t'::regclass"
	for _, sql := range []string{"VACUUM (FULL) t", "ANALYZE t", "REINDEX TABLE t", "CLUSTER t USING t_pkey"} {
		l.trace, l.host.maintains, l.host.losesFirst = nil, nil, true
		s.exec(t, "BEGIN; LOCK TABLE public.t IN SHARE UPDATE EXCLUSIVE MODE")
		l.out.Append(message(t, "Q", sql))
		if err := l.out.Flush(); err != nil {
			t.Fatal(err)
		}
		began := "-infinity"
		for range 2 {
			s.until(t, "SELECT count(*) = 1 "+waiting+" AND waitstart > '"+began+"'")
			l.host.kill(lost())
			if err := s.admin.QueryRow(t.Context(), "SELECT waitstart::text FROM (SELECT waitstart, "+
				"pg_cancel_backend(pid) "+waiting+") x").Scan(&began); err != nil {
				t.Fatal(err)
			}
		}
		s.until(t, "SELECT count(*) = 1 "+waiting+" AND waitstart > '"+began+"'")
		s.exec(t, "COMMIT")
		l.until(wire.TypeReadyForQuery)
		if got := strings.Join(l.trace, "\n"); strings.Contains(got, "ERROR") {
			t.Errorf("%s was told %q", sql, got)
		}
		if !slices.Equal(l.host.maintains, []int{1, 2, 2}) {
			t.Errorf("%s was run again at the tries %d", sql, l.host.maintains)
		}
	}
}

// TestMaintenanceEnds: what waits until it is run again fails as its client, or its limits, wish.
func TestMaintenanceEnds(t *testing.T) {
	s := newStage(t, true)
	l := s.live(t)
	s.define(t, "ALTER TABLE public.t OWNER TO app")
	s.exec(t, "BEGIN; LOCK TABLE public.t IN SHARE UPDATE EXCLUSIVE MODE")
	l.host.mayNot = wire.Errorf(wire.CodeQueryCanceled, "canceling statement due to user request")
	l.out.Append(message(t, "Q", "VACUUM t"))
	if err := l.out.Flush(); err != nil {
		t.Fatal(err)
	}
	const waiting = "FROM pg_locks WHERE NOT granted AND relation = 'public.t'::regclass"
	s.until(t, "SELECT count(*) = 1 "+waiting)
	l.host.kill(lost())
	s.exec(t, "SELECT pg_cancel_backend(pid) "+waiting)
	l.until(wire.TypeReadyForQuery)
	if got := strings.Join(l.trace, "\n"); !strings.Contains(got,
		"ERROR 57014 canceling statement due to user request\nReadyForQuery I") {
		t.Errorf("it was told %q", got)
	}
	s.exec(t, "COMMIT")
	l.want("Q SELECT count(*) FROM t", "DataRow 2")
}
