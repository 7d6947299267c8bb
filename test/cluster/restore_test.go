package cluster

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/tuttidb/tutti/internal/pgtest"
)

// store is a database of somebody's, in two schemas.
var store = []string{
	"CREATE SCHEMA store", "CREATE SCHEMA \"store Ü\"",
	"CREATE TYPE store.mood AS ENUM ('sad', 'ok')", "CREATE TYPE store.pair AS (a int, b text)",
	"CREATE DOMAIN store.posint AS int CHECK (VALUE > 0)",
	"CREATE SEQUENCE store.by_three INCREMENT BY 3 START WITH 7 MINVALUE 7", "SELECT setval('store.by_three', 100)",
	"CREATE TABLE store.customer(id serial PRIMARY KEY, name text NOT NULL, m store.mood, born date DEFAULT " +
		"'2000-01-01', UNIQUE (name))",
	"INSERT INTO store.customer(name, m) SELECT 'c' || g, 'ok' FROM generate_series(1, 500) g",
	"CREATE TABLE store.orders(id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, c int NOT NULL REFERENCES " +
		"store.customer ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED, n store.posint, total numeric(10,2), twice " +
		"numeric GENERATED ALWAYS AS (total * 2) STORED, CHECK (total >= 0))",
	"INSERT INTO store.orders(c, n, total) SELECT 1 + g % 500, g, g / 3.0 FROM generate_series(1, 5000) g",
	"CREATE INDEX ON store.orders(c) INCLUDE (n) WHERE n > 10",
	`CREATE TABLE "store Ü"."odd Name"("a b" jsonb, t timestamptz[], b bytea, f float8, p store.pair, r int4range, x ` +
		`xml, i inet)`,
	`INSERT INTO "store Ü"."odd Name" VALUES ('{"k": [1, null]}', '{infinity,2020-02-29 12:00+00}', '\x00ff', 'NaN', ` +
		`'(1,"x, y")', '[1,5)', '<a/>', '::1/64'), (NULL, '{}', '', '-0', NULL, 'empty', NULL, NULL)`,
	"CREATE TABLE store.log(at date, what text) PARTITION BY RANGE (at)",
	"CREATE TABLE store.log_20 PARTITION OF store.log FOR VALUES FROM ('2020-01-01') TO ('2021-01-01')",
	"CREATE TABLE store.log_rest PARTITION OF store.log DEFAULT",
	"INSERT INTO store.log VALUES ('2020-05-05', 'a'), ('1999-01-01', 'b')",
	"CREATE TABLE store.base(id int PRIMARY KEY)", "CREATE TABLE store.derived(extra text) INHERITS (store.base)",
	"INSERT INTO store.derived VALUES (1, 'd')",
	// each part is indexed while others are filled
	"CREATE TABLE store.many(id int, part int, what text, PRIMARY KEY (id, part)) PARTITION BY LIST (part)",
	"CREATE INDEX ON store.many(what)",
	"DO $$BEGIN FOR p IN 1..8 LOOP EXECUTE format('CREATE TABLE store.many_%s PARTITION OF store.many FOR VALUES IN " +
		"(%s)', p, p); END LOOP; END$$",
	"INSERT INTO store.many SELECT g, p, 'row ' || g FROM generate_series(1, 8) p, generate_series(1, (5 * " +
		"3^p)::int) g",
	"CREATE TABLE store.ex(during tsrange, EXCLUDE USING gist (during WITH &&))",
	"INSERT INTO store.ex VALUES ('[2020-01-01,2020-01-02)')",
	"CREATE VIEW store.big AS SELECT * FROM store.orders WHERE n > 100",
	"CREATE MATERIALIZED VIEW store.sums AS SELECT c, sum(total) FROM store.orders GROUP BY c",
	"CREATE UNIQUE INDEX ON store.sums(c)",
	"CREATE FUNCTION store.touch() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN NEW.name := NEW.name; RETURN NEW; END$$",
	"CREATE TRIGGER touch BEFORE UPDATE ON store.customer FOR EACH ROW EXECUTE FUNCTION store.touch()",
	"CREATE RULE nothing AS ON DELETE TO store.base DO INSTEAD NOTHING",
	"CREATE FUNCTION store.one() RETURNS int LANGUAGE sql AS 'SELECT 1'",
	"ALTER TABLE store.log ENABLE ROW LEVEL SECURITY", "CREATE POLICY p ON store.log USING (what <> 'secret')",
	"CREATE STATISTICS store.st ON c, n FROM store.orders",
	"COMMENT ON TABLE store.customer IS 'who buys'", "GRANT SELECT ON store.customer TO PUBLIC",
	"GRANT UPDATE (name) ON store.customer TO PUBLIC",
}

