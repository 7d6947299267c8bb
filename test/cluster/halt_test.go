package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tuttidb/tutti/internal/database/instance"
	"github.com/tuttidb/tutti/internal/process"
)

// behind runs statements at node k's own PostgreSQL, of which the cluster hears nothing.
func (c *Cluster) behind(k int, sql string) {
	c.tb.Helper()
	build, err := findBuild()
	if err != nil {
		c.tb.Fatal(err)
	}
	pg := instance.New(instance.Options{Build: build, DataDir: filepath.Join(c.Node(k).Config.DataDir, "postgres")})
	if err := probe(c.tb.Context(), pg.ConnString("postgres", "postgres"),
		"SET backtrace_functions = 'tutti_applies'; SET session_replication_role = replica; "+sql); err != nil {
		c.tb.Fatal(err)
	}
}

// haltedWith waits until "tutti status" says that node k is halted, and checks that it says why.
func (c *Cluster) haltedWith(k int, words ...string) {
	c.tb.Helper()
	var last string
	for deadline := time.Now().Add(sqlTimeout); time.Now().Before(deadline); time.Sleep(pollInterval) {
		out, err := c.Tool("status", "-o", "json") // exit 1: a member is not synced
		var rows []map[string]string
		if last = out; err == nil || json.NewDecoder(strings.NewReader(out)).Decode(&rows) != nil || len(rows) < k ||
			rows[k-1]["state"] != "halted" {
			continue
		}
		for _, w := range words {
			if !strings.Contains(rows[k-1]["reason"], w) {
				c.tb.Errorf("the status says nothing of %q: %s", w, rows[k-1]["reason"])
			}
		}
		if !c.Running(k) {
			c.tb.Fatalf("node %d has ended", k)
		}
		return
	}
	c.tb.Fatalf("node %d is not halted: %s\n%s", k, last, process.Tail(c.Node(k).LogFile, 15))
}

// TestHalted: a member that cannot carry an entry out stays up, says which and why, keeps voting, and is in nobody's
// way; a restart changes nothing, but after the reason is removed, or the database was cloned anew, it goes on.
func TestHalted(t *testing.T) {
	t.Parallel()
	c := Start(t, 3)
	s := c.Connect(1)
	s.Do("CREATE TABLE held_up(k int PRIMARY KEY, v int, u int)",
		"INSERT INTO held_up SELECT g, 0, g FROM generate_series(1, 9) g")
	c.Everywhere("SELECT count(*) FROM held_up", "9")

	c.behind(3, "CREATE UNIQUE INDEX only_here ON held_up(v) WHERE v > 5")
	s.Do("UPDATE held_up SET v = 6 WHERE k = 1", "UPDATE held_up SET v = 6 WHERE k = 2")
	c.haltedWith(3, "table public.held_up", "(k)=(2)", "only_here", "entry ")

	// It is in nobody's way, and its vote counts.
	c.Stop(2)
	began := time.Now()
	s.Do("INSERT INTO held_up VALUES (10, 0, 10)", "LISTEN held_up",
		"BEGIN; LOCK TABLE held_up; UPDATE held_up SET v = 7 WHERE k = 3; COMMIT",
		"CREATE TABLE beside(k int PRIMARY KEY)", "CREATE ROLE held_up_role", "SELECT pg_advisory_lock(7)",
		"INSERT INTO beside VALUES (1)", "DROP ROLE held_up_role")
	if d := time.Since(began); d > 5*time.Second {
		t.Errorf("who goes on beside a halted member took %s", d)
	}
	c.Run(2)
	c.WaitReady(2)
	c.Eventually(2, "SELECT count(*) FROM beside", "1")
	var exit *exec.ExitError
	if out, err := c.Tool("check"); !errors.As(err, &exit) || exit.ExitCode() != 2 ||
		!strings.Contains(out, "node3 is halted") {
		t.Errorf("a check beside a halted member: %v\n%s", err, out)
	}

	// It serves nobody, and says why.
	err := probe(t.Context(), c.URL(3), "SELECT 1")
	if Code(err) != "57P03" || !strings.Contains(Explain(err), "held_up") ||
		!strings.Contains(Explain(err), "clone_from") {
		t.Errorf("a client of a halted member is told %v", Explain(err))
	}
	if c.Leader() == 3 {
		t.Error("a halted member leads")
	}

	// A restart tries again, once.
	before := said(t, c.Node(3), "PostgreSQL launched")
	c.Stop(3)
	c.Run(3)
	c.await(3, readyTimeout, func(context.Context) error { // others may not have noticed that it was away
		if n := said(t, c.Node(3), "this database is halted"); n != 2 {
			return fmt.Errorf("it was halted %d times", n)
		}
		return nil
	})
	c.haltedWith(3, "(k)=(2)")
	if n := said(t, c.Node(3), "PostgreSQL launched") - before; n > 1 {
		t.Errorf("it has started %d times", n)
	}

	// The reason is removed.
	c.behind(3, "DROP INDEX only_here")
	c.Stop(3)
	c.Run(3)
	c.WaitReady()
	c.Everywhere("SELECT count(*) FROM held_up WHERE v > 5", "3")
	c.Check()

	// Damage: another row is missing. Now it is cloned anew, as the status says.
	c.behind(3, "DELETE FROM held_up WHERE k = 4")
	s.Do("UPDATE held_up SET u = -4 WHERE k = 4", "UPDATE held_up SET u = -5 WHERE k = 5")
	c.haltedWith(3, "table public.held_up", "(k)=(4)", "0 rows affected instead of 1")
	s.Do("INSERT INTO beside VALUES (2)")
	dir := filepath.Join(c.Node(3).Config.DataDir, "postgres")
	again := func(rows int) {
		c.Stop(3)
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		c.Run(3)
		c.WaitReady()
		c.Connect(3).Do(fmt.Sprintf("INSERT INTO beside VALUES (%d)", rows))
		c.Everywhere("SELECT count(*) FROM beside", fmt.Sprint(rows))
		c.Check()
	}
	again(3)

	// A page that cannot be read is no answer to a definition.
	file := filepath.Join(dir, c.Connect(3).Get("SELECT pg_relation_filepath('held_up')"))
	c.Stop(3)
	if err := os.WriteFile(file, bytes.Repeat([]byte{0xff}, 8192), 0o600); err != nil {
		t.Fatal(err)
	}
	c.Run(3)
	c.WaitReady(3)
	s.Do("CREATE INDEX held_up_u ON held_up(u)")
	c.haltedWith(3, "invalid page")
	again(4)
	c.Everywhere("SELECT count(*) FROM pg_class WHERE relname = 'held_up_u'", "1")

	// The same, met by a definition that goes on beside what follows it.
	s = c.slowTable("held_up_long", 300)
	file = filepath.Join(dir, c.Connect(3).Get("SELECT pg_relation_filepath('held_up_long')"))
	c.Stop(3)
	pages, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, append(pages[:8192], bytes.Repeat([]byte{0xff}, 8192)...), 0o600); err != nil {
		t.Fatal(err)
	}
	c.Run(3)
	c.WaitReady(3)
	ended, letGo := c.held(s, "CREATE INDEX ON held_up_long(slowly(v))")
	letGo()
	if err := <-ended; err != nil {
		t.Fatal(Explain(err))
	}
	c.haltedWith(3, "invalid page", "entry ")
	again(5)
}

// said is how often a node has said something.
func said(t *testing.T, n *Node, what string) int {
	t.Helper()
	b, err := os.ReadFile(n.LogFile)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Count(string(b), what)
}
