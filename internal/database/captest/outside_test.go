package captest

import (
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tuttidb/tutti/internal/database/catalog"
)

// TestOutside: which statements may do something outside of the database is found, whatever they come to that through,
// and known as soon as it is defined.
func TestOutside(t *testing.T) {
	p := newPair(t, "CREATE TABLE plain(id int PRIMARY KEY, x int)",
		"CREATE FUNCTION harmless() RETURNS int LANGUAGE sql AS 'SELECT 1'")
	var known *catalog.Tables
	follow := func() {
		t.Helper()
		if err := pgx.BeginFunc(ctx, p.a, func(tx pgx.Tx) (err error) {
			known, err = catalog.Describe(ctx, tx)
			return err
		}); err != nil {
			t.Fatal(explain(err))
		}
	}
	want := func(sql string, outside bool) {
		t.Helper()
		if got := known.Reach(sql).Outside; got != outside {
			t.Errorf("%s: %v", sql, got)
		}
	}
	follow()
	for sql, outside := range map[string]bool{
		"SELECT * FROM plain WHERE id = (SELECT harmless())": false, "SELECT lo_export(1, '/x')": true,
		"select pg_catalog.LO_EXPORT(1, '/x')": true, "SELECT lo_exported()": false,
		"SELECT pg_logical_emit_message(false, 'a', 'b')": true, "SELECT dblink_exec('a', 'b')": false,
		"DO $$ BEGIN COPY t TO PROGRAM 'x'; END $$": true,
		"DO 'BEGIN PERFORM 1; END'":                 false, "COPY (SELECT 1) TO STDOUT": false, "": false, "   ": false,
	} { // order-free: each by itself
		want(sql, outside)
	}
	define := func(sql string) {
		t.Helper()
		if _, err := p.a.Exec(ctx, "SET backtrace_functions = 'tutti_on'; "+sql+"; RESET backtrace_functions"); err !=
			nil {
			t.Fatalf("%s: %v", sql, explain(err))
		}
	}
	for _, sql := range []string{
		"CREATE EXTENSION dblink", "CREATE EXTENSION adminpack", "CREATE EXTENSION hstore",
		"CREATE FUNCTION one() RETURNS int LANGUAGE sql VOLATILE AS $$ SELECT length(dblink_exec('x', 'y')) $$",
		"CREATE FUNCTION two() RETURNS int LANGUAGE plpgsql AS $$ BEGIN RETURN One(); END $$",
		"CREATE FUNCTION atomic() RETURNS int LANGUAGE sql BEGIN ATOMIC SELECT two(); END",
		"CREATE FUNCTION emits() RETURNS pg_lsn LANGUAGE sql BEGIN ATOMIC SELECT pg_logical_emit_message(false, 'a', " +
			"'b'); END",
		"CREATE FUNCTION exports() RETURNS void LANGUAGE plpgsql AS $$ BEGIN COPY plain TO '/x'; END $$",
		"CREATE FUNCTION \"odd name\"() RETURNS int LANGUAGE sql AS 'SELECT two()'",
		"CREATE FUNCTION fires() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM two(); RETURN NULL; END $$",
		"CREATE TABLE fired(id int PRIMARY KEY)",
		"CREATE TRIGGER f AFTER INSERT ON fired FOR EACH ROW EXECUTE FUNCTION fires()",
		"CREATE TABLE parent(id int PRIMARY KEY)",
		"CREATE TABLE child(id int PRIMARY KEY, p int REFERENCES parent ON DELETE CASCADE)",
		"CREATE TRIGGER f AFTER DELETE ON child FOR EACH ROW EXECUTE FUNCTION fires()",
		"CREATE TABLE parted(id int PRIMARY KEY) PARTITION BY RANGE (id)",
		"CREATE TABLE part1 PARTITION OF parted FOR VALUES FROM (0) TO (10)",
		"CREATE TRIGGER f AFTER INSERT ON part1 FOR EACH ROW EXECUTE FUNCTION fires()",
		"CREATE VIEW seen AS SELECT atomic() AS x", "CREATE VIEW seen_seen AS SELECT * FROM seen",
		"CREATE VIEW sees_emit AS SELECT pg_logical_emit_message(false, 'a', 'b') AS x",
		"CREATE TABLE given(id int PRIMARY KEY, x int DEFAULT two())",
		"CREATE TABLE checked(id int PRIMARY KEY CHECK (two() > 0))",
		"CREATE DOMAIN asked AS int CHECK (two() > VALUE)", "CREATE TABLE typed(id asked)",
		"CREATE TABLE policed(id int PRIMARY KEY)", "CREATE POLICY p ON policed USING (two() > 0)",
		"CREATE TABLE ruled(id int PRIMARY KEY)", "CREATE RULE r AS ON INSERT TO ruled DO ALSO SELECT two()",
		"CREATE AGGREGATE summed(int) (SFUNC = adds, STYPE = int)",
		"CREATE FUNCTION through() RETURNS void LANGUAGE plpgsql AS $$ BEGIN INSERT INTO fired VALUES (1); END $$",
	} {
		if sql == "CREATE AGGREGATE summed(int) (SFUNC = adds, STYPE = int)" {
			define("CREATE FUNCTION adds(int, int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN RETURN two(); END $$")
		}
		define(sql)
	}
	follow()
	for _, name := range []string{"dblink", "dblink_exec", "one", "two", "atomic", "emits", "exports", "\"odd name\"",
		"pg_file_write", "summed", "through"} {
		want(fmt.Sprintf("SELECT %s(1)", name), true)
	}
	for _, name := range []string{"fired", "child", "parent", "parted", "part1", "seen", "seen_seen", "sees_emit",
		"given", "checked", "typed", "policed", "ruled"} {
		want("DELETE FROM public."+name, true)
		want("EXECUTE format('DELETE FROM %I', '"+name+"')", true)
	}
	for _, sql := range []string{"SELECT * FROM plain", "SELECT harmless()", "SELECT hstore('a', 'b')",
		"SELECT seen2 FROM plain", "UPDATE plain SET x = x + 1 WHERE id = (SELECT max(id) FROM plain)"} {
		want(sql, false)
	}
	define("CREATE FUNCTION compares(int, int) RETURNS bool LANGUAGE plpgsql AS $$ BEGIN RETURN two() > 0; END $$; " +
		"CREATE OPERATOR <#> (LEFTARG = int, RIGHTARG = int, FUNCTION = compares)")
	follow()
	want("SELECT 1", true)
}

