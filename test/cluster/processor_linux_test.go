package cluster

import (
	"fmt"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tuttidb/tutti/internal/config"
)

// TestProcessors: nodes that share a machine keep to a processor each with their PostgreSQL while they do little, a new session
// has it as well, and one that is started again. Each is a session of its own for Linux, which divides processors between those.
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
			for pid, set := range map[int]*unix.CPUSet{c.PID(k): &node, c.PostgresPID(k): &server, int(s.PgConn().PID()): &backend} {
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
}
