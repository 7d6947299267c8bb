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

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tuttidb/tutti/internal/session"
	"github.com/tuttidb/tutti/internal/wire"
)

// listen serves sessions to drivers until the end of the test and returns a connection string.
func (s *stage) listen(t testing.TB, host func(net.Conn) *fakeHost) string {
	t.Helper()
	dir := t.TempDir()
	ln, err := net.Listen("unix", filepath.Join(dir, ".s.PGSQL.5432"))
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	t.Cleanup(func() { _ = ln.Close(); wg.Wait() })
	wg.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { s.serve(t, conn, host) })
		}
	})
	return fmt.Sprintf("host=%s port=5432 user=app dbname=%s sslmode=disable", dir, s.db)
}

func (s *stage) serve(t testing.TB, conn net.Conn, host func(net.Conn) *fakeHost) {
	defer conn.Close()
	startup, _, err := wire.Accept(conn, wire.FrontOptions{})
	if err != nil {
		t.Error(err)
		return
	}
	if startup == nil {
		return // a cancel, of what has taken too long
	}
	backend, err := net.Dial("unix", s.server.SocketPath())
	if err != nil {
		t.Error(err)
		return
	}
	defer backend.Close()
	login, err := wire.Login(startup, backend, nil, wire.LoginOptions{AllowTrust: true})
	if err != nil {
		t.Error(err)
		return
	}
	out := wire.NewWriter(startup.Conn)
	out.Append(login.Frames)
	out.Append(wire.AppendBackendKeyData(nil, login.BackendPID, make([]byte, 4)))
	h := host(startup.Conn)
	h.backend = backend
	x := session.New(session.Options{Strict: true, Client: startup.Reader, ClientOut: out, Server: login.Reader,
		ServerOut: wire.NewWriter(backend),
		Host:      h.roles(), Collector: s.unchanging().roles()})
	if err := x.Run(); err != nil {
		t.Error(err)
	}
}

// TestPgx runs what pgx can do, in every one of its modes, through sessions whose first
// certifications lose, except where that must show.
func TestPgx(t *testing.T) {
	s := newStage(t, true)
	lose := false
	dsn := s.listen(t, func(c net.Conn) *fakeHost { return &fakeHost{admin: s.admin, client: c, lose: lose} })
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe,
		pgx.QueryExecModeDescribeExec,
		pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol} {
		for _, lose = range []bool{false, true} {
			t.Run(fmt.Sprintf("%v/lose=%v", mode, lose), func(t *testing.T) {
				s.reset(t)
				config, err := pgx.ParseConfig(dsn)
				if err != nil {
					t.Fatal(err)
				}
				config.DefaultQueryExecMode = mode
				ctx := context.Background()
				c, err := pgx.ConnectConfig(ctx, config)
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close(ctx)
				statements(t, c)
				batches(t, c)
				if !lose {
					transactions(t, c)
					copies(t, c)
					pipeline(t, c.PgConn())
				}
			})
		}
	}
}

func exec(t *testing.T, c interface {
	Exec(context.Context, string, ...any) (pgconn.CommandTag, error)
}, want int64, sql string, args ...any) {
	t.Helper()
	if tag, err := c.Exec(context.Background(), sql, args...); err != nil || tag.RowsAffected() != want {
		t.Fatalf("%s: %v, %v", sql, tag, err)
	}
}

func count(t *testing.T, c *pgx.Conn, want int, where string) {
	t.Helper()
	var n int
	if err := c.QueryRow(context.Background(), "SELECT count(*) FROM t WHERE "+where).Scan(&n); err != nil ||
		n != want {
		t.Fatalf("%d rows where %s, want %d (%v)", n, where, want, err)
	}
}

func wantCode(t *testing.T, err error, code string) {
	t.Helper()
	var pg *pgconn.PgError
	if !errors.As(err, &pg) || pg.Code != code {
		t.Fatalf("got %v, want %s", err, code)
	}
}

func statements(t *testing.T, c *pgx.Conn) {
	ctx := context.Background()
	for i := range 5 {
		exec(t, c, 1, "INSERT INTO t VALUES ($1, $2)", 10+i, "x")
		exec(t, c, 1, "UPDATE t SET v = $2 WHERE id = $1", 10+i, fmt.Sprint(i))
	}
	_, err := c.Exec(ctx, "INSERT INTO t VALUES ($1, $2)", 10, "x")
	wantCode(t, err, "23505")
	var id int
	if err := c.QueryRow(ctx, "SELECT put($1, $2)", 20, "f").Scan(&id); err != nil || id != 20 {
		t.Fatal(id, err)
	}
	count(t, c, 6, "id >= 10")
}

