package cluster

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/tuttidb/tutti/internal/bootstrap"
	"github.com/tuttidb/tutti/internal/config"
)

// upgrade runs "tutti upgrade" with a superuser's rights, asking nodes in turn.
func (c *Cluster) upgrade(does string, nodes ...int) (out string, code int) {
	c.tb.Helper()
	exe, err := Binary()
	if err != nil {
		c.tb.Fatal(err)
	}
	args := []string{"upgrade", does}
	for _, k := range nodes {
		args = append(args, "--address", c.Node(k).Config.Listen)
	}
	text, err := exec.Command(exe, args...).CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		c.tb.Fatal(err)
	}
	if exit != nil {
		code = exit.ExitCode()
	}
	return string(text), code
}

// TestUpgrade: of three nodes two run this release and one the release before, with two databases, while clients write.
// Members are added, removed and replaced; what is new is refused until the third one is upgraded and the upgrade is
// finished, by one command. Then the release before is refused. Nothing that was acknowledged is missing.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	old, err := Previous()
	if errors.Is(err, errNoHistory) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	c := New(t, 3, func(_ int, c *config.Config) { c.ExpelAfter = "2s" })
	if err := c.fresh(); err != nil {
		t.Fatal(err)
	}
	for _, k := range c.All() {
		c.Node(k).Binary = old
	}
	c.StartNodes()
	c.Connect(1).Do("CREATE DATABASE second", "CREATE TABLE kept(k serial PRIMARY KEY, v text)")
	c.In("second").Connect(1).Do("CREATE TABLE kept(k int PRIMARY KEY)", "INSERT INTO kept VALUES (1)")
	load := c.NewLoad("up")
	load.rest = 20 * time.Millisecond
	stop, over := make(chan struct{}), make(chan struct{})
	go func() {
		load.Run(1, stop)
		close(over)
	}()
	for _, k := range []int{1, 2} {
		c.replaces(k, "")
	}

	n := c.Join(2) // by a node of this release, beside one of the release before
	c.WaitReady(n)
	c.members(3, 3, "node1", "node2", "node3", "node4")
	c.Connect(n).Do("INSERT INTO kept(v) VALUES ('of the fourth')", "CREATE DATABASE third")
	c.In("third").Connect(3).Do("CREATE TABLE kept(k int PRIMARY KEY)", "INSERT INTO kept VALUES (3)")
	c.notYet(n)
	c.Connect(3).Do(fmt.Sprintf("CALL tutti.remove_member('node%d')", n)) // by the one of the release before
	c.leaves(n, "was removed from the cluster")
	c.moves(2, 3)
	c.notYet(2)

	c.replaces(3, "")
	if out, code := c.upgrade("status", 1); code != 1 || !strings.Contains(out, "an upgrade is not finished") {
		t.Errorf("all run this release: %d, %s", code, out)
	}
	if out, code := c.upgrade("finish", 1, 2); code != 0 {
		t.Fatalf("the upgrade cannot be finished: %d, %s", code, out)
	}
	if out, code := c.upgrade("status", 2); code != 0 || !strings.Contains(out, fmt.Sprint(bootstrap.Level)) {
		t.Errorf("it is finished: %d, %s", code, out)
	}
	c.Connect(2).Do("CALL tutti.set_min_copies(3)")
	c.soon(func() bool { return strings.Contains(c.Connect(1).Get("SHOW tutti.votes"), "2s|3") },
		func() string { return "node 1 goes by " + c.Connect(1).Get("SHOW tutti.votes") })

	c.Stop(3)
	c.Node(3).Binary = old
	c.Run(3)
	c.says(3, "runs a release that understands level 4")
	c.Kill(3)
	c.Node(3).Binary = ""
	c.Run(3)
	c.WaitReady(3)
	close(stop)
	<-over
	load.c = &Cluster{Dir: c.Dir, nodes: c.nodes[:3], tb: c.tb, opts: c.opts}
	load.Verify()
	for database, want := range map[string]string{"second": "1", "third": "3"} { // order-free: each for itself
		load.c.In(database).Everywhere("SELECT sum(k) FROM kept", want)
	}
}

// replaces has node k run another binary.
func (c *Cluster) replaces(k int, binary string) {
	c.tb.Helper()
	c.Stop(k)
	c.Node(k).Binary = binary
	c.Run(k)
	c.WaitReady(k)
}

