package cluster

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// TestTemporaryHeirs: a statement on a table of which a temporary one of the session's inherits changes the rows of
// both. Those of the temporary table are the session's own, even if their keys are those of rows that the other nodes
// have.
func TestTemporaryHeirs(t *testing.T) {
	c := use(t)
	other := c.Connect(2)
	s := c.Connect(1)
	s.Do("CREATE TABLE heirs(id int PRIMARY KEY, a int)", "INSERT INTO heirs SELECT g, 0 FROM generate_series(1, 5) g",
		"CREATE FUNCTION heirs_made() RETURNS int LANGUAGE plpgsql AS $$ BEGIN CREATE TEMP TABLE heirs_late () "+
			"INHERITS (heirs); INSERT INTO heirs_late VALUES (50, 0); UPDATE heirs SET a = a + 1; RETURN 1; END $$",
		"CREATE TABLE heirs_told(id int PRIMARY KEY, a int)", "CREATE TABLE heirs_of(id int PRIMARY KEY, a int)",
		"INSERT INTO heirs_of VALUES (1, 0)",
		"CREATE FUNCTION heirs_given() RETURNS int LANGUAGE plpgsql AS $$ BEGIN ALTER TABLE heirs_of INHERIT heirs; "+
			"UPDATE heirs SET a = a + 1 WHERE tableoid = 'heirs_of'::regclass; RETURN 1; END $$")
	const prepared = "UPDATE heirs SET a = a + $1"
	if _, err := s.Exec(s.ctx(), prepared, 1); err != nil {
		t.Fatal(Explain(err))
	}
	c.Everywhere("SELECT count(*), sum(a) FROM heirs", "5|5")

	for _, make := range []string{"CREATE TEMP TABLE heirs_mine () INHERITS (heirs)",
		"DO $$ BEGIN CREATE TEMP TABLE heirs_mine (id int NOT NULL, a int); ALTER TABLE heirs_mine INHERIT heirs; " +
			"END $$"} {
		s := c.Connect(1)
		if _, err := s.Exec(s.ctx(), prepared, 0); err != nil {
			t.Fatal(Explain(err))
		}
		s.Do(make, "INSERT INTO heirs_mine VALUES (5, 0), (7, 0)")
		s.Do("UPDATE heirs SET a = a + 1", "BEGIN", "DELETE FROM heirs WHERE a > 100",
			"UPDATE heirs SET a = a + 1 WHERE a < 100", "COMMIT", "DELETE FROM heirs WHERE a = 2 AND id > 6")
		if got := s.Get("SELECT string_agg(id || ':' || a, ' ' ORDER BY id) FROM ONLY heirs_mine"); got != "5:2" {
			t.Errorf("the temporary rows are %s", got)
		}
		if _, err := s.Exec(s.ctx(), prepared, 1); Code(err) != "0A000" {
			t.Errorf("what was prepared before: %v", Explain(err))
		}
		if _, err := s.Exec(s.ctx(), prepared+" + 0", 1); err != nil {
			t.Error(Explain(err))
		}
		// Another session does not see them.
		other := c.Connect(1)
		other.Do("UPDATE heirs SET a = a - 3")
		s.Do("DROP TABLE heirs_mine")
		c.Everywhere("SELECT count(*), sum(a) FROM heirs", "5|5")
	}

	s = c.Connect(1)
	s.Do("CREATE MATERIALIZED VIEW heirs_shown AS SELECT count(*) AS n FROM heirs",
		"CREATE TEMP TABLE heirs_mine () INHERITS (heirs)", "INSERT INTO heirs_mine VALUES (5, 0), (7, 0)")
	for _, fill := range []string{"REFRESH MATERIALIZED VIEW heirs_shown",
		"BEGIN; REFRESH MATERIALIZED VIEW heirs_shown; COMMIT",
		"DO $$ BEGIN REFRESH MATERIALIZED VIEW heirs_shown; END $$",
		"CREATE MATERIALIZED VIEW heirs_shown_2 AS SELECT count(*) AS n FROM heirs",
		"BEGIN; CREATE MATERIALIZED VIEW heirs_shown_2 AS SELECT count(*) AS n FROM heirs; COMMIT"} {
		if err := s.Try(fill); Code(err) != "0A000" {
			t.Errorf("%s: %v", fill, err)
		}
		_ = s.Try("ROLLBACK") // it may be over
	}
	s.Do("CREATE TABLE heirs_copied AS SELECT * FROM heirs", "BEGIN", "SELECT * INTO heirs_copied_2 FROM heirs",
		"COMMIT", "CREATE MATERIALIZED VIEW heirs_shown_3 AS SELECT count(*) AS n FROM heirs WITH NO DATA")
	c.Everywhere("SELECT (SELECT count(*) FROM heirs_copied), (SELECT count(*) FROM heirs_copied_2), (SELECT n FROM "+
		"heirs_shown)", "7|7|5")
	s.Do("DROP TABLE heirs_mine", "REFRESH MATERIALIZED VIEW heirs_shown", "REFRESH MATERIALIZED VIEW heirs_shown_3")
	c.Everywhere("SELECT (SELECT n FROM heirs_shown), (SELECT n FROM heirs_shown_3)", "5|5")

	if err := c.Connect(1).Try("INSERT INTO heirs_told SELECT heirs_made(), 1"); Code(err) != "0A000" {
		t.Errorf("made within a statement: %v", err)
	}
	if err := c.Connect(1).Try("INSERT INTO heirs_told SELECT heirs_given(), 1"); Code(err) != "0A000" {
		t.Errorf("given within a statement: %v", err)
	}
	c.Everywhere("SELECT count(*), sum(a) FROM heirs", "5|5")
	other.Do("INSERT INTO heirs VALUES (6, 0)")
	c.Everywhere("SELECT count(*), sum(a) FROM heirs", "6|5")
	c.Check()
}

