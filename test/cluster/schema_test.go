package cluster

import (
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
)

// TestSchemaInTransactions changes the schema and rows together at changing nodes: everywhere or
// nowhere, and in the order of the statements.
func TestSchemaInTransactions(t *testing.T) {
	c := use(t)
	steps := []struct{ sql, look, want string }{
		{"CREATE TABLE mig(id serial PRIMARY KEY, v text); INSERT INTO mig(v) VALUES ('a'), ('b'); ALTER TABLE mig " +
			"ADD n int; UPDATE mig SET n = 1; ALTER TABLE mig ALTER n SET NOT NULL; CREATE UNIQUE INDEX ON mig(v)",
			"SELECT string_agg(v || n, ' ' ORDER BY v) FROM mig", "a1 b1"},
		{"BEGIN; SAVEPOINT s; CREATE TABLE gone(x int); INSERT INTO gone VALUES (1); ROLLBACK TO s; UPDATE mig SET n " +
			"= 2 WHERE v = 'a'; COMMIT", "SELECT to_regclass('gone') IS NULL AND sum(n) = 3 FROM mig", "t"},
		{"CREATE TABLE made AS SELECT v, random() AS r FROM mig", "SELECT count(*) FROM made WHERE r < 1", "2"},
		{"SELECT v, n INTO into_it FROM mig", "SELECT sum(n) FROM into_it", "3"},
		{"DO $$ BEGIN CREATE TABLE inner_it(a int PRIMARY KEY, b numeric[]); INSERT INTO inner_it VALUES (1, " +
			"'{1.50}'), (2, NULL); UPDATE inner_it SET a = 3 WHERE a = 2; ALTER TABLE inner_it ADD c date DEFAULT " +
			"'2020-02-02'; END $$",
			"SELECT string_agg(i::text, ' ' ORDER BY a) FROM inner_it i", "(1,{1.50},2020-02-02) (3,,2020-02-02)"},
		{"CREATE FUNCTION build(n text) RETURNS void LANGUAGE plpgsql SET search_path = public AS $$ BEGIN EXECUTE " +
			"format('CREATE TABLE %I (q int)', n); EXECUTE format('INSERT INTO %I VALUES (9)', n); END $$; SELECT " +
			"build('built')",
			"SELECT q FROM built", "9"},
		{"BEGIN; CREATE ROLE mig_role; GRANT SELECT ON mig TO mig_role; COMMENT ON TABLE mig IS 'hello'; SELECT " +
			"setval('mig_id_seq', 1000); COMMIT",
			"SELECT has_table_privilege('mig_role', 'mig', 'select') AND obj_description('mig'::regclass) = 'hello'",
			"t"},
		{"BEGIN; DROP TABLE made, into_it, built; ALTER TABLE mig RENAME TO moved; CREATE TABLE mig(other text); " +
			"INSERT INTO mig VALUES ('new'); UPDATE moved SET v = v || '!'; COMMIT",
			"SELECT string_agg(v, ' ' ORDER BY v) || (SELECT other FROM mig) FROM moved", "a! b!new"},
		{"BEGIN; DROP TABLE mig; ALTER TABLE moved DROP COLUMN n; ROLLBACK", "SELECT count(n) FROM moved, mig", "2"},
		{"BEGIN; CREATE TABLE part(k int, v text, PRIMARY KEY (k)) PARTITION BY RANGE (k); CREATE TABLE part1 " +
			"PARTITION OF part FOR VALUES FROM (0) TO (10); INSERT INTO part VALUES (1, 'x'); CREATE TABLE part2(k " +
			"int NOT NULL, v text); INSERT INTO part2 VALUES (11, 'y'); ALTER TABLE part2 ADD PRIMARY KEY (k); ALTER " +
			"TABLE part ATTACH PARTITION part2 FOR VALUES FROM (10) TO (20); UPDATE part SET k = 12 WHERE k = 1; " +
			"COMMIT",
			"SELECT string_agg(p::text, ' ' ORDER BY k) FROM part p", "(11,y) (12,x)"},
	}
	for i, step := range steps {
		c.Connect(1 + i%3).Do(step.sql)
		c.Everywhere(step.look, step.want)
		c.Settled()
		c.Connect(1 + (i+1)%3).Do("CREATE TABLE IF NOT EXISTS counted(n int PRIMARY KEY); INSERT INTO counted SELECT " +
			"count(*) FROM counted")
	}
	// Values of a sequence that a transaction made stay distinct.
	for node := 1; node <= 3; node++ {
		c.Connect(node).Do(fmt.Sprintf("INSERT INTO moved(v, n) SELECT 'x%d' || i, 1 FROM generate_series(1, 5) i",
			node))
	}
	c.Everywhere("SELECT count(DISTINCT id) FROM moved", "17")
	c.Connect(1).Do("DROP TABLE moved, mig, counted, inner_it, part; DROP FUNCTION build(text); DROP ROLE mig_role")
	c.Check()
}

