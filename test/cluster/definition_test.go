package cluster

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tuttidb/tutti/internal/database/instance"
)

// TestDefinitionsAreEverywhereInOrder makes, uses, changes and drops things at changing nodes.
func TestDefinitionsAreEverywhereInOrder(t *testing.T) {
	c := use(t)
	steps := []struct{ sql, look, want string }{
		{"CREATE SCHEMA ddl", "SELECT count(*) FROM pg_namespace WHERE nspname = 'ddl'", "1"},
		{"CREATE TYPE ddl.mood AS ENUM ('sad', 'ok')", "SELECT 'ok'::ddl.mood", "ok"},
		{"CREATE TABLE ddl.t(k int PRIMARY KEY, m ddl.mood)", "SELECT count(*) FROM ddl.t", "0"},
		{"INSERT INTO ddl.t VALUES (1, 'ok')", "SELECT m FROM ddl.t", "ok"},
		{"ALTER TYPE ddl.mood ADD VALUE 'happy'", "SELECT count(*) FROM pg_enum WHERE enumtypid = 'ddl.mood'::regtype",
			"3"},
		{"UPDATE ddl.t SET m = 'happy'", "SELECT m FROM ddl.t", "happy"},
		{"ALTER TABLE ddl.t ADD COLUMN n int NOT NULL DEFAULT 7", "SELECT n FROM ddl.t", "7"},
		{"INSERT INTO ddl.t VALUES (2, 'sad', 8)", "SELECT sum(n) FROM ddl.t", "15"},
		{"CREATE UNIQUE INDEX t_n ON ddl.t(n)", "SELECT count(*) FROM pg_indexes WHERE schemaname = 'ddl'", "2"},
		{"CREATE INDEX CONCURRENTLY t_c ON ddl.t(n, k)",
			"SELECT count(*) FROM pg_index WHERE indexrelid = 'ddl.t_c'::regclass AND indisvalid", "1"},
		{"DROP INDEX CONCURRENTLY ddl.t_c", "SELECT to_regclass('ddl.t_c') IS NULL", "t"},
		{"CREATE VIEW ddl.v AS SELECT sum(n) AS s FROM ddl.t", "SELECT s FROM ddl.v", "15"},
		{"CREATE FUNCTION ddl.f(int) RETURNS int LANGUAGE sql AS 'SELECT $1 + 1'", "SELECT ddl.f(1)", "2"},
		{"CREATE OR REPLACE FUNCTION ddl.f(int) RETURNS int LANGUAGE sql AS 'SELECT $1 + 2'", "SELECT ddl.f(1)", "3"},
		{"ALTER TABLE ddl.t DROP COLUMN m", "SELECT * FROM ddl.t WHERE k = 2", "2|8"},
		{"UPDATE ddl.t SET n = n + 1 WHERE k = 2", "SELECT s FROM ddl.v", "16"},
		{"ALTER TABLE ddl.t RENAME COLUMN n TO num", "SELECT sum(num) FROM ddl.t", "16"},
		{"ALTER TABLE ddl.t RENAME TO renamed", "SELECT count(*) FROM ddl.renamed", "2"},
		{"DELETE FROM ddl.renamed WHERE k = 1", "SELECT count(*) FROM ddl.renamed", "1"},
		{"CREATE SEQUENCE ddl.s", "SELECT count(*) FROM pg_sequences WHERE schemaname = 'ddl'", "1"},
		{"CREATE MATERIALIZED VIEW ddl.mv AS SELECT num FROM ddl.renamed", "SELECT num FROM ddl.mv", "9"},
		{"COMMENT ON TABLE ddl.renamed IS 'hi'", "SELECT obj_description('ddl.renamed'::regclass)", "hi"},
		{"DROP TYPE ddl.mood", "SELECT to_regtype('ddl.mood') IS NULL", "t"},
		{"DROP INDEX ddl.t_n", "SELECT count(*) FROM pg_indexes WHERE schemaname = 'ddl' AND tablename = 'renamed'",
			"1"},
		{"DROP SCHEMA ddl CASCADE", "SELECT count(*) FROM pg_namespace WHERE nspname = 'ddl'", "0"},
	}
	for i, step := range steps {
		c.Connect(1 + i%3).Do(step.sql)
		c.Everywhere(step.look, step.want)
	}
	c.Check()
}

