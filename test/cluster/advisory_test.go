package cluster

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tuttidb/tutti/internal/config"
)

// later runs a statement whose answer is awaited by the returned function.
func (s *Conn) later(sql string) (answer func() error) {
	c := make(chan error, 1)
	go func() { c <- s.Try(sql) }()
	return func() error {
		select {
		case err := <-c:
			return err
		case <-time.After(sqlTimeout):
			return fmt.Errorf("no answer within %s", sqlTimeout)
		}
	}
}

// waits fails the test unless n sessions wait for an advisory lock in the cluster, soon.
func (s *Conn) waits(n int) {
	s.c.tb.Helper()
	got := ""
	s.c.soon(func() bool {
		got = s.Get("SHOW tutti.locks")
		return strings.Count(got, "|false") == n
	}, func() string { return fmt.Sprintf("want %d that wait:\n%s", n, got) })
}

func (s *Conn) want(sql, want string) {
	s.c.tb.Helper()
	if got := s.Get(sql); got != want {
		s.c.tb.Errorf("%s: %q, want %q", sql, got, want)
	}
}

// TestAdvisoryLocks: what PostgreSQL promises of one server holds between two nodes.
func TestAdvisoryLocks(t *testing.T) {
	c := use(t)
	a, b := c.Connect(1), c.Connect(2)
	const busy, free = "f", "t"

	// Both forms of keys, and they are different locks.
	a.Do("SELECT pg_advisory_lock(71)", "SELECT pg_advisory_lock(-7, 71)")
	b.want("SELECT pg_try_advisory_lock(71)", busy)
	b.want("SELECT pg_try_advisory_lock(-7, 71)", busy)
	b.want("SELECT pg_try_advisory_lock(0, 71)", free)
	b.want("SELECT pg_try_advisory_lock(7, 71)", free)
	b.want("SELECT pg_try_advisory_lock_shared(71)", busy)
	b.want("SELECT pg_try_advisory_xact_lock(71)", busy)
	b.want("SELECT pg_try_advisory_xact_lock_shared(71)", busy)
	// It is counted, and survives a rollback.
	a.Do("BEGIN", "SELECT pg_advisory_lock(71)", "ROLLBACK")
	a.want("SELECT pg_advisory_unlock(71)", "t")
	b.want("SELECT pg_try_advisory_lock(71)", busy)
	a.want("SELECT pg_advisory_unlock(71)", "t")
	b.want("SELECT pg_try_advisory_lock(71)", free)
	a.want("SELECT pg_advisory_unlock(71)", "f")
	a.want("SELECT pg_try_advisory_lock(71)", busy)
	b.Do("SELECT pg_advisory_unlock_all()")
	a.want("SELECT pg_try_advisory_lock(71)", free)
	a.Do("DISCARD ALL")
	b.want("SELECT pg_try_advisory_lock(71) AND pg_try_advisory_lock(-7, 71)", free)
	b.Do("SELECT pg_advisory_unlock_all()")

	// Shared.
	a.Do("SELECT pg_advisory_lock_shared(72)")
	b.want("SELECT pg_try_advisory_lock_shared(72)", free)
	b.want("SELECT pg_try_advisory_lock(72)", busy)
	a.want("SELECT pg_advisory_unlock_shared(72)", "t")
	b.want("SELECT pg_try_advisory_lock(72)", free) // beside its own
	a.want("SELECT pg_try_advisory_lock_shared(72)", busy)
	b.Do("SELECT pg_advisory_unlock_all()")

	// Of the transaction.
	a.Do("BEGIN", "SELECT pg_advisory_xact_lock(73)", "SAVEPOINT s",
		"SELECT pg_advisory_xact_lock(74), pg_advisory_xact_lock_shared(75)")
	b.want("SELECT pg_try_advisory_lock(74)", busy)
	a.Do("ROLLBACK TO s")
	b.want("SELECT pg_try_advisory_xact_lock(74) AND pg_try_advisory_xact_lock(75)", free)
	b.want("SELECT pg_try_advisory_lock(73)", busy)
	a.Do("COMMIT")
	b.want("SELECT pg_try_advisory_xact_lock(73)", free)
	a.want("SELECT pg_try_advisory_xact_lock(73)", free)
	a.Do("BEGIN", "SELECT pg_advisory_xact_lock(73)")
	if err := a.Try("SELECT 1/0"); Code(err) != "22012" {
		t.Error(err)
	}
	b.want("SELECT pg_try_advisory_xact_lock(73)", free)
	a.Do("ROLLBACK")

	// Wherever the call is.
	a.Do("CREATE TABLE job(k int PRIMARY KEY, by text)", "INSERT INTO job SELECT g FROM generate_series(1, 5) g",
		"CREATE FUNCTION grab(k int) RETURNS bool LANGUAGE plpgsql AS $$ BEGIN RETURN pg_try_advisory_xact_lock(k); "+
			"END $$",
		"CREATE VIEW grabbed AS SELECT k FROM job WHERE grab(k)")
	c.Everywhere("SELECT count(*) FROM job, pg_views WHERE viewname = 'grabbed'", "5")
	a.Do("BEGIN")
	a.want("SELECT k FROM job WHERE pg_try_advisory_xact_lock(k) ORDER BY k LIMIT 1", "1")
	b.Do("BEGIN")
	b.want("SELECT k FROM grabbed ORDER BY k LIMIT 1", "2")
	b.Do("DO $$ BEGIN PERFORM pg_advisory_xact_lock(5); END $$")
	a.want("SELECT grab(5)", "f")
	b.Do("PREPARE p AS UPDATE job SET by = 'b' WHERE k = 3 AND pg_try_advisory_xact_lock(k)", "EXECUTE p", "COMMIT")
	a.want("SELECT grab(5)", "t")
	a.Do("COMMIT")

	// PostgreSQL's own names for them lead nowhere else; reserved keys are refused.
	if err := a.Try("SELECT pg_advisory_lock((x'5475000000000001')::bigint)"); Code(err) != "42501" {
		t.Error(err)
	}
	a.held(0)
	a.waits(0)
}

