package catalog

import (
	"errors"
	"maps"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tuttidb/tutti/internal/apply"
	"github.com/tuttidb/tutti/internal/capture"
	"github.com/tuttidb/tutti/internal/pgtest"
	"github.com/tuttidb/tutti/internal/writeset"
)

// TestWithin: our own statements run with our own settings, whatever those of the session are,
// and leave them as they were.
func TestWithin(t *testing.T) {
	s := pgtest.Shared(t)
	conn := s.Connect(t, s.NewDatabase(t))
	for name, value := range apply.SessionSettings() {
		if _, err := conn.Exec(ctx, "SELECT set_config($1, $2, false)", name, value); err != nil {
			t.Fatal(err)
		}
	}
	const all = `SELECT array_to_string(array_agg(coalesce(current_setting(name, true), '') ORDER BY n), ' ')
		FROM unnest($1::text[]) WITH ORDINALITY AS s(name, n)`
	var names []string
	want := ""
	for _, o := range settings {
		names = append(names, o[0])
		want += o[1] + " "
	}
	look := func() (v string) {
		if err := conn.QueryRow(ctx, all, names).Scan(&v); err != nil {
			t.Fatal(err)
		}
		return v
	}
	tx, err := conn.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	before, inside := look(), ""
	if err := within(ctx, tx, func(back string) error {
		inside = look()
		_, err := tx.Exec(ctx, back)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if after := look(); inside+" " != want || after != before || before == inside {
		t.Errorf("before %q, inside %q, afterwards %q", before, inside, after)
	}
	if err := within(ctx, tx, func(string) error { return errors.ErrUnsupported }); !errors.Is(err,
		errors.ErrUnsupported) {
		t.Error(err)
	}
	if err := tx.Rollback(ctx); err != nil {
		t.Fatal(err)
	}
}

// TestFollowKnowsItsTriggers: after a definition a table is as ready for direct statements as after a
// start, and the tables it has not touched are as they were.
func TestFollowKnowsItsTriggers(t *testing.T) {
	m := newMembers(t, 1)
	var known *Tables
	for _, sql := range []string{"CREATE TABLE a (id int PRIMARY KEY, v int)", "CREATE TABLE b (v int)",
		"ALTER TABLE a ADD w int"} {
		m.in(m.conns[0], func(tx pgx.Tx) (err error) {
			if _, err = tx.Exec(ctx, "SET LOCAL backtrace_functions = 'tutti_on'; SET LOCAL tutti.tx = 'on'; "+
				sql); err == nil {
				known, err = Follow(ctx, tx, known)
			}
			return err
		})
		for name, op := range map[string]writeset.Op{"a": writeset.OpUpdate, "b": writeset.OpInsert} {
			d := known.Capture("public", name)
			if d == nil {
				continue
			}
			if _, ok := d.Direct(op, "x", []string{"v"}, nil, false); !ok {
				t.Errorf("after %s statements on %s cannot be direct", sql, name)
			}
		}
	}
	if known.Capture("public", "a") == nil || known.Capture("public", "b") == nil {
		t.Error("a table was forgotten")
	}
}

// TestHolds: of a table holds what was known before a definition of other tables, whatever was defined in between of
// those. Not of a table that it changes, behind what may change the meaning of a statement, or if a name could mean
// something else now.
func TestHolds(t *testing.T) {
	m := newMembers(t, 1)
	var known *Tables
	define := func(sql, tags string, names ...[2]string) {
		t.Helper()
		m.in(m.conns[0], func(tx pgx.Tx) (err error) {
			if _, err = tx.Exec(ctx, "SET LOCAL backtrace_functions = 'tutti_on'; SET LOCAL tutti.tx = 'on'; "+
				sql); err != nil {
				return err
			}
			if tags == "" {
				known, err = Follow(ctx, tx, known)
				return err
			}
			if _, err = Follow(ctx, tx, nil); err != nil {
				return err
			}
			known, err = DescribeSome(ctx, tx, known, names, "SELECT set_config('tutti.tags', '"+tags+"', true)")
			return err
		})
	}
	define("CREATE SCHEMA s; CREATE TABLE a (id int PRIMARY KEY, v int); CREATE TABLE b (id int PRIMARY KEY); "+
		"CREATE TABLE s.many (id int) PARTITION BY RANGE (id)", "")
	for _, d := range []struct {
		sql   string
		a, b  bool
		tags  string
		names [][2]string
	}{
		{sql: "CREATE TABLE c (id serial PRIMARY KEY, v text UNIQUE)", a: true, b: true},
		{sql: "CREATE INDEX ON c (v); COMMENT ON TABLE c IS 'x'; ALTER TABLE c ADD w int DEFAULT 5", a: true, b: true},
		{sql: "ALTER TABLE a ADD w int", b: true},
		{sql: "CREATE UNIQUE INDEX ON b (id)", a: true},
		{sql: "CREATE TABLE d (id int REFERENCES b)", a: true},
		{sql: "DROP TABLE d", a: true},
		{sql: "CREATE TABLE s.part PARTITION OF s.many FOR VALUES FROM (1) TO (2)", a: true, b: true},
		{sql: "CREATE TABLE s.c2 (LIKE a INCLUDING ALL)", a: true, b: true},
		{sql: "CREATE TABLE s.a (id int)"},
		{sql: "DROP TABLE s.a", a: true, b: true},
		{sql: "CREATE UNLOGGED TABLE s.b (id int)"},
		{sql: "CREATE TABLE s.c (id int) PARTITION BY RANGE (id)"},
		{sql: "CREATE FUNCTION f() RETURNS int LANGUAGE sql AS 'SELECT 1'"},
		{sql: "GRANT SELECT ON c TO PUBLIC"},
		{sql: "CREATE VIEW v AS SELECT * FROM c"},
		{sql: "CREATE TABLE e (id int); CREATE VIEW w AS SELECT * FROM c"},
		{sql: "ALTER TABLE c RENAME TO c3"},
		{sql: "CREATE SCHEMA t"},
		{sql: "ALTER TABLE c3 ADD x int", a: true, b: true, tags: ",ALTER TABLE", names: [][2]string{{"public", "c3"}}},
		{sql: "CREATE TABLE g (id int)", tags: ",CREATE TABLE", names: [][2]string{{"public", "g"}}},
		{sql: "DROP TABLE a", b: true},
	} {
		before := known
		define(d.sql, d.tags, d.names...)
		if a, b := known.Holds(before, "public", "a"), known.Holds(before, "public", "b"); a != d.a || b != d.b {
			t.Errorf("behind %s what is known holds of a: %v, of b: %v", d.sql, a, b)
		}
		if known.Holds(nil, "public", "b") || known.Holds(before, "public", "nowhere") {
			t.Errorf("behind %s it holds what was not known", d.sql)
		}
	}
}

// TestNothingIsDeferrableAtFirst: while nobody has made anything deferrable, nothing of Tutti's own is taken for it, or
// every COMMIT would take its longest way.
func TestNothingIsDeferrableAtFirst(t *testing.T) {
	m := newMembers(t, 1)
	var known *Tables // as a member has them, which has only what is new described
	for _, x := range []struct {
		sql  string
		want bool
	}{{"CREATE TABLE a (id int PRIMARY KEY)", false}, {"CREATE TABLE b (id int UNIQUE DEFERRABLE)", true},
		{"DROP TABLE b", false}} {
		m.in(m.conns[0], func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, "SET LOCAL backtrace_functions = 'tutti_on'; SET LOCAL tutti.tx = 'on'; "+
				x.sql); err != nil {
				return err
			}
			anew, err := Follow(ctx, tx, nil)
			if err == nil && anew.Deferrable() != x.want {
				t.Errorf("after %s: something is deferrable: %v", x.sql, !x.want)
			}
			return err
		})
	}
	for _, x := range []struct {
		sql  string
		want bool
	}{{"CREATE TABLE c (id int PRIMARY KEY)", false}, {"CREATE TABLE d (id int UNIQUE DEFERRABLE)", true},
		{"CREATE TABLE e (id int PRIMARY KEY)", true}, {"DROP TABLE d", false},
		{"ALTER TABLE e ADD FOREIGN KEY (id) REFERENCES c DEFERRABLE", true}} {
		m.in(m.conns[0], func(tx pgx.Tx) (err error) {
			if _, err = tx.Exec(ctx, "SET LOCAL backtrace_functions = 'tutti_on'; SET LOCAL tutti.tx = 'on'; "+
				x.sql); err != nil {
				return err
			}
			if known, err = Follow(ctx, tx, known); err == nil && known.Deferrable() != x.want {
				t.Errorf("after %s, described in part: something is deferrable: %v", x.sql, !x.want)
			}
			return err
		})
	}
}

