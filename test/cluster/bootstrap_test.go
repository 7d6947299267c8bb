package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tuttidb/tutti/internal/bootstrap"
	"github.com/tuttidb/tutti/internal/database/instance"
	"github.com/tuttidb/tutti/internal/process"
	"github.com/tuttidb/tutti/internal/transport"
)

// lose removes all that node k has on disk; from is its clone_from then.
func (c *Cluster) lose(k int, from string) {
	c.tb.Helper()
	n := c.Node(k)
	n.Config.Postgres.CloneFrom = from
	if err := os.RemoveAll(n.Config.DataDir); err != nil {
		c.tb.Fatal(err)
	}
	if err := n.WriteConfig(); err != nil {
		c.tb.Fatal(err)
	}
}

// says waits until node k's log has a text.
func (c *Cluster) says(k int, want string) {
	c.tb.Helper()
	c.soon(func() bool { return strings.Contains(process.Tail(c.Node(k).LogFile, 1<<20), want) },
		func() string {
			return fmt.Sprintf("node %d does not say %q:\n%s", k, want, process.Tail(c.Node(k).LogFile, 15))
		})
}

// refuses waits until node k refuses clients with 57P03 and says why.
func (c *Cluster) refuses(k int, database, why string) {
	c.tb.Helper()
	var err error
	c.soon(func() bool {
		err = probe(c.tb.Context(), strings.Replace(c.URL(k), "/postgres", "/"+database, 1), "SELECT 1")
		return Code(err) == "57P03" && strings.Contains(Explain(err), why)
	}, func() string { return fmt.Sprintf("node %d tells clients %s, want 57P03 and %q", k, Explain(err), why) })
}

// TestLostDisk: a member whose disk is lost does not vote as one that has never voted. It comes back by itself, under
// its number, once a majority beside it has agreed on something without its old votes; nothing that was acknowledged
// is lost. Its database is another one's, whether it has an empty one or a clone.
func TestLostDisk(t *testing.T) {
	t.Parallel() // mostly it waits
	c := Start(t, 3)
	donor := c.Node(2).Config.Postgres.CloneFrom
	c.Connect(1).Do("CREATE TABLE kept(k int PRIMARY KEY)", "INSERT INTO kept VALUES (1)", "CREATE DATABASE other")
	c.In("other").Connect(1).Do("CREATE TABLE o(k serial PRIMARY KEY)", "INSERT INTO o DEFAULT VALUES")
	c.Everywhere("SELECT count(*) FROM kept", "1")
	c.In("other").Everywhere("SELECT count(*) FROM o", "1")
	c.Stop(2)
	c.Connect(1).Do("INSERT INTO kept VALUES (2)") // on the disks of 1 and 3
	c.Stop(1, 3)
	const lost = "node3 has no log, but it had one"

	c.lose(3, "")
	c.Run(2)
	c.Run(3)
	c.says(3, lost)
	c.says(2, "member 3 is refused: "+lost)
	c.refuses(3, "postgres", "2 of the 2 other members must answer")

	// Without a majority nobody is elected, and no database keeps clients waiting.
	c.refuses(2, "postgres", "")
	began := time.Now()
	c.refuses(2, "other", "")
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("a client of another database is refused after %s", took)
	}

	c.Run(1)
	c.WaitReady()
	c.In("other").WaitReady()
	c.Connect(3).Do("INSERT INTO kept VALUES (3)")
	c.Everywhere("SELECT string_agg(k::text, ' ' ORDER BY k) FROM kept", "1 2 3")
	c.In("other").Connect(3).Do("INSERT INTO o DEFAULT VALUES")
	c.In("other").Everywhere("SELECT count(*) FROM o", "2")

	// Beside clients, with a clone of its own, and votes that count again: the leader goes afterwards.
	l := c.NewLoad("beside")
	stop, done := make(chan struct{}), make(chan struct{})
	go func() { defer close(done); l.Run(2, stop) }()
	c.Kill(3)
	c.lose(3, donor)
	c.Run(3)
	c.WaitReady(3)
	c.In("other").WaitReady(3)
	c.Kill(1)
	c.Connect(3).Do("INSERT INTO kept VALUES (4)")
	c.In("other").Connect(3).Do("INSERT INTO o DEFAULT VALUES")
	close(stop)
	<-done
	c.Run(1)
	c.WaitReady()
	l.Verify()
	c.Everywhere("SELECT string_agg(k::text, ' ' ORDER BY k) FROM kept", "1 2 3 4")
	c.Check()

	// Two that have lost everything are no new cluster, and a single one cannot readmit them.
	c.Stop(1, 2, 3)
	c.lose(2, "")
	c.lose(3, "")
	c.Run(2)
	c.Run(3)
	c.says(3, "waits to make its log")
	c.refuses(3, "postgres", "node1 did not answer yet")
	c.refuses(2, "postgres", "node1 did not answer yet")
	c.Run(1)
	c.refuses(2, "postgres", "2 of the 2 other members must answer, and 0 do")
	c.refuses(3, "postgres", "2 of the 2 other members must answer, and 0 do")
	c.refuses(1, "postgres", "")
}

