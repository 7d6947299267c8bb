package cluster

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/tuttidb/tutti/internal/config"
)

// farewell is what a session was told last.
type farewell struct {
	name string
	err  error
	at   time.Time
}

// worded is an error's severity, SQLSTATE and text; "broken" if it is none of PostgreSQL's.
func worded(err error) string {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return "broken: " + Explain(err)
	}
	return pg.Severity + " " + pg.Code + " " + pg.Message
}

const dismissed = "FATAL 57P01 terminating connection due to administrator command"

// waitLast waits for what a session's connection says when it ends, unasked.
func waitLast(s *Conn) error {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	for {
		if err := s.PgConn().WaitForNotification(ctx); err != nil {
			return err
		}
	}
}

// TestStopTellsClients: a node that gets SIGTERM says 57P01 to every client: to idle ones at once, to others when
// their statement or transaction has ended, which counts, and at the end of drain_timeout to those that are left.
// Meanwhile it refuses new ones with 57P03.
func TestStopTellsClients(t *testing.T) {
	t.Parallel() // mostly it waits
	c := Start(t, 1, func(_ int, n *config.Config) { n.DrainTimeout = "2s" })
	s := c.Connect(1)
	s.Do("CREATE TABLE stops(k int PRIMARY KEY, v int)", "INSERT INTO stops SELECT g, 0 FROM generate_series(1, 9) g")
	idle, listens, ends, pipelined, sleeps, forever, silent, reading := c.Connect(1), c.Connect(1), c.Connect(1),
		c.Connect(1), c.Connect(1), c.Connect(1), c.Connect(1), c.Connect(1)
	listens.Do("LISTEN stops")
	ends.Do("BEGIN", "UPDATE stops SET v = 1 WHERE k = 1")
	silent.Do("BEGIN", "UPDATE stops SET v = 9 WHERE k = 2")
	came := make(chan farewell, 16)
	go func() { came <- farewell{"idle", waitLast(idle), time.Now()} }()
	go func() { came <- farewell{"listens", waitLast(listens), time.Now()} }()
	go func() {
		err := sleeps.Try("WITH s AS (SELECT pg_sleep(1)) UPDATE stops SET v = 3 FROM s WHERE k = 3")
		if err != nil {
			t.Errorf("a statement that ends in time: %v", Explain(err))
		}
		came <- farewell{"sleeps", waitLast(sleeps), time.Now()}
	}()
	go func() {
		came <- farewell{"forever", forever.Try("UPDATE stops SET v = 4 + length(pg_sleep(60)::text) WHERE k = 4"),
			time.Now()}
	}()
	go func() { came <- farewell{"silent", waitLast(silent), time.Now()} }()
	// A client that does not take what it has asked for.
	reading.PgConn().Frontend().Send(&pgproto3.Query{
		String: "SELECT repeat('x', 100000) FROM generate_series(1, 1000) g"})
	if err := reading.PgConn().Frontend().Flush(); err != nil {
		t.Fatal(err)
	}
	pipe := pipelined.PgConn().StartPipeline(pipelined.ctx())
	pipe.SendQueryParams("UPDATE stops SET v = 5 WHERE k = 5", nil, nil, nil, nil)
	if err := pipe.Flush(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(300 * time.Millisecond) // all of that is under way

	began := time.Now()
	c.Node(1).proc.Signal(syscall.SIGTERM)
	at := func(f farewell) time.Duration { return f.at.Sub(began) }
	got := map[string]farewell{}
	for len(got) < 2 {
		f := <-came
		got[f.name] = f
	}
	for _, name := range []string{"idle", "listens"} {
		if f := got[name]; worded(f.err) != dismissed || at(f) > time.Second {
			t.Errorf("%s was told after %s: %s", name, at(f), worded(f.err))
		}
	}
	if _, err := pgx.Connect(context.Background(), c.URL(1)); Code(err) != "57P03" ||
		!strings.Contains(err.Error(), "shutting down") {
		t.Errorf("a new client: %v", Explain(err))
	}
	ends.Do("UPDATE stops SET v = v + 1 WHERE k = 1", "COMMIT")
	if err := ends.Try("SELECT 1"); worded(err) != dismissed {
		t.Errorf("behind its COMMIT: %s", worded(err))
	}
	if err := pipe.Sync(); err != nil {
		t.Error(err)
	}
	if err := pipe.Close(); err != nil {
		t.Errorf("a pipeline that ends in time: %v", Explain(err))
	}
	if err := pipelined.Try("SELECT 1"); worded(err) != dismissed {
		t.Errorf("behind its pipeline: %s", worded(err))
	}
	for len(got) < 5 {
		f := <-came
		got[f.name] = f
	}
	if f := got["sleeps"]; worded(f.err) != dismissed || at(f) > 1900*time.Millisecond {
		t.Errorf("sleeps was told after %s: %s", at(f), worded(f.err))
	}
	for _, name := range []string{"forever", "silent"} {
		if f := got[name]; worded(f.err) != dismissed || at(f) < 1900*time.Millisecond || at(f) > 4*time.Second {
			t.Errorf("%s was told after %s: %s", name, at(f), worded(f.err))
		}
	}
	if err := c.Node(1).proc.Wait(10 * time.Second); err != nil || c.Node(1).proc.Err() != nil {
		t.Fatal(err, c.Node(1).proc.Err())
	}
	if d := time.Since(began); d > 8*time.Second {
		t.Errorf("the node took %s to stop", d)
	}
	c.Run(1)
	c.WaitReady()
	c.Everywhere("SELECT string_agg(v::text, ' ' ORDER BY k) FROM stops", "2 0 3 0 5 0 0 0 0")

	// A life that ends because its PostgreSQL does tells its clients as well.
	lone, inside := c.Connect(1), c.Connect(1)
	inside.Do("BEGIN", "UPDATE stops SET v = 7 WHERE k = 7")
	c.KillPostgres(1)
	for _, s := range []*Conn{lone, inside} {
		if err := waitLast(s); Code(err) != "57P01" {
			t.Errorf("when PostgreSQL had ended: %s", worded(err))
		}
	}
	c.WaitReady()
	c.Everywhere("SELECT v FROM stops WHERE k = 7", "0")
}
