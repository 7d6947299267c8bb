package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"
)

// slowTable makes a table and a function for an index on it that takes about as long as rows times 10 ms, and as long
// as hold says.
func (c *Cluster) slowTable(name string, rows int) *Conn {
	s := c.Connect(1)
	s.Do("CREATE OR REPLACE FUNCTION slowly(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN PERFORM "+
		"pg_catalog.pg_sleep(0.01);"+
		" WHILE (pg_catalog.pg_stat_file('"+c.holdFile()+
		"', true)).size IS NOT NULL LOOP PERFORM pg_catalog.pg_sleep(0.01); END LOOP; RETURN $1; END $$",
		"CREATE TABLE "+name+"(k int PRIMARY KEY, v int) WITH (autovacuum_enabled = off)",
		fmt.Sprintf("INSERT INTO %s SELECT g, g FROM generate_series(1, %d) g", name, rows))
	c.Everywhere("SELECT count(*) FROM "+name, fmt.Sprint(rows))
	return s
}

func (c *Cluster) holdFile() string { return filepath.Join(c.Dir, "hold") }

// hold keeps whatever calls slowly from ending, at all nodes, until the test lets it go.
func (c *Cluster) hold() (letGo func()) {
	c.tb.Helper()
	if err := os.WriteFile(c.holdFile(), nil, 0o644); err != nil {
		c.tb.Fatal(err)
	}
	letGo = func() { _ = os.Remove(c.holdFile()) } // it may be gone
	c.tb.Cleanup(letGo)
	return letGo
}

// held runs a definition at a session's node until it is a long one at all nodes. It does not end before the test lets
// it go.
func (c *Cluster) held(s *Conn, sql string) (ended chan error, letGo func()) {
	c.tb.Helper()
	letGo = c.hold()
	ended = background(s, sql)
	for _, k := range c.All() {
		c.Eventually(k, pending, "1")
	}
	return ended, letGo
}

// background runs a statement and gives its error when it is over.
func background(s *Conn, sql string) chan error {
	out := make(chan error, 1)
	go func() { out <- s.Try(sql) }()
	return out
}

const pending = "SELECT count(*) FILTER (WHERE NOT done) - count(*) FILTER (WHERE done) FROM tutti.pending"

const indexes = "SELECT count(*) FROM pg_index WHERE indrelid = '%s'::regclass AND indisvalid"

// TestLongDefinitions: what is ordered after a definition that takes long goes on beside it, and it is carried out in
// the end. Most of it is waiting.
func TestLongDefinitions(t *testing.T) {
	t.Parallel()
	c := Start(t, 3)
	for _, s := range []struct {
		name string
		test func(*testing.T, *Cluster)
	}{{"and their table", longAndItsTable}, {"indexes are built concurrently", indexesConcurrently},
		{"materialized views", matviewsBeside}, {"survive", longSurvives},
		{"partitions are attached", partitionsAttached}} {
		t.Run(s.name, func(t *testing.T) { s.test(t, c.in(t)) })
	}
}

// TestLongDefinitionsStopNobodyElse: while a definition works on a large table, at every node, clients go on writing to
// others.
func TestLongDefinitionsStopNobodyElse(t *testing.T) {
	c := use(t)
	s := c.slowTable("long", 100)
	for name, sql := range map[string]string{
		"by itself": "CREATE INDEX ON long(slowly(v))", "in a block": "BEGIN; CREATE INDEX ON long(slowly(v)); COMMIT",
		"unique": "CREATE UNIQUE INDEX ON long(slowly(v))"} {
		t.Run(name, func(t *testing.T) {
			c := c.in(t)
			before := s.Get(fmt.Sprintf(indexes, "long"))
			var gaps []*gap
			for k := range c.Size() {
				c.Connect(k + 1).Do(fmt.Sprintf("DROP TABLE IF EXISTS beside%d", k+1))
				gaps = append(gaps, c.watchGap(k+1))
			}
			c.Settled() // a block loses to definitions that it has not seen
			var ended chan error
			var letGo func()
			if name == "in a block" { // here first
				letGo = c.hold()
				ended = background(s, sql)
				c.Eventually(1, fmt.Sprintf("SELECT wait_event FROM pg_stat_activity WHERE pid = %d", s.PgConn().PID()),
					"PgSleep")
			} else {
				ended, letGo = c.held(s, sql)
			}
			for k, g := range gaps {
				most := g.commits.Load() + 20
				c.soon(func() bool { return g.commits.Load() >= most },
					func() string { return fmt.Sprintf("clients of node %d do not go on beside a definition", k+1) })
			}
			letGo()
			if err := <-ended; err != nil {
				t.Error(Explain(err))
			}
			for k, g := range gaps {
				longest, err := g.end()
				t.Logf("%s: node %d's clients had a pause of %v", sql, k+1, longest)
				if err != nil {
					t.Errorf("node %d: %v", k+1, Explain(err))
				}
			}
			n, _ := strconv.Atoi(before)
			c.Everywhere(fmt.Sprintf(indexes, "long"), fmt.Sprint(n+1))
		})
	}
	s.Do("DROP TABLE long, beside1, beside2, beside3", "DROP FUNCTION slowly")
	c.Check()
}

