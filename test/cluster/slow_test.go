package cluster

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/tuttidb/tutti/internal/config"
	"github.com/tuttidb/tutti/internal/process"
)

// brake has the backends that apply what is ordered at node k run for 5 of 2000 ms only. The function it
// returns ends that.
func (c *Cluster) brake(k int) (release func()) {
	signal := c.appliers(k)
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		defer signal(syscall.SIGCONT)
		for {
			signal(syscall.SIGSTOP)
			select {
			case <-stop:
				return
			case <-time.After(2 * time.Second):
			}
			signal(syscall.SIGCONT)
			time.Sleep(5 * time.Millisecond)
		}
	}()
	var once sync.Once
	release = func() { once.Do(func() { close(stop); <-done }) }
	c.tb.Cleanup(release)
	return release
}

// within is soon, within so long.
func (c *Cluster) within(d time.Duration, is func() bool, instead func() string) {
	c.tb.Helper()
	for deadline := time.Now().Add(d); !is(); time.Sleep(pollInterval) {
		if time.Now().After(deadline) {
			c.tb.Fatal(instead())
		}
	}
}

// writers are clients of nodes 1 and 2 that insert, one row after the other.
type writers struct {
	rows atomic.Int64
	stop chan struct{}
	all  sync.WaitGroup
}

// write begins.
func (c *Cluster) write(table string, clients int) *writers {
	w := &writers{stop: make(chan struct{})}
	for i := range clients {
		s := c.Connect(1 + i%2)
		w.all.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-w.stop:
					return
				default:
				}
				if err := s.Try(fmt.Sprintf("INSERT INTO %s VALUES (%d)", table, 1_000_000*i+n)); err != nil {
					c.tb.Errorf("client %d, row %d: %v", i, n, err)
					return
				}
				w.rows.Add(1)
			}
		})
	}
	return w
}

// rate is how many rows they insert in a second.
func (w *writers) rate(d time.Duration) float64 {
	was := w.rows.Load()
	time.Sleep(d)
	return float64(w.rows.Load()-was) / d.Seconds()
}

// end is how many rows they have inserted.
func (w *writers) end() int64 {
	close(w.stop)
	w.all.Wait()
	return w.rows.Load()
}

// TestFarTooSlow: of four nodes one applies far more slowly than the others write. They are slowed for it, until it is
// found to be far too slow: it stops voting, and they are as fast as before. Who is connected there reads what it has
// applied. When it has caught up and kept up, it votes again.
func TestFarTooSlow(t *testing.T) {
	c := Start(t, 4, func(_ int, c *config.Config) {
		c.ExpelAfter = "2s" // so it takes a minute
		c.Limits.FlowLag, c.Limits.FlowDelayMaxMs, c.Limits.FlowMinorityPercent = 200, 100, 70
		c.Limits.GroupItems = 20 // else it catches up in 5 ms
	})
	s := c.Connect(1)
	slow := 3
	if c.Leader() == 3 {
		slow = 4
	}
	name, with, without := c.Node(slow).Config.Self().Name, "vvvv", "vv-v"
	if slow == 4 {
		without = "vvv-"
	}
	s.Do("CREATE TABLE far_too_slow(k bigint PRIMARY KEY)", "CALL tutti.rank_member('"+name+"', 1)")
	c.Everywhere("SELECT count(*) FROM far_too_slow", "0")
	c.voters(1, with)
	w := c.write("far_too_slow", 4)
	w.rate(3 * time.Second)
	before := w.rate(8 * time.Second)
	release := c.brake(slow)
	watch := c.Connect(1)
	c.within(time.Minute, func() bool { return c.status(watch, 1).because == name },
		func() string { return fmt.Sprintf("node 1 is not slowed for %s: %+v", name, c.status(watch, slow)) })
	slowed := w.rate(8 * time.Second)
	if got := c.votes(1); got != with {
		t.Errorf("it is slow for some seconds, and %s vote", got)
	}
	c.within(3*time.Minute, func() bool { return c.votes(1) == without },
		func() string { return fmt.Sprintf("%s vote, and it is slow: %+v", c.votes(1), c.status(watch, slow)) })
	w.rate(3 * time.Second)
	after := w.rate(8 * time.Second)
	t.Logf("%.0f rows/s before, %.0f slowed, %.0f without it", before, slowed, after)
	if slowed > 0.8*max(before, after) || after < 0.7*before {
		t.Errorf("%.0f rows/s before, %.0f slowed, %.0f without it", before, slowed, after)
	}
	if got := c.status(watch, 1); got.because == name {
		t.Errorf("node 1 is slowed for it: %+v", got)
	}
	for _, show := range []string{"status", "members", "votes"} {
		if got := watch.Get("SHOW tutti." + show); strings.Count(got, "slow since") != 1 {
			t.Errorf("%s shows %s", show, got)
		}
	}
	if n := c.Connect(slow).Get("SELECT count(*) FROM far_too_slow"); n == "0" {
		t.Error("it has applied nothing")
	}

	release()
	rows := w.end()
	c.within(time.Minute, func() bool {
		return c.Connect(slow).Get("SELECT count(*) FROM far_too_slow") == fmt.Sprint(rows)
	}, func() string { return "it does not catch up" })
	c.within(3*time.Minute, func() bool { return strings.Contains(c.votes(1)[slow-1:slow], "v") },
		func() string { return fmt.Sprintf("it has caught up, and %s vote", c.votes(1)) })
	c.Connect(slow).Do("INSERT INTO far_too_slow VALUES (-1)")
	c.Everywhere("SELECT count(*) FROM far_too_slow", fmt.Sprint(rows+1))
	if !c.hasSaid(slow, "this member is far too slow") {
		t.Error("its log does not say that it is slow")
	}
	c.Check()
}