// TestUndoneDefinitions: what was written before a savepoint is kept, however it was captured, if a definition behind
// it is undone or fails.
func TestUndoneDefinitions(t *testing.T) {
	c := use(t)
	s := c.Connect(1)
	s.Do("CREATE TABLE undoes(id int PRIMARY KEY, v int); CREATE TABLE undone(id int); CREATE SEQUENCE undone_q",
		"INSERT INTO undoes VALUES (1, 0)", "INSERT INTO undoes VALUES (2, 0)", "INSERT INTO undoes VALUES (3, 0)")
	for i, sql := range []string{"ALTER TABLE undone ADD x int", "ALTER TABLE undone ADD id int",
		"CREATE TABLE undone()", "SELECT setval('undone_q', 5)"} {
		s.Do("BEGIN", fmt.Sprintf("INSERT INTO undoes VALUES (%d, 0)", 4+i), "SAVEPOINT s")
		failed := s.Try(sql) != nil
		s.Do("ROLLBACK TO s")
		if failed { // captured more than once, and then another definition
			s.Do("UPDATE undoes SET v = v + 1 WHERE id <= 2",
				"DO $$ BEGIN UPDATE undoes SET v = v + 1 WHERE id = 1; END $$", "SAVEPOINT s")
			_ = s.Try(sql)
			s.Do("ROLLBACK TO s", fmt.Sprintf("ALTER TABLE undone ADD y%d int", i))
		}
		s.Do("COMMIT")
	}
	c.Everywhere("SELECT string_agg(v::text, ' ' ORDER BY id) FROM undoes", "4 2 0 0 0 0 0")
	c.Everywhere("SELECT string_agg(attname, ' ' ORDER BY attnum) FROM pg_attribute WHERE attrelid = "+
		"'undone'::regclass AND attnum > 0", "id y1 y2")
	c.Check()
}

// TestSchemaStopsOnlyItsTables: a transaction that changes one table leaves those on others alone, and
// takes part in conflicts on its own.
func TestSchemaStopsOnlyItsTables(t *testing.T) {
	c := use(t)
	a, b := c.Connect(1), c.Connect(2)
	a.Do("CREATE TABLE still(k int PRIMARY KEY, v int); CREATE TABLE shifts(k int PRIMARY KEY, v int); INSERT INTO " +
		"still VALUES (1, 0); INSERT INTO shifts VALUES (1, 0)")
	c.Everywhere("SELECT count(*) FROM shifts", "1")
	b.Do("BEGIN")
	b.Do("UPDATE still SET v = 1")
	a.Do("BEGIN; ALTER TABLE shifts ADD w int; UPDATE shifts SET w = 5; COMMIT")
	c.Everywhere("SELECT w FROM shifts", "5")
	b.Do("UPDATE still SET v = v + 1")
	b.Do("COMMIT")
	c.Everywhere("SELECT v FROM still", "2")

	b.Do("BEGIN ISOLATION LEVEL REPEATABLE READ")
	b.Do("UPDATE shifts SET v = 1")
	a.Do("BEGIN; ALTER TABLE shifts ADD x int; COMMIT")
	err := b.Try("COMMIT")
	var pg *pgconn.PgError
	if !errors.As(err, &pg) || pg.Code != "40001" {
		t.Errorf("a transaction on a table that was changed meanwhile ends with %v, want 40001", err)
	}
	a.Do("DROP TABLE still, shifts")
	c.Check()
}

// TestSchemaSurvivesKills: a transaction that changed the schema is acknowledged, and then its node and
// database die before they have it on disk.
func TestSchemaSurvivesKills(t *testing.T) {
	c := use(t)
	s := c.Connect(3)
	s.Do("BEGIN; CREATE TABLE kept(id serial PRIMARY KEY, v text); INSERT INTO kept(v) VALUES ('x'); ALTER TABLE " +
		"kept ADD w int DEFAULT 3; COMMIT")
	c.Kill(3)
	c.Run(3)
	c.WaitReady(3)
	c.Everywhere("SELECT v || w FROM kept", "x3")
	c.Connect(3).Do("INSERT INTO kept(v) VALUES ('y')")
	c.Everywhere("SELECT count(DISTINCT id) FROM kept", "2")
	c.Connect(1).Do("DROP TABLE kept")
	c.Check()
}

