package cluster

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"syscall"
	"testing"
	"time"
)

// under runs load while f disturbs the cluster, again and again in a long run, and verifies.
func under(t *testing.T, c *Cluster, prefix string, f func()) {
	t.Helper()
	l := c.NewLoad(prefix)
	l.rest = 20 * time.Millisecond
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() { l.Run(4, stop) })
	end := sync.OnceFunc(func() { close(stop); wg.Wait() })
	defer end() // also when f fails the test
	const phase = 1200 * time.Millisecond
	time.Sleep(phase)
	for until := time.Now().Add(seconds(0)); ; {
		f()
		before := l.Counts()["ok"]
		time.Sleep(phase)
		c.soon(func() bool { return l.Counts()["ok"] > before },
			func() string { return "nothing was committed after the cluster was repaired" })
		if !time.Now().Before(until) {
			break
		}
	}
	end()
	c.WaitReady()
	t.Log(l.Counts())
	l.Verify()
}

func TestCrashesUnderLoad(t *testing.T) {
	t.Parallel() // mostly it waits
	c := Start(t, 3)
	t.Run("one node is killed", func(t *testing.T) {
		c := c.in(t)
		under(t, c, "node", func() {
			c.Kill(2)
			time.Sleep(time.Second)
			c.Run(2)
			c.WaitReady(2)
		})
	})
	t.Run("the leader is killed", func(t *testing.T) {
		c := c.in(t)
		under(t, c, "leader", func() {
			k := c.Leader()
			c.Kill(k)
			time.Sleep(3 * time.Second) // an election
			c.Run(k)
			c.WaitReady(k)
		})
	})
	t.Run("one PostgreSQL is killed", func(t *testing.T) {
		c := c.in(t)
		under(t, c, "postgres", func() {
			c.KillPostgres(3)
			time.Sleep(200 * time.Millisecond)
			c.WaitReady(3)
		})
	})
	t.Run("the leader hangs", func(t *testing.T) {
		c := c.in(t)
		under(t, c, "hangs", func() {
			pid := c.PID(c.Leader())
			defer syscall.Kill(pid, syscall.SIGCONT)
			if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
				t.Fatal(err)
			}
			time.Sleep(3 * time.Second) // an election
		})
	})
	t.Run("one after the other is restarted", func(t *testing.T) {
		c := c.in(t)
		under(t, c, "rolling", func() {
			for _, k := range c.All() {
				c.Stop(k)
				c.Run(k)
				c.WaitReady(k)
			}
		})
	})
	t.Run("the origin of a big transaction is killed", func(t *testing.T) { crashBig(t, c.in(t)) })
	t.Run("everything is killed", func(t *testing.T) {
		c := c.in(t)
		under(t, c, "everything", func() {
			c.KillAll()
			for _, k := range c.All() {
				c.Run(k)
			}
			c.WaitReady()
		})
	})
}

// crashBig kills the origin of a transaction that travels in parts, at any moment of it. It
// is there wholly or not at all, and what follows it is not held up.
func crashBig(t *testing.T, c *Cluster) {
	c.Connect(1).Do("CREATE TABLE parts(k int PRIMARY KEY, round int, v text)", "CREATE TABLE after(k int PRIMARY KEY)")
	c.Everywhere("SELECT count(*) FROM after", "0")
	const rows = 60000
	for round, until := 0, time.Now().Add(seconds(0)); round == 0 || time.Now().Before(until); round++ {
		k := 1 + round%3
		s := c.Connect(k)
		result := make(chan error, 1)
		go func() {
			result <- s.Try(fmt.Sprintf("INSERT INTO parts SELECT %d + i, %d, repeat(md5(i::text), 6) FROM "+
				"generate_series(1, %d) i", round*rows, round, rows))
		}()
		delay := time.Duration(500+rand.IntN(3000)) * time.Millisecond
		time.Sleep(delay)
		c.Kill(k)
		err := <-result
		other := 1 + k%3
		c.Connect(other).Do(fmt.Sprintf("INSERT INTO after VALUES (%d)", round))
		c.Run(k)
		c.WaitReady()
		c.Everywhere("SELECT count(*) FROM after", fmt.Sprint(round+1))
		got := c.Connect(other).Get(fmt.Sprintf("SELECT count(*) FROM parts WHERE round = %d", round))
		t.Logf("killed after %s: %v, %s rows", delay, err, got)
		if got != fmt.Sprint(rows) && (got != "0" || err == nil) {
			t.Errorf("round %d: %s rows of %d are there, the client was told %v", round, got, rows, err)
		}
		c.Check()
	}
}