// notYet: what is new is refused at node k, and node 3 is named, whose release does not understand it.
func (c *Cluster) notYet(k int) {
	c.tb.Helper()
	s := c.Connect(k)
	defer s.Close(s.ctx())
	for sql, want := range map[string]string{ // order-free: each for itself
		"CALL tutti.finish_upgrade()":                    "no release that understands it has been seen at node3",
		"CALL tutti.set_min_copies(1)":                   "not before the upgrade of the cluster is finished",
		"CALL tutti.rank_member('node2', 1)":             "not before the upgrade of the cluster is finished",
		"CALL tutti.add_witness('watch', '127.0.0.1:1')": "not before the upgrade of the cluster is finished",
	} {
		if err := s.Try(sql); Code(err) != "55000" || !strings.Contains(Explain(err), want) {
			c.tb.Errorf("%s: %v", sql, Explain(err))
		}
	}
	if out, code := c.upgrade("finish", 3, k); code != 1 || !strings.Contains(out, "node3") {
		c.tb.Errorf("the upgrade is finished: %d, %s", code, out)
	}
}

// moves has another machine take the place of node k, by node by: other addresses, and an empty disk.
func (c *Cluster) moves(k, by int) {
	c.tb.Helper()
	c.KillBoth(k)
	n := c.Node(k)
	if err := os.RemoveAll(n.Config.DataDir); err != nil {
		c.tb.Fatal(err)
	}
	ports, err := freePorts(2)
	if err != nil {
		c.tb.Fatal(err)
	}
	m := member(k, ports)
	s := c.Connect(by)
	defer s.Close(s.ctx())
	s.Do(fmt.Sprintf("CALL tutti.move_member('%s', '%s', '%s')", m.Name, m.Address, m.Clients))
	n.Config.Members = append(append([]config.Member{}, n.Config.Members[:k-1]...), append([]config.Member{m},
		n.Config.Members[k:]...)...)
	n.Config.MemberListen, n.Config.Listen, n.Config.Postgres.CloneFrom = m.Address, m.Clients, ""
	if err := n.WriteConfig(); err != nil {
		c.tb.Fatal(err)
	}
	c.Run(k)
	c.WaitReady(k)
}

// TestClusterSettings: a cluster that this release begins has its level, and the settings with which it began; they are
// changed while it runs, at all members alike, and count at once. A node whose file says otherwise does not start.
func TestClusterSettings(t *testing.T) {
	t.Parallel()
	c := Start(t, 3, func(_ int, c *config.Config) { c.MinCopies = 3 })
	votes := func(k int) string {
		s := c.Connect(k)
		defer s.Close(s.ctx())
		return s.Get("SHOW tutti.votes")
	}
	if out, code := c.upgrade("status", 2); code != 0 {
		t.Errorf("a cluster that has just begun: %d, %s", code, out)
	}
	s := c.Connect(1)
	for sql, code := range map[string]string{ // order-free: each for itself
		"CALL tutti.set_min_copies(6)":                "22023",
		"CALL tutti.set_expel_after('1s')":            "22023",
		"BEGIN; CALL tutti.set_min_copies(2); COMMIT": "25001",
		"CALL tutti.set_min_copies(1.5)":              "42883",
	} {
		x := c.Connect(2)
		if err := x.Try(sql); Code(err) != code {
			t.Errorf("%s: %v, and it is to be %s", sql, err, code)
		}
	}
	s.Do("CREATE ROLE clerk", "SET ROLE clerk")
	if err := s.Try("CALL tutti.set_min_copies(1)"); Code(err) != "42501" {
		t.Errorf("who is no superuser changes what holds for the cluster: %v", err)
	}
	s.Do("RESET ROLE", "CALL tutti.set_min_copies(1)", "CALL tutti.set_expel_after('2s')",
		"CREATE TABLE last(k serial PRIMARY KEY, v text)")
	for _, k := range c.All() {
		c.soon(func() bool { return strings.Contains(votes(k), "|2s|1") }, func() string { return votes(k) })
		c.says(k, "min_copies is 3 in the configuration, and 1 for the whole cluster")
	}
	c.Stop(3)
	c.refused(3, "take it out of the file, or CALL tutti.set_min_copies", 0, readyTimeout)
	c.Node(3).Config.MinCopies = 0
	if err := c.Node(3).WriteConfig(); err != nil {
		t.Fatal(err)
	}
	c.Run(3)
	c.WaitReady(3)
	c.soon(func() bool { return strings.Contains(votes(3), "|2s|1") }, func() string { return votes(3) })
	c.KillBoth(3)
	c.voters(1, "v--")
	c.KillBoth(2)
	c.goesOn(1, "alone, as it was not to be at the beginning")
}
