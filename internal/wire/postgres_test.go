package wire

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/tuttidb/tutti/internal/database/embedded"
)

// testServer is a PostgreSQL that listens on a unix socket only.
type testServer struct {
	t      *testing.T
	bin    string
	dir    string
	attr   *syscall.SysProcAttr
	socket string
	addr   string // where it listens besides, if it does
}

const testHBA = `local all u_scram scram-sha-256
local all u_md5 md5
local all u_pw password
local all u_reject reject
local all all trust
host all u_scram 127.0.0.1/32 scram-sha-256
host all u_pw 127.0.0.1/32 password
host all all 127.0.0.1/32 trust
`

const testRoles = `set password_encryption = 'scram-sha-256';
create role u_scram login password 'right'; create role u_pw login password 'right'; create role u_reject login;
set password_encryption = 'md5'; create role u_md5 login password 'right'; create role u_trust login;`

// startPostgres makes and starts a server; the test ends it. With a certificate it listens on 127.0.0.1 as well, with
// TLS.
func startPostgres(t *testing.T, certificates ...tls.Certificate) *testServer {
	t.Helper()
	build := must[embedded.Build](t)(embedded.Find(embedded.Options{}))
	// Not t.TempDir: its parent is closed to the role the server runs as.
	dir := must[string](t)(os.MkdirTemp("", "wire"))
	t.Cleanup(func() { os.RemoveAll(dir) })
	s := &testServer{t: t, bin: build.BinDir, dir: dir, socket: filepath.Join(dir, ".s.PGSQL.5432")}
	if os.Geteuid() == 0 {
		u, err := user.Lookup("postgres")
		if err != nil {
			u = must[*user.User](t)(user.Lookup("nobody"))
		}
		uid, _ := strconv.Atoi(u.Uid)
		gid, _ := strconv.Atoi(u.Gid)
		s.attr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
		if err := os.Chown(dir, uid, gid); err != nil {
			t.Fatal(err)
		}
	}
	data := filepath.Join(dir, "data")
	s.run("initdb", "-D", data, "-U", "postgres", "-A", "trust", "-N", "--no-instructions", "--locale=C", "-E", "UTF8")
	if err := os.WriteFile(filepath.Join(data, "pg_hba.conf"), []byte(testHBA), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"-D", data, "-k", dir, "-p", "5432", "-c", "listen_addresses=", "-c", "fsync=off", "-c",
		"shared_buffers=8MB"}
	for _, c := range certificates {
		cert, key := s.files(c)
		port := freePort(t)
		s.addr, s.socket = net.JoinHostPort("127.0.0.1", port), filepath.Join(dir, ".s.PGSQL."+port)
		args = append(args, "-c", "listen_addresses=127.0.0.1", "-p", port, "-c", "ssl=on", "-c", "ssl_cert_file="+cert,
			"-c", "ssl_key_file="+key)
	}
	cmd := exec.Command(filepath.Join(s.bin, "postgres"), args...)
	cmd.SysProcAttr, cmd.Dir = s.attr, dir
	log := &bytes.Buffer{}
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGQUIT)
		cmd.Wait()
		if t.Failed() {
			t.Log(log.String())
		}
	})
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		c, err := pgconn.Connect(context.Background(), "host="+dir+" port="+
			strings.TrimPrefix(filepath.Base(s.socket), ".s.PGSQL.")+" user=postgres dbname=postgres")
		if err == nil {
			must[[]*pgconn.Result](t)(c.Exec(context.Background(), testRoles).ReadAll())
			c.Close(context.Background())
			return s
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

func (s *testServer) run(name string, args ...string) {
	s.t.Helper()
	cmd := exec.Command(filepath.Join(s.bin, name), args...)
	cmd.SysProcAttr, cmd.Dir = s.attr, s.dir
	if out, err := cmd.CombinedOutput(); err != nil {
		s.t.Fatalf("%s: %v\n%s", name, err, out)
	}
}

func (s *testServer) dial() (net.Conn, error) { return net.Dial("unix", s.socket) }

// relay is a whole edge: accept, login, raw relay, cancel.
type relay struct {
	server  *testServer
	addr    *net.TCPAddr
	front   FrontOptions
	login   LoginOptions
	cancels *Cancels
	wg      sync.WaitGroup
	mu      sync.Mutex
	errs    []error
}

func startRelay(t *testing.T, server *testServer, front FrontOptions, login LoginOptions) *relay {
	t.Helper()
	l := must[net.Listener](t)(net.Listen("tcp", "127.0.0.1:0"))
	r := &relay{server: server, addr: l.Addr().(*net.TCPAddr), front: front, login: login, cancels: NewCancels(0)}
	r.wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			r.wg.Go(func() {
				defer conn.Close()
				if err := r.serve(conn); err != nil {
					r.mu.Lock()
					r.errs = append(r.errs, err)
					r.mu.Unlock()
				}
			})
		}
	})
	t.Cleanup(func() { l.Close(); r.wg.Wait() })
	return r
}

