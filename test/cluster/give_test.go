package cluster

import (
	"testing"
	"time"

	"github.com/tuttidb/tutti/internal/config"
)

// TestVoteIsGivenAway: of two members with min_copies = 1, beside clients that write to both, the one that votes alone
// is stopped, and the other one goes on at once; it comes back and votes alone again; the other one is stopped, and it
// goes on at once. Both stop at the same time, and none waits for the other. So in every database; nothing that was
// acknowledged is lost.
func TestVoteIsGivenAway(t *testing.T) {
	t.Parallel() // mostly it waits
	const expelled = 6 * time.Second
	c := Start(t, 2, func(_ int, c *config.Config) {
		c.ExpelAfter, c.MinCopies, c.DrainTimeout = expelled.String(), 1, "20s"
	})
	c.Connect(1).Do("CREATE TABLE last(k serial PRIMARY KEY, v text)", "CREATE DATABASE given")
	given := c.In("given")
	given.Connect(2).Do("CREATE TABLE last(k serial PRIMARY KEY, v text)")
	load := c.NewLoad("give")
	c.voters(1, "v-")
	given.voters(1, "v-")
	time.Sleep(expelled) // so that the first one takes the other one for there to stay
	stop, over := make(chan struct{}), make(chan struct{})
	go func() {
		load.Run(2, stop)
		close(over)
	}()
	for _, x := range []struct {
		stops, stays int
		votes        string
	}{{1, 2, "-v"}, {2, 1, "v-"}} {
		began := time.Now()
		c.Stop(x.stops)
		stopped := time.Now()
		took := c.goesOn(x.stays, "one stops")
		if took += given.goesOn(x.stays, "one stops"); took > expelled/2 {
			t.Errorf("node %d stops, and two commits take %v", x.stops, took)
		}
		t.Logf("node %d takes %v to stop, and two commits %v then", x.stops, stopped.Sub(began).Round(time.Millisecond),
			took.Round(time.Millisecond))
		c.voters(x.stays, x.votes)
		given.voters(x.stays, x.votes)
		c.Run(x.stops)
		c.WaitReady()
		c.voters(2, "v-")
		given.voters(2, "v-")
		time.Sleep(expelled)
	}
	close(stop)
	<-over
	load.Verify()
	began := time.Now()
	if c.Stop(1, 2); time.Since(began) > 10*time.Second {
		t.Errorf("both take %v to stop", time.Since(began))
	}
	c.Run(1)
	c.Run(2)
	c.WaitReady()
	for _, in := range []*Cluster{c, given} {
		in.Everywhere("SELECT string_agg(v, ', ') FROM last", "one stops, one stops")
	}
	c.Check()
}

// TestVoteIsGivenAwayOfThree: a third member is dead when the one that votes alone is stopped. The other one gets the
// vote, and commits as soon as it knows as well that the third one is gone.
func TestVoteIsGivenAwayOfThree(t *testing.T) {
	t.Parallel() // mostly it waits
	const expelled = 3 * time.Second
	c := Start(t, 3, func(_ int, c *config.Config) { c.ExpelAfter, c.MinCopies = expelled.String(), 1 })
	c.Connect(1).Do("CREATE TABLE last(k serial PRIMARY KEY, v text)")
	c.KillBoth(3)
	c.voters(1, "v--")
	c.goesOn(1, "two")
	time.Sleep(expelled)
	c.Stop(1)
	if took := c.goesOn(2, "one"); took > expelled+2*time.Second {
		t.Errorf("a commit takes %v", took)
	}
	c.voters(2, "-v-")
	c.Run(1)
	c.Run(3)
	c.WaitReady()
	c.voters(3, "vvv")
	c.Everywhere("SELECT string_agg(v, ', ' ORDER BY k) FROM last", "two, one")
	c.Check()
}
