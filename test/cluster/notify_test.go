package cluster

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// hears waits for n notifications without sending anything and returns them, channel and payload
// separated by a colon.
func (s *Conn) hears(n int) []string {
	s.c.tb.Helper()
	var got []string
	for len(got) < n {
		ctx, cancel := context.WithTimeout(context.Background(), sqlTimeout)
		x, err := s.WaitForNotification(ctx)
		cancel()
		if err != nil {
			s.c.tb.Fatalf("after %d notifications: %v", len(got), err)
		}
		got = append(got, x.Channel+":"+x.Payload)
	}
	return got
}

// listen has a session listen, and waits until every node knows of it: a LISTEN waits for them for 2 s at most, and
// then says that not all do.
func (s *Conn) listen(channels ...string) {
	s.c.tb.Helper()
	for _, x := range channels {
		s.listenOnly(x)
	}
	s.c.Settled()
}

// listenOnly is a LISTEN, again if it is answered with a warning.
func (s *Conn) listenOnly(channel string) {
	s.c.tb.Helper()
	s.c.soon(func() bool {
		before := s.warnings.Load()
		s.Do("LISTEN " + channel)
		known := s.warnings.Load() == before
		if !known {
			s.Do("UNLISTEN " + channel)
		}
		return known
	}, func() string { return "not all nodes know of LISTEN " + channel })
}

// hearsNothing waits a moment.
func (s *Conn) hearsNothing() {
	s.c.tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond)
	defer cancel()
	if x, err := s.WaitForNotification(ctx); err == nil {
		s.c.tb.Errorf("notification %q of channel %q was not due", x.Payload, x.Channel)
	} else if !errors.Is(err, context.DeadlineExceeded) {
		s.c.tb.Fatal(err)
	}
}