func (r *relay) serve(conn net.Conn) error {
	client, cancel, err := Accept(conn, r.front)
	if err != nil {
		return err
	}
	if cancel != nil {
		r.cancels.Cancel(cancel)
		return nil
	}
	defer client.Conn.Close()
	backend, err := r.server.dial()
	if err != nil {
		return err
	}
	defer backend.Close()
	l, err := Login(client, backend, nil, r.login)
	if err != nil {
		return err
	}
	secret, release := r.cancels.Register(l.BackendPID, client.Minor,
		func() { SendCancel(r.server.dial, l.BackendPID, l.BackendSecret) })
	defer release()
	toClient := NewWriter(client.Conn)
	toClient.Append(l.Frames)
	toClient.Append(AppendReadyForQuery(AppendBackendKeyData(nil, l.BackendPID, secret), l.TxStatus))
	if err := toClient.Flush(); err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() { done <- pump(l.Reader, toClient); client.Conn.Close() }()
	err = pump(client.Reader, NewWriter(backend))
	backend.Close()
	<-done
	if err == io.EOF {
		err = nil
	}
	return err
}

// pump relays frames, large ones in pieces.
func pump(r *Reader, w *Writer) error {
	for {
		h, err := r.NextHeader()
		if err != nil {
			return err
		}
		if h.Len > 64<<10 {
			err = r.Stream(w, h)
		} else {
			var f Frame
			f, err = r.Next()
			w.Append(f.Raw)
		}
		if err == nil && !r.Buffered() {
			err = w.Flush()
		}
		if err != nil {
			return err
		}
	}
}

func (r *relay) dsn(user, password, more string) string {
	return fmt.Sprintf("host=localhost hostaddr=127.0.0.1 port=%d user=%s password=%s dbname=postgres %s", r.addr.Port,
		user, password, more)
}

func (r *relay) config(t *testing.T, user, password string, minor string, tlsConfig *tls.Config) *pgconn.Config {
	t.Helper()
	c := must[*pgconn.Config](t)(pgconn.ParseConfig(fmt.Sprintf(
		"host=127.0.0.1 port=%d user=%s password=%s dbname=postgres sslmode=disable max_protocol_version=%s",
		r.addr.Port, user, password, minor)))
	c.TLSConfig = tlsConfig
	return c
}

// TestPostgres runs real clients through the relay against a real server.
func TestPostgres(t *testing.T) {
	server := startPostgres(t)
	serverTLS, clientTLS := tlsConfigs(t)
	r := startRelay(t, server, FrontOptions{TLS: serverTLS, MinorMax: ProtocolMinorLong},
		LoginOptions{AllowTrust: true})
	strict := startRelay(t, server, FrontOptions{}, LoginOptions{})
	t.Run("pgx", func(t *testing.T) { testPgx(t, r, clientTLS) })
	t.Run("psql", func(t *testing.T) { testPsql(t, r) })
	t.Run("refusals", func(t *testing.T) { testRefusals(t, r, strict) })
	t.Run("cancel", func(t *testing.T) { testCancel(t, r) })
	t.Run("large", func(t *testing.T) { testLarge(t, r) })
}

