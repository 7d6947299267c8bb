package cluster

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tuttidb/tutti/internal/config"
	"github.com/tuttidb/tutti/internal/process"
)

// limit is a row of SHOW tutti.limits.
type limit struct {
	max, now int64 // -1: none, or not told
	reached  uint64
}

// limit is what the node of a session says of one of its limits.
func (c *Cluster) limit(s *Conn, name string) limit {
	c.tb.Helper()
	number := func(text string) int64 {
		if text == "" {
			return -1
		}
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			c.tb.Fatal(err)
		}
		return n
	}
	for _, row := range strings.Split(s.Get("SHOW tutti.limits"), ",") {
		if f := strings.Split(row, "|"); f[0] == name {
			return limit{number(f[1]), number(f[2]), uint64(number(f[3]))}
		}
	}
	c.tb.Fatalf("SHOW tutti.limits does not show %s", name)
	return limit{}
}

// TestApplyQueue: what a member has taken in and not applied is bounded. The rest waits in its
// log, also while its own clients are ordered beyond it and block what is applied.
func TestApplyQueue(t *testing.T) {
	const queueBytes = 64 << 10
	c := Start(t, 3, func(k int, c *config.Config) {
		c.Limits.FlowLag, c.Limits.FlowLagBytes = -1, -1
		if c.Limits.ApplyQueueBytes = queueBytes; k == 2 {
			c.Limits.ApplyQueueBytes = 1 // full after every item
		}
	})
	l := c.NewLoad("queued")
	thaw := c.freezeApplier(3)
	s, at3 := c.Connect(1), c.Connect(3)
	s.Do("CREATE TABLE big(k int PRIMARY KEY, v text)")
	const rows, rowBytes = 40, 100_000
	for k := range rows {
		s.Do(fmt.Sprintf("INSERT INTO big SELECT %d, string_agg(md5(i::text), '') FROM generate_series(1, %d) i", k,
			rowBytes/32))
	}
	for deadline := time.Now().Add(sqlTimeout); c.limit(at3,
		"apply_queue_bytes").reached == 0; time.Sleep(pollInterval) {
		if time.Now().After(deadline) {
			t.Fatal("the queue is never full")
		}
	}
	time.Sleep(300 * time.Millisecond) // what is under way arrives
	got := c.limit(at3, "apply_queue_bytes")
	if most := int64(queueBytes + 2<<20); got.max != queueBytes || got.now < queueBytes || got.now > most {
		t.Errorf("%d bytes are queued, want %d to %d", got.now, queueBytes, most)
	}
	thaw()
	c.Everywhere("SELECT count(*) FROM big", fmt.Sprint(rows))
	l.RunFor(6, seconds(3*time.Second), 50)
	t.Logf("with queues of %d, 1 and %d bytes: %v", queueBytes, queueBytes, l.Counts())
	l.Verify()
	for _, k := range []int{2, 3} {
		if c.limit(c.Connect(k), "apply_queue_bytes").reached == 0 {
			t.Errorf("node %d never had a full queue", k)
		}
	}
	c.verdictBehindQueue(2)
}

// verdictBehindQueue: at a node whose queue is full, a transaction that is ordered far behind it
// holds a lock that the queue's next item needs. Neither can wait for the other.
func (c *Cluster) verdictBehindQueue(k int) {
	t := c.tb
	t.Helper()
	s, there := c.Connect(1), c.Connect(k)
	s.Do("CREATE TABLE behind(k int PRIMARY KEY, v text)", "INSERT INTO behind VALUES (0, ''), (1, '')")
	c.Everywhere("SELECT count(*) FROM behind", "2")
	thaw := c.freezeApplier(k)
	s.Do("UPDATE behind SET v = 'running' WHERE k = 0", "UPDATE behind SET v = 'next' WHERE k = 1")
	for i := range 4 { // more than is read from the log at once
		s.Do(fmt.Sprintf("INSERT INTO behind SELECT %d, string_agg(md5(i::text), '') FROM generate_series(1, 900000 "+
			"/ 32) i", 10+i))
	}
	// A lock in a sub-select is not told to the others, so certification does not decide.
	there.Do("BEGIN", "SELECT FROM (SELECT FROM behind WHERE k = 1 FOR UPDATE) AS s",
		"INSERT INTO behind VALUES (2, 'locks 1')")
	result := make(chan error, 1)
	go func() { result <- there.Try("COMMIT") }()
	c.Eventually(1, "SELECT v FROM behind WHERE k = 2", "locks 1") // it is ordered
	select {
	case err := <-result:
		t.Fatalf("its verdict came although the queue is full: %v", err)
	default:
	}
	thaw()
	select {
	case err := <-result:
		if err != nil {
			t.Errorf("it was ordered and did not lose, and its client is told %v", Explain(err))
		}
	case <-time.After(sqlTimeout):
		t.Fatal("it and the queue wait for each other")
	}
	c.Check()
	if log := process.Tail(c.Node(k).LogFile, 1000); !strings.Contains(log,
		"ending a backend: it blocks a full apply queue") {
		t.Error("the test does not make them wait for each other")
	}
}

