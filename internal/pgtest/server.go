package pgtest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tuttidb/tutti/internal/database/embedded"
	"github.com/tuttidb/tutti/internal/database/instance"
)

const (
	startTimeout = time.Minute
	stopTimeout  = 10 * time.Second
	sqlTimeout   = 30 * time.Second
	portBase     = 5432 // names the socket only (P3)
)

// findBuild looks once per process.
var findBuild = sync.OnceValues(func() (embedded.Build, error) { return embedded.Find(embedded.Options{}) })

// Option changes how a server is made.
type Option func(*config)

type config struct {
	durable  bool
	tcp      bool
	settings map[string]string
	logger   *slog.Logger
}

// Durable keeps fsync and full_page_writes on, as production has them.
func Durable() Option { return func(c *config) { c.durable = true } }

// TCP has the server listen on this machine's loopback addresses, too, at Server.Port.
func TCP() Option { return func(c *config) { c.tcp = true } }

// Setting adds one postgresql.conf setting.
func Setting(name, value string) Option {
	return func(c *config) { c.settings[name] = value }
}

// Logger gets the instance's messages; the default discards them.
func Logger(l *slog.Logger) Option { return func(c *config) { c.logger = l } }

// Server is one running PostgreSQL. Its methods that take a testing.TB fail that test when
// they do not succeed.
type Server struct {
	inst *instance.Instance
	dir  string
	port int
	dbs  atomic.Int64
}

// Start runs a fresh server until the end of the test.
func Start(t testing.TB, opts ...Option) *Server {
	t.Helper()
	s, err := start(opts)
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("PostgreSQL's log ends with:\n%s", s.logTail())
		}
		if err := s.close(); err != nil {
			t.Errorf("pgtest: %v", err)
		}
	})
	return s
}

func start(opts []Option) (*Server, error) {
	c := config{settings: map[string]string{
		"shared_buffers":             "32MB",
		"max_connections":            "100",
		"wal_level":                  "replica",
		"dynamic_shared_memory_type": "mmap", // files of the server's own, which go with it when it is killed
		"autovacuum_naptime":         "1h",   // a test that wants a vacuum says so
		"fsync":                      "off",
		"full_page_writes":           "off",
		"log_min_messages":           "warning",
		"log_min_error_statement":    "panic",
	}}
	for _, o := range opts {
		o(&c)
	}
	if c.durable {
		c.settings["fsync"], c.settings["full_page_writes"] = "on", "on"
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	build, err := findBuild()
	if err != nil {
		return nil, err
	}
	parent := ""
	if !c.durable && os.Getenv("TMPDIR") == "" {
		parent = MemoryDir()
	}
	dir, err := tempDir(parent)
	if err != nil {
		return nil, err
	}
	port := portBase
	if c.tcp {
		if port, err = freePort(); err != nil {
			return nil, errors.Join(err, os.RemoveAll(dir))
		}
		c.settings["listen_addresses"] = "localhost"
	}
	s := &Server{dir: dir, port: port, inst: instance.New(instance.Options{
		Build: build, DataDir: filepath.Join(dir, "pg"), SocketDir: filepath.Join(dir, "s"), Port: port,
		Settings: c.settings, StopTimeout: stopTimeout, NoSync: true, Logger: c.logger,
	})}
	if err = NewDataDir(ctx, build, filepath.Join(dir, "pg")); err == nil {
		err = s.inst.Start(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

// close ends the server the quick way: nobody will read its files again.
func (s *Server) close() error {
	return errors.Join(s.inst.Kill(), os.RemoveAll(s.dir))
}

func (s *Server) logTail() string {
	const tail = 4096
	b, err := os.ReadFile(filepath.Join(s.dir, "postgres.log"))
	if err != nil {
		return err.Error()
	}
	return string(b[max(0, len(b)-tail):])
}

// Instance is the server's manager, for tests about it.
func (s *Server) Instance() *instance.Instance { return s.inst }

// ConnString is for pgx, as superuser "postgres"; an empty db is "postgres".
func (s *Server) ConnString(db string) string { return s.inst.ConnString("", db) }

// SocketDir is the directory of the unix socket: the host of libpq and pgx.
func (s *Server) SocketDir() string { return s.inst.SocketDir() }

// SocketPath is the unix socket itself, for net.Dial.
func (s *Server) SocketPath() string { return s.inst.SocketPath() }

// Port is the port number in the socket's name, and of TCP.
func (s *Server) Port() int { return s.port }

// DataDir is PostgreSQL's data directory.
func (s *Server) DataDir() string { return filepath.Join(s.dir, "pg") }

func freePort() (int, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	return ln.Addr().(*net.TCPAddr).Port, ln.Close()
}

// Connect opens a connection as superuser, to db ("" is "postgres"), closed with the test.
func (s *Server) Connect(t testing.TB, db string) *pgx.Conn {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), sqlTimeout)
	defer cancel()
	c, err := pgx.Connect(ctx, s.ConnString(db))
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = c.Close(ctx) // the test may have broken it on purpose
	})
	return c
}

// Exec runs statements in db, each in a transaction of its own.
func (s *Server) Exec(t testing.TB, db string, sql ...string) {
	t.Helper()
	if err := s.exec(db, sql...); err != nil {
		t.Fatalf("pgtest: %v", err)
	}
}

func (s *Server) exec(db string, sql ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), sqlTimeout)
	defer cancel()
	c, err := pgx.Connect(ctx, s.ConnString(db))
	if err != nil {
		return err
	}
	for _, q := range sql {
		if _, err = c.Exec(ctx, q); err != nil {
			err = fmt.Errorf("%s: %w", q, err)
			break
		}
	}
	return errors.Join(err, c.Close(ctx))
}

// NewDatabase creates an empty database of a unique name, dropped with the test, its
// sessions with it.
func (s *Server) NewDatabase(t testing.TB) string {
	t.Helper()
	return s.CopyDatabase(t, "template1")
}

// CopyDatabase is NewDatabase with the contents of another database, to which nobody is connected.
func (s *Server) CopyDatabase(t testing.TB, of string) string {
	t.Helper()
	name := fmt.Sprintf("test_%d", s.dbs.Add(1))
	s.Exec(t, "", "CREATE DATABASE "+name+" TEMPLATE "+of+" STRATEGY file_copy")
	t.Cleanup(func() {
		if s.inst.Pid() == 0 {
			return // the test has ended the server: the files go with it
		}
		if err := s.exec("", "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)"); err != nil {
			t.Errorf("pgtest: %v", err)
		}
	})
	return name
}

// Restart stops the server cleanly, if it runs, and starts it.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	err := s.inst.Stop(ctx)
	if err == nil {
		err = s.inst.Start(ctx)
	}
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
}

// Kill ends all the server's processes with SIGKILL. Restart brings it back, recovered.
func (s *Server) Kill(t testing.TB) {
	t.Helper()
	if err := s.inst.Kill(); err != nil {
		t.Fatalf("pgtest: %v", err)
	}
}

// TempDir is a temporary directory for a data directory of the test's own: short enough for
// a socket, and open to the user the server runs as, which t.TempDir is not under root.
func TempDir(t testing.TB) string {
	t.Helper()
	dir, err := tempDir("")
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Errorf("pgtest: %v", err)
		}
	})
	return dir
}

// tempDir makes a directory in another one, or where temporary files belong.
func tempDir(parent string) (string, error) {
	dir, err := os.MkdirTemp(parent, "pgt")
	if err != nil {
		return "", err
	}
	return dir, os.Chmod(dir, 0o755)
}
