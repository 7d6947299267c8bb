package node

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tuttidb/tutti/internal/config"
	"github.com/tuttidb/tutti/internal/pgtest"
)

// pair are two members that tests share, in this process. The second one has copied the first one's database.
var pair struct {
	once sync.Once
	dir  string
	a, b *member
	err  error
}

// TestMain stops the pair.
func TestMain(m *testing.M) {
	code := m.Run()
	if err := errors.Join(pair.a.stop(), pair.b.stop(), os.RemoveAll(pair.dir)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// member is a node that runs.
type member struct {
	*Node
	text  logged
	level slog.LevelVar
	end   context.CancelFunc
	over  chan error
}

// logged is a log that can be read while it is written.
type logged struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// both gives the pair, once both serve clients.
func both(t *testing.T) (a, b *member) {
	t.Helper()
	pair.once.Do(func() {
		var dir string
		if dir, pair.err = os.MkdirTemp(pgtest.MemoryDir(), "tn"); pair.err != nil {
			return
		}
		pair.dir = dir
		if pair.err = os.Chmod(dir, 0o755); pair.err != nil { // PostgreSQL may be another user
			return
		}
		var configs []*config.Config
		if configs, pair.err = configure(dir, "alpha", "beta"); pair.err != nil {
			return
		}
		configs[1].Postgres.CloneFrom = "alpha"
		pair.a, pair.b = run(configs[0], 0), run(configs[1], 0)
		pair.err = errors.Join(pair.a.serves(), pair.b.serves())
	})
	if pair.err != nil {
		t.Fatal(pair.err)
	}
	return pair.a, pair.b
}

// configure makes the configurations of a cluster's members.
func configure(dir string, names ...string) (configs []*config.Config, err error) {
	var members []config.Member
	for i, name := range names {
		var ports [2]string
		for j := range ports {
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				return nil, err
			}
			defer ln.Close() // so that the next one is another
			ports[j] = ln.Addr().String()
		}
		members = append(members, config.Member{Member: uint32(i + 1), Name: name, Address: ports[0],
			Clients: ports[1]})
	}
	for _, m := range members {
		c := &config.Config{Cluster: "test", Member: m.Member, DataDir: filepath.Join(dir, m.Name), Listen: m.Clients,
			MemberListen: m.Address, Secret: "a secret for tests only", Members: members, DrainTimeout: "5s",
			Postgres: config.Postgres{AllowTrust: true, Settings: map[string]string{"shared_buffers": "16MB",
				"fsync": "off"}}}
		c.Limits.AuditPercent, c.Limits.LogSegmentBytes, c.Limits.WritesetBytes = -1, 4<<20, 4<<20
		if err := c.Validate(); err != nil {
			return nil, err
		}
		if len(members) == 1 {
			if err := config.MarkAlone(c.DataDir); err != nil {
				return nil, err
			}
		}
		configs = append(configs, c)
	}
	return configs, nil
}

// run begins a node that has existed for so long.
func run(c *config.Config, age time.Duration) *member {
	m := &member{over: make(chan error, 1)}
	m.Node = New(c, slog.New(slog.NewTextHandler(&m.text, nil)))
	m.began = time.Now().Add(-age)
	ctx, cancel := context.WithCancel(context.Background())
	m.end = cancel
	go func() { m.over <- m.Run(ctx) }()
	return m
}

// serves waits until the main database is ready.
func (m *member) serves() error {
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		select {
		case err := <-m.over:
			m.over <- err
			return fmt.Errorf("%s has ended: %w\n%s", m.config.Self().Name, err, m.text.String())
		default:
		}
		if t := m.current(); t != nil && t.ready() {
			return nil
		}
	}
	return fmt.Errorf("%s does not serve:\n%s", m.config.Self().Name, m.text.String())
}

// stop ends a node, if there is one, and waits for that.
func (m *member) stop() error {
	if m == nil {
		return nil
	}
	m.end()
	return <-m.over
}

// connect opens a session, which ends with the test.
func (m *member) connect(t *testing.T, database string) *pgx.Conn {
	t.Helper()
	c, err := m.dial(t.Context(), database)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

func (m *member) dial(ctx context.Context, database string) (*pgx.Conn, error) {
	return pgx.Connect(ctx, fmt.Sprintf("postgres://postgres@%s/%s?sslmode=disable", m.config.Listen, database))
}

// query gives the only value of a statement's only row.
func query(t *testing.T, c *pgx.Conn, sql string, args ...any) (v string) {
	t.Helper()
	if err := c.QueryRow(t.Context(), sql, args...).Scan(&v); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return v
}

func exec(t *testing.T, c *pgx.Conn, sql ...string) {
	t.Helper()
	for _, s := range sql {
		if _, err := c.Exec(t.Context(), s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}

// await waits until something is so, and fails the test if that takes too long.
func await(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within 20 seconds: %s", what)
		}
	}
}

// level waits until both members have applied all that one of them knows to be ordered.
func level(t *testing.T, a, b *member) {
	t.Helper()
	for _, x := range a.current().all() {
		y := b.current().life(x.id.group)
		if y == nil {
			continue
		}
		end := max(x.order.core.Ordinal(), y.order.core.Ordinal())
		await(t, "both have applied all that is ordered", func() bool {
			return x.order.core.Applied() >= end && y.order.core.Applied() >= end
		})
	}
}

// code is the SQLSTATE of an error; empty if there is none.
func code(err error) string {
	var e *pgconn.PgError
	if errors.As(err, &e) {
		return e.Code
	}
	if err != nil {
		return err.Error()
	}
	return ""
}

// fails fails the test unless a statement fails with this SQLSTATE. It gives the error.
func fails(t *testing.T, c *pgx.Conn, want, sql string) *pgconn.PgError {
	t.Helper()
	_, err := c.Exec(t.Context(), sql)
	if code(err) != want {
		t.Fatalf("%s: %v, want an error %s", sql, err, want)
	}
	var e *pgconn.PgError
	errors.As(err, &e)
	return e
}

// main is the replica of the main database.
func (m *member) main() *life { return m.current().life(mainGroup) }

// reloaded has a node read a configuration again that differs from its own, until the test ends.
func reloaded(t *testing.T, m *member, change func(*config.Config)) {
	t.Helper()
	next := *m.config
	next.Postgres.Settings = maps.Clone(next.Postgres.Settings)
	change(&next)
	load := func() (*config.Config, error) { return &next, nil }
	m.again(load, &m.level)
	if m.settled() == m.config || !reflect.DeepEqual(config.Diff(m.config, m.settled()), config.Diff(m.config, &next)) {
		t.Errorf("changed is %q:\n%s", config.Diff(m.config, m.settled()), m.text.String())
	}
	t.Cleanup(func() {
		m.again(func() (*config.Config, error) { return m.config, nil }, &m.level)
	})
}

// kill ends a process at once.
func kill(t *testing.T, pid string) {
	t.Helper()
	n, err := strconv.Atoi(pid)
	if err != nil {
		t.Fatal(err)
	}
	p, err := os.FindProcess(n)
	if err == nil {
		err = p.Kill()
	}
	if err != nil {
		t.Fatal(err)
	}
}
