package instance

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tuttidb/tutti/internal/database/embedded"
)

func TestLife(t *testing.T) {
	t.Parallel()
	dir := serverDir(t)
	i := managed(t, options(t, dir))
	if i.Initialized() || i.Pid() != 0 || i.Exited() != nil {
		t.Fatal("a new instance claims to be something")
	}
	fails(t, i.Start(timeout(t)), "holds no database")
	must(t, i.Init(timeout(t)))
	if !i.Initialized() {
		t.Fatal("not initialized after Init")
	}
	if err := i.Init(timeout(t)); !errors.Is(err, ErrInitialized) {
		t.Fatalf("second Init: %v", err)
	}
	must(t, i.Start(timeout(t)))
	if !i.CleanShutdownBefore() {
		t.Error("a fresh database counts as crashed")
	}
	for setting, v := range BaseSettings() {
		if o, ok := i.o.Settings[setting]; ok {
			v = o
		}
		want(t, i, "SELECT current_setting('"+setting+"')", v)
	}
	want(t, i, "SELECT current_setting('data_checksums')", "on")
	want(t, i, "SELECT pg_encoding_to_char(encoding) FROM pg_database WHERE datname='postgres'", "UTF8")
	if l := value(t, i, "SELECT datcollate FROM pg_database WHERE datname='postgres'"); l != "C.UTF-8" && l != "C" {
		t.Errorf("locale %s", l)
	}
	if err := i.Start(timeout(t)); !errors.Is(err, ErrRunning) {
		t.Fatalf("second Start: %v", err)
	}
	pid, exited := i.Pid(), i.Exited()
	execSQL(t, i, "CREATE TABLE a(i int)", "INSERT INTO a VALUES (7)")
	must(t, i.Stop(timeout(t)))
	must(t, i.Stop(timeout(t)))
	if err, ok := <-exited; err != nil || !ok {
		t.Fatalf("exit after Stop: %v %v", err, ok)
	}
	if _, ok := <-exited; ok || i.Pid() != 0 {
		t.Fatal("the exit channel is not closed, or there is still a process")
	}

	i.o.Settings["work_mem"] = "5MB"
	must(t, i.Start(timeout(t)))
	want(t, i, "SHOW work_mem", "5MB")
	want(t, i, "SELECT i::text FROM a", "7")
	if !i.CleanShutdownBefore() || i.Pid() == pid {
		t.Error("after a clean stop: counts as crashed, or the same process")
	}
}

func TestAccess(t *testing.T) {
	t.Parallel()
	i := started(t, options(t, serverDir(t)))
	for path, mode := range map[string]fs.FileMode{i.o.DataDir: 0o700, i.SocketDir(): 0o700, i.SocketPath(): 0o700} {
		fi, err := os.Stat(path)
		if err != nil || fi.Mode().Perm() != mode {
			t.Errorf("%s: %v, %v, want %v", path, fi.Mode(), err, mode)
		}
	}
	a, err := i.account()
	must(t, err)
	if fi, err := os.Stat(i.o.DataDir); err != nil || os.Geteuid() == 0 &&
		int(fi.Sys().(*syscall.Stat_t).Uid) != a.uid {
		t.Errorf("the data directory is not the server's: %v %v", fi, err)
	}
	if st, err := os.Stat(fmt.Sprintf("/proc/%d", i.Pid())); err == nil && st.Sys().(*syscall.Stat_t).Uid == 0 {
		t.Error("the server runs as root")
	}
	// ALTER SYSTEM must not open the server to the network, nor move its socket.
	execSQL(t, i, "ALTER SYSTEM SET listen_addresses = '127.0.0.1'", "ALTER SYSTEM SET port = 4",
		"ALTER SYSTEM SET work_mem = '6MB'")
	must(t, i.Stop(timeout(t)))
	must(t, i.Start(timeout(t)))
	want(t, i, "SHOW listen_addresses", "")
	want(t, i, "SHOW work_mem", "6MB")
}

func TestKillRecovers(t *testing.T) {
	t.Parallel()
	i := started(t, options(t, serverDir(t)))
	execSQL(t, i, "CREATE TABLE a(i int)", "SET synchronous_commit = on",
		"INSERT INTO a SELECT generate_series(1, 1000)")
	exited := i.Exited()
	must(t, i.Kill())
	must(t, i.Kill())
	if err, ok := <-exited; err != nil || !ok {
		t.Fatalf("exit after Kill: %v %v", err, ok)
	}
	must(t, i.Start(timeout(t)))
	if i.CleanShutdownBefore() {
		t.Error("a killed server counts as cleanly shut down")
	}
	want(t, i, "SELECT count(*)::text FROM a", "1000")
	must(t, i.Stop(timeout(t)))
	must(t, i.Start(timeout(t)))
	if !i.CleanShutdownBefore() {
		t.Error("a stopped server counts as crashed")
	}
}

