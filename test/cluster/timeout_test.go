package cluster

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tuttidb/tutti/internal/config"
)

// TestCommitTimeout: without a majority a COMMIT ends after commit_timeout_ms: what was
// proposed with an unknown outcome, which the log decides later; what was not, certainly without
// effect. A cancel ends it too, if it was not proposed.
func TestCommitTimeout(t *testing.T) {
	t.Parallel() // mostly it waits
	const timeout = 4 * time.Second
	c := Start(t, 3, func(_ int, c *config.Config) {
		c.Limits.CommitTimeoutMs = int(timeout / time.Millisecond)
	})
	s, other := c.Connect(1), c.Connect(1)
	s.Do("CREATE TABLE late(k int PRIMARY KEY)", "INSERT INTO late VALUES (0)")
	c.Everywhere("SELECT count(*) FROM late", "1")
	signal := func(sig syscall.Signal) {
		for _, k := range []int{2, 3} {
			_ = syscall.Kill(c.PID(k), sig) // it runs
		}
	}
	t.Cleanup(func() { signal(syscall.SIGCONT) })
	taken := func() int64 { return c.limit(other, "sessions").now }
	const before = 2
	c.soon(func() bool { return taken() == before },
		func() string { return fmt.Sprintf("%d sessions hold a slot, want %d", taken(), before) })
	var began time.Time
	var err error
	for range 5 { // after a pause of the machine node 1 knows that there is no majority, and proposes nothing
		signal(syscall.SIGSTOP)
		time.Sleep(100 * time.Millisecond) // until then they may go on
		began = time.Now()
		if err = s.Try("INSERT INTO late VALUES (1)"); Code(err) != "57P03" {
			break
		}
		signal(syscall.SIGCONT)
		c.soon(func() bool { return s.Try("UPDATE late SET k = k") == nil },
			func() string { return "the majority is not back" })
	}
	if Code(err) != "40003" || !strings.Contains(Explain(err), "commit_timeout_ms") || time.Since(began) < timeout {
		t.Errorf("proposed to a lost majority: after %v %v", time.Since(began), Explain(err))
	}
	timeouts := c.limit(other, "commit_timeout_ms").reached + 2
	time.Sleep(time.Second)
	if got := taken(); got != before {
		t.Errorf("%d sessions hold a slot, want %d: that of one with an open outcome may not be used again", got,
			before)
	}
	c.soon(func() bool { return strings.Contains(other.Get("SHOW tutti.status"), "no leader") },
		func() string { return "a leader is left without a majority" })
	other.Do("BEGIN", "INSERT INTO late VALUES (2)")
	began = time.Now()
	if err := other.Try("COMMIT"); Code(err) != "57P03" || !strings.Contains(Explain(err), "was not committed") ||
		time.Since(began) < timeout {
		t.Errorf("not proposed: after %v %v", time.Since(began), Explain(err))
	}
	if got := other.Get("SELECT count(*) FROM late WHERE k = 2"); got != "0" {
		t.Error("what was not committed is visible")
	}
	if err := other.Try("CREATE TABLE later(k int)"); Code(err) != "57P03" {
		t.Errorf("a definition: %v", Explain(err))
	}
	began = time.Now()
	cancelled := make(chan error, 1)
	go func() { cancelled <- other.Try("INSERT INTO late VALUES (3)") }()
	for done := false; !done; {
		select {
		case err := <-cancelled:
			if Code(err) != "57014" {
				t.Errorf("cancelled: after %v %v", time.Since(began), Explain(err))
			}
			done = true
		case <-time.After(100 * time.Millisecond):
			if err := other.PgConn().CancelRequest(other.ctx()); err != nil {
				t.Error(err)
			}
		}
	}
	signal(syscall.SIGCONT)
	c.WaitReady()
	c.soon(func() bool { return taken() == before-1 },
		func() string {
			return fmt.Sprintf("%d sessions hold a slot, want %d: the log has decided", taken(), before-1)
		})
	if got := c.limit(other, "commit_timeout_ms").reached; got != timeouts || got < 3 {
		t.Errorf("%d timeouts are counted, want %d", got, timeouts)
	}
	s = c.Connect(1)
	c.soon(func() bool { err = s.Try("INSERT INTO late VALUES (4)"); return err == nil },
		func() string { return fmt.Sprintf("the majority is back: %v", err) })
	for _, k := range c.All() {
		c.Eventually(k, "SELECT count(*) FROM late WHERE k = 4", "1")
	}
	var out string
	c.soon(func() bool { out, err = c.Tool("check"); return err == nil }, // who was frozen may not be reached at once
		func() string { return fmt.Sprintf("tutti check: %v\n%s", err, out) })
	if got := s.Get("SELECT string_agg(k::text, ' ' ORDER BY k) FROM late"); got != "0 4" && got != "0 1 4" {
		t.Errorf("rows are %s", got)
	}
}

// TestIdleInTransaction: a client that has said BEGIN and nothing else is idle in a transaction. What others commit
// meanwhile is no reason to lose.
func TestIdleInTransaction(t *testing.T) {
	c := use(t)
	idle, far := c.Connect(1), c.Connect(2)
	far.Do("CREATE TABLE idler(k int PRIMARY KEY, v int)", "INSERT INTO idler VALUES (1, 0)",
		"CREATE TABLE idled(k serial PRIMARY KEY, of int REFERENCES idler)")
	c.Everywhere("SELECT v FROM idler", "0")
	look := fmt.Sprintf("SELECT state FROM pg_stat_activity WHERE pid = %d", idle.PgConn().PID())
	for _, begin := range []string{"BEGIN", "BEGIN ISOLATION LEVEL REPEATABLE READ",
		"BEGIN ISOLATION LEVEL SERIALIZABLE", "LISTEN idler; BEGIN"} {
		idle.Do(strings.Split(begin, "; ")...)
		c.Eventually(1, look, "idle in transaction")
		v := far.Get("DELETE FROM idled; DELETE FROM idler RETURNING v")
		far.Do("INSERT INTO idler VALUES (1, " + v + " + 1)")
		c.Everywhere("SELECT v - 1 FROM idler", v)
		idle.Do("INSERT INTO idled(of) VALUES (1)", "UPDATE idler SET v = v + 1", "COMMIT", "UNLISTEN *")
		c.Everywhere("SELECT count(*) FROM idled", "1")
	}
	c.Everywhere("SELECT v FROM idler", "8")
	far.Do("CREATE FUNCTION idled(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS 'BEGIN PERFORM pg_sleep(1); RETURN " +
		"$1; END'")
	c.Settled()
	idle.Do("BEGIN")
	c.Eventually(1, look, "idle in transaction")
	far.Do("CREATE INDEX ON idled (idled(k))") // a long one
	c.Settled()
	idle.Do("UPDATE idled SET of = of", "COMMIT")
	idle.Do("SET idle_in_transaction_session_timeout = '100ms'", "BEGIN")
	c.Eventually(1, look, "")
	if err := idle.Try("SELECT 1"); err == nil {
		t.Error("it goes on")
	}
	c.Check()
}
