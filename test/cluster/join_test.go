package cluster

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tuttidb/tutti/internal/config"
)

// command runs tutti, which must succeed, and gives what it prints.
func (c *Cluster) command(args ...string) string {
	c.tb.Helper()
	return c.commandExits(0, args...)
}

// commandExits is command for one that ends with this exit code.
func (c *Cluster) commandExits(exits int, args ...string) string {
	c.tb.Helper()
	exe, err := Binary()
	if err != nil {
		c.tb.Fatal(err)
	}
	cmd := exec.CommandContext(c.tb.Context(), exe, args...)
	out, err := cmd.CombinedOutput()
	if code := cmd.ProcessState.ExitCode(); code != exits {
		c.tb.Fatalf("tutti %s: %v, want exit code %d\n%s", strings.Join(args, " "), err, exits, out)
	}
	return string(out)
}

// take has a node that a command has made be the next one of the cluster, and starts it.
func (c *Cluster) take(dir string) int {
	c.tb.Helper()
	k := c.adds(dir)
	c.WaitReady(k)
	return k
}

// adds is take that does not wait until the node takes statements.
func (c *Cluster) adds(dir string) int {
	c.tb.Helper()
	file := filepath.Join(dir, "node.toml")
	cfg, err := config.Load(file)
	if err != nil {
		c.tb.Fatal(err)
	}
	c.nodes = append(c.nodes, &Node{Config: *cfg, ConfigFile: file, LogFile: dir + ".log"})
	c.Run(len(c.nodes))
	return len(c.nodes)
}

// TestInitAndJoin: a cluster of one begins, two join it, one is removed, all by commands; what is written at one is at
// all.
func TestInitAndJoin(t *testing.T) {
	t.Parallel()
	c := New(t, 0)
	build, err := findBuild()
	if err != nil {
		t.Fatal(err)
	}
	ports, err := freePorts(6)
	if err != nil {
		t.Fatal(err)
	}
	options := func(k int, more ...string) []string {
		return append(more, "--dir", filepath.Join(c.Dir, fmt.Sprintf("node%d", k)), "--name", fmt.Sprintf("node%d", k),
			"--listen", fmt.Sprintf("127.0.0.1:%d", ports[2*k-2]), "--member-listen",
			fmt.Sprintf("127.0.0.1:%d", ports[2*k-1]), "--pg-bin-dir", build.BinDir, "--allow-trust")
	}
	first := filepath.Join(c.Dir, "node1")
	c.command(options(1, "init", "--cluster", "joined")...)
	c.take(first)
	c.Connect(1).Do("CREATE TABLE joined(k serial PRIMARY KEY, v text)", "INSERT INTO joined(v) VALUES ('one')")
	for k := 2; k <= 3; k++ {
		args := options(k, "join", "--keys", filepath.Join(first, "cluster"), "--from", c.Node(k-1).Config.Listen)
		c.command(args...)
		c.take(filepath.Join(c.Dir, fmt.Sprintf("node%d", k)))
		c.Connect(k).Do(fmt.Sprintf("INSERT INTO joined(v) VALUES ('%d')", k))
	}
	c.Everywhere("SELECT string_agg(v, ' ' ORDER BY k) FROM joined", "one 2 3")
	c.members(1, 3, "node1", "node2", "node3")
	list := c.command("member", "list", "--config", c.Node(3).ConfigFile)
	for k := 1; k <= 3; k++ {
		if m := c.Node(k).Config.Self(); !strings.Contains(list, m.Name) || !strings.Contains(list, m.Address) {
			t.Errorf("the list lacks %+v:\n%s", m, list)
		}
	}
	c.KillBoth(2) // any of three
	c.Connect(1).Do("INSERT INTO joined(v) VALUES ('of two')")
	at := []string{"--address", c.Node(3).Config.Listen}
	member := func(args ...string) []string { return append(append([]string{"member"}, args...), at...) }
	if said := c.command(member("remove", "node2", "--dry-run")...); !strings.Contains(said, "node1, node3") {
		t.Errorf("without the second are said to vote:\n%s", said)
	}
	c.commandExits(1, member("remove", "node1", "--dry-run")...)
	c.members(3, 3, "node1", "node2", "node3")
	c.commandExits(1, member("remove", "nobody")...)
	c.commandExits(3, append(member("remove", "node2"), "--username", "nobody")...)
	c.command(member("remove", "node2")...)
	c.members(3, 2, "node1", "node3")
	c.Connect(3).Do("INSERT INTO joined(v) VALUES ('without the second')")
	c.Eventually(1, "SELECT count(*) FROM joined", "5")

	// The first one loses its disk: its file knows of nobody else, and it begins no second cluster.
	c.KillBoth(1, 3)
	if err := os.RemoveAll(c.Node(1).Config.DataDir); err != nil {
		t.Fatal(err)
	}
	c.ends(1, "nobody but node1, which has no log")
}

// TestAllFollow: the only one of a cluster, which leads and votes, is removed before the one that has joined votes.
func TestAllFollow(t *testing.T) {
	t.Parallel()
	c := Start(t, 1)
	c.Connect(1).Do("CREATE TABLE followed(k int PRIMARY KEY)", "INSERT INTO followed VALUES (1)")
	c.Join(1)
	c.WaitReady(2)
	c.Connect(2).Do("CALL tutti.remove_member('node1')")
	c.leaves(1, "was removed from the cluster")
	c.members(2, 1, "node2")
	c.Connect(2).Do("INSERT INTO followed VALUES (2)")
	c.KillBoth(2)
	c.Run(2)
	c.WaitReady(2)
	c.Connect(2).Do("INSERT INTO followed VALUES (3)")
	c.Eventually(2, "SELECT count(*) FROM followed", "3")
}