// longAndItsTable: who writes to the table of a long definition waits for it, and one whose transaction
// began before its end loses; other definitions and checks wait; what fails, fails everywhere.
func longAndItsTable(t *testing.T, c *Cluster) {
	a := c.slowTable("held", 60)
	a.Do("CREATE TABLE other(k int PRIMARY KEY)")
	c.Everywhere("SELECT count(*) FROM other", "0")
	b := c.Connect(2)
	ended, letGo := c.held(a, "CREATE INDEX ON held(slowly(v))")
	b.Do("BEGIN ISOLATION LEVEL REPEATABLE READ", "INSERT INTO other VALUES (1)")
	answer := b.later("INSERT INTO held VALUES (1001, 1001)")
	c.blocked(2, b)
	letGo()
	if err := answer(); err != nil {
		t.Error(Explain(err))
	}
	if err := b.Try("COMMIT"); Code(err) != "40001" {
		t.Errorf("a transaction from before the end of a definition that has written to its table: %v, want 40001", err)
	}
	if err := <-ended; err != nil {
		t.Fatal(Explain(err))
	}
	c.Everywhere(pending, "0")

	ended, letGo = c.held(a, "CREATE INDEX ON held(slowly(v))")
	answer = b.later("INSERT INTO held VALUES (1002, 1002)") // alone it is tried again
	c.blocked(2, b)
	letGo()
	if err := answer(); err != nil {
		t.Error(Explain(err))
	}
	if n := c.Connect(2).Get(fmt.Sprintf(indexes, "held")); n != "3" {
		t.Errorf("a row was written while the index was built: there are %s", n)
	}
	if err := <-ended; err != nil {
		t.Fatal(Explain(err))
	}

	c.Everywhere("SELECT count(*) FROM held WHERE k = 1002", "1") // who applies it has a lock on the table
	ended, letGo = c.held(a, "CREATE INDEX ON held(slowly(v))")
	ordinal := c.counters(2)["ordinal"]
	answer = b.later("CREATE TABLE later(k int PRIMARY KEY)")
	c.soon(func() bool { return c.counters(2)["ordinal"] > ordinal },
		func() string { return "a definition behind a long one is not ordered" })
	letGo()
	c.Check() // waits as well
	if err := answer(); err != nil {
		t.Error(Explain(err))
	}
	if err := <-ended; err != nil {
		t.Fatal(Explain(err))
	}
	c.Everywhere("SELECT count(*) FROM later", "0")

	for k := range 2 { // who defines other tables, from before it
		s := c.Connect(k + 1)
		s.Do("BEGIN", fmt.Sprintf("CREATE TABLE own%d(k int PRIMARY KEY)", k),
			fmt.Sprintf("INSERT INTO other VALUES (%d)", 100+k))
		ended, letGo = c.held(a, "CREATE INDEX ON held(slowly(v))")
		answer = s.later("COMMIT")
		time.Sleep(200 * time.Millisecond) // most likely it waits then
		letGo()
		if err := answer(); err != nil {
			t.Errorf("a transaction of node %d with definitions, beside a long one: %v", k+1, Explain(err))
		}
		if err := <-ended; err != nil {
			t.Fatal(Explain(err))
		}
		c.Settled()
	}
	c.Everywhere("SELECT count(*) FROM own0, own1", "0")

	// On a large table it does not wait for who has locked it here.
	a.Do("CREATE TABLE wide(k int PRIMARY KEY, pad text) WITH (autovacuum_enabled = off)",
		"ALTER TABLE wide ALTER pad SET STORAGE PLAIN",
		"INSERT INTO wide SELECT g, repeat('x', 5000) FROM generate_series(1, 1100) g", "ANALYZE wide")
	holder := c.Connect(1)
	holder.Do("BEGIN", "LOCK TABLE wide IN ROW EXCLUSIVE MODE")
	a.Do("CREATE INDEX ON wide(k)")
	if err := holder.Try("COMMIT"); Code(err) != "40001" {
		t.Errorf("a transaction that has locked a large table for which an index is built: %v, want 40001", err)
	}

	a.Do("UPDATE held SET v = 7 WHERE k IN (59, 60)")
	c.Everywhere("SELECT count(*) FROM held WHERE v = 7", "3")
	ended, letGo = c.held(a, "CREATE UNIQUE INDEX twice ON held(slowly(v))")
	b.Do("INSERT INTO other VALUES (2)")
	letGo()
	if err := <-ended; Code(err) != "23505" {
		t.Errorf("a unique index over equal values: %v, want 23505", err)
	}
	c.Everywhere(pending, "0")
	c.Everywhere("SELECT to_regclass('twice') IS NULL", "t")
	c.Check()
}