// Only the postmaster dies; its children, one of them busy, live on. The exit is announced
// as an error, and the next Start ends the children first (I3).
func TestPostmasterDiesAlone(t *testing.T) {
	t.Parallel()
	i := started(t, options(t, serverDir(t)))
	c := connect(t, i)
	busy := make(chan error, 1)
	go func() {
		_, err := c.Exec(context.Background(), "SELECT count(*) FROM generate_series(1, 2000000000)")
		busy <- err
	}()
	for value(t, i, "SELECT count(*)::text FROM pg_stat_activity WHERE state='active' AND query LIKE '%2000000000)'") !=
		"1" {
		time.Sleep(5 * time.Millisecond)
	}
	must(t, syscall.Kill(i.Pid(), syscall.SIGKILL))
	if err := <-i.Exited(); err == nil || !strings.Contains(err.Error(), "unexpectedly") {
		t.Fatalf("exit: %v", err)
	}
	must(t, i.Start(timeout(t)))
	if err := <-busy; err == nil {
		t.Error("the old backend finished its query")
	}
	if i.CleanShutdownBefore() {
		t.Error("counts as cleanly shut down")
	}
}

// A server of which a process was killed does not recover by itself: who starts it again is to know that it has lost
// commits.
func TestBackendIsKilled(t *testing.T) {
	t.Parallel()
	i := started(t, options(t, serverDir(t)))
	execSQL(t, i, "ALTER SYSTEM SET restart_after_crash = on", "SELECT pg_reload_conf()")
	pid, err := strconv.Atoi(value(t, i, "SELECT pid::text FROM pg_stat_activity WHERE backend_type = 'checkpointer'"))
	must(t, err)
	must(t, syscall.Kill(pid, syscall.SIGKILL))
	select {
	case err := <-i.Exited():
		if err == nil {
			t.Error("it ended, and nothing is said")
		}
	case <-timeout(t).Done():
		t.Fatal("it goes on")
	}
	must(t, i.Start(timeout(t)))
	if i.CleanShutdownBefore() {
		t.Error("counts as cleanly shut down")
	}
}

// A second manager for the same directory: refused while the first lives (I2); after the
// first has lost its server to a "previous life", the running server is stopped (I3).
func TestLeftoverServer(t *testing.T) {
	t.Parallel()
	dir := serverDir(t)
	first := started(t, options(t, dir))
	second := managed(t, options(t, dir))
	if err := second.Start(timeout(t)); !errors.Is(err, ErrRunning) {
		t.Fatalf("two managers: %v", err)
	}
	if err := managed(t, options(t, dir)).Init(timeout(t)); !errors.Is(err, ErrRunning) {
		t.Fatalf("Init under a running server: %v", err)
	}
	execSQL(t, first, "CREATE TABLE a(i int)")
	c := connect(t, first)
	pid := first.Pid()
	// A process that dies releases its locks while its server lives on: play that by
	// making the lock another file.
	must(t, os.Remove(first.o.DataDir+".lock"))
	must(t, second.Start(timeout(t)))
	if second.Pid() == pid || !second.CleanShutdownBefore() {
		t.Errorf("process %d before, %d now; clean %v", pid, second.Pid(), second.CleanShutdownBefore())
	}
	if err := <-first.Exited(); err == nil {
		t.Error("the first manager did not see its server end")
	}
	if c.Ping(timeout(t)) == nil {
		t.Error("a session of the old server lives")
	}
	want(t, second, "SELECT count(*)::text FROM a", "0")
}

// A server that Tutti did not configure is left alone (I3).
func TestForeignServerIsNotStopped(t *testing.T) {
	t.Parallel()
	dir := serverDir(t)
	first := started(t, options(t, dir))
	must(t, os.Remove(filepath.Join(first.o.DataDir, confName)))
	must(t, os.Remove(first.o.DataDir+".lock"))
	err := managed(t, options(t, dir)).Start(timeout(t))
	fails(t, err, "did not start")
	if !errors.Is(err, ErrRunning) {
		t.Fatal(err)
	}
	want(t, first, "SELECT 'alive'", "alive")
}

// postmaster.pid and the socket's lock name a process that lives but is another program:
// PostgreSQL alone would refuse to start.
func TestRecycledPid(t *testing.T) {
	t.Parallel()
	i := started(t, options(t, serverDir(t)))
	pidFile, lockFile := filepath.Join(i.o.DataDir, "postmaster.pid"), i.SocketPath()+".lock"
	must(t, i.Kill())
	for _, f := range []string{pidFile, lockFile} {
		b, err := os.ReadFile(f)
		must(t, err)
		_, rest, _ := strings.Cut(string(b), "\n")
		must(t, os.WriteFile(f, []byte("1\n"+rest), 0o600))
	}
	must(t, i.Start(timeout(t)))
	must(t, i.Stop(timeout(t)))
}

func TestCancelledStartLeavesNothing(t *testing.T) {
	t.Parallel()
	i := initialized(t, options(t, serverDir(t)))
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	err := i.Start(ctx)
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
	if i.Pid() != 0 {
		t.Error("a process is left")
	}
	noneLeft(t, i)
	must(t, i.Start(timeout(t)))
}

