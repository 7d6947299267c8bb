package cluster

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tuttidb/tutti/internal/config"
	"github.com/tuttidb/tutti/internal/process"
)

// TestCopiedAnew: a member that was away for too long copies all databases of another one while clients write: those
// that it had, one that is new, and not one that is gone. Killed in the middle of that it begins again. Until then it
// has its old database. The others show that it copies, and keep the log behind the copy, although more is written
// meanwhile than they keep otherwise.
func TestCopiedAnew(t *testing.T) {
	t.Parallel()
	const segment, retention = 1 << 20, 4 << 20
	c := New(t, 3, func(k int, c *config.Config) {
		c.Limits.LogSegmentBytes, c.Limits.LogRetention = segment, retention
		if k == 2 {
			c.Postgres.CloneFrom = "node1" // over the members' port
		}
	})
	c.Run(1)
	c.Run(2)
	c.Run(3)
	c.WaitReady()
	l := c.NewLoad("beside")
	s := c.Connect(1)
	s.Do("CREATE DATABASE shop", "CREATE DATABASE gone")
	c.In("shop").Connect(2).Do("CREATE TABLE same(id serial PRIMARY KEY, v int)", "INSERT INTO same(v) VALUES (1), (2)")
	c.In("shop").Everywhere("SELECT count(*) FROM same", "2")
	c.In("shop").Connect(3).Do("INSERT INTO same(v) VALUES (3)")
	c.Stop(3)
	s.Do("DROP DATABASE gone", "CREATE DATABASE late", "CREATE ROLE late_role")
	c.In("late").Connect(2).Do("CREATE TABLE l(i int PRIMARY KEY)", "INSERT INTO l VALUES (1)")
	c.In("shop").Connect(1).Do("UPDATE same SET v = v + 1")
	s.Do("CREATE TABLE ballast AS SELECT i, repeat(md5(i::text), 30) AS v FROM generate_series(1, 30000) i")
	c.compacted(retention, segment, 1, 2)

	c.Run(3)
	copying := filepath.Join(c.Node(3).Config.DataDir, "postgres.clone")
	c.soon(func() bool {
		_, err := os.Stat(copying)
		return err == nil || strings.Contains(process.Tail(c.Node(3).LogFile, 1<<20), "has a copy of another")
	},
		func() string { return "node 3 does not begin to copy" })
	c.Kill(3)
	_, err := os.Stat(copying)
	middle := err == nil // or it was quicker
	if _, err := os.Stat(filepath.Join(c.Node(3).Config.DataDir, "postgres", "PG_VERSION")); err != nil {
		t.Errorf("the old database went before the new one was complete: %v", err)
	}
	stop, done := make(chan struct{}), make(chan struct{})
	go func() { defer close(done); l.Run(2, stop) }()
	time.Sleep(300 * time.Millisecond)
	written := c.writes(1, stop)
	shown := c.shows("the database of node", stop, 1, 2)
	c.Run(3)
	c.WaitReady(3)
	close(stop)
	<-done
	size := <-written
	if !<-shown {
		t.Error("nobody shows that node 3 copies")
	}
	if n := c.times(3, "has a copy of another member's database"); n > 1 {
		t.Errorf("it has taken %d copies, while %d MB were written", n, size>>20)
	}
	t.Logf("%d MB were written while node 3 came back", size>>20)
	if middle {
		c.logged(3, "has a copy of another member's database")
	}
	c.WaitReady()
	for _, database := range []string{"shop", "late"} {
		c.In(database).WaitReady()
	}
	l.Verify()
	c.Everywhere("SELECT string_agg(datname, ' ' ORDER BY datname) FROM pg_database WHERE datname NOT LIKE 'template_'",
		"late postgres shop")
	c.In("shop").Connect(3).Do("INSERT INTO same(v) VALUES (10)")
	c.In("shop").Everywhere("SELECT count(*), sum(v) FROM same", "4|19")
	c.In("late").Connect(3).Do("INSERT INTO l VALUES (2)")
	c.In("late").Everywhere("SELECT count(*) FROM l", "2")
	c.Connect(3).Do("DROP ROLE late_role")
	c.Check()
}

// TestCopiedWithoutALeader: two of three members are left, none of which can lead without the other, and one of them
// must copy the databases of the other first.
func TestCopiedWithoutALeader(t *testing.T) {
	t.Parallel()
	const segment, retention = 1 << 20, 4 << 20
	c := Start(t, 3, func(_ int, c *config.Config) {
		c.Limits.LogSegmentBytes, c.Limits.LogRetention = segment, retention
	})
	s := c.Connect(1)
	s.Do("CREATE DATABASE shop")
	c.In("shop").Connect(3).Do("CREATE TABLE small(i int PRIMARY KEY)", "INSERT INTO small VALUES (1)")
	c.In("shop").Everywhere("SELECT count(*) FROM small", "1")
	c.Stop(3)
	s.Do("CREATE TABLE ballast AS SELECT i, repeat(md5(i::text), 30) AS v FROM generate_series(1, 15000) i")
	c.compacted(retention, segment, 1, 2)
	c.KillBoth(1, 2)

	c.Run(2)
	c.Run(3)
	c.WaitReady(2, 3)
	c.logged(3, "has a copy of another member's database")
	c.In("shop").Connect(3).Do("INSERT INTO small VALUES (2)")
	c.Run(1)
	c.WaitReady()
	c.In("shop").Everywhere("SELECT count(*) FROM small", "2")
	c.Check()
}

// writes has somebody write at node k, 100 kB at a time, until stop is closed, and tells then how much that was.
func (c *Cluster) writes(k int, stop <-chan struct{}) <-chan int {
	sum, s := make(chan int, 1), c.Connect(k)
	go func() {
		for n := 0; ; n += 100_000 {
			select {
			case <-stop:
				sum <- n
				return
			case <-time.After(20 * time.Millisecond):
				err := s.Try("INSERT INTO ballast SELECT -i, repeat(md5(i::text), 31) FROM generate_series(1, 100) i")
				if err != nil {
					c.tb.Errorf("writes at node %d: %s", k, Explain(err))
				}
			}
		}
	}()
	return sum
}

// shows looks at SHOW tutti.status of nodes until a row has a text, or stop is closed, and tells whether one has.
func (c *Cluster) shows(text string, stop <-chan struct{}, nodes ...int) <-chan bool {
	found := make(chan bool, 1)
	var at []*Conn
	for _, k := range nodes {
		at = append(at, c.Connect(k))
	}
	go func() {
		for {
			for _, s := range at {
				results, err := s.PgConn().Exec(s.ctx(), "SHOW tutti.status").ReadAll()
				for _, r := range results {
					for _, row := range r.Rows {
						if err == nil && strings.Contains(string(bytes.Join(row, []byte(" "))), text) {
							found <- true
							return
						}
					}
				}
			}
			select {
			case <-stop:
				found <- false
				return
			case <-time.After(20 * time.Millisecond):
			}
		}
	}()
	return found
}

// times is how often node k has said something since its process started.
func (c *Cluster) times(k int, what string) int {
	text := process.Tail(c.Node(k).LogFile, 1<<20)
	return strings.Count(text[max(0, strings.LastIndex(text, "PostgreSQL found")):], what)
}
