package cluster

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tuttidb/tutti/internal/config"
)

// members waits until node k shows these members, and that so many vote.
func (c *Cluster) members(k, voters int, want ...string) {
	c.tb.Helper()
	var got string
	var n int
	s := c.Connect(k)
	defer s.Close(s.ctx())
	c.soon(func() bool {
		results, err := s.PgConn().Exec(s.ctx(), "SHOW tutti.status").ReadAll()
		if err != nil || len(results) == 0 {
			got = fmt.Sprint(err)
			return false
		}
		var names []string
		n = 0
		for _, row := range results[0].Rows {
			names = append(names, string(row[0]))
			if r := string(row[2]); r != "learner" {
				n++
			}
		}
		got = strings.Join(names, " ")
		return got == strings.Join(want, " ") && n == voters
	}, func() string {
		return fmt.Sprintf("node %d shows %s of whom %d vote, and it is to be %v, %d", k, got, n, want, voters)
	})
}

// leaves waits until node k's process has ended by itself, and looks what its log says.
func (c *Cluster) leaves(k int, says string) {
	c.tb.Helper()
	c.soon(func() bool { return !c.Running(k) }, func() string { return fmt.Sprintf("node %d has not ended", k) })
	log, err := os.ReadFile(c.Node(k).LogFile)
	if err != nil || !strings.Contains(string(log), says) {
		c.tb.Errorf("node %d: its log does not say %q: %v", k, says, err)
	}
}

// TestMembersComeAndGo: beside clients that write, members join a cluster of three that has two databases, and are
// removed from it, whoever leads, until two of those that came later are left; they are killed, and go on. Nothing
// that was acknowledged is missing at who has come last.
func TestMembersComeAndGo(t *testing.T) {
	t.Parallel()
	c := Start(t, 3, func(_ int, c *config.Config) { c.ExpelAfter = "2s" })
	s := c.Connect(1)
	s.Do("CREATE DATABASE second", "CREATE TABLE kept(k serial PRIMARY KEY, v text)")
	c.In("second").Connect(1).Do("CREATE TABLE kept(k int PRIMARY KEY)", "INSERT INTO kept VALUES (1)")
	load := c.NewLoad("come")
	stop, over := make(chan struct{}), make(chan struct{})
	go func() {
		load.Run(2, stop)
		close(over)
	}()

	if n := c.Join(2); n != 4 {
		t.Fatalf("the first one to join has number %d", n)
	}
	c.WaitReady(4)
	c.Connect(4).Do("INSERT INTO kept(v) VALUES ('of the fourth')")
	c.members(1, 3, "node1", "node2", "node3", "node4")
	c.Join(4)
	c.WaitReady(5)
	c.members(1, 5, "node1", "node2", "node3", "node4", "node5")
	time.Sleep(time.Second)
	close(stop)
	<-over
	load.Verify()

	leader := c.Leader()
	c.Connect(5).Do(fmt.Sprintf("CALL tutti.remove_member('node%d')", leader))
	c.leaves(leader, "was removed from the cluster")
	c.Connect(5).Do("INSERT INTO kept(v) VALUES ('without a leader')", "CREATE DATABASE third")
	c.In("third").Connect(4).Do("CREATE TABLE kept(k int PRIMARY KEY)", "INSERT INTO kept VALUES (3)")
	for k := 1; k <= 3; k++ {
		if k != leader {
			c.Connect(4).Do(fmt.Sprintf("CALL tutti.remove_member('node%d')", k))
			c.leaves(k, "was removed from the cluster")
		}
	}
	for _, k := range []int{4, 5} {
		c.members(k, 2, "node4", "node5")
	}
	c.Connect(4).Do("INSERT INTO kept(v) VALUES ('of two')")
	c.KillBoth(4, 5)
	c.Run(4)
	c.Run(5)
	c.WaitReady(4, 5)
	c.Connect(5).Do("INSERT INTO kept(v) VALUES ('after that')")
	n := c.Join(5)
	c.WaitReady(n)
	c.members(n, 3, "node4", "node5", fmt.Sprintf("node%d", n))
	c.Eventually(n, "SELECT count(*) FROM kept", "4")
	for database, want := range map[string]string{"second": "1", "third": "3"} {
		c.In(database).Eventually(n, "SELECT sum(k) FROM kept", want)
	}
	c.Connect(n).Do("INSERT INTO kept(v) VALUES ('of the last')")
	c.Eventually(4, "SELECT count(*) FROM kept", "5")
}