// TestDroppedNames: a name with a schema, and names that are wrong in every way, are answered
// by PostgreSQL, and the session goes on.
func TestDroppedNames(t *testing.T) {
	s := use(t).Connect(1)
	s.Do("CREATE TABLE droppednames(k int PRIMARY KEY)",
		"CREATE RULE r AS ON DELETE TO droppednames DO INSTEAD NOTHING", "DROP RULE r ON public.droppednames")
	for sql, code := range map[string]string{
		"DROP TRIGGER x ON public.droppednames": "42704",
		"DROP POLICY x ON public.droppednames":  "42704",
		"DROP RULE x ON nowhere.droppednames":   "3F000",
		"DROP TABLE elsewhere.public.t":         "0A000",
		"DROP TABLE a.b.c.d":                    "42601",
		"DROP TRIGGER x ON a.b.c.d":             "42601",
	} {
		if err := s.Try(sql); Code(err) != code {
			t.Errorf("%s: %v, not %s", sql, err, code)
		}
	}
	s.Do("DROP TABLE droppednames")
}

// TestDefinitionsWhileWriting changes a table while every node writes to it. A writer may be
// told 40001, or that a column is not there; nothing else.
func TestDefinitionsWhileWriting(t *testing.T) {
	c := use(t)
	c.Connect(1).Do("CREATE TABLE busy(k bigint PRIMARY KEY, v int)")
	c.Everywhere("SELECT count(*) FROM busy", "0")
	stop := make(chan struct{})
	var wg sync.WaitGroup
	var mu sync.Mutex
	told := 0
	for i := range 6 {
		s := c.Connect(1 + i%3)
		wg.Go(func() {
			for n := 0; !closed(stop); n++ {
				q := fmt.Sprintf("INSERT INTO busy(k, v) VALUES (%d, 1)", i<<20|n)
				if n%2 == 1 {
					q = fmt.Sprintf("BEGIN; %s; UPDATE busy SET v = v + 1 WHERE k = %d; COMMIT", q, i<<20|n)
				}
				switch err := s.Try(q); {
				case err == nil:
					mu.Lock()
					told++
					mu.Unlock()
				case Code(err) == "40001":
					s.Do("ROLLBACK")
				default:
					t.Errorf("writer %d: %s", i, Explain(err))
					return
				}
			}
		})
	}
	ddl := []string{
		"ALTER TABLE busy ADD COLUMN x%d int DEFAULT 5", "CREATE INDEX busy%d ON busy(v)",
		"CREATE TABLE beside%d(k int PRIMARY KEY)",
		"ALTER TABLE busy ADD CONSTRAINT c%d CHECK (v > 0)", "DROP INDEX busy%d", "ALTER TABLE busy DROP COLUMN x%d",
		"ALTER TABLE busy DROP CONSTRAINT c%d", "DROP TABLE beside%d",
	}
	until := time.Now().Add(seconds(2 * time.Second))
	for round := 0; round == 0 || time.Now().Before(until); round++ {
		for i, q := range ddl {
			if err := c.Connect(1 + (round+i)%3).Try(fmt.Sprintf(q, round)); err != nil {
				t.Errorf("%s: %s", q, Explain(err))
			}
		}
	}
	close(stop)
	wg.Wait()
	t.Logf("%d transactions", told)
	c.Everywhere("SELECT count(*) FROM busy", fmt.Sprint(told))
	c.Check()
}

// alone is a plain connection to node k's own PostgreSQL, as the oracle.
func (c *Cluster) alone(k int, database string) *pgx.Conn {
	c.tb.Helper()
	build, err := findBuild()
	if err != nil {
		c.tb.Fatal(err)
	}
	inst := instance.New(instance.Options{Build: build, DataDir: c.Node(k).Config.DataDir + "/postgres"})
	conn, err := pgx.Connect(c.tb.(*testing.T).Context(), inst.ConnString("postgres", database))
	if err != nil {
		c.tb.Fatal(err)
	}
	c.tb.Cleanup(func() { closeConn(conn) })
	return conn
}

