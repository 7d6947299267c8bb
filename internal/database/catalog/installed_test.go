package catalog

import (
	"testing"

	"github.com/jackc/pgx/v5"
)

// TestInstallOnce: what is there as this build would install it is left alone, and installed again where something of
// it was changed by hand, or the database is a copy.
func TestInstallOnce(t *testing.T) {
	m := newMembers(t, 1)
	c := m.conns[0]
	version := func() (x string) {
		t.Helper()
		err := c.QueryRow(ctx, "SELECT xmin::text FROM pg_proc WHERE oid = 'tutti.mine'::regproc").Scan(&x)
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	install := func() { t.Helper(); m.in(c, func(tx pgx.Tx) error { return Install(ctx, tx) }) }
	install()
	was := version()
	if _, err := c.Exec(ctx, `SET backtrace_functions = 'tutti_own'; CREATE TABLE inst (id int PRIMARY KEY);
		INSERT INTO tutti.detaching VALUES (1); RESET backtrace_functions`); err != nil {
		t.Fatal(err)
	}
	install()
	if version() != was {
		t.Error("what was there was installed again")
	}
	var left, triggers int
	if err := c.QueryRow(ctx, `SELECT (SELECT count(*) FROM tutti.detaching),
		(SELECT count(*) FROM pg_trigger WHERE tgrelid = 'inst'::regclass)`).Scan(&left, &triggers); err != nil {
		t.Fatal(err)
	}
	if left != 0 || triggers == 0 {
		t.Errorf("%d backends are known to detach, a table has %d triggers", left, triggers)
	}
	for _, x := range []struct{ what, sql string }{
		{"an event trigger is disabled", `ALTER EVENT TRIGGER "!tutti_ddl" DISABLE`},
		{"a function is another", `CREATE OR REPLACE FUNCTION tutti.entered() RETURNS void LANGUAGE sql AS ''`},
		{"a function is gone", "DROP FUNCTION tutti.note_shared_behind(xid8)"},
		{"a function of PostgreSQL's has its name again", `DROP FUNCTION pg_catalog.lo_unlink(oid);
			ALTER FUNCTION pg_catalog.tutti_lo_unlink(oid) RENAME TO lo_unlink`},
		{"a table is gone", "DROP TABLE tutti.temporary CASCADE"},
		{"the note is of another build", "UPDATE tutti.installed SET hash = 'x'"},
		{"the note is gone", "DROP TABLE tutti.installed"},
	} {
		if _, err := c.Exec(ctx, `SET backtrace_functions = 'tutti_own'; SET allow_system_table_mods = on;
			DELETE FROM pg_depend WHERE deptype = 'e'; DELETE FROM pg_depend WHERE refobjid IN (SELECT oid FROM pg_extension
				WHERE extname = 'tutti'); `+x.sql+"; RESET backtrace_functions; RESET allow_system_table_mods"); err != nil {
			t.Fatalf("%s: %v", x.what, err)
		}
		was := version()
		install()
		var enabled string
		if err := c.QueryRow(ctx, "SELECT evtenabled::text FROM pg_event_trigger WHERE evtname = '!tutti_ddl'").
			Scan(&enabled); err != nil {
			t.Fatal(err)
		}
		if version() == was || enabled != "O" {
			t.Errorf("%s: it was not installed again", x.what)
		}
		was = version()
		install()
		if version() != was {
			t.Errorf("%s: it is installed each time", x.what)
		}
	}
}