// TestInstallOverAnOlderBuild: what an older build has left under names that are not used any more is gone, so that
// nothing is noted twice.
func TestInstallOverAnOlderBuild(t *testing.T) {
	m := newMembers(t, 1)
	c := m.conns[0]
	of := func() (n int) {
		if err := c.QueryRow(ctx, "SELECT count(*) FROM pg_event_trigger").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	now := of()
	for name, event := range map[string]string{"tutti_ddl": "ddl_command_end", "tutti_drop": "sql_drop",
		"tutti_begin": "ddl_command_start", "tutti_rewrite": "table_rewrite"} {
		if _, err := c.Exec(ctx, "CREATE EVENT TRIGGER "+name+" ON "+event+" EXECUTE FUNCTION tutti.ddl()"); err !=
			nil {
			t.Fatal(err)
		}
	}
	m.in(c, func(tx pgx.Tx) error { return Install(ctx, tx) })
	if got := of(); got != now {
		t.Errorf("%d event triggers, want %d", got, now)
	}
}

var orphans = regexp.MustCompile(`^SELECT tutti\.drop_functions\('\{((capture|bulk)_[0-9a-f_]+,?)+\}'\)$`)

// TestFollowLeavesNothing: what follows up definitions one by one leaves the triggers and functions that a start would,
// however it came to them, and all of them are Tutti's.
func TestFollowLeavesNothing(t *testing.T) {
	m := newMembers(t, 1)
	var known *Tables
	for _, sql := range []string{
		"CREATE TABLE a (id int PRIMARY KEY, v int)",
		"CREATE TABLE b (v int)",
		"ALTER TABLE a ADD w int DEFAULT 3",
		"ALTER TABLE a ALTER v TYPE text",
		"CREATE UNIQUE INDEX a_w ON a (w)",
		"DROP INDEX a_w",
		"ALTER TABLE a DROP v",
		"ALTER TABLE a ADD v int; ALTER TABLE a DROP v",
		"ALTER TABLE b ADD PRIMARY KEY (v)",
		"ALTER TABLE a ADD FOREIGN KEY (w) REFERENCES b",
		"ALTER TABLE b RENAME v TO u",
		`ALTER TABLE public."b" RENAME COLUMN "u" TO "v w";`,
		"ALTER TABLE b RENAME CONSTRAINT b_pkey TO b_key",
		"ALTER TABLE b RENAME \"v w\" TO v; ALTER TABLE a RENAME w TO ww",
		"ALTER TABLE a RENAME ww TO w",
		"ALTER TABLE a DISABLE TRIGGER ALL, ADD x int",
		"DROP TRIGGER \"!!tutti_update\" ON a; ALTER TABLE a ADD y int",
		"DROP TRIGGER \"!!tutti\" ON a; ALTER TABLE a ADD z text",
		"ALTER TABLE a RENAME TO c; ALTER TABLE c ADD q int",
		"CREATE TABLE d (LIKE c INCLUDING ALL); CREATE VIEW l AS SELECT * FROM c; GRANT SELECT (id) ON c TO PUBLIC",
		"ALTER TABLE d ADD CHECK (q > 0), ADD UNIQUE (q) DEFERRABLE INITIALLY DEFERRED",
		"CREATE TABLE p (id int PRIMARY KEY, v int) PARTITION BY RANGE (id); CREATE TABLE p1 PARTITION OF p FOR " +
			"VALUES FROM (0) TO (9)",
		"ALTER TABLE p ADD w int; ALTER TABLE p DETACH PARTITION p1",
		"CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'; CREATE TRIGGER f BEFORE " +
			"INSERT ON b FOR EACH ROW EXECUTE FUNCTION f()",
		"DROP TRIGGER f ON b",
		"ALTER TABLE d SET UNLOGGED", "ALTER TABLE d SET LOGGED",
		"DROP TABLE d; CREATE TABLE d (id int PRIMARY KEY)",
		"ALTER TABLE d RENAME TO e", "CREATE SCHEMA s; ALTER TABLE e SET SCHEMA s", "ALTER VIEW l RENAME TO k",
		"ALTER TABLE s.e RENAME TO d; ALTER TABLE s.d SET SCHEMA public",
		"DROP TABLE c CASCADE", "DROP TABLE b, d, p, p1",
	} {
		m.in(m.conns[0], func(tx pgx.Tx) (err error) {
			if _, err = tx.Exec(ctx, "SET LOCAL backtrace_functions = 'tutti_on'; SET LOCAL tutti.tx = 'on'; "+
				sql); err != nil {
				return err
			}
			if known, err = Follow(ctx, tx, known); err != nil {
				return err
			}
			var text string
			if err := tx.QueryRow(ctx, describeAll).Scan(&text); err != nil {
				return err
			}
			c, err := capture.DecodeDescribe([]byte(text))
			if err != nil {
				return err
			}
			// Functions of triggers that clients have taken away are called by nobody, and stay until a table is
			// dropped.
			if left := capture.Refresh(c); len(left) > 1 ||
				len(left) == 1 && (!orphans.MatchString(left[0]) || !strings.Contains(sql, "TRIGGER")) {
				t.Errorf("after %s there is left to do %q", sql, left)
			}
			var strangers []string
			if err := tx.QueryRow(ctx,
				`SELECT coalesce(array_agg(p.proname::text), '{}') FROM pg_proc p WHERE p.pronamespace = `+
					`'tutti'::regnamespace AND (NOT EXISTS (SELECT FROM pg_depend d
				WHERE d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e') OR p.proname ~ '^(capture|bulk|direct|final)_' AND p.proowner::regrole::text !~ '^tutti_'
				OR p.proname ~ '^(capture|bulk)_' AND has_function_privilege('public', p.oid, 'EXECUTE'))`).Scan(&strangers); err != nil {
				return err
			}
			if len(strangers) > 0 {
				t.Errorf("after %s functions %q are not as they should be", sql, strangers)
			}
			all, err := Describe(ctx, tx)
			if err != nil {
				return err
			}
			for name, x := range known.byName {
				if d := all.byName[name]; d == nil && all.ByOID(x.capture.OID) != nil {
					t.Errorf("after %s %q is known by a name that it had", sql, name)
				}
			}
			if all.deferrable != known.deferrable || !maps.Equal(all.views, known.views) ||
				!maps.Equal(all.rights, known.rights) {
				t.Errorf("after %s known is %t %v %v, in truth it is %t %v %v", sql, known.deferrable, known.views,
					known.rights, all.deferrable, all.views, all.rights)
			}
			return nil
		})
	}
}