// longSurvives: a member that is killed while it carries out a long definition does so when it is back,
// whether the others have it by then or not.
func longSurvives(t *testing.T, c *Cluster) {
	a := c.slowTable("kept", 60)
	a.Do("CREATE TABLE kept_beside(k int)")
	c.Everywhere("SELECT count(*) FROM kept_beside", "0")
	for i, kill := range []func(){func() { c.Kill(3) }, func() { c.KillBoth(3) }} {
		ended, letGo := c.held(a, "CREATE INDEX ON kept(slowly(v))")
		c.Connect(2).Do(fmt.Sprintf("INSERT INTO kept_beside VALUES (%d)", i)) // is ordered after it
		c.Eventually(3, "SELECT max(k) FROM kept_beside", fmt.Sprint(i))       // and the progress is behind it
		kill()
		letGo()
		if err := <-ended; err != nil {
			t.Fatal(Explain(err))
		}
		c.Run(3)
		c.WaitReady(3)
		c.Everywhere(fmt.Sprintf(indexes, "kept"), fmt.Sprint(i+2))
		c.Everywhere(pending, "0")
		c.Check()
	}
	// All of them, and the progress is behind it.
	ended, letGo := c.held(a, "CREATE INDEX ON kept(slowly(v))")
	var wg sync.WaitGroup
	for _, k := range c.All() {
		s := c.Connect(k)
		wg.Go(func() { _ = s.Try("UPDATE kept_beside SET k = k") }) // what it does to the progress matters alone
	}
	wg.Wait()
	c.KillAll()
	letGo()
	<-ended
	for _, k := range c.All() {
		c.Run(k)
	}
	c.WaitReady()
	c.Everywhere(fmt.Sprintf(indexes, "kept"), "4")
	c.Check()
}

