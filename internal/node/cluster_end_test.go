package node

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tuttidb/tutti/internal/config"
	"github.com/tuttidb/tutti/internal/core"
	"github.com/tuttidb/tutti/internal/failure"
	"github.com/tuttidb/tutti/internal/fault"
	"github.com/tuttidb/tutti/internal/pgtest"
)

// cluster begins members of a test's own, in this process, and waits until they serve.
func cluster(t *testing.T, names ...string) (members []*member) {
	t.Helper()
	dir, err := os.MkdirTemp(pgtest.MemoryDir(), "tn")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	configs, err := configure(dir, names...)
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range configs {
		if i > 0 {
			c.Postgres.CloneFrom = names[0]
		}
		m := run(c, 0)
		members = append(members, m)
		t.Cleanup(func() {
			if err := m.stop(); err != nil {
				t.Errorf("%s ends: %v", c.Self().Name, err)
			}
		})
	}
	for _, m := range members {
		if err := m.serves(); err != nil {
			t.Fatal(err)
		}
	}
	return members
}

// TestRestart: a member whose PostgreSQL ends begins anew, with what it had, and tells its clients.
func TestRestart(t *testing.T) {
	m := cluster(t, "alone")[0]
	x := m.connect(t, "postgres")
	exec(t, x, "CREATE TABLE kept (k int PRIMARY KEY)", "INSERT INTO kept VALUES (1)", "CREATE DATABASE second")
	before := m.current()
	pid := query(t, x, "SELECT split_part(pg_read_file('postmaster.pid'), E'\\n', 1)")
	kill(t, pid)
	await(t, "its session ends", func() bool {
		_, err := x.Exec(t.Context(), "SELECT 1")
		return err != nil
	})
	await(t, "another server session", func() bool { t := m.current(); return t != nil && t != before && t.ready() })
	if n := m.Node.metrics.Process.Node.Restarts.Load(); n != 1 {
		t.Errorf("it has restarted %d times", n)
	}
	if n := query(t, m.connect(t, "postgres"), "SELECT count(*)::text FROM kept"); n != "1" {
		t.Errorf("%s rows are left", n)
	}
	exec(t, m.connect(t, "second"), "CREATE TABLE there (k int PRIMARY KEY)")
	if m.main().id.incarnation <= before.standing.Incarnation() {
		t.Error("it is the same incarnation")
	}
}

// TestDrain: a node that is told to stop lets an open transaction end, lets nobody in, and tells clients; those whose
// transaction lasts longer lose it.
func TestDrain(t *testing.T) {
	m := cluster(t, "alone")[0]
	x, idle, late := m.connect(t, "postgres"), m.connect(t, "postgres"), m.connect(t, "postgres")
	exec(t, x, "CREATE TABLE kept (k int PRIMARY KEY)", "BEGIN", "INSERT INTO kept VALUES (1)")
	exec(t, late, "BEGIN", "INSERT INTO kept VALUES (2)")
	m.Drain()
	await(t, "it lets nobody in", func() bool {
		_, err := m.dial(t.Context(), "postgres")
		return code(err) == "57P03" || code(err) == "57P01"
	})
	if f, _ := facts(m.Node, ""); !f.Draining {
		t.Error("its admin port does not say so")
	}
	exec(t, x, "COMMIT")
	if _, err := idle.Exec(t.Context(), "SELECT 1"); code(err) != "57P01" {
		t.Errorf("an idle client is told %v", err)
	}
	if err := <-m.over; err != nil {
		t.Fatal(err)
	}
	m.over <- nil
	if _, err := late.Exec(t.Context(), "COMMIT"); err == nil {
		t.Error("a transaction that lasts too long is committed")
	}
	again := run(m.config, 0)
	t.Cleanup(func() { _ = again.stop() })
	if err := again.serves(); err != nil {
		t.Fatal(err)
	}
	if got := query(t, again.connect(t, "postgres"), "SELECT string_agg(k::text, ' ') FROM kept"); got != "1" {
		t.Errorf("there is %q", got)
	}
	again.StopNow()
	if err := <-again.over; err != nil {
		t.Error(err)
	}
	again.over <- nil
}

