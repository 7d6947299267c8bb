package cluster

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tuttidb/tutti/internal/config"
)

// member runs tutti member at node 1, which must end with this exit code, and gives what it prints.
func (c *Cluster) member(exits int, args ...string) string {
	c.tb.Helper()
	return c.commandExits(exits, append([]string{"member", args[0], "--config", c.Node(1).ConfigFile}, args[1:]...)...)
}

// spare makes the directory of another node, which is started by whoever calls this, and gives its entry.
func (c *Cluster) spare() config.Member {
	c.tb.Helper()
	ports, err := freePorts(2)
	if err != nil {
		c.tb.Fatal(err)
	}
	m := member(len(c.nodes)+1, ports)
	list := append(slices.Clone(c.Node(len(c.nodes)).Config.Members), m)
	if err := c.configure(int(m.Member), list, c.Node(1).Config.Postgres.BinDir, ""); err != nil {
		c.tb.Fatal(err)
	}
	return m
}

// TestRankDemoteReplace: beside clients that write, a member that ranks higher votes in the place of another one; the
// leader is demoted, votes no more, and serves; it is promoted. One member is replaced while it is there, another one
// when it is dead, by a command that is interrupted and run again. So in both databases; nothing that was acknowledged
// is missing at the new ones.
func TestRankDemoteReplace(t *testing.T) {
	t.Parallel() // mostly it waits
	c := Start(t, 3, func(_ int, c *config.Config) { c.ExpelAfter = "2s" })
	load := c.NewLoad("rank")
	c.Connect(1).Do("CREATE DATABASE ranked", "CREATE TABLE ranks(k serial PRIMARY KEY, v text)")
	ranked := c.In("ranked")
	ranked.Connect(1).Do("CREATE TABLE ranks(k int PRIMARY KEY)")
	stop, over := make(chan struct{}), make(chan struct{})
	go func() {
		load.Run(1, stop)
		close(over)
	}()
	vote := func(about string, is func(votes string) bool) {
		t.Helper()
		for _, in := range []*Cluster{c, ranked} {
			got := ""
			in.soon(func() bool { got = in.votes(1); return is(got) }, func() string { return about + ": " + got })
		}
	}
	c.Join(1)
	c.WaitReady(4)
	c.voters(1, "vvv-")
	c.member(0, "rank", "node4", "5")
	vote("the fourth one ranks higher", func(v string) bool { return v[3] == 'v' && strings.Count(v, "v") == 3 })
	if list := c.member(0, "list"); !strings.Contains(list, "voter    5") && !strings.Contains(list, "voter  5") {
		t.Errorf("the list is\n%s", list)
	}
	c.member(0, "rank", "--", "node4", "-1")
	vote("it ranks lower", func(v string) bool { return v == "vvv-" })
	c.member(1, "rank", "node4", "much")
	c.member(0, "rank", "node4", "0")
	c.member(0, "site", "node4", "far away")

	leader := c.Leader()
	name := fmt.Sprintf("node%d", leader)
	if said := c.member(0, "demote", name, "--dry-run"); !strings.Contains(said, "node4") {
		t.Errorf("without the leader are said to vote:\n%s", said)
	}
	c.member(0, "demote", name)
	vote("the leader is demoted", func(v string) bool { return v[leader-1] == '-' && strings.Count(v, "v") == 3 })
	if now := c.Leader(); now == leader {
		t.Errorf("node %d leads, and never votes", now)
	}
	c.Connect(leader).Do("INSERT INTO ranks(v) VALUES ('of one that never votes')")
	c.member(0, "promote", name)
	time.Sleep(3 * time.Second)

	five := c.spare()
	replace := []string{"replace", "node2", "--name", five.Name, "--member-address", five.Address, "--clients",
		five.Clients}
	if said := c.member(2, append(replace, "--timeout", "4s")...); !strings.Contains(said, "start its node") {
		t.Errorf("it waits for a node that is not started, and says\n%s", said)
	}
	c.Run(5)
	list := c.member(0, append(replace, "--timeout", "3m")...)
	t.Logf("node 2 is replaced:\n%s", list)
	c.leaves(2, "was removed from the cluster")
	vote("node 2 is replaced", func(v string) bool { return strings.Count(v, "v") == 3 && len(v) == 4 })
	c.member(0, append(replace, "--timeout", "1m")...) // it is done already
	c.member(1, "replace", "node3", "--name", "node5", "--member-address", "127.0.0.1:1")
	c.member(1, "replace", "node2", "--name", "node9", "--member-address", "127.0.0.1:1")

	c.KillBoth(3)
	six := c.spare()
	replace = []string{"replace", "node3", "--name", six.Name, "--member-address", six.Address}
	c.member(2, append(replace, "--timeout", "20s")...)
	c.Run(6)
	c.member(0, append(replace, "--timeout", "3m")...)
	c.members(1, 3, "node1", "node4", "node5", "node6")
	close(stop)
	<-over
	c.Connect(6).Do("INSERT INTO ranks(v) VALUES ('of the last one')")
	c.Eventually(4, "SELECT count(*) FROM ranks", "2")
	if n := load.Counts()["ok"]; n < 100 {
		t.Errorf("only %d transactions were committed", n)
	}
	for _, k := range []int{1, 4, 5, 6} {
		c.Eventually(k, "SELECT count(*) FROM ranks", "2")
		load.verifyNode(k)
	}
	c.Check()
}