// indexesConcurrently: CREATE INDEX CONCURRENTLY waits at every member for who is older, while clients go on
// writing to its table; it gives way to what needs the whole table; others' definitions do not wait for idle clients;
// a member that dies meanwhile builds it when it is back.
func indexesConcurrently(t *testing.T, c *Cluster) {
	a, writer := c.Connect(1), c.Connect(2)
	a.Do("CREATE TABLE busy(k int PRIMARY KEY, v int, w varchar(40)) WITH (autovacuum_enabled = off)",
		"INSERT INTO busy SELECT g, g, g FROM generate_series(1, 1000) g", "CREATE TABLE busy_beside(k int)")
	c.Everywhere("SELECT count(*) FROM busy", "1000")
	c.Everywhere("SELECT count(*) FROM busy_beside", "0")
	older := func(k int) *Conn {
		s := c.Connect(k)
		s.Do("BEGIN ISOLATION LEVEL REPEATABLE READ", "SELECT count(*) FROM busy_beside")
		return s
	}
	build := func(name string, columns string) chan error {
		t.Helper()
		ended := background(a, "CREATE INDEX CONCURRENTLY "+name+" ON busy("+columns+") WHERE w IS NOT NULL")
		c.Everywhere("SELECT count(*) FROM pg_class WHERE relname = '"+name+"'", "1")
		return ended
	}
	built := func(name string, ended chan error) {
		t.Helper()
		if err := <-ended; err != nil {
			t.Fatal(Explain(err))
		}
		c.Everywhere("SELECT indisvalid FROM pg_index WHERE indexrelid = '"+name+"'::regclass", "t")
	}
	var held []*Conn
	for _, k := range c.All() {
		held = append(held, older(k))
	}
	ended := build("busy1", "v, w")
	for i := range 30 { // of each node, while each waits for its old one
		c.Connect(i%3+1).Do(fmt.Sprintf("UPDATE busy SET v = v + 1 WHERE k = %d", i+1),
			fmt.Sprintf("INSERT INTO busy VALUES (%d, 0, 'new')", 2000+i))
	}
	c.Everywhere("SELECT count(*) FROM busy", "1030")
	c.Everywhere("SELECT count(*) FROM pg_index WHERE indexrelid = 'busy1'::regclass AND indisvalid", "0")
	for _, s := range held {
		s.Do("COMMIT")
	}
	built("busy1", ended)

	s := older(3)
	ended = build("busy2", "v")
	writer.Do("TRUNCATE busy", "INSERT INTO busy VALUES (1, 1, 'x')")
	c.Everywhere("SELECT count(*) FROM busy", "1") // it does not wait for the index at node 3
	s.Do("COMMIT")                                 // which has given way, not this one
	built("busy2", ended)

	s = c.Connect(2) // where the table is asked for while the index still waits for who has written to it
	s.Do("BEGIN", "INSERT INTO busy VALUES (3, 3, 'z')")
	ended = build("busy2b", "v")
	answer := writer.later("TRUNCATE busy")
	c.blocked(2, writer)
	s.Do("COMMIT")
	if err := answer(); err != nil {
		t.Error(Explain(err))
	}
	built("busy2b", ended)
	writer.Do("INSERT INTO busy VALUES (1, 1, 'x')")

	s = older(3)
	ended = build("busy3", "v")
	writer.Do("CREATE TABLE busy_after(k int)")
	c.Everywhere("SELECT count(*) FROM busy_after", "0")
	if err := s.Try("COMMIT"); Code(err) != "40001" {
		t.Errorf("a transaction for which an index, and another definition behind it, waits: %v, want 40001", err)
	}
	built("busy3", ended)

	older(3)
	ended = build("busy4", "v")
	writer.Do("INSERT INTO busy_beside VALUES (1)")
	c.Eventually(3, "SELECT count(*) FROM busy_beside", "1")
	c.Kill(3)
	if err := <-ended; err != nil {
		t.Fatal(Explain(err))
	}
	writer.Do("INSERT INTO busy VALUES (2, 2, 'y')")
	c.Run(3)
	c.WaitReady(3)
	c.Everywhere("SELECT indisvalid FROM pg_index WHERE indexrelid = 'busy4'::regclass", "t")
	c.Everywhere("SELECT count(*) FROM busy WHERE v = 2", "1")

	// Its client cancels it: it is not valid at its node, as in PostgreSQL, and goes away at all.
	s = older(1)
	ended = build("busy5", "v")
	if err := a.PgConn().CancelRequest(a.ctx()); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; Code(err) != "57014" {
		t.Errorf("an index whose client cancels it: %v, want 57014", err)
	}
	c.Eventually(1, "SELECT indisvalid FROM pg_index WHERE indexrelid = 'busy5'::regclass", "f")
	s.Do("COMMIT")
	a.Do("DROP INDEX busy5")
	c.Everywhere("SELECT to_regclass('busy5') IS NULL", "t")

	if err := a.Try("CREATE INDEX CONCURRENTLY busy4 ON busy(v)"); Code(err) != "42P07" {
		t.Errorf("an index whose name is taken: %v, want 42P07", err)
	}
	a.Do("CREATE INDEX CONCURRENTLY IF NOT EXISTS busy4 ON busy(v)", "DROP INDEX CONCURRENTLY busy1")
	c.Check()
}

// matviewsBeside: what is ordered after REFRESH goes on beside it, and all members get the rows of
// its place in the order; if one dies meanwhile, all refresh it again.
func matviewsBeside(t *testing.T, c *Cluster) {
	s := c.slowTable("source", 60)
	s.Do("CREATE MATERIALIZED VIEW seen AS SELECT k, slowly(v) AS v FROM source WITH NO DATA",
		"CREATE UNIQUE INDEX ON seen(k)", "REFRESH MATERIALIZED VIEW seen")
	c.Everywhere("SELECT count(*), sum(v) FROM seen", "60|1830")
	for i, sql := range []string{"REFRESH MATERIALIZED VIEW seen", "REFRESH MATERIALIZED VIEW CONCURRENTLY seen"} {
		s.Do(fmt.Sprintf("UPDATE source SET v = v + %d WHERE k = 1", i+1))
		ended, letGo := c.held(s, sql)
		c.Connect(2).Do("UPDATE source SET v = v + 1000 WHERE k = 1") // which it does not see, anywhere
		letGo()
		if err := <-ended; err != nil {
			t.Fatal(Explain(err))
		}
		c.Everywhere(pending, "0")
		c.Everywhere("SELECT sum(v) FROM seen", fmt.Sprint(1831+i*1002))
	}
	ended, letGo := c.held(s, "REFRESH MATERIALIZED VIEW seen")
	c.Connect(2).Do("UPDATE source SET v = v + 1000 WHERE k = 1")
	c.Eventually(3, "SELECT v FROM source WHERE k = 1", "3004")
	c.Kill(3)
	letGo()
	if err := <-ended; err != nil {
		t.Fatal(Explain(err))
	}
	c.Run(3)
	c.WaitReady(3)
	c.Everywhere("SELECT sum(v) FROM seen", "4833")
	c.Everywhere(pending, "0")
	c.Check()
}
