package link

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tuttidb/tutti/internal/database/catalog"
	"github.com/tuttidb/tutti/internal/locks"
	"github.com/tuttidb/tutti/internal/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// bench is a database with a table, two backends and a monitor.
type bench struct {
	t       *testing.T
	url     string
	a, b    *pgx.Conn
	monitor *Monitor
}

func newBench(t *testing.T) *bench {
	s := pgtest.Shared(t)
	database := s.NewDatabase(t)
	x := &bench{t: t, a: s.Connect(t, database), b: s.Connect(t, database)}
	x.url = x.a.Config().ConnString()
	x.exec(x.a, "CREATE TABLE link (k int PRIMARY KEY)")
	var err error
	if x.monitor, err = NewMonitor(context.Background(), x.url, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(x.monitor.Close)
	return x
}

func (x *bench) exec(c *pgx.Conn, sql string) {
	x.t.Helper()
	if _, err := c.Exec(context.Background(), sql); err != nil {
		x.t.Fatal(err)
	}
}

// waits has b wait for a lock of a's, and returns what ends that.
func (x *bench) waits() (over <-chan error) {
	x.t.Helper()
	x.exec(x.a, "BEGIN; LOCK TABLE link IN SHARE MODE")
	done := make(chan error, 1)
	go func() {
		_, err := x.b.Exec(context.Background(), "INSERT INTO link VALUES (1)")
		done <- err
	}()
	for began := time.Now(); ; time.Sleep(time.Millisecond) {
		switch pids, err := x.monitor.Blockers(context.Background(), x.b.PgConn().PID()); {
		case err != nil:
			x.t.Fatal(err)
		case slices.Equal(pids, []uint32{x.a.PgConn().PID()}):
			return done
		case time.Since(began) > 10*time.Second:
			x.t.Fatalf("the blockers are %v", pids)
		}
	}
}

func code(err error) string {
	if pg, ok := err.(*pgconn.PgError); ok {
		return pg.Code
	}
	return ""
}

// TestBlockers: who holds what another backend waits for is found, what it holds is listed, and who waits is not
// working.
func TestBlockers(t *testing.T) {
	x, ctx := newBench(t), context.Background()
	if pids, err := x.monitor.Blockers(ctx, x.b.PgConn().PID()); err != nil || len(pids) > 0 {
		t.Fatalf("nobody waits, and blockers are %v (%v)", pids, err)
	}
	over := x.waits()
	tables, working, err := x.monitor.Holds(ctx, x.a.PgConn().PID())
	if err != nil || !working || !slices.Equal(tables, [][2]string{{"public", "link"}}) {
		t.Errorf("a holds %v, working %t (%v)", tables, working, err)
	}
	if _, working, err = x.monitor.Holds(ctx, x.b.PgConn().PID()); err != nil || working {
		t.Errorf("b waits, and is working: %t (%v)", working, err)
	}
	x.monitor.Cancel(slog.New(slog.NewTextHandler(io.Discard, nil)), x.b.PgConn().PID())
	if err := <-over; code(err) != "57014" {
		t.Errorf("who was cancelled is told %v", err)
	}
}

// TestLooksPastCatalogs: who looks finds and cancels a backend that waits while nobody can read pg_class, also if it
// would have to read that itself, and a chore waits for it.
func TestLooksPastCatalogs(t *testing.T) {
	for name, before := range map[string]string{
		"what it asks is known":     "SELECT 1",
		"what it asks is looked up": "VACUUM FULL pg_proc; REINDEX TABLE pg_proc",
	} {
		t.Run(name, func(t *testing.T) { looksPastCatalogs(t, before) })
	}
}

func looksPastCatalogs(t *testing.T, before string) {
	x, ctx := newBench(t), context.Background()
	over := x.waits()
	c, err := Connect(ctx, x.url, "tutti test", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(ctx)
	for _, sql := range append(strings.Split(before, ";"), "BEGIN; LOCK TABLE pg_class") {
		if _, err := c.Exec(ctx, sql).ReadAll(); err != nil {
			t.Fatal(err)
		}
	}
	chore := make(chan error, 1)
	go func() {
		_, err := x.monitor.Exec(ctx, "SELECT count(*) FROM pg_catalog.pg_class")
		chore <- err
	}()
	looked := make(chan error, 1)
	go func() {
		pids, err := x.monitor.Blockers(ctx, x.b.PgConn().PID())
		if err == nil && !slices.Equal(pids, []uint32{x.a.PgConn().PID()}) {
			err = fmt.Errorf("the blockers are %v", pids)
		}
		x.monitor.Cancel(slog.New(slog.NewTextHandler(io.Discard, nil)), x.b.PgConn().PID())
		looked <- err
	}()
	select {
	case err := <-looked:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("who looks waits for a lock on pg_class")
	}
	if err := <-over; code(err) != "57014" {
		t.Errorf("who was cancelled is told %v", err)
	}
	select {
	case err := <-chore:
		t.Errorf("the chore is done: %v", err)
	case <-x.monitor.Late():
		if pid, age := x.monitor.Chore(); age < choreMax || pid == 0 {
			t.Errorf("the chore has gone on for %s at %d", age, pid)
		}
	}
	if at, err := x.monitor.Position(ctx); err != nil || at == 0 {
		t.Errorf("the WAL is at %d (%v)", at, err)
	}
	if _, err := c.Exec(ctx, "COMMIT").ReadAll(); err != nil {
		t.Fatal(err)
	}
	if err := <-chore; err != nil {
		t.Error(err)
	}
	if _, age := x.monitor.Chore(); age != 0 {
		t.Errorf("a chore goes on after its end, for %s", age)
	}
	if _, err := x.b.Exec(ctx, "SELECT pg_sleep(0.2)"); err != nil {
		t.Errorf("the next statement of who was cancelled: %v", err)
	}
	x.monitor.looker.until = time.Time{}
	if at, err := x.monitor.Position(ctx); err != nil || at == 0 || x.monitor.looker.aside != nil {
		t.Errorf("the WAL is at %d (%v), another database is asked: %t", at, err, x.monitor.looker.aside != nil)
	}
}

// TestLooksAgain: who can look nowhere tries again, until nobody needs an answer any more.
func TestLooksAgain(t *testing.T) {
	x, ctx := newBench(t), context.Background()
	life, end := context.WithCancel(ctx)
	monitor, err := NewMonitor(life, x.url, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(monitor.Close)
	monitor.looker.elsewhere = x.a.Config().Database + "_aside"
	x.exec(x.b, "VACUUM FULL pg_proc")
	x.exec(x.a, "BEGIN; LOCK TABLE pg_class")
	looked := make(chan error, 1)
	look := func() {
		_, err := monitor.Position(ctx)
		looked <- err
	}
	go look()
	select {
	case err := <-looked:
		t.Errorf("it gives up: %v", err)
	case <-time.After(2 * lookMax):
	}
	x.exec(x.a, "COMMIT")
	if err := <-looked; err != nil {
		t.Error(err)
	}
	monitor.looker.until = time.Now().Add(time.Hour)
	end()
	go look()
	if err := <-looked; err == nil {
		t.Error("it has an answer")
	}
}

// TestRebuilds: who rebuilds a catalog is told from who holds one, or rebuilds something else, or waits.
func TestRebuilds(t *testing.T) {
	x, ctx := newBench(t), context.Background()
	rebuilds := func() (is bool) {
		t.Helper()
		is, err := x.monitor.Rebuilds(ctx, x.b.PgConn().PID())
		if err != nil {
			t.Fatal(err)
		}
		return is
	}
	x.exec(x.b, "BEGIN; LOCK TABLE pg_class")
	if rebuilds() {
		t.Error("who locks a catalog rebuilds it")
	}
	x.exec(x.b, "COMMIT")
	for sql, want := range map[string]bool{ // order-free: each for itself
		"VACUUM FULL link": false, "VACUUM FULL pg_depend": true, "REINDEX TABLE pg_depend": true,
	} {
		seen := false
		for began := time.Now(); !seen && time.Since(began) < 2*time.Second; {
			over := make(chan error, 1)
			go func() {
				_, err := x.b.Exec(ctx, sql)
				over <- err
			}()
			for done := false; !done; {
				seen = rebuilds() || seen
				select {
				case err := <-over:
					if done = true; err != nil {
						t.Fatal(err)
					}
				default:
				}
			}
			if !want {
				break
			}
		}
		if seen != want {
			t.Errorf("%s: a catalog is rebuilt: %t", sql, seen)
		}
	}
}

// TestCleanLater: the captured rows that are no longer in use wait for who has locked a catalog, not the chores.
func TestCleanLater(t *testing.T) {
	x, ctx := newBench(t), context.Background()
	x.exec(x.a, "VACUUM FULL pg_namespace")
	x.exec(x.a, "BEGIN; LOCK TABLE pg_class")
	if err := x.monitor.Clean(ctx); err != nil {
		t.Error(err)
	}
	x.exec(x.a, "COMMIT")
	pg := (*pgconn.PgError)(nil)
	if err := x.monitor.Clean(ctx); !errors.As(err, &pg) || pg.Code != "3F000" {
		t.Errorf("without a schema of Tutti's: %v", err)
	}
}

// TestGone: a backend is gone when its transaction is, or it has ended.
func TestGone(t *testing.T) {
	x, ctx := newBench(t), context.Background()
	gone := func(want bool) {
		t.Helper()
		if got, err := x.monitor.Gone(ctx, x.a.PgConn().PID()); err != nil || got != want {
			t.Errorf("gone: %t (%v), want %t", got, err, want)
		}
	}
	x.exec(x.a, "BEGIN; INSERT INTO link VALUES (2)")
	gone(false)
	x.exec(x.a, "COMMIT")
	gone(true)
	x.exec(x.a, "BEGIN; INSERT INTO link VALUES (3)")
	if err := x.monitor.Terminate(ctx, x.a.PgConn().PID()); err != nil {
		t.Fatal(err)
	}
	for began := time.Now(); time.Since(began) < 10*time.Second; time.Sleep(time.Millisecond) {
		if got, err := x.monitor.Gone(ctx, x.a.PgConn().PID()); err != nil || got {
			break
		}
	}
	gone(true)
}

// TestConnect: users' objects are not found in place of PostgreSQL's (K1), and notifications are passed on.
func TestConnect(t *testing.T) {
	x, ctx := newBench(t), context.Background()
	x.exec(x.a, "CREATE FUNCTION public.now() RETURNS text LANGUAGE sql AS $$ SELECT 'mine'::text $$; "+
		"DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET search_path = public, pg_catalog', current_database()); "+
		"END $$")
	heard := make(chan string, 1)
	c, err := ConnectHearing(ctx, x.url, "tutti test", nil,
		func(_ *pgconn.PgConn, n *pgconn.Notification) { heard <- n.Payload })
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(ctx)
	r, err := c.Exec(ctx, "LISTEN link; SELECT now() = 'mine', "+
		"pg_catalog.current_setting('application_name')").ReadAll()
	if err == nil {
		t.Errorf("a text is compared with the time: %s", r[1].Rows[0])
	}
	r, err = c.Exec(ctx, "LISTEN link; SELECT now() IS NULL, pg_catalog.current_setting('application_name')").ReadAll()
	if err != nil || string(r[1].Rows[0][0]) != "f" || string(r[1].Rows[0][1]) != "tutti test" {
		t.Errorf("%v (%v)", r, err)
	}
	x.exec(x.a, "NOTIFY link, 'x'")
	if err := c.WaitForNotification(ctx); err != nil || <-heard != "x" {
		t.Errorf("no notification was passed on (%v)", err)
	}
}

// TestHeld: advisory locks of a backend are listed, of both forms and modes.
func TestHeld(t *testing.T) {
	x, ctx := newBench(t), context.Background()
	tx, err := x.b.Begin(ctx)
	if err == nil {
		err = catalog.Install(ctx, tx)
	}
	if err == nil {
		err = tx.Commit(ctx)
	}
	if err != nil {
		t.Fatal(err)
	}
	k, err := NewKeeper(ctx, x.url)
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	x.exec(x.a, "SELECT pg_catalog.pg_advisory_lock(4294967298), pg_catalog.pg_advisory_lock_shared(3, 4)")
	got, err := k.Held(ctx, x.a.PgConn().PID())
	want := []locks.Lock{
		{Key: locks.Key{Class: 1, Object: 2, Form: 1}, Mode: locks.Exclusive},
		{Key: locks.Key{Class: 3, Object: 4, Form: 2}, Mode: locks.Shared},
	}
	if err != nil || len(got) != len(want) || !got[want[0]] || !got[want[1]] {
		t.Errorf("%v (%v), want %v", got, err, want)
	}
}
