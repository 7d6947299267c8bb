package cluster

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// waiting is later for a statement that must wait.
func (s *Conn) waiting(sql string) (answer func() error) {
	s.c.tb.Helper()
	answered := make(chan error, 1)
	go func() { answered <- s.Try(sql) }()
	select {
	case err := <-answered:
		s.c.tb.Errorf("%s did not wait: %v", sql, Explain(err))
		answered <- err
	case <-time.After(200 * time.Millisecond):
	}
	return func() error {
		select {
		case err := <-answered:
			return err
		case <-time.After(sqlTimeout):
			return fmt.Errorf("no answer within %s", sqlTimeout)
		}
	}
}

// done fails the test unless what waited went well.
func (s *Conn) done(what string, answer func() error) {
	s.c.tb.Helper()
	if err := answer(); err != nil {
		s.c.tb.Fatalf("%s: %v", what, Explain(err))
	}
}

// TestLockTable: who locks a table waits for those of other nodes who have locked it, and who writes to it waits at
// COMMIT; nobody loses.
func TestLockTable(t *testing.T) {
	c := use(t)
	a, b, w := c.Connect(1), c.Connect(2), c.Connect(3)
	a.Do("CREATE TABLE locked(k int, n int, PRIMARY KEY (k)) PARTITION BY RANGE (k)",
		"CREATE TABLE locked_low PARTITION OF locked FOR VALUES FROM (0) TO (1000)",
		"CREATE TABLE locked_high PARTITION OF locked FOR VALUES FROM (1000) TO (100000)",
		"CREATE TABLE locked_beside(k int PRIMARY KEY)", "INSERT INTO locked VALUES (1, 0)")
	c.Everywhere("SELECT count(*) FROM locked_beside", "0")
	k := 0
	beside := func() string { k++; return fmt.Sprintf("INSERT INTO locked_beside VALUES (%d)", k) }
	for i, mode := range []string{"SHARE UPDATE EXCLUSIVE", "SHARE", "SHARE ROW EXCLUSIVE", "EXCLUSIVE",
		"ACCESS EXCLUSIVE"} {
		lock := "LOCK TABLE locked IN " + mode + " MODE"
		// Nobody else: it commits, also after others of the node.
		a.Do("UPDATE locked SET n = n + 1", "BEGIN", lock, beside(), "COMMIT")
		// Two lock it, one writes to it, in the order in which they came. The second sees what the first has done.
		a.Do("BEGIN", lock, beside(), "INSERT INTO locked SELECT max(k) + 1 FROM locked")
		write, second := fmt.Sprintf("INSERT INTO locked VALUES (%d)", 1000+k), fmt.Sprint(k)
		b.Do("BEGIN")
		var wrote, answer func() error
		switch {
		case mode == "SHARE UPDATE EXCLUSIVE":
			w.Do(write)
			answer = b.waiting(lock)
		case i%2 == 0:
			wrote = w.waiting(write)
			answer = b.waiting(lock)
		default:
			answer = b.waiting(lock)
			wrote = w.waiting(write)
		}
		a.Do("COMMIT")
		b.done("the second in mode "+mode, answer)
		if n := b.Get("SELECT count(*) FROM locked_beside"); n != second {
			t.Errorf("mode %s: the second sees %s of %s rows", mode, n, second)
		}
		if n := b.Get("SELECT count(*) FROM locked WHERE k = " + fmt.Sprint(1000+k)); wrote != nil &&
			n != fmt.Sprint(1-i%2) {
			t.Errorf("mode %s: the second sees %s of the writer's rows", mode, n)
		}
		b.Do(beside(), "COMMIT")
		if wrote != nil {
			w.done("a writer in mode "+mode, wrote)
		}
		// Undone with a savepoint, or weaker: it may go on.
		a.Do("BEGIN", "SAVEPOINT s", lock, "ROLLBACK TO s", "LOCK TABLE locked IN ROW EXCLUSIVE MODE", beside(),
			"COMMIT")
		c.Settled()
	}
	// In READ COMMITTED, waiting for a writer of the same node, and after one of another, it sees what they did.
	d := c.Connect(1)
	a.Do("BEGIN", "UPDATE locked SET n = n + 1 WHERE k = 1")
	locked := d.later("BEGIN; LOCK TABLE locked; INSERT INTO locked SELECT max(k) + 1 FROM locked")
	c.blocked(1, d)
	a.Do("COMMIT")
	d.done("after a writer", locked)
	d.Do("COMMIT")
	c.Check()
}

