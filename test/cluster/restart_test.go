package cluster

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tuttidb/tutti/internal/process"
)

// TestSizes runs clusters of other sizes, stops them cleanly and starts them again.
func TestSizes(t *testing.T) {
	t.Parallel() // mostly it waits
	for _, n := range []int{1, 5} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			c := Start(t, n)
			c.Connect(n).Do("CREATE TABLE sizes(k int PRIMARY KEY)")
			c.Everywhere("SELECT count(*) FROM sizes", "0")
			for _, k := range c.All() {
				c.Connect(k).Do(fmt.Sprintf("INSERT INTO sizes VALUES (%d)", k))
			}
			want := fmt.Sprintf("%d|%d", n, n*(n+1)/2)
			c.Everywhere("SELECT count(*), sum(k) FROM sizes", want)
			c.Stop(c.All()...)
			if left := c.Leftover(30 * time.Second); len(left) > 0 {
				t.Errorf("after SIGTERM there are still %v", left)
			}
			c.StartNodes()
			for _, k := range c.All() { // at once, without waiting for anything
				if got := c.Connect(k).Get("SELECT count(*), sum(k) FROM sizes"); got != want {
					t.Errorf("node %d, restarted, has %s, want %s", k, got, want)
				}
			}
			c.Connect(1).Do("INSERT INTO sizes VALUES (100)")
			c.Everywhere("SELECT count(*) FROM sizes", fmt.Sprint(n+1))
			c.Check()
		})
	}
}

// TestMinorityStops: with two of three nodes gone nothing commits, and nothing is lost.
func TestMinorityStops(t *testing.T) {
	t.Parallel() // mostly it waits
	c := Start(t, 3)
	c.Connect(1).Do("CREATE TABLE minor(k int PRIMARY KEY)", "INSERT INTO minor VALUES (1)")
	c.Everywhere("SELECT count(*) FROM minor", "1")
	s := c.Connect(1)
	c.Stop(2)
	s.Do("INSERT INTO minor VALUES (2)")
	c.Stop(3)
	result := make(chan error, 1)
	go func() { result <- s.Try("INSERT INTO minor VALUES (3)") }()
	select {
	case err := <-result:
		if err == nil {
			t.Error("a commit was told by a minority")
		}
	case <-time.After(2 * time.Second):
	}
	c.Run(2)
	c.Run(3)
	c.WaitReady()
	select {
	case err := <-result: // told or refused, but not left hanging
		if err == nil {
			c.Everywhere("SELECT count(*) FROM minor", "3")
		}
	case <-time.After(sqlTimeout):
		t.Error("the commit still hangs after the majority is back")
	}
	c.Check()
}

// TestDemo runs "tutti demo" as its users do: data survives, and nothing is left whether it
// ends by Ctrl-C or by SIGKILL.
func TestDemo(t *testing.T) {
	t.Parallel() // mostly it waits
	exe, err := Binary()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "td")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	base, err := freeRun(3)
	if err != nil {
		t.Fatal(err)
	}
	url := fmt.Sprintf("postgresql://postgres@127.0.0.1:%d/postgres?sslmode=disable", base+1)
	for i, end := range []syscall.Signal{syscall.SIGINT, syscall.SIGKILL} {
		log := filepath.Join(dir, fmt.Sprintf("demo%d.log", i))
		p, err := process.Start(process.Options{Log: log}, exe, "demo", "--dir", dir, "--base-port", fmt.Sprint(base))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { p.Signal(syscall.SIGKILL); <-p.Done() })
		for deadline := time.Now().Add(readyTimeout); !strings.Contains(process.Tail(log, 100),
			"Ctrl-C stops everything"); time.Sleep(pollInterval) {
			if !p.Running() || time.Now().After(deadline) {
				t.Fatalf("the demo is not up:\n%s", process.Tail(log, 100))
			}
		}
		sql := "CREATE TABLE demo(k int PRIMARY KEY)"
		if i == 1 {
			sql = "INSERT INTO demo VALUES (1)"
		}
		if err := probe(t.Context(), url, sql); err != nil {
			t.Error(err)
		}
		var out []byte
		// members hear of each other a moment later
		for deadline := time.Now().Add(readyTimeout); ; time.Sleep(pollInterval) {
			out, err = exec.Command(exe, "status", "--address", fmt.Sprintf("127.0.0.1:%d", base)).CombinedOutput()
			if err == nil && strings.Count(string(out), "synced") == 3 {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("status: %v\n%s", err, out)
			}
		}
		p.Signal(end)
		if err := p.Wait(stopTimeout); err != nil {
			t.Fatal(err)
		}
		var left map[int]string
		for deadline := time.Now().Add(stopTimeout); time.Now().Before(deadline); time.Sleep(pollInterval) {
			if left = process.Leftover(dir); len(left) == 0 {
				break
			}
		}
		for pid, line := range left {
			t.Errorf("after %s process %d is left: %s", end, pid, line)
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may just have ended
		}
	}
}

// TestSettingsForClients: what ALTER DATABASE and ALTER ROLE set for the sessions of clients keeps no node from
// starting, and ends none that is idle.
func TestSettingsForClients(t *testing.T) {
	t.Parallel() // mostly it waits
	c := Start(t, 3)
	s, frozen := c.Connect(1), c.In("frozen")
	s.Do("CREATE TABLE settings(k int PRIMARY KEY)", "CREATE DATABASE frozen")
	frozen.Connect(1).Do("CREATE TABLE settings(k int PRIMARY KEY)", "INSERT INTO settings VALUES (1)",
		"CREATE FUNCTION trap(oid, oid) RETURNS bool LANGUAGE plpgsql AS $$BEGIN RAISE 'reached'; END$$",
		"CREATE OPERATOR = (LEFTARG = oid, RIGHTARG = oid, FUNCTION = trap)")
	for _, set := range []string{"default_transaction_read_only = on", "default_transaction_isolation = serializable",
		"statement_timeout = '1ms'", "lock_timeout = '1ms'", "idle_session_timeout = '300ms'",
		"idle_in_transaction_session_timeout = '1ms'", "standard_conforming_strings = off",
		"transform_null_equals = on", "role = pg_monitor", "session_preload_libraries = nowhere",
		"local_preload_libraries = nowhere", "search_path = public, pg_catalog"} {
		s.Do("ALTER DATABASE frozen SET " + set)
	}
	s.Do("ALTER ROLE ALL SET idle_session_timeout = '300ms'")
	c.Stop(c.All()...)
	c.StartNodes()
	c.Connect(2).Do("INSERT INTO settings VALUES (1)")
	c.Connect(3).Do("ALTER ROLE ALL RESET idle_session_timeout")
	time.Sleep(600 * time.Millisecond) // to be ended in
	c.Connect(1).Do("ALTER DATABASE frozen RESET ALL")
	c.Settled() // or node 3 may still have them
	frozen.Connect(3).Do("INSERT INTO settings VALUES (2)")
	frozen.Everywhere("SELECT count(*) FROM settings", "2")
	a, b := frozen.Connect(1), frozen.Connect(2) // which has the nodes look for the table, with their own operators
	a.Do("BEGIN", "LOCK TABLE settings")
	b.Do("BEGIN")
	if err := b.Try("LOCK TABLE settings NOWAIT"); Code(err) != "55P03" {
		t.Errorf("locked at another node: %v", Explain(err))
	}
	a.Do("ROLLBACK")
	b.Do("ROLLBACK")
	c.Everywhere("SELECT count(*) FROM settings", "1")
	c.Check()
}