// TestMemberMoves: a machine is replaced by another one with other addresses and an empty disk, under its number; the
// list is refused what would make two of one, and who is no superuser may not change it.
func TestMemberMoves(t *testing.T) {
	t.Parallel()
	c := Start(t, 3)
	s := c.Connect(1)
	s.Do("CREATE TABLE moved(k serial PRIMARY KEY, v text)", "INSERT INTO moved(v) VALUES ('before')",
		"CREATE ROLE clerk LOGIN")
	for sql, code := range map[string]string{ // order-free: each for itself
		"CALL tutti.add_member('node3', 'h:1')":               "42710",
		"CALL tutti.add_member('node4', 'h')":                 "22023",
		"CALL tutti.remove_member('node9')":                   "42704",
		"BEGIN; CALL tutti.remove_member('node3'); COMMIT":    "25001",
		"DO $$BEGIN CALL tutti.remove_member('node3'); END$$": "42883",
	} {
		x := c.Connect(2)
		if err := x.Try(sql); Code(err) != code {
			t.Errorf("%s: %v, and it is to be %s", sql, err, code)
		}
	}
	x := c.Connect(2)
	x.Do("SET ROLE clerk")
	if err := x.Try("CALL tutti.remove_member('node3')"); Code(err) != "42501" {
		t.Errorf("who is no superuser removes a member: %v", err)
	}
	c.KillBoth(3)
	n := c.Node(3)
	if err := os.RemoveAll(n.Config.DataDir); err != nil {
		t.Fatal(err)
	}
	ports, err := freePorts(2)
	if err != nil {
		t.Fatal(err)
	}
	m := member(3, ports)
	s.Do(fmt.Sprintf("CALL tutti.move_member('node3', '%s', '%s')", m.Address, m.Clients),
		"INSERT INTO moved(v) VALUES ('without it')")
	n.Config.Members = append(slices.Clone(n.Config.Members[:2]), m)
	n.Config.MemberListen, n.Config.Listen, n.Config.Postgres.CloneFrom = m.Address, m.Clients, ""
	if err := n.WriteConfig(); err != nil {
		t.Fatal(err)
	}
	c.Run(3)
	c.WaitReady(3)
	c.Connect(3).Do("INSERT INTO moved(v) VALUES ('of the new machine')")
	c.Everywhere("SELECT string_agg(v, ', ' ORDER BY k) FROM moved", "before, without it, of the new machine")
	results, err := s.PgConn().Exec(s.ctx(), "SHOW tutti.members").ReadAll()
	if err != nil || len(results) != 1 || len(results[0].Rows) != 3 || string(results[0].Rows[2][2]) != m.Address {
		t.Errorf("the members are %v, %v", results, err)
	}
	c.Check()
}

// TestStaleList: a member that loses its disk and has a file in which members are missing hears of them, and asks all
// of whom it needs an answer.
func TestStaleList(t *testing.T) {
	t.Parallel()
	c := Start(t, 3)
	c.Connect(1).Do("CREATE TABLE stale(k serial PRIMARY KEY, v text)", "INSERT INTO stale(v) VALUES ('before')")
	for range 2 {
		c.WaitReady(c.Join(1))
	}
	c.members(1, 5, "node1", "node2", "node3", "node4", "node5")
	c.Connect(1).Do("UPDATE stale SET v = v") // is behind the end of the change, for which old voters are needed
	c.Settled()
	c.KillBoth(1, 3)
	c.Connect(2).Do("INSERT INTO stale(v) VALUES ('meanwhile')")
	if err := os.RemoveAll(c.Node(3).Config.DataDir); err != nil {
		t.Fatal(err)
	}
	c.Node(3).Config.Postgres.CloneFrom = ""
	if err := c.Node(3).WriteConfig(); err != nil {
		t.Fatal(err)
	}
	c.Run(3) // one of the two that its file names is dead: of five, three must answer
	c.WaitReady(3)
	c.Connect(3).Do("INSERT INTO stale(v) VALUES ('after that')")
	c.Eventually(5, "SELECT string_agg(v, ', ' ORDER BY k) FROM stale", "before, meanwhile, after that")
}