// TestTemporaryObjectsGiveWay: what a session has made of permanent objects for itself does not keep a definition of
// another member's from being carried out at its member, where it would fail alone.
func TestTemporaryObjectsGiveWay(t *testing.T) {
	c := use(t)
	s := c.Connect(1)
	s.Do("CREATE TABLE ways(id int PRIMARY KEY, v int, w int)", "CREATE TABLE ways_away(id int)",
		"CREATE FUNCTION ways_f() RETURNS int LANGUAGE sql AS 'SELECT 1'", "CREATE TYPE ways_kind AS ENUM ('a')",
		"CREATE TYPE ways_used AS ENUM ('a')", "CREATE TABLE ways_uses(k ways_used)",
		"CREATE VIEW ways_kept AS SELECT id FROM ways", "CREATE TYPE ways_row AS (a int)",
		"CREATE TABLE ways_owns(id serial)", "CREATE TABLE ways_part(id int) PARTITION BY LIST (id)",
		"CREATE TABLE ways_part_1 PARTITION OF ways_part FOR VALUES IN (1)")
	c.Settled()
	for _, x := range []struct{ temporary, definition, shows, want string }{
		{"CREATE TEMP VIEW ways_v AS SELECT v FROM ways", "ALTER TABLE ways DROP COLUMN v",
			"SELECT count(*) FROM information_schema.columns WHERE table_name = 'ways'", "2"},
		{"CREATE TEMP VIEW ways_v AS SELECT w FROM ways; CREATE TEMP VIEW ways_w AS SELECT * FROM ways_v",
			"ALTER TABLE ways ALTER w TYPE text", "SELECT pg_typeof(w) FROM (SELECT 1) x LEFT JOIN ways ON true",
			"text"},
		{"CREATE TEMP VIEW ways_v AS SELECT * FROM ways_away", "DROP TABLE ways_away",
			"SELECT to_regclass('ways_away')", ""},
		{"CREATE TEMP TABLE ways_heir() INHERITS (ways)", "ALTER TABLE ways ADD COLUMN x int DEFAULT 7",
			"SELECT count(*) FROM information_schema.columns WHERE table_name = 'ways'", "3"},
		{"CREATE TEMP TABLE ways_t(d int DEFAULT ways_f())", "DROP FUNCTION ways_f()", "SELECT to_regproc('ways_f')",
			""},
		{"CREATE TEMP TABLE ways_t(k ways_kind)", "DROP TYPE ways_kind", "SELECT to_regtype('ways_kind')", ""},
		{"CREATE TEMP VIEW ways_v AS SELECT 1; CREATE TEMP TABLE ways_t(k ways_used)", "DROP TYPE ways_used",
			"SELECT to_regtype('ways_used') IS NOT NULL", "t"},
		{"CREATE TEMP TABLE ways_t OF ways_row", "ALTER TYPE ways_row ADD ATTRIBUTE b int",
			"SELECT count(*) FROM information_schema.attributes WHERE udt_name = 'ways_row'", "2"},
		{"CREATE TEMP TABLE ways_t(k ways_row[])", "ALTER TYPE ways_row ALTER ATTRIBUTE b TYPE text",
			"SELECT pg_typeof((NULL::ways_row).b)", "text"},
		{"CREATE TEMP TABLE ways_t(d int DEFAULT nextval('ways_owns_id_seq'))", "DROP TABLE ways_owns",
			"SELECT to_regclass('ways_owns')", ""},
		{"CREATE TEMP VIEW ways_v AS SELECT * FROM ways_part_1", "DROP TABLE ways_part",
			"SELECT to_regclass('ways_part')", ""},
		// something else depends on it
		{"CREATE TEMP TABLE ways_t(k int); CREATE TEMP VIEW ways_v AS SELECT * FROM ways_kept", "DROP TABLE ways",
			"SELECT to_regclass('ways') IS NOT NULL", "t"},
	} {
		older := []*Conn{c.Connect(3), c.Connect(3), c.Connect(3)}
		other := c.Connect(3)
		other.Do(x.temporary)
		// their backends' numbers are free: the server's sessions are counted otherwise than they are numbered
		for _, o := range older {
			_ = o.Close(o.ctx())
		}
		err := s.Try(x.definition)
		if fails := x.want == "t"; fails != (Code(err) == "2BP01") || !fails && err != nil {
			t.Errorf("%s, beside %s: %v", x.definition, x.temporary, err)
		}
		c.Everywhere(x.shows, x.want)
		if x.want == "t" { // then nothing gave way
			other.Do("SELECT * FROM ways_v, ways_t")
		}
	}
	c.Connect(2).Do("CREATE TEMP VIEW ways_v AS SELECT x FROM ways")
	c.Connect(3).Do("CREATE TEMP VIEW ways_v AS SELECT x FROM ways")
	// another member has tried it
	if err := s.Try("BEGIN; ALTER TABLE ways DROP COLUMN x; COMMIT"); Code(err) != "0A000" {
		t.Errorf("in a block: %v", err)
	}
	c.Everywhere("SELECT count(*) FROM information_schema.columns WHERE table_name = 'ways'", "3")
	c.Check()
}