// TestOutsideAtOnce: where nothing did anything outside of the database, only what a transaction has made is looked at.
// It tells as much as everything does.
func TestOutsideAtOnce(t *testing.T) {
	p := newPair(t, "CREATE TABLE plain(id int PRIMARY KEY, x int)", "CREATE DOMAIN asked AS int", "CREATE TABLE asks(a asked)",
		"CREATE FUNCTION calls() RETURNS int LANGUAGE sql AS 'SELECT 1'",
		"CREATE VIEW calling AS SELECT calls() AS x",
		"CREATE FUNCTION fires() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'")
	const emits = "(pg_logical_emit_message(false, 'a', 'b') IS NULL)"
	cases := []struct{ define, sql string }{
		{"CREATE TABLE given(id int, b bool DEFAULT " + emits + ")", "INSERT INTO given VALUES (1)"},
		{"ALTER TABLE plain ADD b bool DEFAULT " + emits, "INSERT INTO plain VALUES (1)"},
		{"ALTER TABLE plain ADD CHECK " + emits, "INSERT INTO plain VALUES (1)"},
		{"CREATE DOMAIN other AS int CHECK " + emits + "; CREATE TABLE typed(id other)",
			"INSERT INTO typed VALUES (1)"},
		{"ALTER DOMAIN asked ADD CHECK " + emits + " NOT VALID", "INSERT INTO asks VALUES (1)"},
		{"CREATE TRIGGER f AFTER INSERT ON plain FOR EACH ROW WHEN (new.x > 0 AND " + emits +
			") EXECUTE FUNCTION fires()",
			"INSERT INTO plain VALUES (1)"},
		{"CREATE POLICY p ON plain USING " + emits, "DELETE FROM plain"},
		{"CREATE RULE r AS ON INSERT TO plain DO ALSO SELECT " + emits, "INSERT INTO plain VALUES (1)"},
		{"CREATE VIEW seen AS SELECT " + emits, "SELECT * FROM seen"},
		{"CREATE OR REPLACE FUNCTION calls() RETURNS int LANGUAGE plpgsql AS " +
			"$$ BEGIN COPY plain TO '/x'; RETURN 1; END $$", "SELECT * FROM calling"},
		{"CREATE FUNCTION c() RETURNS bool LANGUAGE plpgsql AS $$ BEGIN RETURN " + emits + "; END $$", "SELECT c()"},
		{"CREATE EXTENSION dblink", "SELECT dblink('x')"},
		{"CREATE TABLE other(id int PRIMARY KEY, b bool DEFAULT true)", ""},
		{"CREATE FUNCTION nothing() RETURNS int LANGUAGE sql AS 'SELECT 1'", ""},
		{"ALTER DOMAIN asked SET NOT NULL", ""}, {"DROP VIEW calling", ""},
	}
	tells := func() {
		for _, x := range cases {
			tx, err := p.a.Begin(ctx)
			if err != nil {
				t.Fatal(explain(err))
			}
			known, err := catalog.Describe(ctx, tx)
			if err == nil {
				_, err = tx.Exec(ctx, "SET LOCAL backtrace_functions = 'tutti_on'; "+x.define)
			}
			if err == nil {
				known, err = catalog.Follow(ctx, tx, known)
			}
			if err != nil {
				t.Fatalf("%s: %v", x.define, explain(err))
			}
			all, err := catalog.Describe(ctx, tx)
			if err != nil {
				t.Fatalf("%s: %v", x.define, explain(err))
			}
			for _, sql := range []string{x.sql, "UPDATE plain SET x = 1", "SELECT calls()",
				"INSERT INTO other VALUES (1)"} {
				got, want := known.Reach(sql), all.Reach(sql)
				if got != want || sql == x.sql && want.Outside != (sql != "") {
					t.Errorf("after %s: %s: %+v, of everything %+v", x.define, sql, got, want)
				}
			}
			if err := tx.Rollback(ctx); err != nil {
				t.Fatal(explain(err))
			}
		}
	}
	tells()
	// The same where there is something of the kind already.
	if _, err := p.a.Exec(ctx, "SET backtrace_functions = 'tutti_on'; "+
		"CREATE FUNCTION had() RETURNS int LANGUAGE plpgsql AS $$ BEGIN COPY plain TO '/x'; RETURN 1; END $$; "+
		"CREATE TABLE hads(id int PRIMARY KEY, h int DEFAULT had()); "+
		"CREATE FUNCTION had_fires() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM had(); RETURN NULL; END $$; "+
		"CREATE TABLE par(x int); CREATE TABLE par_kid(b int DEFAULT had()) INHERITS (par); "+
		"RESET backtrace_functions"); err != nil {
		t.Fatal(explain(err))
	}
	cases = append(cases, []struct{ define, sql string }{
		{"CREATE TABLE more(id int, x int DEFAULT had())", "INSERT INTO more VALUES (1)"},
		{"CREATE TABLE kid(b int DEFAULT had()) INHERITS (plain)", "DELETE FROM plain"},
		{"ALTER TABLE hads ADD FOREIGN KEY (h) REFERENCES plain", "DELETE FROM plain"},
		{"ALTER TABLE ONLY par ADD FOREIGN KEY (x) REFERENCES plain", "DELETE FROM plain"},
		{"ALTER TABLE hads RENAME TO were", "INSERT INTO were VALUES (1)"},
		{"CREATE TRIGGER f AFTER INSERT ON plain FOR EACH ROW EXECUTE FUNCTION had_fires()",
			"INSERT INTO plain VALUES (1)"},
		{"CREATE VIEW looks AS SELECT * FROM hads", "SELECT * FROM looks"},
		{"ALTER TABLE plain ADD y serial", ""}, {"ALTER TABLE plain ADD FOREIGN KEY (x) REFERENCES plain", ""},
	}...)
	tells()
}