// TestFewLargeTransactions: a node keeps one large transaction at once, of any session, and others wait for their turn,
// but not for ever, nor longer than their clients, nor when they have lost, in which case they are in nobody's way.
func TestFewLargeTransactions(t *testing.T) {
	t.Parallel()
	const patience = 4 * time.Second
	c := Start(t, 3, func(_ int, c *config.Config) {
		c.Limits.LargeTransactions, c.Limits.CommitTimeoutMs = 1, int(patience.Milliseconds())
	})
	a, b, other, look := c.Connect(1), c.Connect(1), c.Connect(2), c.Connect(1)
	a.Do("CREATE TABLE bulky(id int PRIMARY KEY, v text)", "INSERT INTO bulky VALUES (0, '')")
	insert := func(id, bytes int) {
		t.Helper()
		if _, err := a.Exec(a.ctx(), "INSERT INTO bulky VALUES ($1, $2)", id, strings.Repeat("a", bytes)); err != nil {
			t.Fatal(Explain(err))
		}
	}
	insert(1, 1)
	insert(2, 1) // from now on it is known, and returns what it inserts
	next := 10
	open := func() {
		t.Helper()
		a.Do("BEGIN")
		// a silent client's transaction is opened, and what comes in it is direct all the same
		time.Sleep(300 * time.Millisecond)
		insert(next, 9<<20)
		insert(next+1, 9<<20)
		if next += 2; c.limit(look, "large_transactions").now != 1 {
			t.Fatal("it is not a large transaction")
		}
	}
	waits := func(sql string) <-chan error {
		t.Helper()
		before, result := c.limit(look, "large_transactions").reached, make(chan error, 1)
		go func() { result <- b.Try(sql) }()
		for deadline := time.Now().Add(sqlTimeout); c.limit(look,
			"large_transactions").reached == before; time.Sleep(pollInterval) {
			if time.Now().After(deadline) {
				t.Fatalf("%s: it does not wait", sql)
			}
		}
		return result
	}
	const many = "INSERT INTO bulky SELECT g, repeat('b', 1000) FROM generate_series(100, 20099) g"

	open()
	result := waits(many)
	a.Do("ROLLBACK")
	if err := <-result; err != nil {
		t.Errorf("it was its turn, and %v", Explain(err))
	}
	b.Do("DELETE FROM bulky WHERE id >= 100")
	a.Do("LISTEN channel") // from now on BEGIN opens it

	open()
	began := time.Now()
	result = waits(many)
	if err := <-result; Code(err) != "53400" || time.Since(began) < patience {
		t.Errorf("after %v %v", time.Since(began), Explain(err))
	}
	result = waits(many)
	if err := b.PgConn().CancelRequest(b.ctx()); err != nil {
		t.Fatal(err)
	}
	if err := <-result; Code(err) != "57014" {
		t.Errorf("cancelled: %v", Explain(err))
	}

	b.Do("BEGIN ISOLATION LEVEL REPEATABLE READ", "UPDATE bulky SET v = 'b' WHERE id = 0", many)
	result = waits("COMMIT")
	other.Do("UPDATE bulky SET v = 'other' WHERE id = 0")
	if err := <-result; Code(err) != "40001" {
		t.Errorf("it lost while it waited: %v", Explain(err))
	}
	b.Do("ROLLBACK")
	c.Eventually(1, "SELECT v FROM bulky WHERE id = 0", "other")
	a.Do("COMMIT")
	c.Everywhere("SELECT count(*) FROM bulky", "5")
	if n := c.limit(look, "large_transactions").now; n != 0 {
		t.Errorf("%d are under way at the end", n)
	}
	c.Check()
}
