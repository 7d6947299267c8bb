package cluster

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// TestProceduresCommit: what a procedure commits, step by step, is at all nodes, in the one order, and conflicts like
// any other transaction. What it had committed before it lost stays.
func TestProceduresCommit(t *testing.T) {
	c := use(t)
	a, b := c.Connect(1), c.Connect(2)
	a.Do("CREATE TABLE proc_t (id int PRIMARY KEY, n int, v text)",
		`CREATE PROCEDURE proc_fill(first int, last int) LANGUAGE plpgsql AS $$ BEGIN FOR i IN first..last LOOP
			INSERT INTO proc_t VALUES (i, 0, 'new'); UPDATE proc_t SET n = n + i WHERE id = i; IF i % 10 = 0 THEN COMMIT; ELSIF i % 10 = 9 THEN ROLLBACK; END IF; END LOOP; END $$`)
	c.Settled()
	var wg sync.WaitGroup
	for k := 1; k <= 3; k++ {
		wg.Go(func() {
			s := c.Connect(k)
			s.Do(fmt.Sprintf("CALL proc_fill(%d, %d)", k*100, k*100+50))
		})
	}
	wg.Wait()
	// Of each ten, the first nine are rolled back before the tenth is committed; the last step commits by itself.
	c.Everywhere("SELECT count(*), sum(n), min(n), max(n) FROM proc_t", "18|4050|100|350")

	// What one transaction of a procedure has seen of the one before is no conflict.
	a.Do("CREATE TABLE proc_parent (id int PRIMARY KEY)",
		"CREATE TABLE proc_child (id int PRIMARY KEY, p int REFERENCES proc_parent)")
	c.Settled()
	a.Do(`DO $$ BEGIN FOR i IN 1..50 LOOP INSERT INTO proc_parent VALUES (i); COMMIT; INSERT INTO proc_child VALUES (i, i); COMMIT;
		DELETE FROM proc_child WHERE id = i; DELETE FROM proc_parent WHERE id = i; COMMIT; END LOOP; INSERT INTO proc_parent VALUES (0); END $$`)
	c.Everywhere("SELECT (SELECT count(*) FROM proc_parent), (SELECT count(*) FROM proc_child)", "1|0")

	// It loses to another node's transaction, at a COMMIT or before it; what was committed stays.
	a.Do("CREATE TABLE proc_go (id int PRIMARY KEY)",
		`CREATE PROCEDURE proc_meet() LANGUAGE plpgsql AS $$ BEGIN
			UPDATE proc_t SET v = 'first' WHERE id = 100; COMMIT;
			UPDATE proc_t SET v = 'second' WHERE id = 200;
			WHILE NOT EXISTS (SELECT FROM proc_go) LOOP PERFORM pg_sleep(0.01); END LOOP;
			UPDATE proc_t SET v = 'third' WHERE id = 300; COMMIT; END $$`)
	c.Settled()
	result := make(chan error, 1)
	go func() { result <- a.Try("CALL proc_meet()") }()
	// it holds the second row
	c.Eventually(1, fmt.Sprintf("SELECT wait_event FROM pg_stat_activity WHERE pid = %d", a.PgConn().PID()), "PgSleep")
	c.Settled()
	b.Do("UPDATE proc_t SET v = 'other' WHERE id = 200", "INSERT INTO proc_go VALUES (1)")
	if err := <-result; Code(err) != "40001" {
		t.Errorf("the procedure lost, but says %v", err)
	}
	c.Everywhere("SELECT string_agg(v, ' ' ORDER BY id) FROM proc_t WHERE id IN (100, 200, 300)", "first other new")
	a.Do("CALL proc_fill(900, 900)") // the session goes on
	c.Everywhere("SELECT n FROM proc_t WHERE id = 900", "900")
	c.Check()
}

