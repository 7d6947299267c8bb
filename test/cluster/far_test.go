package cluster

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/tuttidb/tutti/internal/fault"
)

// TestOneRoundTrip: where members are far apart, a client waits at COMMIT for one round trip to the leader, also if its
// own node does not lead.
func TestOneRoundTrip(t *testing.T) {
	t.Parallel()
	const way, tries = 100 * time.Millisecond, 7
	c := startFaulty(t, 3)
	c.Connect(1).Do("CREATE TABLE far(id int PRIMARY KEY)")
	c.Everywhere("SELECT to_regclass('far')", "far")
	for k := 1; k <= 3; k++ {
		c.Node(k).fault(t, fault.Rules{Delay: map[uint32]int{1: int(way.Milliseconds()), 2: int(way.Milliseconds()),
			3: int(way.Milliseconds())}})
	}
	time.Sleep(200 * time.Millisecond) // the files are read
	leader, judged := c.Leader(), 0
	for k := 1; k <= 3; k++ {
		s := c.Connect(k)
		var took []time.Duration
		for i := range tries {
			s.Do("BEGIN", fmt.Sprintf("INSERT INTO far VALUES (%d)", 100*k+i))
			began := time.Now()
			s.Do("COMMIT")
			took = append(took, time.Since(began))
		}
		slices.Sort(took)
		t.Logf("node %d, leader %d: %v", k, leader, took)
		if c.Leader() != leader { // the machine stood still for long
			break
		}
		judged++
		if median := took[tries/2]; median < 2*way || median > 3*way {
			t.Errorf("node %d, leader %d: a COMMIT takes %v, a round trip %v", k, leader, median, 2*way)
		}
	}
	if judged < 2 {
		t.Errorf("the lead moved: %d nodes were judged, of which one led", judged)
	}
	for k := 1; k <= 3; k++ {
		c.Node(k).fault(t, fault.Rules{})
	}
	c.Check()
}
