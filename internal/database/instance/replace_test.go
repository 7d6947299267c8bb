package instance

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
)

// lent gives what reaches a donor that is lent over TCP, as over a call, and what its lendings failed with.
func lent(t *testing.T, donor *Instance) (cfg *pgconn.Config, failed <-chan error) {
	t.Helper()
	var listen net.ListenConfig
	ln, err := listen.Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { ln.Close() })
	ended := make(chan error, 100)
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				if err := donor.Lend(context.Background(), conn, "tutti clone of node3"); err != nil {
					ended <- err
				}
			}()
		}
	}()
	cfg, err = Through("node2", func(ctx context.Context) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "tcp", ln.Addr().String())
	})
	must(t, err)
	return cfg, ended
}

// TestReplace: a clone through a lent donor takes the place of a database, which stays as it is until then.
func TestReplace(t *testing.T) {
	t.Parallel()
	donor := started(t, options(t, serverDir(t)))
	execSQL(t, donor, "CREATE TABLE a AS SELECT 'new' AS v")
	old := started(t, options(t, serverDir(t)))
	execSQL(t, old, "CREATE TABLE a AS SELECT 'old' AS v")
	cfg, failed := lent(t, donor)
	if err := old.Replace(timeout(t), cfg, nil); !errors.Is(err, ErrRunning) {
		t.Errorf("a running server is replaced: %v", err)
	}
	must(t, old.Stop(timeout(t)))

	broken := cfg.Copy()
	broken.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := cfg.DialFunc(ctx, network, addr)
		return &brittle{Conn: c, left: 3 << 20}, err
	}
	fails(t, old.Replace(timeout(t), broken, nil), "clone of node2")
	must(t, old.Start(timeout(t)))
	want(t, old, "SELECT v FROM a", "old")
	must(t, old.Stop(timeout(t)))

	var shown string
	must(t, old.Replace(timeout(t), cfg, func(n int64) {
		if n > 1<<20 && shown == "" {
			shown = value(t, donor, "SELECT string_agg(DISTINCT application_name, ',') FROM pg_stat_activity "+
				"WHERE backend_type = 'walsender'")
		}
	}))
	if shown != "tutti clone of node3" {
		t.Errorf("the donor shows its borrower as %q", shown)
	}
	must(t, old.Start(timeout(t)))
	want(t, old, "SELECT v FROM a", "new")
	es, err := filepath.Glob(old.o.DataDir + ".*")
	must(t, err)
	if all := strings.Join(es, " "); strings.Contains(all, "pg.repl") || strings.Contains(all, "pg.clone") {
		t.Errorf("left behind: %v", es)
	}
	for len(failed) > 0 { // the broken one was cancelled
		fails(t, <-failed, "does not ask for the replication protocol")
	}
}

// TestLendsReplicationOnly: who is lent a server cannot run SQL on its databases.
func TestLendsReplicationOnly(t *testing.T) {
	t.Parallel()
	donor := started(t, options(t, serverDir(t)))
	cfg, failed := lent(t, donor)
	for _, c := range []struct{ what, replication string }{{"a session", ""}, {"logical replication", "database"}} {
		cfg := cfg.Copy()
		if c.replication != "" {
			cfg.RuntimeParams["replication"] = c.replication
		}
		if conn, err := pgconn.ConnectConfig(timeout(t), cfg); err == nil {
			t.Errorf("%s is lent: %v", c.what, conn.Close(timeout(t)))
		}
		fails(t, <-failed, "does not ask for the replication protocol")
		fails(t, <-failed, "does not ask for the replication protocol") // the request to cancel it
	}
	// Whatever else it says of itself, it is the replication protocol without a database.
	conn, err := cfg.DialFunc(timeout(t), "", "")
	must(t, err)
	front := pgproto3.NewFrontend(conn, conn)
	front.Send(&pgproto3.StartupMessage{ProtocolVersion: pgproto3.ProtocolVersionNumber, Parameters: map[string]string{
		"user": "nobody", "database": "postgres", "replication": "true", "options": "-c work_mem=7MB"}})
	front.Send(&pgproto3.Query{String: "SELECT 1 FROM pg_class"})
	must(t, front.Flush())
	for {
		m, err := front.Receive()
		must(t, err)
		if e, ok := m.(*pgproto3.ErrorResponse); ok {
			if !strings.Contains(e.Message, "cannot execute SQL commands") {
				t.Errorf("the server says %s", e.Message)
			}
			break
		}
		if _, ok := m.(*pgproto3.DataRow); ok {
			t.Fatal("a borrower reads a table")
		}
	}
	must(t, conn.Close())
}

// TestSettle: whenever a replacement is interrupted, there is one complete database afterwards.
func TestSettle(t *testing.T) {
	file := func(dir string) string {
		b, err := os.ReadFile(filepath.Join(dir, "PG_VERSION"))
		if err != nil {
			return ""
		}
		return string(b)
	}
	for _, c := range []struct{ what, dir, old, work, want string }{
		{"nothing to do", "a", "", "", "a"},
		{"before", "a", "", "b", "a"},
		{"between the two", "", "a", "b", "a"},
		{"behind", "b", "a", "", "b"},
		{"no database", "", "", "", ""},
	} {
		dir := filepath.Join(t.TempDir(), "pg")
		for name, content := range map[string]string{ // order-free: each for itself
			dir: c.dir, dir + replacedSuffix: c.old, dir + ".clone": c.work,
		} {
			if content != "" {
				must(t, os.Mkdir(name, 0o700))
				must(t, os.WriteFile(filepath.Join(name, "PG_VERSION"), []byte(content), 0o600))
			}
		}
		must(t, Settle(dir))
		if got := file(dir); got != c.want {
			t.Errorf("%s: the database is %q, want %q", c.what, got, c.want)
		}
		if got := file(dir + replacedSuffix); got != "" {
			t.Errorf("%s: %q is left", c.what, got)
		}
	}
}