// TestImpostor: an empty directory that is started under the number of a member that is there is not readmitted, and
// does the member no harm.
func TestImpostor(t *testing.T) {
	t.Parallel() // mostly it waits
	c := Start(t, 3)
	c.Connect(3).Do("CREATE TABLE kept(k int PRIMARY KEY)", "INSERT INTO kept VALUES (1)")
	ports, err := freePorts(2)
	if err != nil {
		t.Fatal(err)
	}
	n := *c.Node(3)
	n.proc = nil
	n.Config.DataDir, n.Config.Postgres.CloneFrom = filepath.Join(c.Dir, "impostor"), "node1"
	n.Config.Listen, n.Config.MemberListen = fmt.Sprint("127.0.0.1:", ports[0]), fmt.Sprint("127.0.0.1:", ports[1])
	n.ConfigFile, n.LogFile = filepath.Join(c.Dir, "impostor.toml"), filepath.Join(c.Dir, "impostor.log")
	if err := n.WriteConfig(); err != nil {
		t.Fatal(err)
	}
	c.nodes = append(c.nodes, &n)
	c.Run(4)
	c.says(4, "node3 is here already: another node runs under its number")
	c.Kill(4)
	c.nodes = c.nodes[:3]
	c.Connect(3).Do("INSERT INTO kept VALUES (2)")
	c.Stop(3)
	c.Run(3)
	c.WaitReady()
	c.Everywhere("SELECT count(*) FROM kept", "2")
	c.Check()
}

// ended waits until node k ends by itself and says why.
func (c *Cluster) ended(k int, why string) {
	c.tb.Helper()
	p := c.Node(k).proc
	if err := p.Wait(readyTimeout); err != nil || p.Err() == nil {
		c.tb.Fatalf("node %d should end with an error: %v, %v", k, err, p.Err())
	}
	if last := process.Tail(c.Node(k).LogFile, 3); !strings.Contains(last, why) {
		c.tb.Errorf("node %d ends without a word of %q:\n%s", k, why, last)
	}
}