// TestPoison: what only the client's session has would fail at every other member. It is refused before
// it is ordered.
func TestPoison(t *testing.T) {
	c := use(t)
	c.Connect(1).Do("CREATE TABLE safe(k int PRIMARY KEY)")
	c.Everywhere("SELECT count(*) FROM safe", "0")
	for _, q := range []string{
		"CREATE TYPE pg_temp.only_here AS (x int); BEGIN; CREATE CAST (pg_temp.only_here AS text) WITH INOUT; COMMIT",
		"CREATE TEMP TABLE shape(a int, b text); BEGIN; CREATE TABLE shaped (LIKE shape INCLUDING ALL); INSERT INTO " +
			"shaped VALUES (1, 'x'); COMMIT",
		"CREATE TEMP VIEW only_seen AS SELECT 1 AS x; BEGIN; INSERT INTO safe VALUES (1); CREATE RULE r AS ON INSERT " +
			"TO safe DO ALSO SELECT * FROM only_seen; COMMIT",
	} {
		refused(t, q, c.Connect(1).Try(q))
	}
	c.Connect(2).Do("CREATE TABLE after_poison(k int)", "DROP TABLE after_poison, safe")
	c.Check()
}

// TestSchemaMadeAnew: a table goes and comes again with another type of rows, in one transaction.
func TestSchemaMadeAnew(t *testing.T) {
	c := use(t)
	s := c.Connect(1)
	const make = "CREATE TABLE anew(k int, v text); INSERT INTO anew VALUES (1, 'x'); UPDATE anew SET v = 'y'; " +
		"DELETE FROM anew WHERE k = 2;"
	s.Do(make)
	for range 3 {
		s.Do("BEGIN; DROP TABLE anew; " + make + " DROP TABLE anew; " + make +
			" INSERT INTO anew VALUES (2, 'z'); COMMIT")
	}
	c.Everywhere("SELECT string_agg(v, ' ' ORDER BY k) FROM anew", "y z")
	s.Do("DROP TABLE anew")
	c.Check()
}

// TestLikeTemporary: a table is made like one that only the session has.
func TestLikeTemporary(t *testing.T) {
	c := use(t)
	s := c.Connect(2)
	s.Do(`CREATE TEMP TABLE shape_of(id serial NOT NULL, "Näme" varchar(7) COLLATE "C", n numeric(6, 2)[], gone int)`,
		"ALTER TABLE shape_of DROP gone")
	s.Do("CREATE TABLE like_alone (LIKE shape_of)", "INSERT INTO like_alone VALUES (1, 'x', '{1.25}')")
	s.Do("BEGIN; CREATE TABLE like_block (first int, LIKE pg_temp.shape_of /* all */ , CHECK (first > 0)); INSERT " +
		"INTO like_block VALUES (1, 2, 'y', NULL); COMMIT")
	c.Everywhere("SELECT string_agg(attname || ' ' || format_type(atttypid, atttypmod) || attnotnull || "+
		"attcollation::regcollation, ', ' ORDER BY attrelid::regclass::text, attnum) FROM pg_attribute WHERE attnum "+
		"> 0 AND attrelid IN ('like_alone'::regclass, 'like_block'::regclass)",
		`id integertrue-, Näme character varying(7)false"C", n numeric(6,2)[]false-, first integerfalse-, id `+
			`integertrue-, Näme character varying(7)false"C", n numeric(6,2)[]false-`)
	c.Everywhere("SELECT a.n[1] + b.id FROM like_alone a, like_block b", "3.25")
	s.Do("DROP TABLE like_alone, like_block")
	c.Check()
}

// TestFunctionsOverTemporaryTypes: they are at the member of their session, and nothing of them reaches the order; what
// others define under the same name takes their place.
func TestFunctionsOverTemporaryTypes(t *testing.T) {
	c := use(t)
	one, two := c.Connect(1), c.Connect(2)
	for _, s := range []*Conn{one, two} {
		s.Do("CREATE TEMP TABLE kinds(a int, b text)", "INSERT INTO kinds VALUES (1, 'x')",
			"CREATE FUNCTION kinds_of() RETURNS SETOF kinds LANGUAGE sql AS 'SELECT * FROM kinds'",
			"BEGIN; CREATE OR REPLACE FUNCTION kind_name(k kinds) RETURNS text LANGUAGE sql AS 'SELECT k.b'; COMMIT")
		if got := s.Get("SELECT kind_name(k), k.a FROM kinds_of() k"); got != "x|1" {
			t.Errorf("a function over a temporary type gives %s", got)
		}
	}
	one.Do("DROP FUNCTION kinds_of()", "CREATE FUNCTION kinds_of(OUT k kinds) LANGUAGE sql AS 'SELECT (9, "+
		"NULL)::kinds'", "DROP FUNCTION kind_name")
	// Another session's, in its place in the order and in a block: at all members.
	c.Connect(3).Do("CREATE FUNCTION kinds_of() RETURNS int LANGUAGE sql AS 'SELECT 7'")
	c.Connect(3).Do("BEGIN; CREATE FUNCTION kind_name() RETURNS text LANGUAGE sql AS 'SELECT ''three'''; COMMIT")
	c.Everywhere("SELECT string_agg(proname || prorettype::regtype, ' ' ORDER BY proname) FROM pg_proc WHERE proname "+
		"IN ('kinds_of', 'kind_name')", "kind_nametext kinds_ofinteger")
	c.Everywhere("SELECT kinds_of() || kind_name()", "7three")
	one.Do("DROP FUNCTION kinds_of, kind_name")
	c.Everywhere("SELECT count(*) FROM pg_proc WHERE proname IN ('kinds_of', 'kind_name')", "0")
	c.Check()
}