func TestFailingDefinitionsSayWhatPostgreSQLSays(t *testing.T) {
	c := use(t)
	s, oracle := c.Connect(2), c.alone(2, "template1")
	const setup = "CREATE TABLE fails(k int PRIMARY KEY, v int)"
	s.Do(setup)
	if _, err := oracle.Exec(t.Context(), setup); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { run(oracle, "DROP TABLE fails") })
	for _, q := range []string{
		setup, "CREATE TABLE fails2(k int PRIMARY KEY, k int)", "CREATE TABLE fails3(k nosuch)", "DROP TABLE nosuch",
		"ALTER TABLE fails ADD COLUMN v int",
		"ALTER TABLE fails ALTER COLUMN nosuch SET NOT NULL", "CREATE INDEX ON fails(nosuch)",
		"CREATE VIEW fv AS SELECT nosuch FROM fails",
		"CREATE FUNCTION ff() RETURNS int LANGUAGE sql AS 'SELECT nosuch'", "ALTER TABLE fails ADD CHECK (nosuch > 1)",
		"DROP SEQUENCE nosuch",
		"CREATE TYPE fails AS (a int)", "ALTER TABLE fails ADD FOREIGN KEY (v) REFERENCES nosuch",
		"DROP SCHEMA pg_catalog",
		"CREATE TABLE", "CREATE TABLE fails4(k int", "GRANT SELECT ON nosuch TO public",
	} {
		got, want := s.Try(q), run(oracle, q)
		if want == nil {
			t.Errorf("%s does not fail", q)
			continue
		}
		if a, b := wording(got), wording(want); a != b {
			t.Errorf("%s:\n  %s\nPostgreSQL:\n  %s", q, a, b)
		}
	}
	c.Check()
}

// wording is what a client shows of an error.
func wording(err error) string {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return fmt.Sprint(err)
	}
	return fmt.Sprintf("%s %s: %s, detail %q, hint %q, at %d", pg.Severity, pg.Code, pg.Message, pg.Detail, pg.Hint,
		pg.Position)
}

func TestSequencesNeverCollide(t *testing.T) {
	c := use(t)
	c.Connect(3).Do("CREATE TABLE seqs(a serial PRIMARY KEY, b bigint GENERATED ALWAYS AS IDENTITY, c int UNIQUE " +
		"GENERATED BY DEFAULT AS IDENTITY, UNIQUE (b))")
	c.Everywhere("SELECT count(*) FROM seqs", "0")
	var wg sync.WaitGroup
	for i := range 6 {
		s := c.Connect(1 + i%3)
		wg.Go(func() {
			for n := range 50 {
				q := "INSERT INTO seqs DEFAULT VALUES"
				if n%10 == 0 {
					q = "INSERT INTO seqs(c) SELECT nextval('seqs_c_seq') FROM generate_series(1, 3)"
				}
				if err := s.Try(q); err != nil {
					t.Errorf("client %d: %s", i, Explain(err))
					return
				}
			}
		})
	}
	wg.Wait()
	c.Everywhere("SELECT count(*), count(DISTINCT a), count(DISTINCT b), count(DISTINCT c) FROM seqs",
		"360|360|360|360")
	// A setval is a point in the order, and values go on above it at every node.
	c.Connect(2).Do("SELECT setval('seqs_a_seq', 100000)")
	c.Settled()
	seen := map[string]bool{}
	for _, k := range c.All() {
		v := c.Connect(k).Get("SELECT nextval('seqs_a_seq')")
		var n int
		if _, err := fmt.Sscan(v, &n); err != nil || n <= 100000 || seen[v] {
			t.Errorf("node %d gives %s after setval to 100000 (others: %v)", k, v, seen)
		}
		seen[v] = true
	}
	c.Check()
}

