package cluster

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// workers makes a session's queries run in parallel workers alone.
func (s *Conn) workers() *Conn {
	s.Do("SET force_parallel_mode = on", "SET parallel_setup_cost = 0", "SET parallel_tuple_cost = 0",
		"SET min_parallel_table_scan_size = 0",
		"SET parallel_leader_participation = off", "SET max_parallel_workers_per_gather = 3")
	return s
}

// held waits until n locks are held in the cluster, as a session at any node sees it.
func (s *Conn) held(n int) {
	s.c.tb.Helper()
	got := ""
	s.c.soon(func() bool {
		got = s.Get("SHOW tutti.locks")
		return strings.Count(got, "|true") == n
	}, func() string { return fmt.Sprintf("want %d that are held:\n%s", n, got) })
}

func (s *Conn) code(err error, want string) {
	s.c.tb.Helper()
	if Code(err) != want {
		s.c.tb.Errorf("%v, want %s", Explain(err), want)
	}
}

// workersLocks makes functions that take locks and are wrongly marked PARALLEL SAFE, and a table to call them for.
func workersLocks(t *testing.T, prefix string) (c *Cluster, a, b, watch *Conn) {
	c = use(t)
	a, b, watch = c.Connect(1), c.Connect(2), c.Connect(3)
	for name, body := range map[string]string{
		"share":   "SELECT pg_advisory_xact_lock_shared($1); SELECT 1",
		"excl":    "SELECT pg_advisory_xact_lock($1); SELECT 1",
		"session": "SELECT pg_advisory_lock_shared($1); SELECT 1", "try": "SELECT pg_try_advisory_lock_shared($1)::int",
		"xtry": "SELECT pg_try_advisory_xact_lock_shared($1)::int",
		"both": "SELECT pg_advisory_lock($1), pg_advisory_unlock($1); SELECT 1",
		// For LIMIT 1. What they give back is not the lock they keep. One goes on when it gets another lock.
		"slow": "SELECT pg_advisory_xact_lock($1), pg_advisory_lock($1 + 100), pg_advisory_unlock($1 + 100), " +
			"pg_advisory_xact_lock($1 + 200), pg_sleep(600); SELECT 1",
		"gate": "SELECT pg_advisory_xact_lock($1), pg_advisory_lock($1 + 100), pg_advisory_unlock($1 + 100), " +
			"pg_advisory_xact_lock($1 + 200), pg_advisory_xact_lock_shared($1 + 300); SELECT 1",
	} {
		a.Do(fmt.Sprintf("CREATE FUNCTION %s_%s(int, int) RETURNS int LANGUAGE sql PARALLEL SAFE AS '%s'", prefix, name,
			body))
	}
	a.Do(fmt.Sprintf("CREATE TABLE %s AS SELECT x FROM generate_series(1, 2000) x", prefix), "ANALYZE "+prefix)
	c.Everywhere("SELECT count(*) FROM "+prefix, "2000")
	return c, a, b, watch
}

