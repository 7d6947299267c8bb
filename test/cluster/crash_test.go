package cluster

import (
	"sync"
	"testing"
	"time"
)

// under runs load while f disturbs the cluster, again and again in a long run, and verifies.
func under(t *testing.T, c *Cluster, prefix string, f func()) {
	t.Helper()
	l := c.NewLoad(prefix)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() { l.Run(8, stop) })
	end := sync.OnceFunc(func() { close(stop); wg.Wait() })
	defer end() // also when f fails the test
	const phase = 2 * time.Second
	time.Sleep(phase)
	for until := time.Now().Add(seconds(0)); ; {
		f()
		before := l.Counts()["ok"]
		time.Sleep(phase)
		if l.Counts()["ok"] == before {
			t.Errorf("nothing was committed after the cluster was repaired")
		}
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