// TestOlderLog: a log that is an older copy, or the log of another database than the main one that is gone, has
// forgotten votes as well.
func TestOlderLog(t *testing.T) {
	t.Parallel() // mostly it waits
	c := Start(t, 3)
	c.Connect(1).Do("CREATE DATABASE other")
	dir := c.Node(3).Config.DataDir
	copied := filepath.Join(c.Dir, "copy")
	c.Stop(3)
	if out, err := exec.CommandContext(t.Context(), "cp", "-a", dir, copied).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	c.Run(3)
	c.WaitReady(3)
	c.Stop(3)
	present := filepath.Join(c.Dir, "present")
	move := func(from, to string) {
		if err := os.Rename(from, to); err != nil {
			t.Fatal(err)
		}
	}
	move(dir, present)
	move(copied, dir)
	for range 3 { // also once its incarnation is greater than any that the others know
		c.ends(3, "the log of node3 is an older copy")
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	move(present, dir)

	logs, err := filepath.Glob(filepath.Join(dir, "log-*"))
	if err != nil || len(logs) != 1 {
		t.Fatalf("logs of other databases: %v, %v", logs, err)
	}
	move(logs[0], copied)
	if err := os.RemoveAll(filepath.Join(dir, "postgres")); err != nil { // a clone is no way around it
		t.Fatal(err)
	}
	c.ends(3, "the log "+logs[0]+" is gone")
	move(copied, logs[0])
	c.Run(3)
	c.WaitReady(3)
	c.Check()
}

// TestFirstDatabases: members begin with equal databases, or not at all.
func TestFirstDatabases(t *testing.T) {
	t.Parallel() // mostly it waits
	c := New(t, 3)
	dir := func(k int) string { return filepath.Join(c.Node(k).Config.DataDir, "postgres") }
	build, err := findBuild()
	if err != nil {
		t.Fatal(err)
	}
	// A database that was there before Tutti, written to directly.
	directly := func(k int, sql ...string) {
		t.Helper()
		pg := instance.New(instance.Options{Build: build, DataDir: dir(k)})
		if !pg.Initialized() {
			if err := pg.Init(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if err := pg.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := pg.Stop(context.WithoutCancel(t.Context())); err != nil {
				t.Error(err)
			}
		}()
		conn, err := pgx.Connect(t.Context(), pg.ConnString("postgres", "postgres"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(context.WithoutCancel(t.Context()))
		for _, q := range sql {
			if _, err := conn.Exec(t.Context(), q); err != nil {
				t.Fatalf("%s: %v", q, err)
			}
		}
	}
	directly(1, "CREATE TABLE stock(id serial PRIMARY KEY, n int)",
		"INSERT INTO stock(n) SELECT i FROM generate_series(1, 100) i", "CREATE ROLE clerk LOGIN")

	// The others are empty.
	c.lose(2, "")
	c.lose(3, "")
	for _, k := range c.All() {
		c.Run(k)
	}
	for _, k := range c.All() {
		c.ended(k, "the databases are not equal: ")
		c.ended(k, "those that have nothing copy it")
	}
	c.ended(1, "role clerk is ")

	// Copies that are not of one moment.
	for _, k := range []int{2, 3} {
		if err := os.RemoveAll(dir(k)); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.CommandContext(t.Context(), "cp", "-a", dir(1), dir(k)).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	directly(3, "SET backtrace_functions = 'tutti_applies'", "SET session_replication_role = replica",
		"UPDATE stock SET n = 0 WHERE id = 50")
	for _, k := range c.All() {
		c.Run(k)
	}
	c.ended(1, "the content of public.stock is 100 rows with checksum")
	c.ended(3, "the content of public.stock is 100 rows with checksum")
	c.ended(2, "the content of public.stock is 100 rows with checksum")

	// What the message says.
	for _, k := range []int{2, 3} {
		c.lose(k, "")
	}
	if out, err := c.Tool("adopt"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, k := range c.All() {
		c.Run(k)
	}
	c.WaitReady()
	for _, k := range c.All() {
		c.Connect(k).Do(fmt.Sprintf("UPDATE stock SET n = n + 1 WHERE id = %d", 50+k),
			"INSERT INTO stock(n) VALUES (1)")
	}
	c.Everywhere("SELECT count(*), sum(n) FROM stock", "103|5056")
	c.Check()

	// An empty database beside a log is not what it began with.
	c.Stop(3)
	if err := os.RemoveAll(dir(3)); err != nil {
		t.Fatal(err)
	}
	c.ends(3, "the database is not the one with which node3 began", "set clone_from")
}

// TestFirstStartInterrupted: nodes are killed at each step of a cluster's first start, and it is completed all the
// same; also by a member that comes when the others have begun.
func TestFirstStartInterrupted(t *testing.T) {
	t.Parallel() // mostly it waits
	c := New(t, 3)
	for k := 2; k <= 3; k++ {
		c.lose(k, "")
	}
	restart := func(k int, after string) {
		t.Helper()
		c.Run(k)
		c.says(k, after)
		c.KillBoth(k)
	}
	restart(1, "creating a new database")
	restart(1, "PostgreSQL launched")
	c.Run(2)
	c.says(2, "waits to make its log")
	restart(1, "waits to make its log")
	stop := c.greet(3) // it was there, and died before it made its log
	restart(1, "made the log")
	c.says(2, "made the log")
	c.KillBoth(2)
	stop()
	c.Run(1)
	c.Run(2)
	c.WaitReady(1, 2)
	c.Connect(1).Do("CREATE TABLE early(k int PRIMARY KEY)", "INSERT INTO early VALUES (1)")
	restart(3, "made the log")
	c.Run(3)
	c.WaitReady()
	c.Connect(3).Do("INSERT INTO early VALUES (2)")
	c.Everywhere("SELECT count(*) FROM early", "2")
	c.Check()
}

// greet tells the others, for node k that does not run, what a node says that is at its first start and has made no log
// yet. stop ends that.
func (c *Cluster) greet(k int) (stop func()) {
	c.tb.Helper()
	cfg := c.Node(k).Config
	ln, err := net.Listen("tcp", cfg.MemberListen)
	if err != nil {
		c.tb.Fatal(err)
	}
	others := map[uint32]string{}
	for _, m := range cfg.Members {
		if m.Member != cfg.Member {
			others[m.Member] = m.Address
		}
	}
	own, authorities, err := cfg.MemberTLS.Load()
	if err != nil {
		c.tb.Fatal(err)
	}
	credentials := transport.Credentials{Secrets: [][]byte{[]byte(cfg.Secret)},
		TLS: &transport.TLS{Certificate: own, Authorities: authorities}}
	var mu sync.Mutex
	facts := []byte("{}")
	tr, err := transport.New(transport.Options{
		Self: cfg.Member, Cluster: cfg.Cluster, Listener: ln, Peers: others,
		Credentials: func() transport.Credentials { return credentials }, PeerName: cfg.Name,
		Handler: func(uint32, []byte) {},
		Facts:   func() []byte { mu.Lock(); defer mu.Unlock(); return facts },
		Judge: func(_ uint32, theirs []byte) error {
			f, err := bootstrap.Decode(theirs)
			if err != nil || f.Contents == nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			facts, err = json.Marshal(bootstrap.Facts{Member: cfg.Member, Settings: f.Settings, Contents: f.Contents})
			return err
		},
	})
	if err != nil {
		c.tb.Fatal(err)
	}
	return func() {
		if err := tr.Close(); err != nil {
			c.tb.Error(err)
		}
	}
}