// TestProceduresAndTheRest: definitions, NOTIFY, advisory locks, sequences, large objects, and values of all sorts.
func TestProceduresAndTheRest(t *testing.T) {
	c := use(t)
	a, b := c.Connect(1), c.Connect(2)
	a.Do(`DO $$ BEGIN CREATE TABLE proc_all (id serial PRIMARY KEY, at timestamptz DEFAULT '2026-01-02 03:04:05.678901+00', iv interval DEFAULT '1 mon 2 days 03:04:05.06', f float8 DEFAULT 0.1, b bytea DEFAULT '\x00ff', j jsonb DEFAULT '{"a": [1]}', v text);
		COMMIT; FOR i IN 1..3 LOOP INSERT INTO proc_all (v) VALUES ('it''s "' || i || '"'); UPDATE proc_all SET v = v || E' \\ ' WHERE id = i; COMMIT; END LOOP; END $$`)
	c.Everywhere("SELECT count(*), max(id), min(at)::text, max(iv::text), sum(f), string_agg(v, ',' ORDER BY id) "+
		"FROM proc_all", a.Get("SELECT count(*), max(id), min(at)::text, max(iv::text), sum(f), string_agg(v, ',' "+
		"ORDER BY id) FROM proc_all"))

	// A row of a table as only this transaction knows it cannot be read again elsewhere; the session goes on.
	err := a.Try(`DO $$ BEGIN ALTER TABLE proc_all ADD again int; UPDATE proc_all SET again = 1; UPDATE proc_all SET ` +
		`again = 2; COMMIT; END $$`)
	if Code(err) != "0A000" {
		t.Errorf("altered, and changed twice: %v", err)
	}
	a.Do(`DO $$ BEGIN INSERT INTO proc_all (v) VALUES ('on'); COMMIT; END $$`)

	// Partitions are made and filled, transaction by transaction.
	a.Do("CREATE TABLE proc_parts (id int, v text) PARTITION BY RANGE (id)",
		`CREATE PROCEDURE proc_partition(n int) LANGUAGE plpgsql AS $$ BEGIN FOR i IN 0..n-1 LOOP
			EXECUTE format('CREATE TABLE proc_parts_%s PARTITION OF proc_parts FOR VALUES FROM (%s) TO (%s)', i, i * 10, i * 10 + 10);
			INSERT INTO proc_parts SELECT g, 'v' FROM generate_series(i * 10, i * 10 + 4) g; COMMIT; END LOOP; END $$`)
	c.Settled()
	a.Do("CALL proc_partition(4)")
	c.Everywhere("SELECT count(*), count(DISTINCT tableoid) FROM proc_parts", "20|4")

	// A NOTIFY of each transaction is heard at another node.
	heard := c.Connect(3)
	heard.listen("proc_heard")
	a.Do(`DO $$ BEGIN PERFORM pg_notify('proc_heard', 'one'); INSERT INTO proc_all (v) VALUES ('n'); COMMIT; PERFORM ` +
		`pg_notify('proc_heard', 'no'); ROLLBACK; NOTIFY proc_heard, 'two'; COMMIT; END $$`)
	for _, want := range []string{"one", "two"} {
		n, err := heard.WaitForNotification(heard.ctx())
		if err != nil || n.Payload != want {
			t.Fatalf("heard %v, %v, want %s", n, err, want)
		}
	}

	// A lock of the session outlives a transaction, one of the transaction does not.
	a.Do(`DO $$ BEGIN PERFORM pg_advisory_lock(77001); INSERT INTO proc_all (v) VALUES ('l'); COMMIT; PERFORM ` +
		`pg_advisory_xact_lock(77002); INSERT INTO proc_all (v) VALUES ('l'); COMMIT; END $$`)
	c.soon(func() bool { return !strings.Contains(b.Get("SHOW tutti.locks"), "77002") },
		func() string { return "the lock of a transaction outlives it" })
	if got := b.Get("SELECT pg_try_advisory_lock(77001), pg_try_advisory_lock(77002)"); got != "f|t" {
		t.Errorf("another node gets the locks: %s", got)
	}
	a.Do("SELECT pg_advisory_unlock(77001)")
	b.Do("SELECT pg_advisory_unlock(77002)")

	a.Do(`DO $$ BEGIN PERFORM lo_from_bytea(77003, 'large'); COMMIT; PERFORM lo_put(77003, 5, ' object'); COMMIT; ` +
		`END $$`)
	c.Everywhere("SELECT encode(lo_get(77003), 'escape')", "large object")
	a.Do("SELECT lo_unlink(77003)")

	// A deferred trigger that writes.
	a.Do("CREATE TABLE proc_log (n int)", `CREATE FUNCTION proc_note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN `+
		`INSERT INTO proc_log SELECT count(*) FROM proc_all; RETURN NULL; END $$`,
		"CREATE CONSTRAINT TRIGGER proc_note AFTER INSERT ON proc_all DEFERRABLE INITIALLY DEFERRED FOR EACH ROW "+
			"EXECUTE FUNCTION proc_note()")
	a.Do(`DO $$ BEGIN FOR i IN 1..3 LOOP INSERT INTO proc_all (v) VALUES ('t'); COMMIT; END LOOP; END $$`)
	c.Everywhere("SELECT count(*), count(DISTINCT n) FROM proc_log", "3|3")
	c.Check()
}

