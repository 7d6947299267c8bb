package bench

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/tuttidb/tutti/internal/demo"
)

// bouncerConfig: session mode, to the plain server's socket, as Tutti's nodes are connected
// to their servers.
const bouncerConfig = `[databases]
postgres = host=%s port=%d dbname=postgres user=postgres

[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = any
admin_users = postgres
pool_mode = session
max_client_conn = %d
default_pool_size = %d
ignore_startup_parameters = extra_float_digits
log_connections = 0
log_disconnections = 0
log_stats = 0
`

const bouncerReady = 10 * time.Second

// startBouncer runs PgBouncer before the plain server, which runs already.
func (s *servers) startBouncer(ctx context.Context, program string, plainPort, port int) error {
	dir := filepath.Join(s.dir, "pgbouncer")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	file := filepath.Join(dir, "pgbouncer.ini")
	const pool = clientsMax + 10
	text := fmt.Sprintf(bouncerConfig, s.plain.SocketDir(), plainPort, port, pool, pool)
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		return err
	}
	p := demo.NewProcess("pgbouncer", filepath.Join(dir, "pgbouncer.log"), program, "-q", file)
	if os.Geteuid() == 0 { // it refuses to be root
		uid, gid, err := ownerOf(filepath.Join(s.dir, "plain", "postgres"))
		if err != nil {
			return err
		}
		p.RunAs(uid, gid)
	}
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	if err := portFree(address); err != nil {
		return err
	}
	if err := p.Start(); err != nil {
		return err
	}
	s.stops = append(s.stops, func() { p.Terminate(); p.Wait() })
	if err := awaitPort(ctx, address, p); err != nil {
		return err
	}
	console, err := s.connect(ctx, fmt.Sprintf("postgresql://postgres@%s/pgbouncer?sslmode=disable", address))
	if err != nil {
		return err
	}
	s.all[bouncer] = &server{name: bouncer, addresses: []string{address}, dbname: "postgres",
		databases: s.all[plain].databases, middleware: []*demo.Process{p}, console: console}
	return nil
}

// ownerOf tells to whom a file belongs.
func ownerOf(path string) (uid, gid uint32, err error) {
	fi, err := os.Stat(path)
	if err != nil {
		return 0, 0, err
	}
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, 0, fmt.Errorf("%s: its owner cannot be told", path)
	}
	return st.Uid, st.Gid, nil
}

// portFree complains if somebody listens already: its answers would be taken for ours.
func portFree(address string) error {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("%w; choose another --base-port", err)
	}
	return l.Close()
}

// awaitPort waits until somebody listens, or the process has ended.
func awaitPort(ctx context.Context, address string, p *demo.Process) error {
	ctx, cancel := context.WithTimeout(ctx, bouncerReady)
	defer cancel()
	for {
		c, err := net.Dial("tcp", address)
		if err == nil {
			return c.Close()
		}
		if !p.Running() {
			return fmt.Errorf("pgbouncer ended while starting:\n%s", p.Tail())
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("pgbouncer is not ready: %w\n%s", err, p.Tail())
		case <-time.After(20 * time.Millisecond):
		}
	}
}