// TestFarTooSlowOfThree: of three nodes one is far too slow. It goes on voting, as two could lose none, but nobody
// waits for it; and when its log has grown too long it copies another one's database.
func TestFarTooSlowOfThree(t *testing.T) {
	const segment, retention = 64 << 10, 256 << 10
	c := Start(t, 3, func(_ int, c *config.Config) {
		c.ExpelAfter = "2s" // so it takes a minute
		c.Limits.FlowLag, c.Limits.GroupItems = 100, 20
		c.Limits.LogSegmentBytes, c.Limits.LogRetention = segment, retention
	})
	slow, table := 3, "slow_of_three"
	if c.Leader() == 3 {
		c.Stop(3) // hands over
		c.Run(3)
		c.WaitReady(3)
	}
	c.Connect(1).Do("CREATE TABLE " + table + "(k bigint PRIMARY KEY)")
	c.Everywhere("SELECT count(*) FROM "+table, "0")
	w := c.write(table, 4)
	watch, release := c.Connect(1), c.brake(slow)
	c.within(3*time.Minute, func() bool { return strings.Contains(watch.Get("SHOW tutti.status"), "slow since") },
		func() string { return fmt.Sprintf("node 3 is not found slow: %+v", c.status(watch, slow)) })
	if got := c.votes(1); got != "vvv" {
		t.Errorf("%s vote", got)
	}
	time.Sleep(time.Second) // the gossip of all
	for range 5 {
		if got := c.status(watch, 1); got.because == "node3" {
			t.Errorf("node 1 is slowed for it: %+v", got)
		}
		time.Sleep(time.Second)
	}
	c.within(3*time.Minute, func() bool { return c.hasSaid(slow, "node3 is far too slow: ") },
		func() string { return "it does not end, however long its log is" })
	release()
	c.within(2*time.Minute, func() bool {
		return c.hasSaid(slow, "this member takes a copy of another one's database")
	}, func() string { return "it does not copy" })
	c.WaitReady(slow)
	rows := w.end()
	c.Everywhere("SELECT count(*) FROM "+table, fmt.Sprint(rows))
	c.Connect(slow).Do("INSERT INTO " + table + " VALUES (-1)")
	c.Check()
}

// hasSaid reports whether a node's log has a text.
func (c *Cluster) hasSaid(k int, text string) bool {
	return strings.Contains(process.Tail(c.Node(k).LogFile, 1<<20), text)
}