// TestAdvisoryWaiting: who waits at another node is let in, in order, and not for ever.
func TestAdvisoryWaiting(t *testing.T) {
	c := use(t)
	a, b, d, watch := c.Connect(1), c.Connect(2), c.Connect(3), c.Connect(1)
	a.Do("SELECT pg_advisory_lock(81)")
	first := b.later("SELECT pg_advisory_lock(81)")
	watch.waits(1)
	second := d.later("SELECT pg_advisory_lock_shared(81)")
	watch.waits(2)
	a.Do("SELECT pg_advisory_unlock(81)")
	if err := first(); err != nil {
		t.Fatal(err)
	}
	watch.waits(1)
	b.Do("SELECT pg_advisory_unlock(81)")
	if err := second(); err != nil {
		t.Fatal(err)
	}
	// Cancelled, or out of time: it neither waits nor holds any more. What ends the transaction has no time limit.
	for sql, code := range map[string]string{"SET LOCAL lock_timeout = '200ms'": "55P03",
		"SET LOCAL statement_timeout = '200ms'": "57014"} {
		b.Do("BEGIN", sql)
		if err := b.Try("SELECT pg_advisory_lock(81)"); Code(err) != code {
			t.Errorf("%s: %v", sql, Explain(err))
		}
		b.Do("ROLLBACK")
		watch.waits(0)
	}
	first = b.later("SELECT pg_advisory_lock(81)")
	watch.waits(1)
	if err := b.PgConn().CancelRequest(b.ctx()); err != nil {
		t.Fatal(err)
	}
	if err := first(); Code(err) != "57014" || strings.Contains(Explain(err), "tutti.") {
		t.Error(Explain(err))
	}
	watch.waits(0)
	d.Do("SELECT pg_advisory_unlock_shared(81)")
	a.want("SELECT pg_try_advisory_xact_lock(81)", "t")
	b.want("SELECT pg_try_advisory_xact_lock(81)", "t")

	// A session that ends holds nothing, and waits for nothing.
	a.Do("SELECT pg_advisory_lock(82)")
	_ = b.later("SELECT pg_advisory_lock(82)")
	watch.waits(1)
	_ = b.PgConn().Conn().Close() // the socket
	watch.waits(0)
	_ = a.Close(a.ctx())
	c.Eventually(3, "SELECT pg_try_advisory_xact_lock(82)", "t")
}

// TestAdvisoryTimeout: lock_timeout ends a wait for another node, at whatever moment it begins.
func TestAdvisoryTimeout(t *testing.T) {
	c := use(t)
	a := c.Connect(1)
	a.Do("SELECT pg_advisory_lock(83)")
	var wg sync.WaitGroup
	for range 8 {
		b := c.Connect(2)
		b.Do("SET lock_timeout = '10ms'", "SET statement_timeout = '10s'")
		wg.Go(func() {
			for range 60 {
				if err := b.Try("SELECT pg_advisory_lock_shared(83)"); Code(err) != "55P03" {
					t.Error(Explain(err))
					return
				}
			}
		})
	}
	wg.Wait()
	a.waits(0)
}