// TestRestore: what pg_dump says of a plain server is restored through Tutti, as text and by pg_restore;
// then pg_dump says the same of every node, and what it says is restored into a plain server.
func TestRestore(t *testing.T) {
	for _, name := range []string{"pg_dump", "pg_restore", "psql"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skipf("%s is not installed", name)
		}
	}
	c := use(t)
	server, dir := pgtest.Start(t), t.TempDir()
	plain, copied := server.NewDatabase(t), server.NewDatabase(t)
	server.Exec(t, plain, store...)
	tool := func(name string, args ...string) {
		t.Helper()
		if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
			t.Fatalf("%s %v: %v\n%.2000s", name, args, err, out)
		}
	}
	text, custom := filepath.Join(dir, "plain.sql"), filepath.Join(dir, "plain.dump")
	dump := func(from, file, format string) string {
		t.Helper()
		tool("pg_dump", "--format", format, "--schema", "store", "--schema", `"store Ü"`, "--file", file, "--dbname",
			from)
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return values.ReplaceAllString(string(b), "")
	}
	want := dump(server.ConnString(plain), text, "plain")
	dump(server.ConnString(plain), custom, "custom")
	restored := 0
	check := func() {
		t.Helper()
		restored++
		c.Connect(1).Do(fmt.Sprintf("CREATE TABLE restored_%d()", restored)) // ordered after everything
		c.Everywhere(fmt.Sprintf("SELECT to_regclass('restored_%d') IS NOT NULL", restored), "t")
		for k := range 3 {
			if got := dump(c.URL(k+1), filepath.Join(dir, "tutti.sql"), "plain"); got != want {
				t.Errorf("node %d: the dump differs: %s", k+1, firstDifference(got, want))
			}
		}
	}
	tool("psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-f", text, "-d", c.URL(1))
	check()
	tool("psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-f", filepath.Join(dir, "tutti.sql"), "-d",
		server.ConnString(copied))
	if got := dump(server.ConnString(copied), filepath.Join(dir, "copied.sql"), "plain"); got != want {
		t.Errorf("restored into a plain server the dump differs: %s", firstDifference(got, want))
	}
	s := c.Connect(2)
	s.Do(`DROP SCHEMA store, "store Ü" CASCADE`)
	tool("pg_restore", "--exit-on-error", "--dbname", c.URL(3), custom)
	check()
	s.Do(`DROP SCHEMA store, "store Ü" CASCADE`)
	tool("pg_restore", "--exit-on-error", "--jobs", "4", "--dbname", c.URL(2), custom)
	check()
	s.Do("INSERT INTO store.customer(name) VALUES ('new')", "INSERT INTO store.orders(c, total) VALUES (1, 1)")
	c.Check()
	s.Do(`DROP SCHEMA store, "store Ü" CASCADE`)
}

// values are where sequences are, which is another value at each node, and what pg_dump draws.
var values = regexp.MustCompile(`(?m)', \d+, (true|false)\);$|^\\(un)?restrict \w+$`)

func firstDifference(got, want string) string {
	i := 0
	for i < len(got) && i < len(want) && got[i] == want[i] {
		i++
	}
	around := func(s string) string { return s[max(0, min(i, len(s))-200):min(len(s), i+200)] }
	return around(got) + "\n--- instead of ---\n" + around(want)
}
