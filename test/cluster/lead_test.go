package cluster

import (
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/tuttidb/tutti/internal/fault"
)

// writing has a session at each of the nodes insert rows into a table that has an identity column, until it is stopped;
// stop returns how long the longest of them waited for an answer.
func (c *Cluster) writing(table string, pause time.Duration, nodes ...int) (stop func() time.Duration) {
	c.tb.Helper()
	end := make(chan struct{})
	var wg sync.WaitGroup
	var mu sync.Mutex
	var longest time.Duration
	for _, k := range nodes {
		s := c.Connect(k)
		wg.Go(func() {
			for {
				select {
				case <-end:
					return
				default:
				}
				began := time.Now()
				if err := s.Try("INSERT INTO " + table + " DEFAULT VALUES"); err != nil {
					c.tb.Errorf("node %d: %s", k, Explain(err))
					return
				}
				mu.Lock()
				longest = max(longest, time.Since(began))
				mu.Unlock()
				time.Sleep(pause)
			}
		})
	}
	stop = sync.OnceValue(func() time.Duration {
		close(end)
		wg.Wait()
		return longest
	})
	c.tb.Cleanup(func() { stop() })
	return stop
}

// handed is how often any node has handed the lead over.
func (c *Cluster) handed() (n uint64) {
	c.tb.Helper()
	for _, k := range c.All() {
		n += c.counters(k)["handed_over"]
	}
	return n
}

// TestLeadFollowsWrites: the node at which all is written comes to lead, without an error of its clients'; where all
// nodes write, nobody's lead moves.
func TestLeadFollowsWrites(t *testing.T) {
	c := use(t)
	c.Connect(1).Do("CREATE TABLE leadwrites(id int PRIMARY KEY GENERATED ALWAYS AS IDENTITY)")
	c.Everywhere("SELECT count(*) FROM leadwrites", "0")
	for range 2 {
		writer := 1 + c.Leader()%3
		stop := c.writing("leadwrites", 5*time.Millisecond, writer)
		c.soon(func() bool { return c.Leader() == writer },
			func() string { return fmt.Sprintf("node %d writes, and node %d leads", writer, c.Leader()) })
		stop()
	}
	moved := uint64(1)
	for try := 0; moved > 0 && try < 3; try++ { // some nodes may have stood still
		before := c.handed()
		stop := c.writing("leadwrites", 5*time.Millisecond, c.All()...)
		time.Sleep(6 * time.Second) // more than two windows
		stop()
		moved = c.handed() - before
	}
	if moved > 0 {
		t.Errorf("the lead was handed over %d times while all wrote", moved)
	}
}

// startFaulty starts a cluster whose nodes take faults.
func startFaulty(t *testing.T, n int) *Cluster {
	t.Helper()
	c := New(t, n)
	for k, node := range c.nodes {
		node.FaultFile = filepath.Join(c.Dir, fmt.Sprintf("faults%d.json", k+1))
	}
	c.StartNodes()
	return c
}

// fault has a node have these faults, and no others.
func (n *Node) fault(t *testing.T, r fault.Rules) {
	t.Helper()
	if err := r.Write(n.FaultFile); err != nil {
		t.Fatal(err)
	}
}

// TestLeadReachesAll: while the link between the leader and another node is cut, or works in one direction only, the
// node that both reach comes to lead, and clients of all nodes go on.
func TestLeadReachesAll(t *testing.T) {
	c := startFaulty(t, 3)
	c.Connect(1).Do("CREATE TABLE leadlink(id int PRIMARY KEY GENERATED ALWAYS AS IDENTITY)")
	c.Everywhere("SELECT count(*) FROM leadlink", "0")
	drop := func(from int, to ...uint32) { c.Node(from).fault(t, fault.Rules{Drop: to}) }
	for _, way := range []string{"both", "from the leader", "to the leader"} {
		time.Sleep(2 * time.Second) // what the nodes know of each other is as it was before
		leader := c.Leader()
		cut := 1 + leader%3
		bridge := 6 - leader - cut
		if way != "to the leader" {
			drop(leader, uint32(cut))
		}
		if way != "from the leader" {
			drop(cut, uint32(leader))
		}
		stop := c.writing("leadlink", 5*time.Millisecond, c.All()...)
		c.soon(func() bool { return c.Leader() == bridge }, func() string {
			return fmt.Sprintf("%s: node %d does not lead, which reaches node %d and node %d", way, bridge, leader, cut)
		})
		s := c.Connect(cut)
		s.Do("INSERT INTO leadlink DEFAULT VALUES")
		t.Logf("%s: the longest answer took %v", way, stop())
		drop(leader)
		drop(cut)
	}
	c.Check()
}

// TestLeadIsLeftBehind: a leader that is stopped, or whose PostgreSQL ends, hands the lead over first, and one that is
// killed is missed at once: clients at other nodes wait less than raft's timeouts.
func TestLeadIsLeftBehind(t *testing.T) {
	// for an election without all that: ten ticks of 50 ms since the last heartbeat
	const soonest = 300 * time.Millisecond
	c := Start(t, 3)
	c.Connect(1).Do("CREATE TABLE leadleft(id int PRIMARY KEY GENERATED ALWAYS AS IDENTITY)")
	c.Everywhere("SELECT count(*) FROM leadleft", "0")
	for _, end := range []struct {
		what  string
		how   func(k int)
		hands int // how often the lead is handed over for that
	}{
		{"the node stops", func(k int) { c.Stop(k); c.Run(k) }, 1},
		{"its PostgreSQL is killed", c.KillPostgres, 1},
		{"the node is killed", func(k int) { c.Kill(k); c.Run(k) }, 0},
	} {
		took, hands := time.Hour, -1
		for try := 0; (took >= soonest || hands != end.hands) && try < 3; try++ { // the machine may stand still
			time.Sleep(time.Second) // what the nodes know of each other is as it was before
			leader := c.Leader()
			stop := c.writing("leadleft", time.Millisecond, 1+leader%3, 1+(leader+1)%3)
			time.Sleep(100 * time.Millisecond)
			handed := c.said(leader, "this member stops")
			end.how(leader)
			time.Sleep(3 * time.Second) // more than an election takes
			took = stop()
			c.WaitReady()
			hands = c.said(leader, "this member stops") - handed
		}
		t.Logf("%s: the longest answer took %v", end.what, took)
		if took >= soonest || hands != end.hands {
			t.Errorf("%s: the lead was handed over %d times, clients at the other nodes waited for %v", end.what, hands,
				took)
		}
	}
	c.Check()
}