// TestAdvisoryDeadlock: a circle over nodes ends with 40P01, also when a part of it is made of rows, and the rest goes
// on.
func TestAdvisoryDeadlock(t *testing.T) {
	c := use(t)
	watch := c.Connect(3)
	a, b := c.Connect(1), c.Connect(2)
	a.Do("SELECT pg_advisory_lock(91)")
	b.Do("SELECT pg_advisory_lock(92)")
	first := a.later("SELECT pg_advisory_lock(92)")
	watch.waits(1)
	if err := b.Try("SELECT pg_advisory_lock(91)"); Code(err) != "40P01" {
		t.Errorf("it closes a circle: %v", Explain(err))
	}
	b.Do("SELECT pg_advisory_unlock_all()")
	if err := first(); err != nil {
		t.Error(err)
	}
	a.Do("SELECT pg_advisory_unlock_all()")

	// a waits for b, who waits at its node for d's row, who waits for a.
	a.Do("CREATE TABLE circle(k int PRIMARY KEY, v int)", "INSERT INTO circle VALUES (1, 0)")
	c.Everywhere("SELECT count(*) FROM circle", "1")
	d := c.Connect(2)
	a.Do("SELECT pg_advisory_lock(93)")
	b.Do("BEGIN", "SELECT pg_advisory_xact_lock(94)")
	d.Do("BEGIN", "UPDATE circle SET v = 1 WHERE k = 1")
	answers := []func() error{a.later("SELECT pg_advisory_lock(94)"), b.later("UPDATE circle SET v = 2 WHERE k = 1")}
	watch.waits(1)
	answers = append(answers, d.later("SELECT pg_advisory_xact_lock(93)"))
	dead := 0
	// Whoever has an answer frees another, and so on.
	type answer struct {
		i   int
		err error
	}
	got := make(chan answer, 3)
	for i, f := range answers {
		go func() { got <- answer{i, f()} }()
	}
	for range 3 {
		x := <-got
		switch Code(x.err) {
		case "40P01":
			dead++
		case "":
			if x.err != nil {
				t.Errorf("%d: %v", x.i, x.err)
			}
		default:
			t.Errorf("%d: %v", x.i, Explain(x.err))
		}
		if x.i == 0 {
			a.Do("SELECT pg_advisory_unlock_all()")
		} else {
			[]*Conn{a, b, d}[x.i].Do("ROLLBACK")
		}
	}
	if dead != 1 {
		t.Errorf("%d sessions were told of the deadlock", dead)
	}
}

// TestAdvisoryDeadlockAgain: a session that waits for a row, has its turn, takes a lock and then waits for the same
// session again is part of a circle as well.
func TestAdvisoryDeadlockAgain(t *testing.T) {
	c := use(t)
	s, b, r, watch := c.Connect(1), c.Connect(1), c.Connect(2), c.Connect(3)
	s.Do("CREATE TABLE again(k int PRIMARY KEY, v int)", "INSERT INTO again VALUES (1, 0)",
		"SELECT pg_advisory_lock(9601)")
	r.Do("SELECT pg_advisory_lock(9602)")
	const update = "UPDATE again SET v = v + 1"
	b.Do("SELECT pg_advisory_lock(9604)", "BEGIN", update)
	answer := s.later(update)
	c.blocked(1, s)
	time.Sleep(3 * time.Second) // the others are told
	b.Do("COMMIT")
	if err := answer(); err != nil {
		t.Fatal(Explain(err))
	}
	s.Do("SELECT pg_advisory_lock(9603)")
	b.Do("BEGIN", update)
	answers := map[*Conn]func() error{s: s.later(update)}
	c.blocked(1, s)
	answers[b] = b.later("SELECT pg_advisory_xact_lock(9602)")
	watch.waits(1)
	answers[r] = r.later("SELECT pg_advisory_xact_lock(9601)")
	victim := make(chan *Conn, 3)
	for who, f := range answers {
		go func() {
			if Code(f()) == "40P01" {
				victim <- who
			}
		}()
	}
	select {
	case <-victim:
	case <-time.After(30 * time.Second):
		t.Error("nobody was told of the circle: " + watch.Get("SHOW tutti.locks"))
	}
	for _, x := range []*Conn{s, b, r} {
		_ = x.PgConn().Conn().Close()
	}
	watch.waits(0)
}