// TestHandOver: a leader that stops hands the lead over, and a member that comes back catches up.
func TestHandOver(t *testing.T) {
	members := cluster(t, "alpha", "beta", "gamma")
	leader := func() uint32 { return members[0].main().order.core.Leader() }
	await(t, "a leader", func() bool { return leader() != 0 })
	last := members[leader()-1]
	rest := members[leader()%3]
	x := rest.connect(t, "postgres")
	exec(t, x, "CREATE TABLE kept (k int PRIMARY KEY)")
	last.Drain()
	if err := <-last.over; err != nil {
		t.Fatal(err)
	}
	last.over <- nil
	ended := time.Now()
	await(t, "another one leads", func() bool {
		// none does for a moment, between its vote and the first word of whom it has voted for
		now := rest.main().order.core.Leader()
		return now != 0 && now != last.config.Member
	})
	if without := time.Since(ended); without > core.LeaveMax {
		t.Errorf("for %v nobody leads behind member %d", without, last.config.Member)
	}
	exec(t, x, "INSERT INTO kept VALUES (1)")
	await(t, "it is known to be gone", func() bool {
		_, alive := rest.main().others.peers.Of(last.config.Member)
		return !alive
	})
	back := run(last.config, 0)
	t.Cleanup(func() { _ = back.stop() })
	if err := back.serves(); err != nil {
		t.Fatal(err)
	}
	if n := query(t, back.connect(t, "postgres"), "SELECT count(*)::text FROM kept"); n != "1" {
		t.Errorf("it has %s rows", n)
	}
}

