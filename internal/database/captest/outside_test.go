package captest

import (
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tuttidb/tutti/internal/database/catalog"
)

// TestOutside: which statements may do something outside of the database is found, whatever they come to that through, and known as soon as it is defined.
func TestOutside(t *testing.T) {
	p := newPair(t, "CREATE TABLE plain(id int PRIMARY KEY, x int)", "CREATE FUNCTION harmless() RETURNS int LANGUAGE sql AS 'SELECT 1'")
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
		if got := known.Outside(sql); got != outside {
			t.Errorf("%s: %v", sql, got)
		}
	}
	follow()
	for sql, outside := range map[string]bool{
		"SELECT * FROM plain WHERE id = (SELECT harmless())": false, "SELECT lo_export(1, '/x')": true, "select pg_catalog.LO_EXPORT(1, '/x')": true, "SELECT lo_exported()": false,
		"SELECT pg_logical_emit_message(false, 'a', 'b')": true, "SELECT dblink_exec('a', 'b')": false, "DO $$ BEGIN COPY t TO PROGRAM 'x'; END $$": true,
		"DO 'BEGIN PERFORM 1; END'": false, "COPY (SELECT 1) TO STDOUT": false, "": false, "   ": false,
	} { // order-free: each by itself
		want(sql, outside)
	}
	define := func(sql string) {
		t.Helper()
		if _, err := p.a.Exec(ctx, "SET backtrace_functions = 'tutti_on'; "+sql+"; RESET backtrace_functions"); err != nil {
			t.Fatalf("%s: %v", sql, explain(err))
		}
	}
	for _, sql := range []string{
		"CREATE EXTENSION dblink", "CREATE EXTENSION adminpack", "CREATE EXTENSION hstore",
		"CREATE FUNCTION one() RETURNS int LANGUAGE sql VOLATILE AS $$ SELECT length(dblink_exec('x', 'y')) $$", "CREATE FUNCTION two() RETURNS int LANGUAGE plpgsql AS $$ BEGIN RETURN One(); END $$",
		"CREATE FUNCTION atomic() RETURNS int LANGUAGE sql BEGIN ATOMIC SELECT two(); END", "CREATE FUNCTION emits() RETURNS pg_lsn LANGUAGE sql BEGIN ATOMIC SELECT pg_logical_emit_message(false, 'a', 'b'); END",
		"CREATE FUNCTION exports() RETURNS void LANGUAGE plpgsql AS $$ BEGIN COPY plain TO '/x'; END $$", "CREATE FUNCTION \"odd name\"() RETURNS int LANGUAGE sql AS 'SELECT two()'",
		"CREATE FUNCTION fires() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM two(); RETURN NULL; END $$",
		"CREATE TABLE fired(id int PRIMARY KEY)", "CREATE TRIGGER f AFTER INSERT ON fired FOR EACH ROW EXECUTE FUNCTION fires()",
		"CREATE TABLE parent(id int PRIMARY KEY)", "CREATE TABLE child(id int PRIMARY KEY, p int REFERENCES parent ON DELETE CASCADE)", "CREATE TRIGGER f AFTER DELETE ON child FOR EACH ROW EXECUTE FUNCTION fires()",
		"CREATE TABLE parted(id int PRIMARY KEY) PARTITION BY RANGE (id)", "CREATE TABLE part1 PARTITION OF parted FOR VALUES FROM (0) TO (10)", "CREATE TRIGGER f AFTER INSERT ON part1 FOR EACH ROW EXECUTE FUNCTION fires()",
		"CREATE VIEW seen AS SELECT atomic() AS x", "CREATE VIEW seen_seen AS SELECT * FROM seen", "CREATE VIEW sees_emit AS SELECT pg_logical_emit_message(false, 'a', 'b') AS x",
		"CREATE TABLE given(id int PRIMARY KEY, x int DEFAULT two())", "CREATE TABLE checked(id int PRIMARY KEY CHECK (two() > 0))", "CREATE DOMAIN asked AS int CHECK (two() > VALUE)", "CREATE TABLE typed(id asked)",
		"CREATE TABLE policed(id int PRIMARY KEY)", "CREATE POLICY p ON policed USING (two() > 0)", "CREATE TABLE ruled(id int PRIMARY KEY)", "CREATE RULE r AS ON INSERT TO ruled DO ALSO SELECT two()",
		"CREATE AGGREGATE summed(int) (SFUNC = adds, STYPE = int)", "CREATE FUNCTION through() RETURNS void LANGUAGE plpgsql AS $$ BEGIN INSERT INTO fired VALUES (1); END $$",
	} {
		if sql == "CREATE AGGREGATE summed(int) (SFUNC = adds, STYPE = int)" {
			define("CREATE FUNCTION adds(int, int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN RETURN two(); END $$")
		}
		define(sql)
	}
	follow()
	for _, name := range []string{"dblink", "dblink_exec", "one", "two", "atomic", "emits", "exports", "\"odd name\"", "pg_file_write", "summed", "through"} {
		want(fmt.Sprintf("SELECT %s(1)", name), true)
	}
	for _, name := range []string{"fired", "child", "parent", "parted", "part1", "seen", "seen_seen", "sees_emit", "given", "checked", "typed", "policed", "ruled"} {
		want("DELETE FROM public."+name, true)
		want("EXECUTE format('DELETE FROM %I', '"+name+"')", true)
	}
	for _, sql := range []string{"SELECT * FROM plain", "SELECT harmless()", "SELECT hstore('a', 'b')", "SELECT seen2 FROM plain", "UPDATE plain SET x = x + 1 WHERE id = (SELECT max(id) FROM plain)"} {
		want(sql, false)
	}
	define("CREATE FUNCTION compares(int, int) RETURNS bool LANGUAGE plpgsql AS $$ BEGIN RETURN two() > 0; END $$; CREATE OPERATOR <#> (LEFTARG = int, RIGHTARG = int, FUNCTION = compares)")
	follow()
	want("SELECT 1", true)
}
