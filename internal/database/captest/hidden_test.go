package captest

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/tuttidb/tutti/internal/pgtest"
	"github.com/tuttidb/tutti/internal/writeset"
)

// The triggers are not shown as users', and stay on when those are switched off.
func TestTriggersAreHidden(t *testing.T) {
	p := newPair(t, "CREATE TABLE t(id int PRIMARY KEY, a int)",
		"CREATE TABLE pt(id int PRIMARY KEY) PARTITION BY RANGE (id)", "CREATE TABLE leaf(id int NOT NULL)",
		"CREATE FUNCTION noted() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'",
		"CREATE TRIGGER mine AFTER INSERT ON pt FOR EACH ROW EXECUTE FUNCTION noted()")
	p.tx("INSERT INTO t VALUES (1, 1)")
	p.bulk = true
	for _, ddl := range []string{
		"ALTER TABLE t DISABLE TRIGGER USER", "ALTER TABLE t DISABLE TRIGGER ALL", "ALTER TABLE t ENABLE TRIGGER ALL",
		`ALTER TABLE t DISABLE TRIGGER "!!tutti_replica"`, `DROP TRIGGER "!!tutti_replica" ON t`,
		`ALTER TABLE t DISABLE TRIGGER "!!tutti"`,
		`DROP TRIGGER "!!tutti" ON t`, `DROP TRIGGER "!!tutti_truncate" ON t`, `DROP TRIGGER "!!tutti_update" ON t`,
		`ALTER TABLE t DISABLE TRIGGER "!!tutti_insert"`, "ALTER TABLE t ADD b int",
		"ALTER TABLE t ALTER a TYPE bigint", "CREATE TABLE like_t (LIKE t INCLUDING ALL)",
		"CREATE UNIQUE INDEX ON t(a)",
		"ALTER TABLE pt ATTACH PARTITION leaf FOR VALUES FROM (0) TO (10)", "ALTER TABLE pt DETACH PARTITION leaf",
		"ALTER TABLE t RENAME TO t2; ALTER TABLE t2 RENAME TO t",
		"UPDATE pg_trigger SET tgisinternal = false WHERE tgname ~ '^!!tutti'", // as an earlier version left them
	} {
		p.ddl(ddl)
		w := p.tx("UPDATE t SET a = a + 1")
		wantOps(t, w, map[bool]writeset.Op{false: upd, true: repl}[len(p.tables.Capture("public", "t").Indexes) > 1])
		p.tx("INSERT INTO leaf VALUES (1)", "DELETE FROM leaf")
		var shown, tables, hidden, whole, replicas int
		p.scan(p.a, "SELECT count(*) FROM pg_trigger WHERE tgname = '!!tutti_replica' AND tgenabled = 'R'", &replicas)
		p.scan(p.a, "SELECT count(*) FILTER (WHERE NOT tgisinternal AND tgname <> 'mine'), count(*) FILTER (WHERE "+
			"tgisinternal AND tgname ~ '^!!tutti'), (SELECT count(*) FROM tutti.captured_tables) FROM pg_trigger",
			&shown, &hidden, &tables)
		p.scan(p.a, "SELECT count(DISTINCT tgrelid) FROM pg_trigger WHERE tgfoid::regproc::text ~ '^tutti.bulk_'",
			&whole)
		if shown != 0 || hidden != 3*tables+3*whole || replicas != tables || whole < 1 || tables < 2 {
			t.Fatalf("after %s %d triggers are shown, %d of %d tables are hidden", ddl, shown, hidden, tables)
		}
	}
	role := strings.ReplaceAll(p.dbA, "-", "_") + "_owner"
	p.exec(p.a, "SET backtrace_functions = 'tutti_on'; CREATE ROLE "+role+"; ALTER TABLE leaf OWNER TO "+role)
	defer p.exec(p.a, "SET backtrace_functions = 'tutti_on'; DROP OWNED BY "+role+"; DROP ROLE "+role)
	for sql, state := range map[string]string{"ALTER TABLE leaf DISABLE TRIGGER USER": "",
		"ALTER TABLE leaf DISABLE TRIGGER ALL": "42501"} {
		p.exec(p.a, "BEGIN; SET LOCAL ROLE "+role)
		if _, err := p.a.Exec(ctx, sql); err != nil || state != "" {
			wantState(t, err, state)
		}
		p.exec(p.a, "ROLLBACK")
	}
	p.exec(p.a, "RESET backtrace_functions")
	// Else what was done to owners above, behind Tutti's back, counts as this session's until PostgreSQL's statistics
	// have taken it, and a TRUNCATE makes a new row of pg_class: its owner would be described.
	p.exec(p.a, "SELECT pg_stat_force_next_flush()")
	p.tx("TRUNCATE t")
	wantOps(t, p.last, trunc)
	p.equal()
}