// TestProceduresAreCancelled: while it runs, and while its COMMIT waits for the order.
func TestProceduresAreCancelled(t *testing.T) {
	c := use(t)
	a := c.Connect(1)
	a.Do("CREATE TABLE proc_cancel (id int PRIMARY KEY)")
	n := "0"
	for ms := 300; n == "0" && ms < 30_000; ms *= 3 { // on a slow machine nothing is committed before the end
		a.Do(fmt.Sprintf("SET statement_timeout = %d", ms))
		err := a.Try("DO $$ BEGIN FOR i IN 1..1000000 LOOP INSERT INTO proc_cancel VALUES (i); COMMIT; PERFORM " +
			"pg_sleep(0.01); END LOOP; END $$")
		if Code(err) != "57014" {
			t.Errorf("after %d ms: %v", ms, err)
		}
		a.Do("SET statement_timeout = 0")
		n = a.Get("SELECT count(*) FROM proc_cancel")
	}
	if n == "0" {
		t.Error("nothing was committed before the end")
	}
	c.Everywhere("SELECT count(*) FROM proc_cancel", n)
	result := make(chan error, 1)
	go func() {
		result <- a.Try("DO $$ BEGIN FOR i IN 1..1000000 LOOP DELETE FROM proc_cancel; INSERT INTO proc_cancel " +
			"VALUES (i); COMMIT; END LOOP; END $$")
	}()
	time.Sleep(300 * time.Millisecond)
	for over := false; !over; {
		_ = a.PgConn().CancelRequest(a.ctx())
		select {
		case err := <-result:
			over = true
			if Code(err) != "57014" {
				t.Errorf("cancelled: %v", err)
			}
		case <-time.After(10 * time.Millisecond):
		}
	}
	c.Settled()
	c.Everywhere("SELECT count(*), max(id) FROM proc_cancel", a.Get("SELECT count(*), max(id) FROM proc_cancel"))
}

// TestProcedureAtAKill: nodes and servers are killed while procedures commit at all of them. What was told by a NOTICE
// after a COMMIT is there afterwards, and all nodes agree.
func TestProcedureAtAKill(t *testing.T) {
	t.Parallel() // mostly it waits
	c := Start(t, 3)
	c.Connect(1).Do("CREATE TABLE killed (node int, n int, PRIMARY KEY (node, n))",
		`CREATE PROCEDURE kill_fill(k int, first int) LANGUAGE plpgsql AS $$ BEGIN
		FOR i IN first..first + 100000 LOOP INSERT INTO killed VALUES (k, i); COMMIT; RAISE NOTICE 'committed %', i; END LOOP; END $$`)
	c.Settled()
	var mu sync.Mutex
	told := map[int]int{}
	var wg sync.WaitGroup
	stop := make(chan struct{})
	for k := 1; k <= 3; k++ {
		wg.Go(func() {
			for first := 0; ; first += 1000000 {
				select {
				case <-stop:
					return
				default:
				}
				c.fill(k, first, func(n int) {
					mu.Lock()
					told[k] = max(told[k], n)
					mu.Unlock()
				}, stop)
			}
		})
	}
	c.soon(func() bool { mu.Lock(); defer mu.Unlock(); return told[1] > 0 && told[2] > 0 && told[3] > 0 },
		func() string { return "nothing is committed at a node" })
	for i, kill := range []func(){func() { c.Kill(1) }, func() { c.KillPostgres(2) }, func() { c.Kill(3) },
		func() { c.WaitReady(1); c.KillPostgres(1) }} {
		time.Sleep(1500 * time.Millisecond)
		kill()
		if i == 0 || i == 2 {
			time.Sleep(300 * time.Millisecond)
			c.Run(1 + i)
		}
	}
	time.Sleep(2 * time.Second)
	close(stop)
	wg.Wait()
	c.WaitReady()
	// nobody goes on without a client
	c.Everywhere("SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%CALL kill_fill%' AND pid <> "+
		"pg_backend_pid()", "0")
	c.Settled()
	for k := 1; k <= 3; k++ {
		mu.Lock()
		n := told[k]
		mu.Unlock()
		c.Everywhere(fmt.Sprintf("SELECT count(*) FROM killed WHERE node = %d AND n = %d", k, n), "1")
	}
	c.Everywhere("SELECT count(*), sum(n), max(n) FROM killed",
		c.Connect(1).Get("SELECT count(*), sum(n), max(n) FROM killed"))
	c.Check()
}