// TestSchemaBeforeLargeObjects: definitions come before what a transaction has written after them, large objects too.
func TestSchemaBeforeLargeObjects(t *testing.T) {
	c := use(t)
	s := c.Connect(1)
	s.Do("BEGIN; CREATE TABLE with_large(k oid); SELECT lo_from_bytea(4399, 'x'); INSERT INTO with_large VALUES " +
		"(4399); ALTER TABLE with_large ADD v text DEFAULT 'y'; SELECT lo_put(4399, 1, 'z'); COMMIT")
	c.Everywhere("SELECT v || convert_from(lo_get(k), 'UTF8') FROM with_large", "yxz")
	s.Do("SELECT lo_unlink(4399)", "DROP TABLE with_large")
	c.Check()
}

// TestSchemaBehindOthers: a transaction that changed the schema and loses to one of another node, which is not applied
// here yet, is told so, and not that it cannot be carried out. One that cannot be is told that, whatever else is under
// way.
func TestSchemaBehindOthers(t *testing.T) {
	c := use(t)
	a, b := c.Connect(1), c.Connect(2)
	a.Do("CREATE SCHEMA behind", "CREATE TABLE behind.busy(k int PRIMARY KEY)")
	for i, x := range []struct{ mine, theirs, code string }{
		{"ALTER TABLE t%d ADD COLUMN x int", "ALTER TABLE t%d ADD COLUMN x text", "40001"},
		{"ALTER TABLE t%d ADD COLUMN x int", "DROP TABLE t%d", "40001"},
		{"CREATE TABLE made%d(k int)", "CREATE TABLE made%d(k int)", "40001"},
		{"CREATE TABLE made%d(k int)", "BEGIN; CREATE VIEW made%d AS SELECT 1; COMMIT", "40001"},
		{"CREATE VIEW made%d AS SELECT f%[1]d()", "DROP FUNCTION f%d", "40001"},
		{"CREATE TABLE made%d(k e%[1]d)", "DROP TYPE e%d", "40001"},
		{"GRANT SELECT ON t%d TO behind_r%[1]d", "DROP ROLE behind_r%d", "40001"},
		{"CREATE CAST (pg_temp.own%d AS text) WITH INOUT", "INSERT INTO busy VALUES (%d)", "0A000"},
	} {
		a.Do("SET search_path = behind", fmt.Sprintf("CREATE TABLE t%d(k int PRIMARY KEY)", i),
			fmt.Sprintf("CREATE FUNCTION f%d() RETURNS int LANGUAGE sql AS 'SELECT 1'", i),
			fmt.Sprintf("CREATE TYPE e%d AS ENUM ('a')", i), fmt.Sprintf("CREATE ROLE behind_r%d", i))
		a.Do(fmt.Sprintf("CREATE TYPE pg_temp.own%d AS (k int)", i))
		b.Do("SET search_path = behind")
		settle(a, b)
		a.Do("BEGIN", fmt.Sprintf("DO $do$ BEGIN "+x.mine+"; END $do$", i)) // by itself it would have the others wait
		thaw := c.freezeApplier(1)
		b.Do(fmt.Sprintf(x.theirs, i))
		if err := a.Try("COMMIT"); Code(err) != x.code {
			t.Errorf("%s, while the others had %s: %v, want %s", x.mine, x.theirs, Explain(err), x.code)
		}
		thaw()
		a.Do("ROLLBACK")
	}
	c.Check()
	a.Do("DROP SCHEMA behind CASCADE", "DROP ROLE behind_r0, behind_r1, behind_r2, behind_r3, behind_r4, behind_r5, "+
		"behind_r7")
}
