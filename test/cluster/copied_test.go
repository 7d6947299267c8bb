package cluster

import (
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
// has its old database.
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
	c.Run(3)
	c.WaitReady(3)
	close(stop)
	<-done
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