// pg_dump says nothing of Tutti, and what it says makes the same tables on a server without it. A role
// without rights on schema tutti can run it.
func TestDumpIsClean(t *testing.T) {
	p := newPair(t, "CREATE SCHEMA s", "CREATE TABLE s.t(id int PRIMARY KEY, a text)",
		"CREATE TABLE child(id serial PRIMARY KEY, p int REFERENCES s.t)", "CREATE TABLE gone(id int PRIMARY KEY)",
		"CREATE TABLE keyless(x int)")
	p.ddl("DROP TABLE gone", "ALTER TABLE child ADD x int", "CREATE TABLE late(id int PRIMARY KEY)")
	p.tx("INSERT INTO s.t VALUES (1, 'one')", "INSERT INTO child(p) VALUES (1)", "INSERT INTO keyless VALUES (5)")
	p.install(p.a) // what is there already is made anew
	s := pgtest.Shared(t)
	role := strings.ReplaceAll(p.dbA, "-", "_") + "_dumper"
	p.exec(p.a, "SET backtrace_functions = 'tutti_on'; CREATE ROLE "+role+" LOGIN; GRANT USAGE ON SCHEMA s TO "+role+
		"; GRANT SELECT ON ALL TABLES IN SCHEMA s, public TO "+role+
		"; GRANT SELECT ON ALL SEQUENCES IN SCHEMA public TO "+role)
	defer p.exec(p.a, "SET backtrace_functions = 'tutti_on'; DROP OWNED BY "+role+"; DROP ROLE "+role)
	plain := s.NewDatabase(t)
	defer func() { s.Exec(t, plain, "DROP OWNED BY "+role) }()
	for _, args := range [][]string{{}, {"--schema-only", "--clean", "--if-exists"}, {"-U", role}} {
		dump := tool(t, "", "pg_dump", append(args, "-d", p.dbA, "-h", s.SocketDir(), "-p", fmt.Sprint(s.Port()))...)
		text := strings.ReplaceAll(dump, p.dbA, "")
		if i := strings.Index(text, "tutti"); i >= 0 {
			t.Fatalf("pg_dump %v says %q", args, text[max(0, i-100):min(len(text), i+100)])
		}
		if len(args) == 0 {
			tool(t, dump, "psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", plain, "-h", s.SocketDir(), "-p",
				fmt.Sprint(s.Port()))
		}
	}
	c := s.Connect(t, plain)
	if a, b := p.dump(p.a), p.dump(c); a != b || strings.Count(a, "\n") != 3 {
		t.Fatalf("the restored rows are\n%s\nwant\n%s", b, a)
	}
	if d := tool(t, "", "psql", "-X", "-d", p.dbA, "-h", s.SocketDir(), "-p", fmt.Sprint(s.Port()), "-c",
		`\d s.t`); strings.Contains(d, "tutti") || strings.Contains(d, "Triggers") && !strings.Contains(d, "child") {
		t.Errorf("psql describes the table as\n%s", d)
	}
}

// tool runs one of PostgreSQL's programs as the database's superuser, unless told otherwise.
func tool(t *testing.T, input, name string, args ...string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("%s is not installed", name)
	}
	cmd := exec.Command(path, args...)
	cmd.Env = append(os.Environ(), "PGUSER=postgres")
	cmd.Stdin = strings.NewReader(input)
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, errs.String())
	}
	return out.String()
}