// TestLockTableRefused: NOWAIT and timeouts count for what other nodes have locked, and leave the transaction to its
// savepoint. What has ended without COMMIT, or with its session, is in nobody's way.
func TestLockTableRefused(t *testing.T) {
	c := use(t)
	a, b := c.Connect(1), c.Connect(3)
	a.Do("CREATE TABLE refusing(k int PRIMARY KEY)")
	c.Everywhere("SELECT count(*) FROM refusing", "0")
	// Who has no right to lock it, and stays in his transaction, keeps nobody out; nor does who locks another of the
	// same name.
	a.Do("CREATE ROLE refused_lock", "CREATE SCHEMA refusing_too", "CREATE TABLE refusing_too.refusing(k int)")
	c.Everywhere("SELECT count(*) FROM refusing_too.refusing", "0")
	a.Do("BEGIN", "SET ROLE refused_lock")
	if err := a.Try("LOCK TABLE refusing"); Code(err) != "42501" {
		t.Errorf("without a right: %v", Explain(err))
	}
	b.Do("BEGIN", "LOCK TABLE refusing NOWAIT", "COMMIT")
	a.Do("ROLLBACK", "BEGIN", "SET LOCAL search_path = refusing_too, public", "LOCK TABLE refusing")
	b.Do("BEGIN", "LOCK TABLE refusing NOWAIT", "COMMIT")
	a.Do("ROLLBACK")
	a.Do("BEGIN", "LOCK TABLE refusing")
	b.Do("BEGIN", "INSERT INTO refusing VALUES (1)", "SAVEPOINT s")
	for _, p := range []struct{ set, lock, code, message string }{
		{"SELECT 1", "LOCK TABLE refusing NOWAIT", "55P03", `could not obtain lock on relation "refusing"`},
		{"SET LOCAL lock_timeout = '50ms'", "LOCK TABLE refusing", "55P03", "canceling statement due to lock timeout"},
		{"SET LOCAL statement_timeout = '50ms'", "LOCK TABLE refusing", "57014",
			"canceling statement due to statement timeout"},
		{"SET LOCAL statement_timeout = '1min'", "LOCK TABLE refusing NOWAIT", "55P03",
			`could not obtain lock on relation "refusing"`},
	} {
		b.Do(p.set)
		if err := b.Try(p.lock); Code(err) != p.code || !strings.Contains(err.Error(), p.message) {
			t.Errorf("%s, %s: %v", p.set, p.lock, Explain(err))
		}
		b.Do("ROLLBACK TO s")
	}
	b.Do("LOCK TABLE refusing IN ROW EXCLUSIVE MODE NOWAIT", "LOCK TABLE refusing IN ACCESS SHARE MODE")
	answer := b.waiting("LOCK TABLE refusing")
	a.Do("ROLLBACK")
	b.done("after a ROLLBACK", answer)
	b.Do("COMMIT", "BEGIN", "LOCK TABLE refusing NOWAIT", "COMMIT")
	a.Do("BEGIN", "LOCK TABLE refusing")
	b.Do("BEGIN")
	answer = b.waiting("LOCK TABLE refusing")
	if err := b.PgConn().CancelRequest(b.ctx()); err != nil {
		t.Fatal(err)
	}
	if err := answer(); Code(err) != "57014" {
		t.Errorf("cancelled: %v", Explain(err))
	}
	b.Do("ROLLBACK", "BEGIN")
	answer = b.waiting("LOCK TABLE refusing")
	a.Do("SELECT 1")
	_ = a.Close(a.ctx())
	b.done("after a session has gone", answer)
	b.Do("COMMIT")
}

// TestLockTablesCrosswise: two that have locked a table each, and want the other's, do not wait for each other for
// long, and not both commit, though they write to another table.
func TestLockTablesCrosswise(t *testing.T) {
	c := use(t)
	a, b := c.Connect(1), c.Connect(2)
	a.Do("CREATE TABLE across_one(k int PRIMARY KEY)", "CREATE TABLE across_two(k int PRIMARY KEY)",
		"CREATE TABLE across(k int PRIMARY KEY)")
	c.Everywhere("SELECT count(*) FROM across", "0")
	for i, mode := range []string{"SHARE UPDATE EXCLUSIVE", "SHARE ROW EXCLUSIVE", "ACCESS EXCLUSIVE"} {
		settle(a, b)
		lock := func(name string) string { return "LOCK TABLE " + name + " IN " + mode + " MODE" }
		a.Do("BEGIN", lock("across_one"))
		b.Do("BEGIN", lock("across_two"))
		errA, errB := race(a, b, lock("across_two"), lock("across_one"))
		if errA != nil || errB != nil {
			t.Errorf("mode %s: %v and %v", mode, Explain(errA), Explain(errB))
		}
		a.Do(fmt.Sprintf("INSERT INTO across VALUES (%d)", i))
		b.Do(fmt.Sprintf("INSERT INTO across VALUES (%d)", -1-i))
		errA, errB = race(a, b, "COMMIT", "COMMIT")
		if (errA == nil) == (errB == nil) {
			t.Errorf("mode %s: %v and %v; exactly one must commit", mode, Explain(errA), Explain(errB))
		}
		a.Do("ROLLBACK")
		b.Do("ROLLBACK")
	}
	c.Check()
}
