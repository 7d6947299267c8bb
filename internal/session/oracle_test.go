package session_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/jackc/pgx/v5"
	"github.com/pmezard/go-difflib/difflib"

	"github.com/tuttidb/tutti/internal/collect"
	"github.com/tuttidb/tutti/internal/database/catalog"
	"github.com/tuttidb/tutti/internal/pgtest"
	"github.com/tuttidb/tutti/internal/semantics"
	"github.com/tuttidb/tutti/internal/session"
	"github.com/tuttidb/tutti/internal/wire"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

var schema = []string{
	"CREATE TABLE t (id int PRIMARY KEY, v text)",
	"CREATE TABLE parent (id int PRIMARY KEY)",
	"CREATE TABLE child (id int PRIMARY KEY, p int REFERENCES parent DEFERRABLE INITIALLY DEFERRED)",
	"CREATE TABLE u (id int PRIMARY KEY, n int UNIQUE DEFERRABLE INITIALLY DEFERRED)",
	"CREATE FUNCTION put(int, text) RETURNS int LANGUAGE sql AS 'INSERT INTO t VALUES ($1, $2) RETURNING id'",
	"CREATE FUNCTION quietly() RETURNS int LANGUAGE plpgsql AS $$ BEGIN RAISE NOTICE 'psst'; RETURN 1; END $$",
	"CREATE PROCEDURE twice(int) LANGUAGE plpgsql AS $$ BEGIN INSERT INTO t VALUES ($1, 'a'); INSERT INTO t VALUES " +
		"($1 + 1, 'b'); END $$",
	`CREATE PROCEDURE steps(first int, INOUT n int) LANGUAGE plpgsql AS $$ BEGIN FOR i IN first..first + n - 1 LOOP
		INSERT INTO t VALUES (i, 'made'); UPDATE t SET v = v || ' twice' WHERE id = i; RAISE NOTICE 'step %', i;
		IF i % 2 = 1 THEN COMMIT; ELSE ROLLBACK; END IF; END LOOP; n := (SELECT count(*) FROM t); END $$`,
	"CREATE PROCEDURE outer_steps() LANGUAGE plpgsql AS $$ DECLARE n int := 3; BEGIN CALL steps(3, n); INSERT INTO " +
		"parent VALUES (n); COMMIT AND CHAIN; INSERT INTO parent VALUES (n + 1); END $$",
	"CREATE FUNCTION forget() RETURNS int LANGUAGE plpgsql AS $$ BEGIN DEALLOCATE ALL; RETURN 1; END $$",
	"GRANT ALL ON ALL TABLES IN SCHEMA public TO app",
	"GRANT CREATE ON SCHEMA public TO app",
}

// stage is one database that scripts are played on: plain, or with sessions in front.
type stage struct {
	server *pgtest.Server
	db     string
	admin  *pgx.Conn
	tutti  bool
	// describes is a connection of its own: the plans of what it asks are made once.
	describes *pgx.Conn
	asking    sync.Mutex
	// collector is the node's, with the tables as they are when it asks.
	collector collect.Collector
	// returnedMax is Options.BytesMax of live sessions.
	returnedMax int
}