// TestAdvisoryWorkers: parallel workers take advisory locks in the cluster, as one with their backend, and give them
// back when they end.
func TestAdvisoryWorkers(t *testing.T) {
	c, a, b, watch := workersLocks(t, "pw")
	a.workers().Do("BEGIN")

	// Somebody at another node has it; who waits is let in when it is given back.
	b.Do("SELECT pg_advisory_lock(7101)")
	answer := a.later("SELECT sum(pw_share(7101, x)) FROM pw")
	watch.waits(1)
	b.Do("SELECT pg_advisory_unlock(7101)")
	if err := answer(); err != nil {
		t.Fatal(Explain(err))
	}
	// The transaction goes on; the workers are gone, and their locks with them.
	watch.held(0)
	b.want("SELECT pg_try_advisory_lock(7101)", "t")
	b.Do("SELECT pg_advisory_unlock(7101)")

	// While a worker has it, nobody else does, at this node or another.
	for k, mode := range map[int]string{1: "", 2: "_shared"} {
		other := c.Connect(k)
		b.Do("SELECT pg_advisory_lock(7402)")
		answer = a.later("SELECT pw_gate(7102, x) FROM pw LIMIT 1")
		watch.waits(1)
		watch.held(3)
		other.want("SELECT pg_try_advisory_lock"+mode+"(7102)", "f")
		b.Do("SELECT pg_advisory_unlock(7402)")
		if err := answer(); err != nil {
			t.Fatal(Explain(err))
		}
		other.want("SELECT pg_try_advisory_lock"+mode+"(7102)", "t")
		other.Do("SELECT pg_advisory_unlock_all()")
	}

	// They do not keep their own backend waiting, nor it them, and its lock stays.
	a.Do("SELECT pg_advisory_xact_lock(7103)")
	a.want("SELECT sum(pw_share(7103, x)), sum(pw_excl(7103, x)), sum(pw_excl(7104, x % 3)) FROM pw", "2000|2000|2000")
	watch.held(1)
	b.want("SELECT pg_try_advisory_lock(7103)", "f")
	a.Do("COMMIT")
	b.want("SELECT pg_try_advisory_lock(7103)", "t")
	b.Do("SELECT pg_advisory_unlock_all()")

	// What workers take for the session is theirs as well, in PostgreSQL, too.
	a.want("SELECT sum(pw_session(7105, x)), sum(pw_try(7105, x)), sum(pw_xtry(7105, x)), sum(pw_both(7106, x)) FROM "+
		"pw WHERE x % 20 = 0", "100|100|100|100")
	watch.held(0)
	b.Do("SELECT pg_advisory_lock(7105)")
	a.want("SELECT sum(pw_try(7105, x)), sum(pw_xtry(7105, x)) FROM pw WHERE x < 100", "0|0")
	b.Do("SELECT pg_advisory_unlock_all()")

	// The statement goes on when the workers are gone.
	b.Do("SELECT pg_advisory_lock(7407)")
	answer = a.later("DO $$ BEGIN PERFORM pw_gate(7107, x) FROM pw LIMIT 1; PERFORM pg_sleep(600); END $$")
	watch.waits(1)
	b.Do("SELECT pg_advisory_unlock(7407)", "SELECT pg_advisory_lock(7107)", "SELECT pg_advisory_unlock(7107)")
	if err := a.PgConn().CancelRequest(a.ctx()); err != nil {
		t.Fatal(err)
	}
	a.code(answer(), "57014")
	// The backend takes part, and has locks of its own.
	a.Do("SET parallel_leader_participation = on")
	a.want("SELECT sum(pw_excl(7108, x)), sum(pw_share(7109, x)) FROM pw WHERE x % 20 = 0", "100|100")
	watch.held(0)
	// It cannot take one for the session then, and has none.
	a.Do("SET max_parallel_workers = 0")
	a.code(a.Try("SELECT sum(pw_session(7110, x)) FROM pw"), "25000")
	c.Connect(1).want("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = 7110", "0")
}