func testPgx(t *testing.T, r *relay, clientTLS *tls.Config) {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	for _, user := range []string{"u_scram", "u_md5", "u_pw", "u_trust"} {
		for _, version := range []string{"3.0", "3.2"} {
			for _, config := range []*tls.Config{nil, clientTLS} {
				c, err := pgconn.ConnectConfig(ctx, r.config(t, user, "right", version, config))
				if err != nil {
					t.Errorf("%s %s: %v", user, version, err)
					continue
				}
				res := c.ExecParams(ctx, "select current_user, pg_backend_pid()", nil, nil, nil, nil).Read()
				if res.Err != nil || string(res.Rows[0][0]) != user ||
					string(res.Rows[0][1]) != strconv.Itoa(int(c.PID())) {
					t.Errorf("%s %s: %v %q", user, version, res.Err, res.Rows)
				}
				if want := map[string]int{"3.0": 4, "3.2": 32}[version]; len(c.SecretKey()) != want {
					t.Errorf("%s: key of %d bytes", version, len(c.SecretKey()))
				}
				if c.ParameterStatus("server_version") == "" || c.TxStatus() != 'I' {
					t.Error("greeting is incomplete")
				}
				c.Close(ctx)
			}
		}
	}
	direct := r.config(t, "u_scram", "right", "3.2", clientTLS.Clone())
	direct.SSLNegotiation = "direct"
	direct.TLSConfig.NextProtos = []string{"postgresql"}
	c, err := pgconn.ConnectConfig(ctx, direct)
	if err != nil {
		t.Fatal("direct TLS:", err)
	}
	c.Close(ctx)
}

// havePsql: without it pgconn stands in for libpq.
var havePsql = sync.OnceValue(func() bool { return exec.Command("psql", "--version").Run() == nil })

// psql runs a query with libpq, and gives its output or what it says of an error.
func psql(dsn, sql string) (string, error) {
	if !havePsql() {
		return pgconnInstead(dsn, sql)
	}
	cmd := exec.Command("psql", "-XAtw", "-d", dsn, "-c", sql)
	cmd.Env = append(os.Environ(), "PGPASSFILE=/nonexistent", "HOME=/nonexistent")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func pgconnInstead(dsn, sql string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := pgconn.Connect(ctx, strings.ReplaceAll(dsn, "hostaddr=", "host="))
	if err == nil {
		defer c.Close(ctx)
		var r []*pgconn.Result
		if r, err = c.Exec(ctx, sql).ReadAll(); err == nil {
			return string(r[0].Rows[0][0]) + "\n", nil
		}
	}
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.Severity + ":  " + pg.Message, err
	}
	return err.Error(), err
}

func testPsql(t *testing.T, r *relay) {
	for _, user := range []string{"u_scram", "u_md5", "u_pw", "u_trust"} {
		for _, mode := range []string{"sslmode=disable", "sslmode=prefer", "sslmode=require",
			"sslmode=require channel_binding=disable"} {
			if out, err := psql(r.dsn(user, "right", mode), "select current_user"); err != nil || out != user+"\n" {
				t.Errorf("%s %s: %v %s", user, mode, err, out)
			}
		}
	}
	out, err := psql(r.dsn("u_scram", "right", "sslmode=require channel_binding=require"), "select 1")
	if err == nil || !strings.Contains(out, "channel binding") {
		t.Errorf("channel binding required: %v %s", err, out)
	}
}

func testRefusals(t *testing.T, r, strict *relay) {
	for _, c := range []struct {
		relay     *relay
		dsn, want string
	}{
		{relay: r, dsn: r.dsn("u_scram", "wrong", ""),
			want: `FATAL:  password authentication failed for user "u_scram"`},
		{relay: r, dsn: r.dsn("u_md5", "wrong", ""), want: `FATAL:  password authentication failed for user "u_md5"`},
		{relay: r, dsn: r.dsn("u_pw", "wrong", ""), want: `FATAL:  password authentication failed for user "u_pw"`},
		{relay: r, dsn: r.dsn("u_reject", "x", ""), want: `FATAL:  pg_hba.conf rejects connection`},
		{relay: r, dsn: r.dsn("nobody_here", "x", ""), want: `FATAL:  role "nobody_here" does not exist`},
		{relay: r, dsn: r.dsn("u_trust", "x", "") + " dbname=nowhere",
			want: `FATAL:  database "nowhere" does not exist`},
		{relay: strict, dsn: strict.dsn("u_trust", "x", ""),
			want: `FATAL:  role "u_trust" was admitted by the local PostgreSQL without authentication`},
	} {
		out, err := psql(c.dsn, "select 1")
		if err == nil || !strings.Contains(out, c.want) {
			t.Errorf("got %s, want %s", out, c.want)
		}
	}
	if out, err := psql(strict.dsn("u_scram", "right", ""), "select 1"); err != nil || out != "1\n" {
		t.Error(out, err)
	}
}

