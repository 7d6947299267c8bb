package instance

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tuttidb/tutti/internal/database/embedded"
)

// writer inserts rows until stopped, and remembers the slowest statement and how many rows
// were acknowledged.
type writer struct {
	acked   atomic.Int64
	slowest atomic.Int64 // nanoseconds
	stop    context.CancelFunc
	err     chan error
}

func startWriter(t testing.TB, i *Instance) *writer {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	w := &writer{stop: stop, err: make(chan error, 1)}
	c := connect(t, i)
	go func() {
		for ctx.Err() == nil {
			began := time.Now()
			_, err := c.Exec(context.Background(),
				"INSERT INTO a SELECT n, repeat('x', 500) FROM generate_series(1, 20) n")
			if err != nil {
				w.err <- err
				return
			}
			w.slowest.Store(max(w.slowest.Load(), int64(time.Since(began))))
			w.acked.Add(20)
		}
		w.err <- nil
	}()
	t.Cleanup(stop)
	return w
}

func number(t testing.TB, i *Instance, sql string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(value(t, i, sql), 10, 64)
	must(t, err)
	return n
}

func TestCloneOfABusyDonor(t *testing.T) {
	t.Parallel()
	dir := serverDir(t)
	o := options(t, dir)
	o.Settings["archive_mode"] = "on"
	o.Settings["archive_command"] = "true"
	donor := started(t, o)
	execSQL(t, donor, "CREATE TABLE a(n int, pad text)", "ALTER SYSTEM SET work_mem = '7MB'",
		"ALTER SYSTEM SET datestyle = 'SQL, DMY'", "SELECT pg_reload_conf()")
	w := startWriter(t, donor)

	co := options(t, serverDir(t))
	clone := managed(t, co)
	before := w.acked.Load()
	var got atomic.Int64
	began := time.Now()
	must(t, clone.Clone(timeout(t), donor.ConnString("", ""), func(n int64) { got.Store(n) }))
	took := time.Since(began)
	during := w.acked.Load() - before
	if during == 0 {
		t.Error("nothing was written during the clone: the donor was blocked")
	}
	if err := clone.Clone(timeout(t), donor.ConnString("", ""), nil); !errors.Is(err, ErrInitialized) {
		t.Errorf("second Clone: %v", err)
	}
	must(t, clone.Start(timeout(t)))
	w.stop()
	must(t, <-w.err)
	t.Logf("%d bytes in %v, %d rows written meanwhile, slowest statement %v",
		got.Load(), took, during, time.Duration(w.slowest.Load()))
	if got.Load() < 16<<20 {
		t.Errorf("progress ended at %d bytes", got.Load())
	}
	rows := number(t, clone, "SELECT count(*) FROM a")
	if rows < before || rows > w.acked.Load() || rows%20 != 0 {
		t.Errorf("the clone has %d rows; %d were acknowledged before, %d after", rows, before, w.acked.Load())
	}
	if clone.CleanShutdownBefore() {
		t.Error("a backup counts as cleanly shut down")
	}
	want(t, clone, "SELECT pg_is_in_recovery()::text", "false")
	want(t, clone, "SHOW archive_mode", "off")
	want(t, clone, "SHOW work_mem", "4MB")
	want(t, clone, "SHOW datestyle", "SQL, DMY")
	want(t, donor, "SELECT count(*)::text FROM pg_replication_slots", "0")

	// Independent: it is written to and restarted without the donor.
	must(t, donor.Stop(timeout(t)))
	execSQL(t, clone, "INSERT INTO a VALUES (0, 'own')")
	must(t, clone.Stop(timeout(t)))
	must(t, clone.Start(timeout(t)))
	if n := number(t, clone, "SELECT count(*) FROM a"); n != rows+1 || !clone.CleanShutdownBefore() {
		t.Errorf("after a restart: %d rows, want %d; clean %v", n, rows+1, clone.CleanShutdownBefore())
	}
}