// TestTemporaryObjectsBesides: to a definition gives way what depends on its objects, whatever else has their names.
func TestTemporaryObjectsBesides(t *testing.T) {
	c := use(t)
	s := c.Connect(1)
	s.Do("CREATE SCHEMA beside", "CREATE TABLE sides(id int, v int, w int)", "CREATE TABLE beside.sides(v int)",
		"CREATE TYPE side AS ENUM ('a')", "CREATE TYPE beside.side AS ENUM ('a')",
		"CREATE FUNCTION side(int) RETURNS int LANGUAGE sql AS 'SELECT 1'",
		"CREATE FUNCTION side(text, VARIADIC int[]) RETURNS int LANGUAGE sql AS 'SELECT 2'",
		"CREATE FUNCTION beside.side(int) RETURNS int LANGUAGE sql AS 'SELECT 3'",
		`CREATE TABLE "side's"(id int)`)
	c.Settled()
	for _, x := range []struct{ definition, ends, stays string }{
		{"ALTER TABLE sides ADD COLUMN x int DEFAULT 7", "TABLE sides_t() INHERITS (sides)",
			"TABLE sides_t() INHERITS (beside.sides)"},
		{"ALTER TABLE sides DROP COLUMN x", "TABLE sides_t() INHERITS (sides)", "VIEW sides_t AS SELECT id FROM sides"},
		{"ALTER TABLE sides DROP COLUMN v", "VIEW sides_t AS SELECT v FROM sides",
			"VIEW sides_t AS SELECT w AS v FROM sides"},
		{"SET search_path = beside, public; DROP FUNCTION side(int)", "TABLE sides_t(d int DEFAULT beside.side(1))",
			"TABLE sides_t(d int DEFAULT side(1))"},
		{"DROP FUNCTION IF EXISTS side(nobody), side(text, VARIADIC int[])",
			"TABLE sides_t(d int DEFAULT side('', 1))", "TABLE sides_t(d int DEFAULT side(1))"},
		{"DROP TYPE beside.side", "TABLE sides_t(k beside.side)", "TABLE sides_t(k side)"},
		{"SET search_path = beside, public; DROP TYPE side", "TABLE sides_t(k side)",
			"TABLE sides_t(side int DEFAULT side(1))"},
		{`DROP TABLE beside.sides, "side's"`, `TABLE sides_t(k "side's")`, "VIEW sides_t AS SELECT id FROM sides"},
	} {
		ends, stays := c.Connect(3), c.Connect(3)
		stays.Do("CREATE TEMP " + x.stays)
		ends.Do("CREATE TEMP " + x.ends)
		if err := c.Connect(1).Try(x.definition); err != nil {
			t.Errorf("%s: %v", x.definition, err)
		}
		c.Settled()
		if err := ends.Try("SELECT FROM sides_t"); err == nil {
			t.Errorf("%s: %s did not give way", x.definition, x.ends)
		}
		if err := stays.Try("SELECT FROM sides_t"); err != nil {
			t.Errorf("%s: %s gave way: %v", x.definition, x.stays, err)
		}
		_ = stays.Close(stays.ctx())
	}
	c.Check()
}

