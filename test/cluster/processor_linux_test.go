package cluster

import (
	"fmt"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tuttidb/tutti/internal/config"
)

// TestProcessors: nodes that share a machine keep to a processor each with their PostgreSQL while they do little, a new
// session has it as well, and one that is started again. Each is a session of its own for Linux, which divides
// processors between those. Who has missed something leaves processors to the others.
func TestProcessors(t *testing.T) {
	t.Parallel()
	var all unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil || all.Count() < 2 {
		t.Skip("there is one processor only")
	}
	c := New(t, 3, func(_ int, cfg *config.Config) { cfg.SharesMachine = true })
	c.StartNodes()
	c.Connect(1).Do("CREATE TABLE t (k int PRIMARY KEY)")
	c.Everywhere("SELECT count(*) FROM t", "0")
	bound := func(k int) {
		t.Helper()
		s := c.Connect(k)
		s.Do("INSERT INTO t SELECT count(*) FROM t")
		c.soon(func() bool {
			var node, server, backend unix.CPUSet
			for pid, set := range map[int]*unix.CPUSet{c.PID(k): &node, c.PostgresPID(k): &server,
				int(s.PgConn().PID()): &backend} {
				if err := unix.SchedGetaffinity(pid, set); err != nil {
					t.Fatalf("process %d of node %d: %v", pid, k, err)
				}
			}
			return node.Count() == 1 && node == server && node == backend
		}, func() string { return fmt.Sprintf("node %d is not bound with its server and its session", k) })
		if id, err := unix.Getsid(c.PID(k)); err != nil || id != c.PID(k) {
			t.Errorf("node %d, process %d, belongs to session %d (%v)", k, c.PID(k), id, err)
		}
	}
	for k := 1; k <= 3; k++ {
		bound(k)
	}
	c.Kill(2)
	c.Run(2)
	c.WaitReady(2)
	bound(2)
	c.Everywhere("SELECT count(*) FROM t", "4")
	c.easing(2)
}

// easing lets a member miss something: while another one has a client, it rests until it has caught up.
func (c *Cluster) easing(k int) {
	c.tb.Helper()
	s := c.Connect(1)
	s.Do("CREATE TABLE missed (k int PRIMARY KEY, v text)")
	c.Kill(k)
	const rows, each = 250_000, 10_000
	for i := 0; i < rows; i += each {
		s.Do(fmt.Sprintf("INSERT INTO missed SELECT g, repeat('x', 300) FROM generate_series(%d, %d) g", i+1, i+each))
	}
	c.Run(k)
	c.WaitReady(k)
	c.soon(func() bool { return c.status(s, k).state == "synced" }, func() string { return "it does not catch up" })
	c.Eventually(k, "SELECT count(*) FROM missed", fmt.Sprint(rows))
	if n := c.counters(1)["rested_us"]; n > 0 {
		c.tb.Errorf("node 1, which was there, has rested for %d µs", n)
	}
	if c.counters(k)["rested_us"] == 0 {
		c.tb.Errorf("node %d has not rested", k)
	}
}