func TestCloneRefusals(t *testing.T) {
	t.Parallel()
	dir := serverDir(t)
	donor := started(t, options(t, dir))
	execSQL(t, donor, "CREATE ROLE weak LOGIN")
	clone := managed(t, options(t, serverDir(t)))
	empty := func(err error, says ...string) {
		t.Helper()
		fails(t, err, says...)
		es, gerr := filepath.Glob(clone.o.DataDir + "*")
		if gerr != nil || clone.Initialized() || len(es) != 1 {
			t.Errorf("left behind: %v %v", es, gerr)
		}
	}
	fails(t, clone.Clone(timeout(t), "port=none", nil), "donor")
	empty(clone.Clone(timeout(t), "host="+dir+" port=1", nil), "clone of "+dir)
	empty(clone.Clone(timeout(t), donor.ConnString("weak", ""), nil), "weak")

	clone.o.Build.Major++
	empty(clone.Clone(timeout(t), donor.ConnString("", ""), nil), "same major version")
	clone.o.Build.Major--

	space := filepath.Join(dir, "space")
	must(t, os.Mkdir(space, 0o700))
	a, err := donor.account()
	must(t, err)
	must(t, a.chown(space))
	execSQL(t, donor, "CREATE TABLESPACE fast LOCATION '"+space+"'")
	empty(clone.Clone(timeout(t), donor.ConnString("", ""), nil), "tablespace", space)
	execSQL(t, donor, "DROP TABLESPACE fast")

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	err = clone.Clone(ctx, donor.ConnString("", ""), func(n int64) {
		if n > 1<<20 {
			cancel()
		}
	})
	empty(err, "clone of")
	if !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	must(t, clone.Clone(timeout(t), donor.ConnString("", ""), nil))
	must(t, clone.Start(timeout(t)))
}

// The connection to the donor breaks at some byte: no database, whatever the byte.
func TestCloneBrokenConnection(t *testing.T) {
	t.Parallel()
	donor := started(t, options(t, serverDir(t)))
	clone := managed(t, options(t, serverDir(t)))
	for _, limit := range []int64{10, 5000, 3 << 20, 20 << 20} {
		t.Run(fmt.Sprint(limit), func(t *testing.T) {
			cfg, err := pgconn.ParseConfig(donor.ConnString("", ""))
			must(t, err)
			cfg.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
				c, err := (&net.Dialer{}).DialContext(ctx, network, addr)
				return &brittle{Conn: c, left: limit}, err
			}
			fails(t, clone.CloneFrom(timeout(t), cfg, nil), "clone of")
			if es, err := filepath.Glob(clone.o.DataDir + "*"); err != nil || len(es) != 1 {
				t.Errorf("left behind: %v %v", es, err)
			}
		})
	}
	// The donor's walsender ends, and with it the temporary slot.
	for n := int64(1); n != 0; time.Sleep(time.Millisecond) {
		n = number(t, donor, "SELECT count(*) FROM pg_replication_slots")
	}
}

// brittle breaks after left bytes were read.
type brittle struct {
	net.Conn
	left int64
}

func (b *brittle) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, io.ErrUnexpectedEOF
	}
	n, err := b.Conn.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}

func TestSkipCloned(t *testing.T) {
	for name, skip := range map[string]bool{
		"postmaster.pid": true, "tutti.conf": true, "standby.signal": true, "log/postgresql.log": true,
		"log": false, "base/1/postmaster.pid": false, "backup_label": false, "global/pg_control": false,
	} {
		if skipCloned(name) != skip {
			t.Errorf("%s: skipped %v", name, !skip)
		}
	}
	if len(inherited) == 0 || strings.Contains(strings.Join(inherited, " "), "archive") {
		t.Error("a clone inherits the donor's surroundings")
	}
}

// TestCloneFindsTheDonorsVersion: a clone runs with binaries of the donor's version, if there are some, whatever was
// found before.
func TestCloneFindsTheDonorsVersion(t *testing.T) {
	t.Parallel()
	donor := started(t, options(t, serverDir(t)))
	execSQL(t, donor, "CREATE TABLE donated AS SELECT 7 AS n")
	o := options(t, serverDir(t))
	real := o.Build
	o.Build = embedded.Build{BinDir: real.BinDir, Version: "99.1", Major: 99}
	fails(t, managed(t, o).Clone(timeout(t), donor.ConnString("", ""), nil), "a clone needs the same major version")
	asked := 0
	o.Find = func(major int) (embedded.Build, error) {
		asked = major
		return real, nil
	}
	clone := managed(t, o)
	must(t, clone.Clone(timeout(t), donor.ConnString("", ""), nil))
	if asked != real.Major || clone.Build() != real {
		t.Errorf("version %d was looked for, %v is used", asked, clone.Build())
	}
	must(t, clone.Start(timeout(t)))
	want(t, clone, "SELECT n FROM donated", "7")
}
