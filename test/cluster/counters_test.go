package cluster

import (
	"strconv"
	"strings"
	"testing"
)

// counters reads SHOW tutti.counters at node k.
func (c *Cluster) counters(k int) map[string]uint64 {
	c.tb.Helper()
	return c.Connect(k).counters()
}

func (s *Conn) counters() map[string]uint64 {
	s.c.tb.Helper()
	out := map[string]uint64{}
	for _, row := range strings.Split(s.Get("SHOW tutti.counters"), ",") {
		name, value, _ := strings.Cut(row, "|")
		n, err := strconv.ParseUint(value, 10, 64)
		if err != nil {
			s.c.tb.Fatalf("counter %q: %v", row, err)
		}
		out[name] = n
	}
	return out
}

// TestCounters: ten transactions at node 1 are ten local ones there and ten applied ones
// elsewhere, each of them on every disk.
func TestCounters(t *testing.T) {
	c := use(t)
	s := c.Connect(1)
	s.Do("CREATE TABLE countedrow(k int PRIMARY KEY)")
	c.Everywhere("SELECT count(*) FROM countedrow", "0")
	before := map[int]map[string]uint64{}
	for _, k := range c.All() {
		before[k] = c.counters(k)
	}
	const n = 10
	for k := range n {
		s.Do("INSERT INTO countedrow VALUES (" + strconv.Itoa(k) + ")")
	}
	c.Everywhere("SELECT count(*) FROM countedrow", strconv.Itoa(n))
	for _, k := range c.All() {
		now := c.counters(k)
		gained := func(name string) uint64 {
			if _, ok := now[name]; !ok {
				t.Errorf("node %d has no counter %s", k, name)
			}
			return now[name] - before[k][name]
		}
		own, other := "local", "remote"
		if k != 1 {
			own, other = other, own
		}
		if gained(own) != n || gained(other) != 0 {
			t.Errorf("node %d: %d %s, %d %s transactions, want %d and 0", k, gained(own), own, gained(other), other, n)
		}
		// One session, so every transaction waited for a write of its own at node 1; the
		// others may lag and take several at once.
		for _, name := range []string{"fsyncs", "entries", "groups"} {
			least := uint64(n)
			if k != 1 && name != "entries" {
				least = 1
			}
			if got := gained(name); got < least || got > 10*n {
				t.Errorf("node %d: %d %s for %d transactions", k, got, name, n)
			}
		}
		if got := gained("batches"); k == 1 && got != n || k != 1 && got != 0 {
			t.Errorf("node %d: %d batches", k, got)
		}
		if got := gained("ordinal"); got != n {
			t.Errorf("node %d: the ordinal moved by %d", k, got)
		}
		if now["frames_sent"] == 0 || now["frames_received"] == 0 {
			t.Errorf("node %d: no frames: %v", k, now)
		}
	}
}

// TestPlans: SHOW tutti.plans tells how often a plan was carried out, and why a better one was not.
func TestPlans(t *testing.T) {
	c := use(t)
	s := c.Connect(1)
	s.Do("CREATE TABLE plannedrow(k int PRIMARY KEY, v int)", "INSERT INTO plannedrow VALUES (1, 1)")
	count := func(plan, because string) (n int) {
		for _, row := range strings.Split(s.Get("SHOW tutti.plans"), ",") {
			if f := strings.Split(row, "|"); len(f) == 3 && f[0] == plan && f[2] == because {
				n, _ = strconv.Atoi(f[1])
			}
		}
		return n
	}
	const unknown = "its form is not known yet"
	blind, refused := count("blind", ""), count("blind", unknown)
	for range 12 {
		s.Do("UPDATE plannedrow SET v = 2 WHERE k = 1")
	}
	if n := count("blind", "") - blind; n < 5 {
		t.Errorf("%d of 12 updates by key were blind", n)
	}
	s.Do("UPDATE plannedrow SET v = 3 WHERE k = 1 AND v > 0")
	if n := count("blind", unknown) - refused; n < 1 {
		t.Errorf("%d updates were not blind because they are new", n)
	}
}
