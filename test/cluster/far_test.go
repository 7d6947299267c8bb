package cluster

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/tuttidb/tutti/internal/fault"
)

// TestLeadIsNear: of nodes on a line the one in the middle comes to lead, although all write alike.
func TestLeadIsNear(t *testing.T) {
	t.Parallel()
	const way = 40 // ms between neighbours
	c := startFaulty(t, 3)
	c.Connect(1).Do("CREATE TABLE near(id int PRIMARY KEY GENERATED ALWAYS AS IDENTITY)")
	c.Everywhere("SELECT count(*) FROM near", "0")
	middle := 1 + c.Leader()%3
	for k := 1; k <= 3; k++ {
		r := fault.Rules{Delay: map[uint32]int{}}
		for to := 1; to <= 3; to++ {
			switch {
			case k == middle || to == middle:
				r.Delay[uint32(to)] = way
			default:
				r.Delay[uint32(to)] = 2 * way
			}
		}
		c.Node(k).fault(t, r)
	}
	stop := c.writing("near", 5*time.Millisecond, c.All()...)
	c.soon(func() bool { return c.Leader() == middle }, func() string {
		return fmt.Sprintf("node %d leads, and node %d is in the middle", c.Leader(), middle)
	})
	stop()
	for k := 1; k <= 3; k++ {
		c.Node(k).fault(t, fault.Rules{})
	}
	c.Check()
}

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