func batches(t *testing.T, c *pgx.Conn) {
	ctx := context.Background()
	b := &pgx.Batch{}
	for i := range 50 {
		b.Queue("INSERT INTO t VALUES ($1, $2)", 100+i, strings.Repeat("b", 20))
	}
	b.Queue("SELECT count(*) FROM t WHERE id >= 100")
	r := c.SendBatch(ctx, b)
	for range 50 {
		if _, err := r.Exec(); err != nil {
			t.Fatal(err)
		}
	}
	var n int
	if err := r.QueryRow().Scan(&n); err != nil || n != 50 {
		t.Fatal(n, err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	b = &pgx.Batch{}
	b.Queue("INSERT INTO t VALUES ($1, 'x')", 200)
	b.Queue("INSERT INTO t VALUES ($1, 'x')", 200)
	wantCode(t, c.SendBatch(ctx, b).Close(), "23505")
	count(t, c, 0, "id = 200")
}

func transactions(t *testing.T, c *pgx.Conn) {
	ctx := context.Background()
	for _, o := range []pgx.TxOptions{{}, {IsoLevel: pgx.RepeatableRead},
		{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadWrite}} {
		err := pgx.BeginTxFunc(ctx, c, o, func(tx pgx.Tx) error {
			exec(t, tx, 1, "INSERT INTO t VALUES ($1, $2)", 300, "x")
			err := pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error {
				_, err := tx.Exec(ctx, "INSERT INTO t VALUES ($1, $2)", 300, "x")
				return err
			})
			wantCode(t, err, "23505")
			exec(t, tx, 1, "UPDATE t SET v = $1 WHERE id = $2", "y", 300)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		exec(t, c, 1, "DELETE FROM t WHERE id = $1 AND v = 'y'", 300)
	}
}

func copies(t *testing.T, c *pgx.Conn) {
	ctx := context.Background()
	rows := pgx.CopyFromSlice(2000, func(i int) ([]any, error) {
		return []any{1000 + i, strings.Repeat("c", 100)},
			nil
	})
	if n, err := c.CopyFrom(ctx, pgx.Identifier{"t"}, []string{"id", "v"}, rows); err != nil || n != 2000 {
		t.Fatal(n, err)
	}
	rows = pgx.CopyFromSlice(20000, func(i int) ([]any, error) {
		return []any{1000 + i, strings.Repeat("c", 100)},
			nil
	})
	_, err := c.CopyFrom(ctx, pgx.Identifier{"t"}, []string{"id", "v"}, rows)
	wantCode(t, err, "23505")
	count(t, c, 2000, "id >= 1000")
}

func pipeline(t *testing.T, c *pgconn.PgConn) {
	p := c.StartPipeline(context.Background())
	p.SendPrepare("ins", "INSERT INTO t VALUES ($1, 'p')", nil)
	for i := range 10 {
		p.SendQueryPrepared("ins", [][]byte{fmt.Append(nil, 5000+i)}, nil, nil)
	}
	p.SendQueryParams("SELECT 1/0", nil, nil, nil, nil)
	if err := p.Sync(); err != nil {
		t.Fatal(err)
	}
	p.SendQueryParams("SELECT count(*) FROM t WHERE id >= 5000", nil, nil, nil, nil)
	if err := p.Sync(); err != nil {
		t.Fatal(err)
	}
	syncs, last, failures := 0, "", 0
	for syncs < 2 {
		r, err := p.GetResults()
		if err != nil {
			failures++
			continue
		}
		switch r := r.(type) {
		case *pgconn.PipelineSync:
			syncs++
		case *pgconn.ResultReader:
			if x := r.Read(); x.Err != nil {
				failures++
			} else if len(x.Rows) > 0 {
				last = string(x.Rows[0][0])
			}
		}
	}
	if err := p.Close(); err != nil || last != "0" || failures == 0 {
		t.Fatalf("rows %q, failures %d, %v", last, failures, err)
	}
}
