package bench

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tuttidb/tutti/internal/database/embedded"
	"github.com/tuttidb/tutti/internal/database/instance"
	"github.com/tuttidb/tutti/internal/demo"
)

const nodes = 3

// ownName tells our sessions, like those of the nodes themselves, from clients'.
const ownName = " application_name='tutti bench'"

// database is one PostgreSQL server under measurement.
type database struct {
	name string
	conn *pgconn.PgConn // as superuser, through its socket
	tree *tree          // nil where /proc does not tell
}

// server is one of the things compared: where clients connect, and who works for them.
type server struct {
	name       string
	addresses  []string // host:port; clients are spread over them
	dbname     string
	databases  []*database
	middleware []*demo.Process  // Tutti's nodes, in the order of databases, or PgBouncer
	nodes      []*pgconn.PgConn // sessions at Tutti's nodes, in the same order
	console    *pgconn.PgConn   // of PgBouncer
}

// servers is everything that was started.
type servers struct {
	dir   string
	build embedded.Build
	all   map[string]*server
	plain *instance.Instance
	stops []func() // in the order of starting

	profiles string // see Options
}

// stop ends everything, last started first.
func (s *servers) stop() {
	for i := len(s.stops) - 1; i >= 0; i-- {
		s.stops[i]()
	}
}

// connect opens a session that stop closes.
func (s *servers) connect(ctx context.Context, conn string) (*pgconn.PgConn, error) {
	pg, err := pgconn.Connect(ctx, conn)
	if err != nil {
		return nil, err
	}
	s.stops = append(s.stops, func() { _ = pg.Close(context.Background()) }) // its server is about to stop
	return pg, nil
}

// database connects to a PostgreSQL server and finds its processes.
func (s *servers) database(ctx context.Context, name string, i *instance.Instance, dataDir string,
	withCPU bool) (*database, error) {
	conn, err := s.connect(ctx, i.ConnString("postgres", "postgres")+ownName)
	if err != nil {
		return nil, err
	}
	d := &database{name: name, conn: conn}
	if withCPU {
		pid, err := postmaster(dataDir)
		if err != nil {
			return nil, err
		}
		d.tree = newTree(pid)
	}
	return d, nil
}

// postmaster reads the process id a running server wrote down.
func postmaster(dataDir string) (int, error) {
	b, err := os.ReadFile(filepath.Join(dataDir, "postmaster.pid"))
	if err != nil {
		return 0, err
	}
	var pid int
	if _, err := fmt.Sscanf(string(b), "%d\n", &pid); err != nil {
		return 0, fmt.Errorf("%s/postmaster.pid: %w", dataDir, err)
	}
	return pid, nil
}

// startPlain runs the durable server, with a second database whose commits are asynchronous.
func (s *servers) startPlain(ctx context.Context, port int, withCPU bool) error {
	dataDir := filepath.Join(s.dir, "plain", "postgres")
	s.plain = instance.New(instance.Options{Build: s.build, DataDir: dataDir, Port: port, Settings: map[string]string{
		"listen_addresses": "127.0.0.1", "synchronous_commit": "on",
	}})
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	if err := portFree(address); err != nil {
		return err
	}
	if err := s.plain.Init(ctx); err != nil {
		return err
	}
	if err := letIn(filepath.Join(dataDir, "pg_hba.conf")); err != nil {
		return err
	}
	if err := s.plain.Start(ctx); err != nil {
		return err
	}
	s.stops = append(s.stops, func() { _ = s.plain.Stop(context.Background()) }) // its files are thrown away
	db, err := s.database(ctx, plain, s.plain, dataDir, withCPU)
	if err != nil {
		return err
	}
	for _, q := range []string{"CREATE DATABASE lazy", "ALTER DATABASE lazy SET synchronous_commit = off"} {
		if err := do(ctx, db.conn, q); err != nil {
			return err
		}
	}
	s.all[plain] = &server{name: plain, addresses: []string{address}, dbname: "postgres", databases: []*database{db}}
	conn, err := s.connect(ctx, s.plain.ConnString("postgres", "lazy")+ownName)
	if err != nil {
		return err
	}
	s.all[plainLazy] = &server{name: plainLazy, addresses: []string{address}, dbname: "lazy",
		databases: []*database{{name: plain, conn: conn, tree: db.tree}}}
	return nil
}

// letIn lets clients of this machine connect through TCP, like those of Tutti's nodes.
func letIn(hba string) error {
	old, err := os.ReadFile(hba)
	if err != nil {
		return err
	}
	return os.WriteFile(hba, append([]byte("host all all 127.0.0.1/32 trust\n"), old...), 0o600)
}

// startTutti runs the cluster.
func (s *servers) startTutti(ctx context.Context, port int, withCPU bool) error {
	log, err := os.Create(filepath.Join(s.dir, "tutti.log"))
	if err != nil {
		return err
	}
	dir := filepath.Join(s.dir, "tutti")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	c, err := demo.Start(ctx, demo.Options{Nodes: nodes, Dir: dir, BasePort: port, BinDir: s.build.BinDir,
		LogLevel: "info", Profiles: s.profiles}, log)
	if err != nil {
		return err
	}
	s.stops = append(s.stops, func() { c.Stop(); _ = log.Close() })
	t := &server{name: tutti, dbname: "postgres"}
	for k := 1; k <= nodes; k++ {
		name := fmt.Sprintf("node%d", k)
		db, err := s.database(ctx, name, c.Server(k), c.DataDir(k), withCPU)
		if err != nil {
			return err
		}
		conn, err := s.connect(ctx, fmt.Sprintf("postgresql://postgres@%s/postgres?sslmode=disable&application_name=tutti%%20bench", c.Address(k)))
		if err != nil {
			return err
		}
		t.addresses = append(t.addresses, c.Address(k))
		t.databases = append(t.databases, db)
		t.nodes = append(t.nodes, conn)
		t.middleware = append(t.middleware, c.Process(k))
	}
	s.all[tutti] = t
	return nil
}

// do runs statements whose results do not matter.
func do(ctx context.Context, conn *pgconn.PgConn, sql string) error {
	if _, err := conn.Exec(ctx, sql).ReadAll(); err != nil {
		return fmt.Errorf("%s: %w", sql, err)
	}
	return nil
}

// rows runs a query and gives its rows as text.
func rows(ctx context.Context, conn *pgconn.PgConn, sql string) (out [][]string, err error) {
	results, err := conn.Exec(ctx, sql).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", sql, err)
	}
	for _, r := range results[len(results)-1].Rows {
		var row []string
		for _, v := range r {
			row = append(row, string(v))
		}
		out = append(out, row)
	}
	return out, nil
}