// TestAdvisoryExclusion: under load from all nodes two are never inside at once, and what was committed inside is seen
// by the next. The judge is a variable of this process. Meanwhile the node of a holder is killed.
func TestAdvisoryExclusion(t *testing.T) {
	t.Parallel()                   // mostly it waits
	const lease = 10 * time.Second // half of it is more than a pause of the machine and an election
	c := Start(t, 3, func(_ int, c *config.Config) { c.Limits.LockLeaseMs = int(lease / time.Millisecond) })
	c.Connect(1).Do("CREATE TABLE inside(k int PRIMARY KEY, n int)", "INSERT INTO inside VALUES (1, 0)")
	c.Everywhere("SELECT n FROM inside", "0")
	var inside, entered, worst atomic.Int64
	var killed atomic.Bool
	stop := make(chan struct{})
	var wg sync.WaitGroup
	end := sync.OnceFunc(func() { close(stop); wg.Wait() })
	defer end() // also when the test fails meanwhile
	for w := range 6 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				exclude(c, w%3+1, w%2 == 0, &inside, &entered, &worst, &killed, stop)
			}
		})
	}
	time.Sleep(seconds(3 * time.Second))
	// A holder at node 3, whose death frees the lock after a while: sooner if it comes back.
	for _, back := range []bool{true, false} {
		h := c.Connect(3)
		h.Do("SELECT pg_advisory_lock(1000)")
		killed.Store(true)
		began := time.Now()
		c.Kill(3)
		if back {
			c.Run(3)
		}
		heir := c.Connect(1)
		if err := heir.Try("SELECT pg_advisory_lock(1000)"); err != nil {
			t.Errorf("the lock of a dead holder: %v", Explain(err))
		}
		t.Logf("released %v after its node was killed (it came back: %v)", time.Since(began).Round(time.Millisecond),
			back)
		if !back && time.Since(began) < lease/2 {
			t.Errorf("released too early: after %v", time.Since(began))
		}
		if !back {
			c.Run(3)
		}
		c.WaitReady(3)
		heir.Do("SELECT pg_advisory_unlock_all()")
		killed.Store(false)
	}
	time.Sleep(time.Second)
	c.soon(func() bool { return entered.Load() >= 50 }, func() string { return "hardly anybody entered" })
	end()
	if worst.Load() > 1 {
		t.Errorf("%d were inside at once", worst.Load())
	}
	n := c.Connect(2).Get("SELECT n FROM inside")
	t.Logf("%d entered, counted %s", entered.Load(), n)
	c.Check()
}

// exclude connects to a node and goes in and out until something breaks.
func exclude(c *Cluster, node int, session bool, inside, entered, worst *atomic.Int64, killed *atomic.Bool,
	stop chan struct{}) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	conn, err := pgconn.Connect(ctx, c.URL(node))
	if err != nil {
		time.Sleep(50 * time.Millisecond)
		return
	}
	defer conn.Close(ctx)
	do := func(sql string) (string, bool) {
		r, err := conn.Exec(ctx, sql).ReadAll()
		if err != nil {
			if !killed.Load() && node != 3 {
				c.tb.Errorf("node %d: %s: %v", node, sql, Explain(err))
			}
			return "", false
		}
		if last := r[len(r)-1]; len(last.Rows) == 1 {
			return string(last.Rows[0][0]), true
		}
		return "", true
	}
	for {
		select {
		case <-stop:
			return
		default:
		}
		take, give := "BEGIN; SELECT pg_advisory_xact_lock(1)", "COMMIT"
		if session {
			take, give = "SELECT pg_advisory_lock(1)", "SELECT pg_advisory_unlock(1)"
		}
		if _, ok := do(take); !ok {
			return
		}
		now := inside.Add(1)
		entered.Add(1)
		worst.Store(max(worst.Load(), now))
		n, ok := do("SELECT n FROM inside")
		if ok {
			var v int
			_, _ = fmt.Sscan(n, &v)
			_, ok = do(fmt.Sprintf("UPDATE inside SET n = %d WHERE n = %d RETURNING n", v+1, v))
		}
		inside.Add(-1) // before the lock is given back
		if !ok {
			return
		}
		if _, ok := do(give); !ok {
			return
		}
	}
}