// TestAdvisoryWorkersEnd: however a worker that has a lock or waits for one ends, nothing is left of it.
func TestAdvisoryWorkersEnd(t *testing.T) {
	c, _, b, watch := workersLocks(t, "pe")
	const query = "SELECT sum(pe_share(7201, x)) FROM pe"
	worker := func(a *Conn, end string) {
		c.Connect(1).Do(fmt.Sprintf("SELECT %s((SELECT w.pid FROM pg_stat_activity w WHERE w.leader_pid = %d LIMIT 1))",
			end, a.PgConn().PID()))
	}
	b.Do("SELECT pg_advisory_lock(7201)")
	nothing := func(what string) {
		t.Helper()
		watch.waits(0)
		watch.held(1)
		// a client is told before its workers have ended
		c.Eventually(1, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = 7201", "0")
	}
	for what, how := range map[string]struct {
		end  func(a *Conn)
		code string
	}{
		"the backend is ended": {func(a *Conn) {
			c.Connect(1).Do(fmt.Sprintf("SELECT pg_terminate_backend(%d)", a.PgConn().PID()))
		}, "57P01"},
		"a worker is ended":     {func(a *Conn) { worker(a, "pg_terminate_backend") }, "57P01"},
		"a worker is cancelled": {func(a *Conn) { worker(a, "pg_cancel_backend") }, "57014"},
		"it is cancelled": {func(a *Conn) {
			if err := a.PgConn().CancelRequest(a.ctx()); err != nil {
				t.Error(err)
			}
		}, "57014"},
		"the client is gone": {func(a *Conn) { _ = a.PgConn().Conn().Close() }, ""},
		"lock_timeout":       {func(*Conn) {}, "55P03"},
	} {
		a := c.Connect(1).workers()
		if what == "lock_timeout" {
			a.Do("SET lock_timeout = '300ms'")
		}
		a.Do("BEGIN")
		answer := a.later(query)
		if what != "lock_timeout" { // it may be over before anybody has looked
			watch.waits(1)
		}
		how.end(a)
		err := answer()
		if how.code != "" {
			a.code(err, how.code)
		}
		nothing(what)
	}

	// It holds one, which somebody at another node wants.
	a := c.Connect(1).workers()
	answer := a.later("SELECT pe_slow(7202, x) FROM pe LIMIT 1")
	watch.held(3)
	next := b.later("SELECT pg_advisory_lock(7202)")
	watch.waits(1)
	c.Connect(1).Do(fmt.Sprintf("SELECT pg_terminate_backend(%d)", a.PgConn().PID()))
	a.code(answer(), "57P01")
	if err := next(); err != nil {
		t.Error(Explain(err))
	}

	// A circle over nodes: it ends at once, and at the worker.
	a = c.Connect(1).workers()
	a.Do("BEGIN", "SELECT pg_advisory_xact_lock(7203)")
	next = b.later("SELECT pg_advisory_lock(7203)")
	watch.waits(1)
	a.code(a.Try("SELECT sum(pe_share(7202, x)) FROM pe"), "40P01")
	a.Do("ROLLBACK")
	if err := next(); err != nil {
		t.Error(Explain(err))
	}
	b.Do("SELECT pg_advisory_unlock_all()")
	watch.held(0)
}

// TestAdvisoryWorkersExclude: under load from all nodes, workers and backends are never inside at once, while some are
// cancelled or ended. All have one clock.
func TestAdvisoryWorkersExclude(t *testing.T) {
	c, a, _, watch := workersLocks(t, "px")
	a.Do(`CREATE FUNCTION px_inside(int, int) RETURNS text LANGUAGE plpgsql PARALLEL SAFE AS $$ DECLARE began timestamptz;
		BEGIN PERFORM pg_advisory_xact_lock($1); began := clock_timestamp(); PERFORM pg_sleep(0.003);
		RETURN concat_ws(' ', (extract(epoch from began) * 1000000)::int8, (extract(epoch from clock_timestamp()) * 1000000)::int8); END $$`)
	c.Everywhere("SELECT count(*) FROM pg_proc WHERE proname = 'px_inside'", "1")
	var mu sync.Mutex
	var inside [][2]int64
	entered := func() int { mu.Lock(); defer mu.Unlock(); return len(inside) }
	const enough = 20
	var wg sync.WaitGroup
	until := time.Now().Add(seconds(5 * time.Second))
	goesOn := func() bool {
		return time.Now().Before(until) || entered() < enough && time.Now().Before(until.Add(sqlTimeout))
	}
	for i := range 9 {
		s := c.Connect(i%3 + 1).workers()
		if i%4 == 3 {
			s.Do("SET force_parallel_mode = off")
		}
		other := c.Connect(i%3 + 1)
		wg.Go(func() {
			for n := 0; goesOn(); n++ {
				if n%7 == i%7 {
					time.AfterFunc(time.Duration(n%5)*4*time.Millisecond,
						func() { _ = s.PgConn().CancelRequest(s.ctx()) })
				}
				if n%11 == i%11 {
					_ = other.Try(fmt.Sprintf("SELECT pg_terminate_backend(a.pid) FROM pg_stat_activity a WHERE "+
						"a.leader_pid = %d LIMIT 1", s.PgConn().PID()))
				}
				got, err := s.Ask("SELECT px_inside(7400, x) FROM px LIMIT 1")
				if code := Code(err); err != nil && code != "57014" && code != "57P01" && code != "XX000" {
					t.Errorf("%v", Explain(err))
					return
				}
				var in [2]int64
				if _, scan := fmt.Sscan(got, &in[0], &in[1]); err == nil && scan == nil {
					mu.Lock()
					inside = append(inside, in)
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	slices.SortFunc(inside, func(a, b [2]int64) int { return cmp.Compare(a[0], b[0]) })
	for i := 1; i < len(inside); i++ {
		if inside[i-1][1] >= inside[i][0] {
			t.Errorf("two were inside at once: %v and %v", inside[i-1], inside[i])
		}
	}
	t.Logf("%d were inside", len(inside))
	if entered() < enough {
		t.Error("hardly anybody was inside")
	}
	watch.held(0)
	watch.waits(0)
}

// TestAdvisoryWorkersNamed: a client can say that others of its own ask, and no one else.
func TestAdvisoryWorkersNamed(t *testing.T) {
	c := use(t)
	a, b, watch := c.Connect(1), c.Connect(1), c.Connect(2)
	say := func(s *Conn, lock int) string {
		return fmt.Sprintf("RAISE INFO USING ERRCODE = 'TT003', MESSAGE = 'take %d 2 1 0 %d'; ",
			uint64(s.PgConn().PID())<<24|5, lock)
	}
	answer := a.later("DO $$ BEGIN " + say(b, 7500) + say(a, 7501) + " PERFORM pg_sleep(600); END $$")
	watch.held(1)
	b.want("SELECT pg_try_advisory_xact_lock(7500)", "t")
	c.Settled()
	watch.held(1) // others hear of what b gave back a moment later
	if got := watch.Get("SHOW tutti.locks"); !strings.Contains(got, "|7501|") || strings.Contains(got, "|7500|") {
		t.Errorf("what is held: %s", got)
	}
	if err := a.PgConn().CancelRequest(a.ctx()); err != nil {
		t.Fatal(err)
	}
	a.code(answer(), "57014")
	watch.held(0)
}