// refused checks G6: what cannot be replicated is refused with 0A000 and a hint.
func refused(t *testing.T, sql string, err error) {
	t.Helper()
	var pg *pgconn.PgError
	if !errors.As(err, &pg) || pg.Code != "0A000" || pg.Hint == "" {
		t.Errorf("%s: %s, want 0A000 with a HINT", sql, Explain(err))
	}
}

func TestRefusals(t *testing.T) {
	c := use(t)
	s := c.Connect(1)
	s.Do("CREATE TABLE nokey(v int)", "INSERT INTO nokey VALUES (1), (2)",
		"CREATE TABLE keyed(k int PRIMARY KEY, v int)", "INSERT INTO keyed VALUES (1, 1)")
	c.Everywhere("SELECT count(*) FROM keyed", "1")
	for _, q := range []string{
		"CREATE DATABASE x TEMPLATE postgres", "DROP DATABASE template1", "ALTER SYSTEM SET work_mem = '5MB'",
		"SET session_replication_role = replica", "SET LOCAL session_replication_role = replica",
		"SELECT set_config('session_replication_role', 'replica', false)",
		"SET tutti.tx = 'on'", "SELECT set_config('tutti.tx', 'on', true)", "SELECT pg_catalog.tutti_lo_unlink(1)",
		"CREATE TABLESPACE ts LOCATION '/tmp'", "CREATE SUBSCRIPTION sub CONNECTION 'x' PUBLICATION p",
		"ALTER TABLE keyed ADD COLUMN r float DEFAULT random() CHECK (r >= 0)", "CREATE ROLE clear PASSWORD 'téxt'",
		"BEGIN; CREATE FUNCTION hide() RETURNS void LANGUAGE sql AS 'CREATE TABLE hidden(k int)'; SELECT hide()",
		"CREATE TEMP TABLE here(k int); DROP TABLE here, keyed",
		"DO $$ BEGIN INSERT INTO keyed VALUES (2, 2); UPDATE keyed SET v = 3 WHERE k = 2; ALTER TABLE keyed ADD c " +
			"int; END $$",
	} {
		refused(t, q, c.Connect(1).Try(q))
	}
	// As where max_prepared_transactions is 0, which is PostgreSQL's default.
	s.want("SHOW max_prepared_transactions", "0")
	s.code(s.Try("COMMIT PREPARED 'x'"), "42704")
	s.Do("BEGIN", "UPDATE keyed SET v = 5")
	s.code(s.Try("PREPARE TRANSACTION 'x'"), "55000")
	s.Do("PREPARE TRANSACTION 'x'") // a warning, and nothing to do
	c.Everywhere("SELECT count(*) FROM pg_class WHERE relname IN ('ctas', 'hidden')", "0")
	c.Everywhere("SELECT v FROM keyed", "1")
	c.Everywhere("SELECT sum(v) FROM nokey", "3")
	c.Check()
}

// TestDefinitionAfterWriters: a transaction may change a table to which others have written since it began, if it
// has seen that: it has waited for them, or they were applied.
func TestDefinitionAfterWriters(t *testing.T) {
	c := use(t)
	a, b, far := c.Connect(1), c.Connect(1), c.Connect(2)
	a.Do("CREATE TABLE afterwriters(k int PRIMARY KEY)", "CREATE TABLE afterwritersref(k int PRIMARY KEY)")
	a.Do("BEGIN", "SELECT 1")
	b.Do("INSERT INTO afterwriters VALUES (1)")
	a.Do("ALTER TABLE afterwriters ADD COLUMN n int", "COMMIT")

	a.Do("BEGIN", "SELECT 1")
	b.Do("BEGIN", "INSERT INTO afterwriters VALUES (2)")
	altered := a.later("ALTER TABLE afterwriters ADD FOREIGN KEY (n) REFERENCES afterwritersref")
	c.blocked(1, a)
	b.Do("COMMIT")
	if err := altered(); err != nil {
		t.Fatal(err)
	}
	a.Do("COMMIT")

	c.Settled()
	a.Do("BEGIN", "SELECT 1")
	far.Do("INSERT INTO afterwriters VALUES (3)")
	c.Everywhere("SELECT count(*) FROM afterwriters", "3")
	a.Do("DROP TABLE afterwriters", "COMMIT")
	c.Everywhere("SELECT to_regclass('afterwriters') IS NULL", "t")
	c.Check()
}