// TestNotifyEverywhere: whatever makes a notification at whatever node, listeners of all nodes get it once
// and in order, while they wait.
func TestNotifyEverywhere(t *testing.T) {
	c := use(t)
	var listeners []*Conn
	for _, k := range c.All() {
		l := c.Connect(k)
		l.listen("everywhere", `"Größe ""1"""`, "other")
		listeners = append(listeners, l)
	}
	s := c.Connect(1)
	s.Do("CREATE TABLE noted(k int PRIMARY KEY)",
		"CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_notify('everywhere', 'row ' "+
			"|| NEW.k); RETURN NEW; END $$",
		"CREATE TRIGGER note BEFORE INSERT ON noted FOR EACH ROW EXECUTE FUNCTION note()")
	long := strings.Repeat("ü", 3999)
	s.Do("NOTIFY everywhere, 'by statement'", "SELECT pg_notify('everywhere', 'by function')",
		"INSERT INTO noted VALUES (1)", "NOTIFY everywhere",
		"BEGIN; NOTIFY other, 'a'; NOTIFY everywhere, 'b'; NOTIFY other, 'a'; NOTIFY other, 'c'; COMMIT",
		"BEGIN", "INSERT INTO noted VALUES (2)", "NOTIFY everywhere, 'never'", "ROLLBACK",
		"BEGIN; SAVEPOINT x; NOTIFY everywhere, 'never'; ROLLBACK TO x; NOTIFY everywhere, 'kept'; COMMIT",
		`NOTIFY "Größe ""1""", 'q ''x'' \'`, "SELECT pg_notify('everywhere', repeat('ü', 3999))",
		"NOTIFY everywhere, 'twice'", "NOTIFY everywhere, 'twice'",
		"DO $$ BEGIN PERFORM pg_notify('everywhere', 'by DO'); END $$")
	want := []string{"everywhere:by statement", "everywhere:by function", "everywhere:row 1", "everywhere:", "other:a",
		"everywhere:b", "other:c", "everywhere:kept",
		`Größe "1":q 'x' \`, "everywhere:" + long, "everywhere:twice", "everywhere:twice", "everywhere:by DO"}
	for i, l := range listeners {
		for j, got := range l.hears(len(want)) {
			if got != want[j] {
				t.Errorf("node %d: notification %d is %.80q, want %.80q", i+1, j, got, want[j])
			}
		}
	}
	for k := range listeners { // from each node
		c.Connect(k + 1).Do(fmt.Sprintf("NOTIFY everywhere, 'from %d'", k+1))
		for i, l := range listeners {
			if got := l.hears(1)[0]; got != fmt.Sprintf("everywhere:from %d", k+1) {
				t.Errorf("node %d got %q", i+1, got)
			}
		}
	}
	for _, l := range listeners {
		l.Do("UNLISTEN everywhere")
	}
	c.Connect(2).Do("NOTIFY everywhere, 'to nobody'", "NOTIFY other, 'the last'")
	for i, l := range listeners {
		if got := l.hears(1)[0]; got != "other:the last" {
			t.Errorf("node %d got %q after UNLISTEN", i+1, got)
		}
		l.hearsNothing()
	}
}

// TestNotifyFollowsRows: who is told of a row at another node finds it there, and what is notified after a
// LISTEN was answered arrives, each time.
func TestNotifyFollowsRows(t *testing.T) {
	const n = 200
	c := use(t)
	w := c.Connect(1)
	w.Do("CREATE TABLE told(k int PRIMARY KEY)")
	c.Everywhere("SELECT count(*) FROM told", "0")
	l := c.Connect(3)
	for i := range n {
		channel := fmt.Sprintf("told%d", i%7)
		l.listenOnly(channel)
		row := "1"
		switch i % 3 {
		case 0:
			w.Do(fmt.Sprintf("BEGIN; INSERT INTO told VALUES (%d); NOTIFY %s, '%d'; COMMIT", i, channel, i))
		case 1:
			w.Do(fmt.Sprintf("INSERT INTO told VALUES (%d)", i), fmt.Sprintf("NOTIFY %s, '%d'", channel, i))
		default: // writes nothing, so it takes no place in the order before it commits
			row = "0"
			w.Do(fmt.Sprintf("NOTIFY %s, '%d'", channel, i))
		}
		if got := l.hears(1)[0]; got != fmt.Sprintf("%s:%d", channel, i) {
			t.Fatalf("got %q as notification %d", got, i)
		}
		if got := l.Get(fmt.Sprintf("SELECT count(*) FROM told WHERE k = %d", i)); got != row {
			t.Fatalf("row %d is not there when its notification is", i)
		}
		l.Do("UNLISTEN " + channel)
	}
}

// TestNotifyFlood: many notifications of several nodes at once arrive once and in the order of each, and
// transactions go on meanwhile.
func TestNotifyFlood(t *testing.T) {
	const n = 30_000
	c := use(t)
	w := c.Connect(2)
	w.Do("CREATE TABLE flooded(k int PRIMARY KEY)")
	l := c.Connect(3)
	l.listen("flood")
	for _, k := range []int{1, 2} {
		s := c.Connect(k)
		go func() {
			// what is missing shows
			_ = s.Try(fmt.Sprintf("SELECT pg_notify('flood', %d || ' ' || i) FROM generate_series(0, %d) i", k, n-1))
		}()
	}
	slowest, commits := time.Duration(0), 0
	stop := make(chan struct{})
	done := make(chan error, 1)
	go func() {
		for ; ; commits++ {
			select {
			case <-stop:
				done <- nil
				return
			default:
			}
			began := time.Now()
			if err := w.Try(fmt.Sprintf("INSERT INTO flooded VALUES (%d)", commits)); err != nil {
				done <- err
				return
			}
			slowest = max(slowest, time.Since(began))
		}
	}()
	next, began := map[int]int{}, time.Now()
	for _, x := range l.hears(2 * n) {
		var k, i int
		if _, err := fmt.Sscanf(x, "flood:%d %d", &k, &i); err != nil || i != next[k] {
			t.Fatalf("got %q when %d of node %d was due (%v)", x, next[k], k, err)
		}
		next[k]++
	}
	took := time.Since(began)
	close(stop)
	if err := <-done; err != nil {
		t.Error(err)
	}
	t.Logf("%d commits meanwhile, the slowest took %v", commits, slowest)
	if commits == 0 || slowest > max(took/2, 15*time.Second) {
		t.Errorf("%d transactions committed during the flood, the slowest in %v", commits, slowest)
	}
}

// TestNotifyAfterRestart: a node that was killed passes notifications on again, and those of its
// clients reach the others. What it was told before it died, it does not tell again.
func TestNotifyAfterRestart(t *testing.T) {
	t.Parallel() // mostly it waits
	c := Start(t, 3)
	one, two := c.Connect(1), c.Connect(2)
	one.listen("a")
	two.listen("a")
	three := c.Connect(3)
	three.listen("a", "gone")
	three.Do("NOTIFY a, 'before'")
	for _, l := range []*Conn{one, two} {
		if got := l.hears(1)[0]; got != "a:before" {
			t.Errorf("got %q", got)
		}
	}
	one.Do("CREATE TABLE later(k int PRIMARY KEY)", "INSERT INTO later VALUES (1)")
	c.Everywhere("SELECT count(*) FROM later", "1")
	c.Connect(3).Do("CHECKPOINT") // so that it need not carry out the listen items again
	c.Kill(3)
	c.Connect(1).Do("NOTIFY a, 'while one is away'")
	one.hears(1)
	two.hears(1)
	c.Run(3)
	c.WaitReady(3)
	s := c.Connect(3)
	s.Do("NOTIFY a, 'after'") // at once: it knows who listens
	for _, l := range []*Conn{one, two} {
		if got := l.hears(1)[0]; got != "a:after" {
			t.Errorf("got %q", got)
		}
	}
	three = c.Connect(3)
	three.listen("a")
	c.Connect(1).Do("NOTIFY a, 'last'")
	for _, l := range []*Conn{one, two, three} {
		if got := l.hears(1)[0]; got != "a:last" {
			t.Errorf("got %q", got)
		}
		l.hearsNothing()
	}
	// not "gone"
	c.Eventually(1, "SELECT string_agg(member || channel, ' ' ORDER BY member) FROM tutti.listening", "1a 2a 3a")
	c.listenWarns(2)
	// A majority is enough to listen, and nobody is waited for in vain.
	c.Kill(2)
	began := time.Now()
	one.Do("LISTEN b")
	if d := time.Since(began); d > 20*time.Second {
		t.Errorf("LISTEN took %v with a node down", d)
	}
	// without a leader it was answered before
	c.Eventually(3, "SELECT count(*) FROM tutti.listening WHERE channel = 'b'", "1")
	c.Settled()
	three.Do("NOTIFY b, 'two of three'")
	if got := one.hears(1)[0]; got != "b:two of three" {
		t.Errorf("got %q", got)
	}
	c.Run(2)
	c.WaitReady(2)
	c.Connect(2).Do("NOTIFY b, 'from who was away'")
	if got := one.hears(1)[0]; got != "b:from who was away" {
		t.Errorf("got %q", got)
	}
}

// listenWarns freezes a node and checks that LISTEN elsewhere is answered with a warning, and that it
// counts when the node has thawed.
func (c *Cluster) listenWarns(frozen int) {
	c.tb.Helper()
	s := c.Connect(1)
	pid := c.PID(frozen)
	took, warned := time.Duration(0), int64(0)
	for range 5 { // a pause of the machine makes of a frozen node one that is not waited for
		s.Do("UNLISTEN frozen")
		c.Settled()
		before := s.warnings.Load()
		if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
			c.tb.Fatal(err)
		}
		began := time.Now()
		err := s.Try("LISTEN frozen")
		took = time.Since(began)
		if thaw := syscall.Kill(pid, syscall.SIGCONT); thaw != nil || err != nil {
			c.tb.Fatal(thaw, err)
		}
		if warned = s.warnings.Load() - before; warned > 0 {
			break
		}
	}
	if warned != 1 || took < time.Second || took > 30*time.Second {
		c.tb.Errorf("LISTEN with a frozen node was answered after %v with %d warnings", took, warned)
	}
	c.Eventually(frozen, "SELECT count(*) FROM tutti.listening WHERE channel = 'frozen'", "1")
	c.Settled() // the node listens itself a moment after it has written that down
	c.Connect(frozen).Do("NOTIFY frozen, 'x'")
	if got := s.hears(1)[0]; got != "frozen:x" {
		c.tb.Errorf("of the thawed node got %q", got)
	}
}

// TestIdleClientIsTold: a client that waits for nothing in particular learns that its backend ends.
func TestIdleClientIsTold(t *testing.T) {
	c := use(t)
	s := c.Connect(1)
	pid := s.Get("SELECT pg_backend_pid()")
	time.Sleep(300 * time.Millisecond)
	c.Connect(1).Do("SELECT pg_terminate_backend(" + pid + ")")
	err := s.PgConn().WaitForNotification(s.ctx())
	var pg *pgconn.PgError
	if !errors.As(err, &pg) || pg.Code != "57P01" {
		t.Errorf("the client was told %v", err)
	}
}

// TestChannelLimit: too many channels are refused, also those of one block; one that is used already is not.
func TestChannelLimit(t *testing.T) {
	c := use(t)
	s := c.Connect(2)
	var limit limit
	c.soon(func() bool { limit = c.limit(s, "channels"); return limit.now == 0 },
		func() string { return fmt.Sprintf("%d channels are in use", limit.now) })
	for i := limit.now; i < limit.max; i += 50 {
		var sql strings.Builder
		for j := i; j < min(i+50, limit.max); j++ {
			fmt.Fprintf(&sql, "LISTEN limit%d;", j)
		}
		s.Do(sql.String())
	}
	if code := Code(s.Try("LISTEN one_more")); code != "54000" {
		t.Errorf("one channel too many gives %q", code)
	}
	other := c.Connect(2)
	other.listen(fmt.Sprintf("limit%d", limit.max-1))
	c.Connect(1).Do(fmt.Sprintf("NOTIFY limit%d, 'x'", limit.max-1))
	if got := other.hears(1)[0]; got != fmt.Sprintf("limit%d:x", limit.max-1) {
		t.Errorf("got %q", got)
	}
	s.Do("UNLISTEN *", "LISTEN one_more", "UNLISTEN *")
	c.soon(func() bool { return c.limit(s, "channels").now == 1 }, func() string { return "channels are in use" })
	s.Do("BEGIN")
	for i := int64(1); i <= limit.max; i++ {
		s.Do(fmt.Sprintf("LISTEN limit%d; LISTEN limit%[1]d", i))
	}
	if code := Code(s.Try("LISTEN one_more")); code != "54000" {
		t.Errorf("one channel too many in a block gives %q", code)
	}
	s.Do("ROLLBACK", "BEGIN", "LISTEN one_more", "ROLLBACK")
}

// TestListenersBegin: a listener's BEGIN is the backend's at once, so that PostgreSQL keeps what it has not heard, and
// others see how much that is. Nobody else's is.
func TestListenersBegin(t *testing.T) {
	c := use(t)
	look, ear, deaf := c.Connect(1), c.Connect(1), c.Connect(1)
	const state = "SELECT state FROM pg_stat_activity WHERE pid = "
	pid, other := ear.Get("SELECT pg_backend_pid()"), deaf.Get("SELECT pg_backend_pid()")
	ear.Do("LISTEN begins", "BEGIN")
	deaf.Do("BEGIN")
	if got := look.Get(state + pid); got != "idle in transaction" {
		t.Errorf("a listener in a block is %s", got)
	}
	if got := look.Get(state + other); got != "idle" {
		t.Errorf("who does not listen is %s", got)
	}
	look.Do("NOTIFY begins, 'a'")
	ear.Do("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
	if got := ear.Get("SHOW transaction_isolation"); got != "repeatable read" {
		t.Errorf("its block has level %s", got)
	}
	ear.Do("COMMIT")
	if got := ear.hears(1); got[0] != "begins:a" {
		t.Errorf("it hears %q", got)
	}
	ear.Do("UNLISTEN *")
}
