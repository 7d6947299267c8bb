package cluster

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tuttidb/tutti/internal/config"
	"github.com/tuttidb/tutti/internal/forced"
)

// recovers runs tutti recover at node k, and gives what it reports, or says.
func (c *Cluster) recovers(k int, args ...string) (r forced.Report, said string) {
	c.tb.Helper()
	exe, err := Binary()
	if err != nil {
		c.tb.Fatal(err)
	}
	args = append([]string{"recover", "--config", c.Node(k).ConfigFile, "-o", "json"}, args...)
	command := exec.CommandContext(c.tb.Context(), exe, args...)
	var words strings.Builder
	command.Stderr = &words
	out, err := command.Output()
	if err == nil || len(out) > 0 {
		if err := json.Unmarshal(out, &r); err != nil {
			c.tb.Fatalf("tutti recover prints %s: %v", out, err)
		}
	}
	return r, words.String()
}

// TestForced: all nodes are killed beside clients that write, and two of them are lost for good. The one with the
// longest log goes on alone, with all that was acknowledged. The others are refused when they come back, and others
// join. While one of them can be reached, or the node runs, nothing is changed.
func TestForced(t *testing.T) {
	t.Parallel()
	c := Start(t, 3, func(_ int, c *config.Config) { c.ExpelAfter = "2s" })
	c.Connect(1).Do("CREATE DATABASE second")
	c.In("second").Connect(1).Do("CREATE TABLE kept(k int PRIMARY KEY)", "INSERT INTO kept VALUES (1)")
	load := c.NewLoad("forced")
	stop, over := make(chan struct{}), make(chan struct{})
	go func() {
		load.Run(2, stop)
		close(over)
	}()
	time.Sleep(2 * time.Second)
	if _, said := c.recovers(1, "--force"); !strings.Contains(said, "The node must not run") {
		t.Errorf("at a node that runs it says %q", said)
	}
	c.KillBoth(1, 2, 3)
	close(stop)
	<-over
	best, most := 0, forced.Log{}
	for k := 1; k <= 3; k++ {
		r, said := c.recovers(k)
		if said != "" || r.Forced || len(r.Logs) != 2 || r.Logs[0].Forced {
			t.Fatalf("node %d reports %+v and says %q", k, r, said)
		}
		if l := r.Logs[0]; best == 0 || l.Term > most.Term || l.Term == most.Term && l.Last > most.Last {
			best, most = k, l
		}
	}
	other := best%3 + 1
	c.Run(other)
	c.soon(func() bool {
		r, _ := c.recovers(best)
		return len(r.Answer) == 1
	}, func() string { return "another one is not reached" })
	if r, said := c.recovers(best, "--force"); r.Forced || !strings.Contains(said, "can be reached") {
		t.Fatalf("beside another one it reports %+v and says %q", r, said)
	}
	c.KillBoth(other)
	for _, before := range []bool{false, true} { // it can be done again
		r, said := c.recovers(best, "--force")
		was := func(l forced.Log) bool { return l.Forced }
		if said != "" || !r.Forced || slices.ContainsFunc(r.Logs, was) != before {
			t.Fatalf("it reports %+v and says %q", r, said)
		}
	}
	c.Run(best)
	c.WaitReady(best)
	name := fmt.Sprintf("node%d", best)
	c.members(best, 1, name)
	load.verifyNode(best)
	c.In("second").Eventually(best, "SELECT count(*) FROM kept", "1")
	c.In("second").Connect(best).Do("INSERT INTO kept VALUES (2)")
	c.Eventually(best, fmt.Sprintf("SELECT removed FROM tutti.member WHERE number = %d", other), "t")
	c.KillBoth(best)
	c.Run(best)
	c.WaitReady(best)

	c.Run(other) // with what it had
	c.says(other, "it refuses this member: unknown member")
	c.KillBoth(other)
	n := c.Join(best)
	c.WaitReady(n)
	c.members(best, 2, name, fmt.Sprintf("node%d", n))
	c.In("second").Eventually(n, "SELECT count(*) FROM kept", "2")
	c.Connect(n).Do("CREATE TABLE after_that(k int)")
	load.verifyNode(n)
}
