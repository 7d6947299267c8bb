package cluster

import (
	"fmt"
	"testing"
	"time"
)

// partitionsAttached: while a partition is attached for long, others go on; who reads its table waits, or, if he has
// read it before, is waited for: whoever has seen what came later has seen the partition's rows.
func partitionsAttached(t *testing.T, c *Cluster) {
	a := c.slowTable("piece", 60)
	a.Do("CREATE TABLE whole(k int, v int) PARTITION BY RANGE (k)",
		"CREATE TABLE whole1 PARTITION OF whole FOR VALUES FROM (1000) TO (2000)", "INSERT INTO whole VALUES (1000, 1)",
		"CREATE INDEX ON whole(slowly(v))", "CREATE TABLE apart(k int)")
	c.Everywhere("SELECT count(*) FROM apart", "0")
	const attach, attached = "ALTER TABLE whole ATTACH PARTITION piece FOR VALUES FROM (1) TO (1000)",
		"SELECT 1 / (count(*) = 61)::int FROM whole"
	beside := 0
	goOn := func(at ...int) {
		t.Helper()
		c.Connect(1).Do("INSERT INTO apart VALUES (1)")
		beside++
		for _, k := range at {
			c.Eventually(k, "SELECT count(*) FROM apart", fmt.Sprint(beside))
		}
	}
	end := func(ended chan error) {
		t.Helper()
		if err := <-ended; err != nil {
			t.Fatal(Explain(err))
		}
		c.Everywhere(pending, "0")
		c.Everywhere("SELECT count(*) FROM whole", "61")
		a.Do("ALTER TABLE whole DETACH PARTITION piece", "DROP INDEX piece_slowly_idx")
		c.Everywhere("SELECT count(*) FROM whole", "1")
	}

	for _, sql := range []string{attach, "BEGIN; " + attach + "; COMMIT"} {
		var ended chan error
		letGo := c.hold()
		nodes := c.All()
		if ended = background(a, sql); sql != attach { // here it is done first
			c.Eventually(1, fmt.Sprintf("SELECT wait_event FROM pg_stat_activity WHERE pid = %d", a.PgConn().PID()),
				"PgSleep")
			letGo()
			letGo = func() {}
		} else {
			for _, k := range nodes {
				c.Eventually(k, pending, "1")
			}
			goOn(nodes...)
			var answers []func() error
			for _, k := range nodes {
				s := c.Connect(k)
				answers = append(answers, s.later(attached))
				c.blocked(k, s)
			}
			letGo()
			for _, answer := range answers {
				if err := answer(); err != nil {
					t.Errorf("who has read while the partition was attached: %v", Explain(err))
				}
			}
		}
		letGo()
		end(ended)
	}

	reader, letGo := c.Connect(2), c.hold()
	reader.Do("BEGIN", "SELECT FROM whole")
	ended := background(a, attach)
	c.Eventually(1, pending, "1")
	goOn(1, 3)
	time.Sleep(time.Second)
	if got := reader.Get("SELECT (SELECT count(*) FROM whole), (SELECT count(*) FROM apart)"); got !=
		fmt.Sprintf("1|%d", beside-1) {
		t.Errorf("who has read before sees %s", got)
	}
	reader.Do("COMMIT")
	c.Eventually(2, pending, "1")
	letGo()
	end(ended)

	// A reader that outlasts it keeps nobody from reading.
	reader.Do("BEGIN", "SELECT FROM whole")
	letGo = c.hold()
	ended = background(a, attach)
	c.Eventually(2, "SELECT wait_event_type FROM pg_stat_activity WHERE application_name = 'tutti curtain'", "Lock")
	letGo()
	if err := <-ended; err != nil {
		t.Fatal(Explain(err))
	}
	c.Everywhere("SELECT count(*) FROM whole", "61")
	reader.Do("COMMIT")
	a.Do("ALTER TABLE whole DETACH PARTITION piece", "DROP INDEX piece_slowly_idx")

	// It has to be tried again: while others wait for a reader, and while they go on.
	const cancel = "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE application_name = 'tutti applier of " +
		"definitions'"
	reader.Do("BEGIN", "SELECT FROM whole")
	letGo = c.hold()
	ended = background(a, attach)
	c.Eventually(2, "SELECT wait_event_type FROM pg_stat_activity WHERE application_name = 'tutti curtain'", "Lock")
	c.Connect(2).Do(cancel)
	time.Sleep(time.Second)
	c.Eventually(2, "SELECT wait_event_type FROM pg_stat_activity WHERE application_name = 'tutti curtain'", "Lock")
	reader.Do("COMMIT")
	c.Eventually(2, pending, "1")
	letGo()
	end(ended)
	ended, letGo = c.held(a, attach)
	goOn(1, 2, 3)
	_ = c.Connect(2).Try(cancel) // its session may end as well
	time.Sleep(time.Second)
	letGo()
	c.WaitReady(2)
	c.Connect(2).Do(attached)
	end(ended)

	// A member that comes back attaches it before anybody reads.
	ended, letGo = c.held(a, attach)
	goOn(1, 2, 3)
	c.KillBoth(3)
	c.Run(3)
	time.Sleep(time.Second)
	if err := probe(t.Context(), c.URL(3), attached); err == nil || Code(err) == "22012" {
		t.Errorf("node 3 lets clients in: %v", err)
	}
	letGo()
	c.WaitReady(3)
	c.Connect(3).Do(attached)
	end(ended)

	// Without the curtain nobody may read any more.
	ended, letGo = c.held(a, attach)
	goOn(1, 2, 3)
	// its session may end as well
	_ = c.Connect(2).Try("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'tutti " +
		"curtain'")
	time.Sleep(time.Second)
	letGo()
	c.WaitReady(2)
	c.Connect(2).Do(attached)
	end(ended)

	ended, letGo = c.held(a, "ALTER TABLE whole ATTACH PARTITION piece FOR VALUES FROM (1) TO (50)")
	letGo()
	if err := <-ended; Code(err) != "23514" {
		t.Errorf("a partition with rows of others: %v, want 23514", err)
	}
	c.Everywhere(pending, "0")
	c.Everywhere("SELECT count(*) FROM whole", "1")
	c.Check()
}
