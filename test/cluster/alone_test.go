package cluster

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/tuttidb/tutti/internal/config"
)

// expelled is expel_after where one copy is enough.
const expelled = 2 * time.Second

// goesOn commits at node k, and reports how long that took.
func (c *Cluster) goesOn(k int, v string) time.Duration {
	c.tb.Helper()
	s := c.Connect(k)
	defer s.Close(s.ctx())
	began := time.Now()
	s.Do(fmt.Sprintf("INSERT INTO last(v) VALUES ('%s')", v))
	return time.Since(began)
}

// waits takes what a commit took that had to wait until another member was known to be gone.
func (c *Cluster) waits(took time.Duration, about string) {
	c.tb.Helper()
	c.tb.Logf("%s: %v without a commit", about, took.Round(time.Millisecond))
	if took < expelled/2 || took > expelled+10*time.Second {
		c.tb.Errorf("%s: a commit took %v, and expel_after is %v", about, took, expelled)
	}
}

// TestLastOneGoesOn: with min_copies = 1 three members lose one, and then another one, and the last one commits, in
// every database; not before it knows that the other is gone. Who was lost does not go on without it. When all are back
// nothing is missing.
func TestLastOneGoesOn(t *testing.T) {
	t.Parallel() // mostly it waits
	c := Start(t, 3, func(_ int, c *config.Config) { c.ExpelAfter, c.MinCopies = expelled.String(), 1 })
	c.Connect(1).Do("CREATE TABLE last(k serial PRIMARY KEY, v text)", "INSERT INTO last(v) VALUES ('three')",
		"CREATE DATABASE beside")
	beside := c.In("beside")
	beside.Connect(3).Do("CREATE TABLE last(k serial PRIMARY KEY, v text)") // node 3 may lead there
	c.voters(1, "vvv")

	c.KillBoth(3)
	c.voters(1, "v--")
	c.voters(2, "v--")
	beside.voters(2, "v--")
	c.tool(0, []string{"at once              yes", "node1"}, "what-if", "--lose", "node2")
	c.tool(1, []string{"at once              no"}, "what-if", "--lose", "node1")
	if took := c.goesOn(1, "two") + c.goesOn(2, "two as well"); took > expelled/2 {
		t.Errorf("with two, two commits take %v", took)
	}
	c.KillBoth(2)
	c.waits(c.goesOn(1, "one"), "the other is lost")
	if took := c.goesOn(1, "still one"); took > expelled/2 {
		t.Errorf("alone, a commit takes %v", took)
	}
	beside.goesOn(1, "one")
	c.KillBoth(1)

	c.Run(2)
	c.Run(3)
	time.Sleep(2 * expelled)
	c.refuses(2, "postgres", "")
	c.refuses(3, "postgres", "")
	c.Run(1)
	c.WaitReady()
	c.voters(3, "vvv")
	beside.voters(1, "vvv")
	c.goesOn(3, "three again")
	c.Everywhere("SELECT string_agg(v, ', ' ORDER BY v) FROM last",
		"one, still one, three, three again, two, two as well")
	beside.Everywhere("SELECT count(*) FROM last", "1")
	c.Check()
}

// TestTwoWithOneCopy: of two members with min_copies = 1 the first one goes on without the other, and the other does
// not without it. The first one is that again when it comes back to another one that went on.
func TestTwoWithOneCopy(t *testing.T) {
	t.Parallel() // mostly it waits
	c := Start(t, 3, func(_ int, c *config.Config) { c.ExpelAfter, c.MinCopies = expelled.String(), 1 })
	c.Connect(1).Do("CREATE TABLE last(k serial PRIMARY KEY, v text)")
	c.KillBoth(1)
	c.voters(2, "-v-")
	c.goesOn(2, "without the first")
	c.KillBoth(3)
	c.waits(c.goesOn(2, "the second alone"), "the third is lost")
	c.Run(1)
	c.WaitReady(1, 2)
	c.voters(2, "v--") // of two it is the first one
	c.goesOn(2, "with the first again")

	c.KillBoth(1)
	s := c.Connect(2)
	ctx, cancel := context.WithTimeout(t.Context(), 2*expelled)
	defer cancel()
	if _, err := s.Exec(ctx, "INSERT INTO last(v) VALUES ('nobody decides')"); err == nil {
		t.Error("the second one commits without the first, which votes alone")
	}
	c.Run(1)
	c.WaitReady(1, 2)
	c.goesOn(1, "both")
	c.KillBoth(2)
	c.waits(c.goesOn(1, "the first alone"), "the second is lost")
	c.KillBoth(1)
	c.Run(1)
	c.WaitReady(1)
	c.goesOn(1, "the first again")
	c.Run(2)
	c.Run(3)
	c.WaitReady()
	c.voters(3, "vvv")
	c.Everywhere("SELECT string_agg(v, ', ' ORDER BY v) FROM last WHERE v <> 'nobody decides'",
		"both, the first again, the first alone, the second alone, with the first again, without the first")
	c.Check()
}

// TestOtherGoesOnByForce: of two members the one that votes alone is lost for good beside clients that write to both.
// The other one has all that was acknowledged, and goes on by force.
func TestOtherGoesOnByForce(t *testing.T) {
	t.Parallel()
	c := Start(t, 3, func(_ int, c *config.Config) { c.ExpelAfter, c.MinCopies = "5s", 1 })
	load := c.NewLoad("other")
	c.Connect(2).Do("CREATE TABLE mostly(k serial PRIMARY KEY, v int)")
	wrote := c.writing("mostly", 5*time.Millisecond, 2)
	c.soon(func() bool { return c.times(2, "leader=2") > 0 }, func() string { return "node 2 does not lead" })
	c.KillBoth(3)
	c.voters(2, "v--") // although most is written at the other one
	wrote()
	stop, over := make(chan struct{}), make(chan struct{})
	go func() {
		load.Run(3, stop)
		close(over)
	}()
	before := load.Counts()["ok"]
	time.Sleep(3 * time.Second)
	c.KillBoth(1)
	if n := load.Counts()["ok"] - before; n == 0 {
		t.Errorf("nothing was committed: %v", load.Counts())
	}
	close(stop)
	<-over
	c.KillBoth(2)
	if r, said := c.recovers(2, "--force"); said != "" || !r.Forced {
		t.Fatalf("it reports %+v and says %q", r, said)
	}
	c.Run(2)
	c.WaitReady(2)
	c.members(2, 1, "node2")
	load.verifyNode(2)
}
