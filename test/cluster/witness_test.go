package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// addNode makes a node's directory by a command, has it be the next one of the cluster, and starts it.
func (c *Cluster) addNode(dir string, command ...string) int {
	c.tb.Helper()
	c.command(append(command, "--dir", dir, "--name", filepath.Base(dir))...)
	file := filepath.Join(dir, "node.toml")
	text, err := os.ReadFile(file)
	if err == nil {
		err = os.WriteFile(file, append([]byte("expel_after = \"2s\"\n"), text...), 0o600)
	}
	if err != nil {
		c.tb.Fatal(err)
	}
	return c.adds(dir)
}

// withWitness is two nodes and a witness, node 3, which vote in two databases.
func withWitness(t *testing.T) *Cluster {
	t.Helper()
	c := New(t, 0)
	build, err := findBuild()
	if err != nil {
		t.Fatal(err)
	}
	ports, err := freePorts(5)
	if err != nil {
		t.Fatal(err)
	}
	at := func(i int) string { return fmt.Sprintf("127.0.0.1:%d", ports[i]) }
	first := filepath.Join(c.Dir, "node1")
	keys := []string{"--keys", filepath.Join(first, "cluster"), "--from", at(0)}
	server := []string{"--pg-bin-dir", build.BinDir, "--allow-trust"}
	c.addNode(first, append([]string{"init", "--cluster", "witnessed", "--listen", at(0), "--member-listen",
		at(1)}, server...)...)
	c.WaitReady(1)
	c.Connect(1).Do("CREATE DATABASE beside")
	c.addNode(filepath.Join(c.Dir, "node2"), slices.Concat([]string{"join", "--listen", at(2),
		"--member-listen", at(3)}, server, keys)...)
	c.WaitReady(2)
	c.addNode(filepath.Join(c.Dir, "witness"), append([]string{"witness", "--member-listen", at(4)}, keys...)...)
	c.vote(1, allVote)
	return c
}

const allVote = "beside: node1 node2 witness, postgres: node1 node2 witness"

// vote waits until node k shows who votes in each database.
func (c *Cluster) vote(k int, want string) {
	c.tb.Helper()
	var got string
	c.soon(func() bool {
		s := c.Connect(k)
		defer s.Close(s.ctx())
		results, err := s.PgConn().Exec(s.ctx(), "SHOW tutti.votes").ReadAll()
		if err != nil || len(results) == 0 {
			got = fmt.Sprint(err)
			return false
		}
		voters := map[string]string{}
		for _, row := range results[0].Rows {
			if string(row[3]) == "yes" {
				voters[string(row[0])] += " " + string(row[2])
			}
		}
		var list []string
		for database, names := range voters {
			list = append(list, database+":"+names)
		}
		slices.Sort(list)
		got = strings.Join(list, ", ")
		return got == want
	}, func() string { return fmt.Sprintf("node %d shows that %s vote, not %s", k, got, want) })
}

// gapMost is for how long there may be no commit when one of two nodes with a witness, or the witness, is lost.
const gapMost = 2 * time.Second

// loses kills a member while node k commits all the time, and reports for how long it did not.
func (c *Cluster) loses(lost, k int, table string) time.Duration {
	c.tb.Helper()
	s := c.Connect(k)
	defer s.Close(s.ctx())
	insert := "INSERT INTO " + table + "(v) VALUES ('without " + fmt.Sprint(lost) + "')"
	for range 20 {
		s.Do(insert)
	}
	var longest time.Duration
	killed := make(chan struct{})
	go func() {
		defer close(killed)
		time.Sleep(50 * time.Millisecond)
		c.KillBoth(lost)
	}()
	for began := time.Now(); time.Since(began) < 3*time.Second; {
		at := time.Now()
		s.Do(insert)
		longest = max(longest, time.Since(at))
	}
	<-killed
	return longest
}

// TestWitness: of two nodes with a witness each may be lost, and the witness as well, in every database, also one that
// is made when a node is away. Who comes back has all. What the witness has decided with one node it gives the other.
func TestWitness(t *testing.T) {
	t.Parallel() // mostly it waits
	c := withWitness(t)
	table := "CREATE TABLE witnessed(k serial PRIMARY KEY, v text)"
	beside := c.In("beside")
	c.Connect(1).Do(table)
	beside.Connect(2).Do(table)
	for _, x := range []struct {
		lost, left int
		c          *Cluster
	}{{1, 2, c}, {3, 1, beside}, {2, 1, c}} {
		gap := x.c.loses(x.lost, x.left, "witnessed")
		t.Logf("node %d is lost: %v without a commit", x.lost, gap.Round(time.Millisecond))
		if gap > gapMost {
			t.Errorf("node %d is lost, and there was no commit for %v", x.lost, gap)
		}
		if x.lost == 2 {
			break
		}
		c.Run(x.lost)
		if x.lost < 3 {
			c.WaitReady(x.lost)
		}
		c.Eventually(x.left, "SELECT 1", "1")
		c.connected(x.left)
	}

	// The second node is away, and a database is made. Then the first one is lost, and the second one comes back: the
	// witness gives it what the first one and it have decided.
	c.Connect(1).Do("CREATE DATABASE later")
	later := c.In("later")
	later.does(1, table, "INSERT INTO witnessed(v) VALUES ('with the witness')")
	count := c.Connect(1).Get("SELECT count(*) FROM witnessed")
	c.KillBoth(1)
	c.Run(2)
	c.WaitReady(2)
	later.Eventually(2, "SELECT v FROM witnessed", "with the witness")
	c.Eventually(2, "SELECT count(*) FROM witnessed", count)
	later.does(2, "INSERT INTO witnessed(v) VALUES ('without the first')")
	c.Run(1)
	c.WaitReady(1)
	later.Eventually(1, "SELECT count(*) FROM witnessed", "2")

	// The witness loses its disk, and votes again. A database that is dropped is no more there, either.
	c.KillBoth(3)
	if err := os.RemoveAll(c.Node(3).Config.DataDir); err != nil {
		t.Fatal(err)
	}
	c.Run(3)
	c.connected(1)
	c.Connect(2).Do("DROP DATABASE later")
	c.soon(func() bool {
		logs, err := filepath.Glob(filepath.Join(c.Node(3).Config.DataDir, "log-*"))
		return err == nil && len(logs) == 1
	}, func() string { return "the witness keeps the log of a database that was dropped" })
	c.vote(1, allVote)

	// A node loses its disk.
	c.KillBoth(2)
	c.Connect(1).Do("INSERT INTO witnessed(v) VALUES ('the witness again')")
	if err := os.RemoveAll(c.Node(2).Config.DataDir); err != nil {
		t.Fatal(err)
	}
	c.Run(2)
	c.WaitReady(2)
	c.vote(1, allVote)
	c.Check()

	c.Connect(2).Do("CALL tutti.remove_member('witness')")
	c.leaves(3, "was removed from the cluster")
	c.vote(1, "beside: node1 node2, postgres: node1 node2")
}

// does executes statements in a session of their own.
func (c *Cluster) does(k int, statements ...string) {
	c.tb.Helper()
	s := c.Connect(k)
	defer s.Close(s.ctx())
	s.Do(statements...)
}

// connected waits until node k shows that the witness is there.
func (c *Cluster) connected(k int) {
	c.tb.Helper()
	var got string
	c.soon(func() bool {
		s := c.Connect(k)
		defer s.Close(s.ctx())
		got = s.Get("SHOW tutti.status")
		return strings.Contains(got, "witness") && strings.Contains(got, "connected")
	}, func() string { return fmt.Sprintf("node %d does not hear the witness: %s", k, got) })
}