// TestTemporaryTablesOfCrashes: what a crash has left of a temporary table is nobody's, and is in no definition's way.
func TestTemporaryTablesOfCrashes(t *testing.T) {
	t.Parallel()
	c := Start(t, 3)
	s := c.Connect(1)
	s.Do("CREATE FUNCTION left_f() RETURNS int LANGUAGE sql AS 'SELECT 1'", "CREATE TABLE lefts(id int PRIMARY KEY)")
	c.Settled()
	owner := c.Connect(3)
	owner.Do("CREATE TEMP TABLE left_t(d int DEFAULT left_f())", "CREATE TEMP TABLE left_heir() INHERITS (lefts)")
	settings, err := os.OpenFile(filepath.Join(c.Node(3).Config.DataDir, "postgres", "postgresql.auto.conf"),
		os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = settings.WriteString("autovacuum = off\n") // it would clean up
	if err = errors.Join(err, settings.Close()); err != nil {
		t.Fatal(err)
	}
	owner.Do("SELECT pg_reload_conf()", "CHECKPOINT")
	pid, err := strconv.Atoi(owner.Get("SELECT pg_backend_pid()"))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	time.Sleep(200 * time.Millisecond)
	c.WaitReady()
	idle := c.Connect(3)
	const left = "SELECT count(*) FROM pg_class WHERE relname ~ '^left_(t|heir)$'"
	if n := idle.Get(left); n != "2" {
		t.Fatalf("the crash has left %s temporary tables", n)
	}
	s.Do("DROP FUNCTION left_f()", "ALTER TABLE lefts ADD COLUMN v int DEFAULT 7")
	c.Everywhere("SELECT to_regproc('left_f'), (SELECT count(*) FROM information_schema.columns WHERE table_name = "+
		"'lefts')", "|2")
	if n := idle.Get(left); n != "0" {
		t.Errorf("%s of them are still there", n)
	}
	c.Check()
}

// TestDefinitionsInStatementsOfManyRows: a function that defines something, called for each row of a statement that is
// captured as a whole. No row is captured twice, and none is missed.
func TestDefinitionsInStatementsOfManyRows(t *testing.T) {
	c := use(t)
	s := c.Connect(1)
	s.Do("CREATE TABLE tenants(id int PRIMARY KEY, a int)", "CREATE TABLE tenants_log(id int PRIMARY KEY, n int)",
		"CREATE TABLE tenants_old(id int PRIMARY KEY)",
		`CREATE FUNCTION tenant(i int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN
			IF i % 2 = 0 THEN RETURN i; END IF;
			EXECUTE format('CREATE SCHEMA tenant_%s', i); EXECUTE format('CREATE TABLE tenant_%s.t (id serial PRIMARY KEY, v text)', i);
			EXECUTE format('INSERT INTO tenant_%s.t (v) SELECT g FROM generate_series(1, 10) g', i);
			EXECUTE format('UPDATE tenant_%s.t SET v = v || ''!'' WHERE v < ''5''', i);
			INSERT INTO tenants_log SELECT i * 100 + g FROM generate_series(1, 5) g; RETURN i; END $$`,
		"CREATE FUNCTION tenant_gone(i int) RETURNS bool LANGUAGE plpgsql AS $$ BEGIN EXECUTE format('DROP SCHEMA IF "+
			"EXISTS tenant_%s CASCADE', i); DELETE FROM tenants_log WHERE id / 100 = i; RETURN true; END $$")
	s.Do("INSERT INTO tenants SELECT tenant(g), 0 FROM generate_series(1, 6) g")
	c.Everywhere("SELECT (SELECT string_agg(id::text, ' ' ORDER BY id) FROM tenants), (SELECT count(*) FROM "+
		"tenants_log), (SELECT string_agg(v, ' ' ORDER BY id) FROM tenant_5.t)",
		"1 2 3 4 5 6|15|1! 2! 3! 4! 5 6 7 8 9 10!")
	s.Do("BEGIN", "UPDATE tenants SET a = tenant(id + 10) WHERE a = 0",
		"DELETE FROM tenants WHERE a % 2 = 0 AND tenant_gone(id)",
		"INSERT INTO tenants_old SELECT tenant_gone(g)::int + g FROM generate_series(11, 13) g", "COMMIT")
	c.Everywhere("SELECT (SELECT string_agg(id::text || ':' || a, ' ' ORDER BY id) FROM tenants), (SELECT count(*) "+
		"FROM tenants_log), (SELECT count(*) FROM tenants_old), to_regclass('tenant_15.t'), to_regclass('tenant_13.t')",
		"1:11 3:13 5:15|20|3|tenant_15.t|")
	c.Check()
}