// TestHides: which statements may run a text that a function puts together is found in the same way: PostgreSQL 15
// lets its own writers of large objects write then, unseen.
func TestHides(t *testing.T) {
	p := newPair(t)
	var known *catalog.Tables
	define := func(sqls ...string) {
		t.Helper()
		for _, sql := range sqls {
			all := "SET backtrace_functions = 'tutti_on'; " + sql + "; RESET backtrace_functions"
			if _, err := p.a.Exec(ctx, all); err != nil {
				t.Fatalf("%s: %v", sql, explain(err))
			}
		}
		if err := pgx.BeginFunc(ctx, p.a, func(tx pgx.Tx) (err error) {
			known, err = catalog.Describe(ctx, tx)
			return err
		}); err != nil {
			t.Fatal(explain(err))
		}
	}
	define()
	var version int
	if err := p.a.QueryRow(ctx, "SELECT current_setting('server_version_num')::int").Scan(&version); err != nil {
		t.Fatal(err)
	}
	old := version < 160000
	want := func(sql string, hides bool) {
		t.Helper()
		if got := known.Reach(sql); got.Hides != (hides && old) || got.MayHide != old || got.Outside {
			t.Errorf("%s: %+v, want %v", sql, got, hides)
		}
	}
	want("SELECT query_to_xml('SELECT 1', true, false, '')", true) // a new database
	want("SELECT runs()", false)
	want("SELECT lo_create(0)", false) // Tutti's, which notes it
	var unnamed int
	if p.scan(p.a, `SELECT count(*) FROM pg_proc f, pg_proc o WHERE f.oid >= 16384 AND f.pronamespace =
		'pg_catalog'::regnamespace AND o.proname = 'outside' AND strpos(o.prosrc, quote_literal(f.proname)) = 0`,
		&unnamed); unnamed != 0 {
		t.Errorf("%d functions that stand in the place of PostgreSQL's are taken for users'", unnamed)
	}
	define("CREATE VIEW alone AS SELECT query_to_xml('SELECT 1', true, false, '') AS x") // where nobody has functions
	want("SELECT * FROM alone", true)
	define("DROP VIEW alone", "CREATE TABLE plain(id int PRIMARY KEY)", "CREATE EXTENSION hstore",
		"CREATE EXTENSION tablefunc",
		"CREATE FUNCTION runs() RETURNS int LANGUAGE plpgsql AS $$ BEGIN EXECUTE 'SELECT 1'; RETURN 1; END $$",
		"CREATE FUNCTION still() RETURNS int LANGUAGE plpgsql AS $$ BEGIN RETURN (SELECT max(id) FROM plain); END $$",
		"CREATE FUNCTION calls() RETURNS int LANGUAGE sql AS 'SELECT runs()'",
		`CREATE FUNCTION atomic() RETURNS xml LANGUAGE sql BEGIN ATOMIC
			SELECT query_to_xml('SELECT 1', true, false, ''); END`,
		"CREATE VIEW seen AS SELECT calls() AS x",
		"CREATE VIEW seen_xml AS SELECT query_to_xml('SELECT 1', true, false, '') AS x",
		"CREATE FUNCTION inner_text() RETURNS text LANGUAGE internal STABLE AS 'pgsql_version'")
	for _, sql := range []string{
		"SELECT runs()", "SELECT calls()", "SELECT atomic()", "SELECT * FROM seen", "SELECT * FROM seen_xml",
		"SELECT inner_text()", "SELECT * FROM crosstab('SELECT 1') AS x(a int)",
		"SELECT table_to_xml('seen', true, false, '')",
	} {
		want(sql, true)
	}
	for _, sql := range []string{"SELECT still()", "SELECT * FROM plain", "SELECT hstore('a', 'b')", "SELECT 1"} {
		want(sql, false)
	}
	if old {
		define(`DO $$ BEGIN
			EXECUTE 'CREATE OPERATOR <#> (LEFTARG = oid, RIGHTARG = bytea, FUNCTION = tutti' || '_lo_from_bytea)'; END $$`)
		want("SELECT 1", true)
	}
}
