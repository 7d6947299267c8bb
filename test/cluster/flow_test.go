package cluster

import (
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tuttidb/tutti/internal/config"
	"github.com/tuttidb/tutti/internal/process"
)

// freezeApplier stops the backends that apply what is ordered at node k: the node lives
// and talks, but falls behind. The function it returns lets it go on.
func (c *Cluster) freezeApplier(k int) (thaw func()) {
	c.tb.Helper()
	signal := c.appliers(k)
	signal(syscall.SIGSTOP)
	thaw = func() { signal(syscall.SIGCONT) }
	c.tb.Cleanup(thaw)
	return thaw
}

// appliers finds these backends, and returns what sends them a signal.
func (c *Cluster) appliers(k int) (signal func(syscall.Signal)) {
	c.tb.Helper()
	var pids []int
	for _, text := range strings.Split(c.Connect(k).Get(
		"SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'tutti applier%' AND datname = "+
			"current_database()"), ",") {
		pid, err := strconv.Atoi(text)
		if err != nil {
			c.tb.Fatal(err)
		}
		pids = append(pids, pid)
	}
	return func(sig syscall.Signal) {
		for _, pid := range pids {
			_ = syscall.Kill(pid, sig) // it may be gone
		}
	}
}

// memberStatus is a row of SHOW tutti.status.
type memberStatus struct {
	state   string
	lag     uint64
	delay   time.Duration
	because string
}

// status is what node k says of member m.
func (c *Cluster) status(s *Conn, m int) memberStatus {
	c.tb.Helper()
	row := strings.Split(strings.Split(s.Get("SHOW tutti.status"), ",")[m-1], "|")
	if row[4] == "" {
		return memberStatus{state: row[3]}
	}
	lag, err := strconv.ParseUint(row[6], 10, 64)
	if err != nil {
		c.tb.Fatal(err)
	}
	ms, err := strconv.ParseFloat(row[7], 64)
	if err != nil {
		c.tb.Fatal(err)
	}
	return memberStatus{row[3], lag, time.Duration(ms * float64(time.Millisecond)), row[8]}
}

// TestSlowMembers: a member that applies too slowly slows the writers, a little if a majority
// keeps up and for real if none does; everybody can see it, and it ends.
func TestSlowMembers(t *testing.T) {
	const limit, delayMax = 30, 100 * time.Millisecond
	c := Start(t, 3, func(_ int, c *config.Config) {
		c.Limits.FlowLag, c.Limits.FlowDelayMaxMs = limit, int(delayMax/time.Millisecond)
	})
	s, watch := c.Connect(1), c.Connect(1)
	s.Do("CREATE TABLE slow(k int PRIMARY KEY)")
	c.Everywhere("SELECT count(*) FROM slow", "0")
	n := 0
	insert := func(times int) time.Duration {
		began := time.Now()
		for range times {
			n++
			s.Do(fmt.Sprintf("INSERT INTO slow VALUES (%d)", n))
		}
		return time.Since(began)
	}
	const sample = 150
	insert(sample)
	before := insert(sample)
	c.Settled() // what holds none of the server's own locks can be frozen
	thaw3 := c.freezeApplier(3)
	for deadline := time.Now().Add(sqlTimeout); c.status(watch, 1).because != "node3"; insert(10) {
		if time.Now().After(deadline) {
			t.Fatalf("node 1 is not slowed for node 3: %+v", c.status(watch, 3))
		}
	}
	insert(6 * limit) // far beyond the limit
	one, slept := time.Hour, time.Hour
	for range 3 { // the machine may have had a pause
		was := watch.counters()["throttled_us"]
		took := insert(sample)
		if d := time.Duration(watch.counters()["throttled_us"]-was) * time.Microsecond; d < slept {
			one, slept = took, d
		}
	}
	own := max(before, one-slept) // of the machine, which may have become slower
	if got := c.status(watch, 1); got.delay >= max(delayMax/2, own/sample) {
		t.Errorf("for one slow member of three the delay is %v", got.delay)
	}
	if slept > 2*own+300*time.Millisecond { // generous: timers are late while other tests run beside this one
		t.Errorf("for one slow member of three %d commits take %v instead of %v", sample, one, before)
	}
	settle(s, c.Connect(2)) // its applier is idle
	thaw2 := c.freezeApplier(2)
	for deadline := time.Now().Add(sqlTimeout); c.status(watch, 1).delay < delayMax; insert(1) {
		if time.Now().After(deadline) {
			t.Fatalf("without a majority that keeps up the delay is %+v", c.status(watch, 1))
		}
	}
	if two := insert(5); two < 4*delayMax {
		t.Errorf("5 commits, each delayed by %v, take %v", delayMax, two)
	} else {
		t.Logf("%d commits: %v undisturbed, %v with one slow member of three; 5 with two: %v", sample, before, one, two)
	}
	thaw2()
	thaw3()
	for deadline := time.Now().Add(sqlTimeout); ; time.Sleep(pollInterval) {
		if got := c.status(watch, 1); got.delay == 0 && got.because == "" {
			break
		} else if time.Now().After(deadline) {
			t.Fatalf("nobody lags, and the delay is %+v", got)
		}
	}
	for deadline := time.Now().Add(sqlTimeout); !strings.Contains(process.Tail(c.Node(1).LogFile, 1<<20),
		"transactions are no longer slowed"); time.Sleep(pollInterval) {
		if time.Now().After(deadline) {
			t.Fatal("the log does not tell the end of the delays")
		}
	}
	// node2 may lag for a moment, too
	if log := process.Tail(c.Node(1).LogFile, 1<<20); !strings.Contains(log, "transactions are slowed") ||
		!strings.Contains(log, "member=node") {
		t.Error("the log does not tell why transactions were slowed")
	}
	if c.counters(1)["throttled"] == 0 || c.counters(1)["throttled_us"] == 0 {
		t.Errorf("no slowed transactions are counted: %v", c.counters(1))
	}
	c.Everywhere("SELECT count(*) FROM slow", fmt.Sprint(n))
	c.Check()
}