func newStage(t testing.TB, tutti bool) *stage {
	t.Helper()
	s := &stage{server: pgtest.Shared(t), tutti: tutti}
	s.db = s.server.CopyDatabase(t, original(t, tutti))
	s.admin = s.server.Connect(t, s.db)
	if tutti {
		s.describes = s.server.Connect(t, s.db)
		var err error
		if s.collector, err = collect.New(context.Background(), s.admin.PgConn(), s.tables, 256<<20); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// originals are the databases that stages are copies of: they are made once, by the first who asks.
var originals = struct {
	sync.Mutex
	made map[string]bool
}{made: map[string]bool{}}

// original gives the name of a database with the schema, and with schema tutti if stages are to have it.
func original(t testing.TB, tutti bool) string {
	t.Helper()
	originals.Lock()
	defer originals.Unlock()
	name := map[bool]string{false: "plain_stage", true: "tutti_stage"}[tutti]
	if originals.made[name] {
		return name
	}
	server := pgtest.Shared(t)
	server.Exec(t, "", "CREATE DATABASE "+name)
	ctx := context.Background()
	admin, err := pgx.Connect(ctx, server.ConnString(name))
	if err != nil {
		t.Fatal(err)
	}
	for _, sql := range append([]string{"DO $$ BEGIN CREATE ROLE app LOGIN; EXCEPTION WHEN duplicate_object THEN " +
		"NULL; END $$"}, schema...) {
		if _, err := admin.Exec(ctx, sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	if tutti {
		err = pgx.BeginFunc(ctx, admin, func(tx pgx.Tx) error {
			return errors.Join(catalog.Install(ctx, tx), catalog.StartSequences(ctx, tx, 1, catalog.DefaultStep, 0, 0))
		})
	}
	if err := errors.Join(err, admin.Close(ctx)); err != nil {
		t.Fatal(err)
	}
	originals.made[name] = true
	return name
}

// tables describes the tables, or gives nil.
func (s *stage) tables() *catalog.Tables {
	s.asking.Lock()
	defer s.asking.Unlock()
	var t *catalog.Tables
	if pgx.BeginFunc(context.Background(), s.describes, func(tx pgx.Tx) (err error) {
		t, err = catalog.Describe(context.Background(), tx)
		return err
	}) != nil {
		return nil
	}
	return t
}

// unchanging is a collector whose catalog is always the same, because it is asked for anew.
type unchanging struct {
	collect.Collector
	once func() *catalog.Tables // for guesses
}

func (s *stage) unchanging() unchanging { return unchanging{s.collector, sync.OnceValue(s.tables)} }

func (u unchanging) roles() session.Collector {
	c := collect.Roles(u.Collector)
	c.Facts = u
	return c
}

func (u unchanging) Unkeyed(c *semantics.Compared) bool {
	return u.once().Unkeyed(c.Schema, c.Table, c.Columns)
}

func (u unchanging) Piecewise(schema, table string) bool {
	return u.once != nil && u.once().Piecewise(schema, table)
}

func (u unchanging) Reach(sql string) session.Reach {
	if u.once == nil {
		return session.Reach{}
	}
	return session.Reach(u.once().Reach(sql))
}

func (unchanging) Catalog() any { return nil }

// reset gives the tables their first contents.
func (s *stage) reset(t testing.TB) {
	t.Helper()
	const sql = `SET backtrace_functions = 'tutti_applies'; SET session_replication_role = replica;
		TRUNCATE t, parent, child, u;
		INSERT INTO t VALUES (1, 'one'), (2, 'two'); INSERT INTO parent VALUES (1); INSERT INTO u VALUES (1, 1), (2, 2);
		RESET session_replication_role`
	if _, err := s.admin.Exec(context.Background(), sql); err != nil {
		t.Fatal(err)
	}
}

// contents words what the tables hold.
func (s *stage) contents(t testing.TB) string {
	t.Helper()
	out := ""
	for _, table := range []string{"t", "parent", "child", "u"} {
		var rows string
		sql := fmt.Sprintf("SELECT coalesce(string_agg(left(x::text, 60), ' ' ORDER BY x::text), '') FROM %s x", table)
		if err := s.admin.QueryRow(context.Background(), sql).Scan(&rows); err != nil {
			t.Fatal(err)
		}
		out += "\n" + table + ": " + rows
	}
	return out
}

// backend logs in at the server as app.
func (s *stage) backend(t testing.TB) (net.Conn, *wire.Reader) {
	t.Helper()
	conn, err := net.Dial("unix", s.server.SocketPath())
	if err != nil {
		t.Fatal(err)
	}
	w, r := wire.NewWriter(conn), wire.NewReader(conn, wire.BackendLimits())
	w.Append(wire.AppendStartup(nil, 3, 0, []wire.Param{{Name: "user", Value: "app"}, {Name: "database", Value: s.db}}))
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	for {
		f, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		if f.Type == wire.TypeReadyForQuery {
			return conn, r
		}
	}
}

// play runs a script and returns its trace with the tables' contents afterwards. host is
// nil on the plain stage.
func (s *stage) play(t testing.TB, script string, host *fakeHost) string {
	t.Helper()
	s.reset(t)
	before := s.contents(t)
	conn, reader := s.backend(t)
	if !s.tutti {
		c := newClient(conn)
		defer conn.Close()
		return c.run(t, script) + s.contents(t)
	}
	host.admin = s.admin
	near, far := socketPair(t)
	host.client, host.backend = far, conn
	done := make(chan error, 1)
	go func() {
		defer conn.Close()
		defer far.Close()
		x := session.New(session.Options{Strict: true,
			Client: wire.NewReader(far, wire.FrontendLimits()), ClientOut: wire.NewWriter(far),
			Server: reader, ServerOut: wire.NewWriter(conn), Host: host.roles(), Collector: s.unchanging().roles(),
		})
		done <- x.Run()
	}()
	c := newClient(near)
	defer near.Close()
	c.until(wire.TypeReadyForQuery)
	c.trace = nil
	out := c.run(t, script)
	_ = near.Close()
	select {
	case err := <-done:
		if err != nil && !strings.Contains(out, "FATAL") {
			out += "\nsession: " + err.Error()
		}
	case <-time.After(waitMax):
		t.Fatalf("the session does not end; trace so far:\n%s", out)
	}
	if host.orphans > 0 || host.holding {
		out += fmt.Sprintf("\nhost: %d orphans, gate held %v", host.orphans, host.holding)
	}
	after := s.contents(t)
	if host.committed == 0 && after != before {
		out += "\nhost: a write has escaped"
	}
	return out + after
}

func socketPair(t testing.TB) (near, far net.Conn) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	ln, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	if near, err = net.Dial("unix", path); err == nil {
		far, err = ln.Accept()
	}
	if err != nil {
		t.Fatal(err)
	}
	return near, far
}

// TestOracle plays every script of testdata to a plain PostgreSQL and to sessions, one in a
// cluster where everything commits and one where every first certification loses. The
// golden output is PostgreSQL 15's trace; what a session says instead stands below it with -
// and + and needs a line "# differs: reason" in the script. "# retry: reason" says why the
// losing run differs from the other.
func TestOracle(t *testing.T) {
	plain, tutti := newStage(t, false), newStage(t, true)
	// Other versions word some messages otherwise; for them only the two traces are compared.
	golden := strings.HasPrefix(plain.admin.PgConn().ParameterStatus("server_version"), "15.")
	scripts, blocks := 0, 0
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			var faults []string
			datadriven.RunTest(t, file, func(t *testing.T, d *datadriven.TestData) string {
				scripts++
				want := plain.play(t, d.Input, nil)
				host, loses := &fakeHost{}, &fakeHost{lose: true}
				got := tutti.play(t, d.Input, host)
				if strings.Contains(d.Input, "# differs:") != (want != got) {
					faults = append(faults, fmt.Sprintf("%s: differs from PostgreSQL: %v%s", d.Pos, want != got,
						difference(want, got)))
				}
				again := tutti.play(t, d.Input, loses)
				blocks += host.blocks + loses.blocks
				if !strings.Contains(d.Input, "BEGIN") && strings.Contains(d.Input, "# retry:") != (again != got) {
					faults = append(faults, fmt.Sprintf("%s: differs when the first try loses: %v%s", d.Pos,
						again != got, difference(got, again)))
				}
				if !golden {
					return d.Expected
				}
				return want + difference(want, got)
			})
			for _, f := range faults {
				t.Error(f)
			}
		})
	}
	if scripts < 80 || blocks < 8 {
		t.Errorf("only %d scripts were played, and %d blocks would be carried out unseen", scripts, blocks)
	}
}

func difference(a, b string) string {
	if a == b {
		return ""
	}
	s, err := difflib.GetUnifiedDiffString(difflib.UnifiedDiff{A: difflib.SplitLines(a), B: difflib.SplitLines(b),
		Context: 0})
	if err != nil {
		return err.Error()
	}
	return "\n--\n" + strings.TrimRight(s, "\n")
}

// Code is true where it is not known.
func (u unchanging) Code() bool { return u.once == nil || u.once().Code() }