// TestRowsOfATableMadeAnew: rows that come with a new table of an old name are not read as the old one's.
func TestRowsOfATableMadeAnew(t *testing.T) {
	c := use(t)
	s := c.Connect(1)
	s.Do("CREATE TABLE remade(k int PRIMARY KEY, v text)",
		"DROP TABLE remade; CREATE TABLE remade(k int PRIMARY KEY, b int, v text); INSERT INTO remade VALUES (1, "+
			"160, 'x')")
	c.Everywhere("SELECT * FROM remade", "1|160|x")
	c.Check()
}

// TestTablesThatBecomeUnlogged: from then on a member's rows are its own, until the table is logged again.
func TestTablesThatBecomeUnlogged(t *testing.T) {
	c := use(t)
	s, other := c.Connect(1), c.Connect(2)
	s.Do("CREATE TABLE becomesunlogged(k int PRIMARY KEY)", "INSERT INTO becomesunlogged VALUES (1)",
		"ALTER TABLE becomesunlogged SET UNLOGGED")
	c.Everywhere("SELECT relpersistence FROM pg_class WHERE relname = 'becomesunlogged'", "u")
	s.Do("INSERT INTO becomesunlogged VALUES (2)")
	other.Do("INSERT INTO becomesunlogged VALUES (3)")
	s.Do("BEGIN", "CREATE TABLE becomesunlogged2(k int PRIMARY KEY)", "ALTER TABLE becomesunlogged2 SET UNLOGGED",
		"COMMIT")
	c.Everywhere("SELECT count(*) FROM pg_class WHERE relname = 'becomesunlogged2'", "1")
	s.Do("INSERT INTO becomesunlogged2 VALUES (1)")
	c.Settled()
	for node, want := range map[int]string{1: "{1,2} {1}", 2: "{1,3} {}", 3: "{1} {}"} {
		if got := c.Connect(node).Get("SELECT concat(ARRAY(SELECT k FROM becomesunlogged ORDER BY k)::text, ' ', " +
			"ARRAY(SELECT k FROM becomesunlogged2)::text)"); got != want {
			t.Errorf("node %d has %s, not %s", node, got, want)
		}
	}
	s.Do("ALTER TABLE becomesunlogged SET LOGGED")
	c.Everywhere("SELECT ARRAY(SELECT k FROM becomesunlogged ORDER BY k)", "{1,2}")
	other.Do("INSERT INTO becomesunlogged VALUES (4)")
	c.Everywhere("SELECT count(*) FROM becomesunlogged", "3")
	c.Check()
}

// TestRaisedInDefinitions: what users' code raises inside a definition is the definition's error, whatever it says.
func TestRaisedInDefinitions(t *testing.T) {
	c := use(t)
	s := c.Connect(1)
	s.Do("CREATE TABLE loud(id int PRIMARY KEY)", "INSERT INTO loud VALUES (1)",
		`CREATE FUNCTION loud_f(id int, code text) RETURNS int IMMUTABLE LANGUAGE plpgsql AS
		$$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = code; END $$`)
	for _, code := range []string{"53100", "40001", "08006", "57014", "58030", "55P03"} {
		sql := fmt.Sprintf("CREATE INDEX ON loud(loud_f(id, '%s'))", code)
		if err := s.Try(sql); Code(err) != code {
			t.Errorf("%s: %v", sql, Explain(err))
		}
		if err := s.Try("BEGIN; " + sql + "; COMMIT"); Code(err) != code {
			t.Errorf("%s in a block: %v", sql, Explain(err))
		}
		_ = s.Try("ROLLBACK")
	}
	s.Do("INSERT INTO loud VALUES (2)")
	c.Everywhere("SELECT count(*) FROM loud", "2")
}