func TestServerRefusesToStart(t *testing.T) {
	t.Parallel()
	o := options(t, serverDir(t))
	o.Settings["shared_buffers"] = "a lot"
	i := initialized(t, o)
	fails(t, i.Start(timeout(t)), "did not start", "shared_buffers")
	i.o.Settings["shared_buffers"] = "16MB"
	must(t, i.Start(timeout(t)))
}

// A stopped process answers no SIGINT; Stop goes on to force, within its limits.
func TestForcedStop(t *testing.T) {
	t.Parallel()
	o := options(t, serverDir(t))
	o.StopTimeout = 50 * time.Millisecond
	i := started(t, o)
	c := connect(t, i) // its backend is halted, so the fast shutdown waits for it
	must(t, syscall.Kill(int(c.PgConn().PID()), syscall.SIGSTOP))
	if err := i.Stop(timeout(t)); !errors.Is(err, ErrUnclean) {
		t.Fatalf("got %v", err)
	}
	noneLeft(t, i)
	must(t, i.Start(timeout(t)))
	if i.CleanShutdownBefore() {
		t.Error("counts as cleanly shut down")
	}
}

func TestWrongOptions(t *testing.T) {
	t.Parallel()
	b, err := build()
	must(t, err)
	dir := serverDir(t)
	good := func() Options { return options(t, dir) }
	for says, change := range map[string]func(o *Options){
		"Build is not set":    func(o *Options) { o.Build.BinDir = "" },
		"DataDir is not set":  func(o *Options) { o.DataDir = "" },
		"port 70000":          func(o *Options) { o.Port = 70000 },
		"Tutti decides on it": func(o *Options) { o.Settings = map[string]string{"Port": "1"} },
		"line break":          func(o *Options) { o.Settings = map[string]string{"a.b": "x\ny"} },
		"not the name":        func(o *Options) { o.Settings = map[string]string{"a b": "x"} },
		"no such file":        func(o *Options) { o.Build.BinDir = filepath.Join(dir, "none") },
	} {
		o := good()
		change(&o)
		i := New(o)
		fails(t, i.Init(timeout(t)), says)
		if i.Initialized() {
			t.Errorf("%s: initialized", says)
		}
	}
	o := good()
	i := initialized(t, o)
	i.o.Build.Major, i.o.Build.Version = b.Major+1, "next"
	fails(t, i.Start(timeout(t)), "is of PostgreSQL", "the binaries")
}

func TestUnfinishedInitIsNoDatabase(t *testing.T) {
	t.Parallel()
	dir := serverDir(t)
	i := managed(t, options(t, dir))
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	if err := i.Init(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("got %v", err)
	}
	if es, _ := filepath.Glob(filepath.Join(dir, "pg*")); len(es) != 1 || i.Initialized() {
		t.Fatalf("left behind: %v", es)
	}
	// A crash leaves the work directory.
	must(t, os.MkdirAll(filepath.Join(dir, "pg.init", "base"), 0o700))
	must(t, os.WriteFile(filepath.Join(dir, "pg.init", "PG_VERSION"), []byte("1"), 0o600))
	must(t, i.Init(timeout(t)))
	must(t, i.Start(timeout(t)))
}

// Every build at hand runs a member's life: the system's, and the embedded one when it is in
// the cache or TUTTI_TEST_EMBEDDED=1 allows to download it.
func TestEveryBuild(t *testing.T) {
	t.Parallel()
	b, err := build()
	must(t, err)
	builds := []embedded.Build{b}
	download := os.Getenv("TUTTI_TEST_EMBEDDED") == "1"
	e, err := embedded.Find(embedded.Options{NoSystem: true, NoDownload: !download})
	if err == nil {
		builds = append(builds, e)
	} else if download {
		t.Fatal(err)
	}
	for _, b := range builds {
		t.Run(b.Version, func(t *testing.T) {
			o, co := options(t, serverDir(t)), options(t, serverDir(t))
			o.Build, co.Build = b, b
			donor, clone := managed(t, o), managed(t, co)
			must(t, donor.Init(timeout(t)))
			must(t, donor.Start(timeout(t)))
			if v := value(t, donor, "SHOW server_version"); !strings.HasPrefix(v, b.Version) {
				t.Errorf("runs %s, want %s", v, b.Version)
			}
			execSQL(t, donor, "CREATE TABLE a AS SELECT 7 AS i")
			must(t, clone.Clone(timeout(t), donor.ConnString("", ""), nil))
			must(t, clone.Start(timeout(t)))
			want(t, clone, "SELECT i::text FROM a", "7")
			must(t, clone.Kill())
			must(t, clone.Start(timeout(t)))
			if clone.CleanShutdownBefore() {
				t.Error("a killed server counts as cleanly shut down")
			}
			must(t, clone.Stop(timeout(t)))
		})
	}
}