// behind carries something out at a member's own PostgreSQL, without anybody else knowing.
func behind(t *testing.T, m *member, sql string) {
	t.Helper()
	c, err := pgx.Connect(t.Context(), m.current().pg.ConnString("postgres", "postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(t.Context())
	exec(t, c, "SET backtrace_functions = 'tutti_applies'", "SET session_replication_role = replica", sql)
}

// TestHalted: a member where an entry cannot be carried out halts there, serves nobody, and says why; the other one
// goes on.
func TestHalted(t *testing.T) {
	members := cluster(t, "alpha", "beta")
	a, b := members[0], members[1]
	x := a.connect(t, "postgres")
	exec(t, x, "CREATE TABLE held (k int PRIMARY KEY, v int)",
		"INSERT INTO held SELECT g, 0 FROM generate_series(1, 9) g")
	level(t, a, b)
	behind(t, b, "CREATE UNIQUE INDEX only_here ON held(v) WHERE v > 5")
	exec(t, x, "UPDATE held SET v = 6 WHERE k = 1", "UPDATE held SET v = 6 WHERE k = 2")
	await(t, "it is halted", func() bool {
		t := b.current()
		return t != nil && t.life(mainGroup) != nil && t.life(mainGroup).course.halted.Load() != nil
	})
	h := b.main().course.halted.Load()
	if h.Table != "public.held" || h.Row != "(k)=(2)" || !strings.Contains(h.Reason, "only_here") {
		t.Errorf("it is halted at %+v", h)
	}
	_, err := b.dial(t.Context(), "postgres")
	if code(err) != "57P03" {
		t.Errorf("a client is told %v", err)
	}
	if f, _ := facts(b.Node, ""); f.Halted == "" || !f.Starting {
		t.Errorf("its admin port says %+v", f)
	}
	exec(t, x, "UPDATE held SET v = 7 WHERE k = 3", "CREATE TABLE beside (k int PRIMARY KEY)")
	await(t, "the other one knows", func() bool { return a.main().others.peers.HaltedAt(2) != nil })
	if err := a.current().fitToCopy(false); err != nil {
		t.Errorf("the other one is no donor: %v", err)
	}
	if err := b.current().fitToCopy(false); err == nil {
		t.Error("it is a donor")
	}
	behind(t, b, "DROP INDEX only_here")
	if err := b.stop(); err != nil {
		t.Error(err)
	}
	b.over <- nil
	back := run(b.config, 0)
	t.Cleanup(func() { _ = back.stop() })
	if err := back.serves(); err != nil {
		t.Fatal(err)
	}
	level(t, a, back)
	if n := query(t, back.connect(t, "postgres"), "SELECT count(*)::text FROM held WHERE v > 5"); n != "3" {
		t.Errorf("%s rows are there", n)
	}
}

// TestLostLog: a member that has lost its log is readmitted by the other ones, and copies one's database.
func TestLostLog(t *testing.T) {
	members := cluster(t, "alpha", "beta", "gamma")
	a, c := members[0], members[2]
	x := a.connect(t, "postgres")
	exec(t, x, "CREATE TABLE kept (k int PRIMARY KEY)", "INSERT INTO kept VALUES (1)")
	if err := c.stop(); err != nil {
		t.Fatal(err)
	}
	c.over <- nil
	if err := os.RemoveAll(c.config.DataDir); err != nil {
		t.Fatal(err)
	}
	exec(t, x, "INSERT INTO kept VALUES (2)")
	back := run(c.config, 0)
	t.Cleanup(func() { _ = back.stop() })
	if err := back.serves(); err != nil {
		t.Fatal(err)
	}
	if n := query(t, back.connect(t, "postgres"), "SELECT count(*)::text FROM kept"); n != "2" {
		t.Errorf("it has %s rows", n)
	}
	if !strings.Contains(back.text.String(), "begins its log again") {
		t.Errorf("it does not say that it begins its log again:\n%s", back.text.String())
	}
	exec(t, back.connect(t, "postgres"), "INSERT INTO kept VALUES (3)")
}

// TestRemovedBefore: a member that was removed before it is started, and whose disk is slow, goes on until the others
// go on without it.
func TestRemovedBefore(t *testing.T) {
	m := cluster(t, "alone")[0]
	tn := m.current()
	x, err := pgx.Connect(t.Context(), tn.connString(m.config.Database))
	if err != nil {
		t.Fatal(err)
	}
	exec(t, x, "INSERT INTO tutti.member VALUES (1, 'alone', '127.0.0.1:1', '', true, 0, 7, true), "+
		"(2, 'other', '127.0.0.1:1', '', false, 5, 5, false)")
	if err := errors.Join(x.Close(t.Context()), m.stop()); err != nil {
		t.Fatal(err)
	}
	m.over <- nil
	faults := filepath.Join(t.TempDir(), "faults")
	if err := (fault.Rules{SyncDelay: 300}).Write(faults); err != nil { // longer than between two looks
		t.Fatal(err)
	}
	t.Setenv(fault.Variable, faults)
	back := run(m.config, 0)
	t.Cleanup(func() { _ = back.stop() })
	if err := back.serves(); err != nil {
		t.Fatal(err)
	}
	await(t, "it says what it waits for", func() bool {
		return strings.Contains(back.text.String(), "it ends when the others go on without it")
	})
}

// TestRefusesToStart: what of a configuration cannot be carried out ends the process at once, as the configuration's
// fault.
func TestRefusesToStart(t *testing.T) {
	dir := t.TempDir()
	for name, change := range map[string]func(*config.Config){
		"no TLS file":        func(c *config.Config) { c.ClientTLS = config.TLS{Cert: "/nonexistent", Key: "/no"} },
		"no secret file":     func(c *config.Config) { c.Secret, c.SecretFile = "", "/nonexistent" },
		"no rules":           func(c *config.Config) { c.HBAFile = "/nonexistent" },
		"a setting of ours":  func(c *config.Config) { c.Postgres.Settings["port"] = "1" },
		"no such address":    func(c *config.Config) { c.Listen = "192.0.2.1:1" },
		"no admin address":   func(c *config.Config) { c.Admin.Listen = "192.0.2.1:1" },
		"no member address":  func(c *config.Config) { c.MemberListen = "192.0.2.1:1" },
		"no data directory":  func(c *config.Config) { c.DataDir = "/dev/null/x" },
		"no such PostgreSQL": func(c *config.Config) { c.Postgres.BinDir = "/nonexistent" },
	} {
		configs, err := configure(dir, "alone")
		if err != nil {
			t.Fatal(err)
		}
		change(configs[0])
		m := run(configs[0], failure.SettleTime)
		var wrong *failure.Config
		select {
		case err = <-m.over:
			if !errors.As(err, &wrong) {
				t.Errorf("%s: it ends with %v", name, err)
			}
		case <-time.After(20 * time.Second):
			t.Errorf("%s: it goes on\n%s", name, m.text.String())
		}
		m.end()
		if c, err := m.dial(context.Background(), "postgres"); err == nil {
			t.Errorf("%s: its port is open", name)
			_ = c.Close(context.Background())
		}
	}
}