// TestAdvisoryCutOff: a node that is frozen, or without a majority, has its sessions lose their locks before others get
// them.
func TestAdvisoryCutOff(t *testing.T) {
	t.Parallel()                  // mostly it waits
	const lease = 8 * time.Second // half of it is more than a pause of the machine
	c := Start(t, 3, func(_ int, c *config.Config) { c.Limits.LockLeaseMs = int(lease / time.Millisecond) })
	holder, idle, other := c.Connect(1), c.Connect(1), c.Connect(2)
	other.Do("CREATE TABLE fenced(k int PRIMARY KEY)")
	c.Everywhere("SELECT count(*) FROM fenced", "0")
	idle.Do("SELECT 1")
	holder.Do("SELECT pg_advisory_lock(1)")
	time.Sleep(lease + lease/2)
	other.want("SELECT pg_try_advisory_lock(1)", "f") // a lease that is renewed does not end
	holder.Do("SELECT 1")

	// No majority: the others are frozen.
	for _, k := range []int{2, 3} {
		pid := c.PID(k)
		t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGCONT) })
		if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
	}
	began := time.Now()
	var last time.Duration // when the last statement that was answered was sent
	for {
		sent := time.Since(began)
		err := holder.Try("SELECT 1")
		if err == nil {
			last = sent
			time.Sleep(20 * time.Millisecond)
			continue
		}
		if last > lease/2+lease/4 || Code(err) != "57P01" ||
			!strings.Contains(Explain(err), "advisory locks are lost") {
			t.Errorf("the holder had its lock for %v or longer: %v", last, Explain(err))
		}
		break
	}
	idle.Do("SELECT 1") // it holds none
	for _, k := range []int{2, 3} {
		if err := syscall.Kill(c.PID(k), syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
	}
	other.Do("SELECT pg_advisory_lock(1)", "SELECT pg_advisory_unlock(1)")

	// Frozen itself, inside a transaction: the others go on, and what it writes afterwards does not count.
	c.WaitReady()
	holder = c.Connect(1)
	holder.Do("BEGIN", "SELECT pg_advisory_xact_lock(1)", "INSERT INTO fenced VALUES (1)")
	pid := c.PID(1)
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGCONT) })
	began = time.Now()
	other.Do("SELECT pg_advisory_lock(1)")
	if d := time.Since(began); d < lease/2 {
		t.Errorf("the lock of a frozen node was given away after %v", d)
	}
	if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if err := holder.Try("COMMIT"); err == nil {
		t.Error("a transaction committed under a lock that somebody else has")
	} else {
		t.Log(Explain(err))
	}
	c.WaitReady(1)
	c.Everywhere("SELECT count(*) FROM fenced", "0")
}

// TestAdvisoryLocksInDefinitions: one that runs in its place in the order takes no advisory locks: all would wait
// behind it for who has them. In a transaction block its own session has them, and no other member's applier.
func TestAdvisoryLocksInDefinitions(t *testing.T) {
	c := use(t)
	a, b := c.Connect(1), c.Connect(2)
	a.Do("CREATE TABLE locksdefine(k int PRIMARY KEY)", "INSERT INTO locksdefine VALUES (1), (2)",
		"CREATE FUNCTION locksdefine_f(int) RETURNS bool IMMUTABLE LANGUAGE plpgsql AS 'BEGIN PERFORM "+
			"pg_advisory_lock(90210); RETURN true; END'")
	c.Everywhere("SELECT to_regproc('locksdefine_f') IS NOT NULL", "t")
	b.Do("SELECT pg_advisory_lock(90210)")
	for _, sql := range []string{"CREATE INDEX ON locksdefine(k) WHERE locksdefine_f(k)",
		"ALTER TABLE locksdefine ADD CHECK (locksdefine_f(k))"} {
		if err := a.Try(sql); Code(err) != "0A000" {
			t.Errorf("%s while another session has the lock: %v, want 0A000", sql, Explain(err))
		}
	}
	c.Connect(3).Do("INSERT INTO locksdefine VALUES (3)")
	c.Settled()
	b.Do("SELECT pg_advisory_unlock(90210)", "BEGIN", "CREATE INDEX ON locksdefine(k) WHERE locksdefine_f(k)", "COMMIT",
		"SELECT pg_advisory_unlock_all()")
	c.Everywhere("SELECT count(*) FROM pg_index WHERE indrelid = 'locksdefine'::regclass", "2")
	for k := 1; k <= 3; k++ {
		if got := c.Connect(k).Get("SELECT pg_try_advisory_lock(90210), pg_advisory_unlock(90210)"); got != "t|t" {
			t.Errorf("node %d: the lock that nobody has: %s", k, got)
		}
	}
	c.Check()
}