func testCancel(t *testing.T, r *relay) {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	for _, version := range []string{"3.0", "3.2"} {
		c := must[*pgconn.PgConn](t)(pgconn.ConnectConfig(ctx, r.config(t, "u_scram", "right", version, nil)))
		done := make(chan error, 1)
		go func() { _, err := c.Exec(ctx, "select pg_sleep(50)").ReadAll(); done <- err }()
		var seen string
		for end := time.Now().Add(40 * time.Second); seen != "Timeout PgSleep\n"; time.Sleep(10 * time.Millisecond) {
			out, err := psql("host="+r.server.dir+" user=postgres dbname=postgres",
				fmt.Sprintf("select concat_ws(' ', wait_event_type, wait_event) from pg_stat_activity where pid = %d",
					c.PID()))
			if seen = out; err != nil || time.Now().After(end) {
				t.Fatalf("the backend does not sleep: %q, %v", out, err)
			}
		}
		if err := c.CancelRequest(ctx); err != nil {
			t.Error(err)
		}
		if err := <-done; err == nil || !strings.Contains(err.Error(), "57014") {
			t.Errorf("%s: %v", version, err)
		}
		c.Close(ctx)
	}
}

// Values far above every buffer travel both ways, by query and by COPY.
func testLarge(t *testing.T, r *relay) {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	c := must[*pgconn.PgConn](t)(pgconn.ConnectConfig(ctx, r.config(t, "u_scram", "right", "3.2", nil)))
	defer c.Close(ctx)
	big := bytes.Repeat([]byte("0123456789"), 300_000)
	res := c.ExecParams(ctx, "select $1::text, md5($1)", [][]byte{big}, nil, nil, nil).Read()
	if res.Err != nil || !bytes.Equal(res.Rows[0][0], big) {
		t.Error("large value:", res.Err)
	}
	must[[]*pgconn.Result](t)(c.Exec(ctx, "create temp table x(v text)").ReadAll())
	if tag, err := c.CopyFrom(ctx, bytes.NewReader(append(bytes.Clone(big), '\n')), "copy x from stdin"); err != nil ||
		tag.RowsAffected() != 1 {
		t.Error("copy in:", err)
	}
	var out bytes.Buffer
	if _, err := c.CopyTo(ctx, &out, "copy x to stdout"); err != nil || out.Len() != len(big)+1 {
		t.Error("copy out:", err, out.Len())
	}
}

// Every frame of a real session survives Reader and re-encoding by pgproto3.
func TestPostgresFramesAgreeWithPgproto3(t *testing.T) {
	server := startPostgres(t)
	conn := must[net.Conn](t)(server.dial())
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(time.Minute))
	w := NewWriter(conn)
	w.Append(AppendStartup(nil, 3, 0, []Param{{"user", "postgres"}, {"database", "postgres"}}))
	w.Append(AppendQuery(nil, "select 1 as a, null as b, 'x' as c; select 1/0; notify n"))
	b := AppendParse(nil, "s", "select $1::int, generate_series(1,3)", nil)
	b = AppendBind(AppendDescribe(b, 'S', "s"), "", "s", nil, [][]byte{[]byte("7")}, nil)
	b = AppendExecute(AppendExecute(AppendDescribe(b, 'P', ""), "", 2), "", 0)
	w.Append(AppendTerminate(AppendSync(AppendClose(b, 'S', "s"))))
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	var raw bytes.Buffer
	r := NewReader(io.TeeReader(conn, &raw), BackendLimits())
	var types []byte
	var ours [][]byte
	for {
		f, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		types, ours = append(types, f.Type), append(ours, bytes.Clone(f.Raw))
	}
	theirs := pgproto3.NewFrontend(&raw, io.Discard)
	for i, frame := range ours {
		m, err := theirs.Receive()
		if err != nil {
			t.Fatal(i, err)
		}
		if frame[0] == 'E' { // pgproto3 keeps the fields in another order than the server
			f := must[ErrorFields](t)(DecodeErrorFields(frame[5:]))
			equal(t, "error", AppendErrorResponse(nil, f), oracle(t, m))
		} else if got := oracle(t, m); !bytes.Equal(got, frame) {
			t.Errorf("%q became %q", frame, got)
		}
	}
	if !strings.HasSuffix(string(types), "ZTDCEZ1tT2TDDsDC3Z") {
		t.Errorf("frames %s", types)
	}
}