// fill calls the procedure at node k until it fails, or the test says stop, and passes on what it tells.
func (c *Cluster) fill(k, first int, told func(n int), stop <-chan struct{}) {
	ctx, cancel := context.WithTimeout(context.Background(), sqlTimeout)
	defer cancel()
	go func() {
		select {
		case <-stop:
			cancel()
		case <-ctx.Done():
		}
	}()
	config, err := pgconn.ParseConfig(c.URL(k))
	if err != nil {
		c.tb.Error(err)
		return
	}
	config.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) {
		var i int
		if _, err := fmt.Sscanf(n.Message, "committed %d", &i); err == nil {
			told(i)
		}
	}
	conn, err := pgconn.ConnectConfig(ctx, config)
	if err != nil {
		time.Sleep(50 * time.Millisecond) // the node is down
		return
	}
	defer func() { _ = conn.Close(context.Background()) }() // it is mostly broken
	if _, err := conn.Exec(ctx, fmt.Sprintf("CALL kill_fill(%d, %d)", k, first)).ReadAll(); Code(err) == "23505" {
		c.tb.Errorf("node %d: %v", k, err)
	}
}

// TestProceduresSeeTheirGroup: what becomes visible together with a transaction of a procedure's is seen by the foreign
// keys of the next one: no parent goes whose children another node has just made.
func TestProceduresSeeTheirGroup(t *testing.T) {
	c := use(t)
	a, b := c.Connect(1), c.Connect(2)
	const parents = 150
	a.Do("CREATE TABLE proc_dummy (id int PRIMARY KEY, n int)", "INSERT INTO proc_dummy VALUES (1, 0)",
		"CREATE TABLE proc_old (id int PRIMARY KEY)",
		fmt.Sprintf("INSERT INTO proc_old SELECT generate_series(1, %d)", parents),
		"CREATE TABLE proc_young (id int, p int REFERENCES proc_old, PRIMARY KEY (p, id))",
		`CREATE PROCEDURE proc_drop(k int) LANGUAGE plpgsql AS $$ BEGIN UPDATE proc_dummy SET n = n + 1; COMMIT;
			BEGIN DELETE FROM proc_old WHERE id = k; EXCEPTION WHEN foreign_key_violation THEN NULL; END; COMMIT; END $$`)
	c.Settled()
	for k := 1; k <= parents; k++ {
		done := make(chan error, 1)
		go func() {
			done <- b.Try(fmt.Sprintf("INSERT INTO proc_young SELECT g, %d FROM generate_series(1, 300) g", k))
		}()
		time.Sleep(time.Duration(k%15) * time.Millisecond)
		if err := a.Try(fmt.Sprintf("CALL proc_drop(%d)", k)); err != nil && Code(err) != "40001" {
			t.Fatal(err)
		}
		if err := <-done; err != nil && Code(err) != "40001" && Code(err) != "23503" {
			t.Fatal(err)
		}
	}
	c.Settled()
	c.Everywhere("SELECT count(*) FROM proc_young y WHERE NOT EXISTS (SELECT FROM proc_old o WHERE o.id = y.p)", "0")
	t.Logf("%s parents are left, %s children", a.Get("SELECT count(*) FROM proc_old"),
		a.Get("SELECT count(*) FROM proc_young"))
}
