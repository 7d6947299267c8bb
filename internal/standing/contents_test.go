package standing

import (
	"strings"
	"testing"
	"time"

	"github.com/tuttidb/tutti/internal/bootstrap"
	"github.com/tuttidb/tutti/internal/config"
	"github.com/tuttidb/tutti/internal/database/link"
	"github.com/tuttidb/tutti/internal/failure"
	"github.com/tuttidb/tutti/internal/pgtest"
)

func ownString(s *pgtest.Server, db string) string {
	return s.ConnString(db) + link.OwnOptions(s.Instance().Build().Major)
}

// contentsOf is what a database holds, with Tutti installed.
func contentsOf(t *testing.T, s *pgtest.Server, db string) *bootstrap.Contents {
	t.Helper()
	_, _, err := installFirst(t.Context(), ownString(s, db))
	if err != nil {
		t.Fatal(err)
	}
	c, err := ReadItems(t.Context(), ownString(s, db))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// allOf is what ReadContents says for a member whose main database is this one.
func allOf(t *testing.T, s *pgtest.Server, main string) (*bootstrap.Contents, error) {
	t.Helper()
	c := &config.Config{Cluster: "c", Member: 1, Database: main, Limits: config.Limits{Databases: 4}}
	return ReadContents(t.Context(), func(db string) string { return ownString(s, db) }, c, "the log")
}

// TestContentsOfAServer: databases beside the main one count, by name; one that nobody has used does not.
func TestContentsOfAServer(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t)
	all := func(main string) *bootstrap.Contents {
		t.Helper()
		c, err := allOf(t, s, main)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	if c := all("postgres"); !c.Empty() {
		t.Errorf("a new server holds %v", c)
	}
	s.Exec(t, "", "CREATE DATABASE shop", "CREATE DATABASE \"a b\"", "CREATE ROLE clerk")
	s.Exec(t, "shop", "CREATE TABLE stock(k int PRIMARY KEY)", "ALTER ROLE clerk IN DATABASE shop SET work_mem = '5MB'")
	before := all("postgres")
	if got := strings.Join(before.Databases, ", "); got != "a b, shop" || before.Empty() {
		t.Errorf("the databases are %s", got)
	}
	for _, change := range []struct{ db, sql, want string }{
		{"shop", "INSERT INTO stock VALUES (1)", "the content of public.stock in database \"shop\""},
		{"shop", "ALTER ROLE clerk IN DATABASE shop SET work_mem = '6MB'",
			"the settings of roles in database \"shop\""},
		{"a b", "CREATE VIEW v AS SELECT 1", "the definition of public.v in database \"a b\""},
		{"", "ALTER ROLE clerk LOGIN", "role clerk"},
	} {
		s.Exec(t, change.db, "SET backtrace_functions = 'tutti_applies'", "SET session_replication_role = replica",
			change.sql)
		after := all("postgres")
		if d := itemsThatDiffer(before, after); strings.Join(d, "; ") != change.want {
			t.Errorf("after %s the difference is %q, want %q", change.sql, d, change.want)
		}
		before = after
	}
	if c := all("shop"); strings.Join(c.Databases, ", ") != "a b" { // postgres is as initdb has made it
		t.Errorf("beside shop: %v", c.Databases)
	}
	s.Exec(t, "", "SET backtrace_functions = 'tutti_applies'", "SET session_replication_role = replica",
		"CREATE TABLE used()")
	if c := all("shop"); strings.Join(c.Databases, ", ") != "a b, postgres" {
		t.Errorf("beside shop, once postgres is used: %v", c.Databases)
	}
	s.Exec(t, "", "CREATE DATABASE b", "CREATE DATABASE c")
	if _, err := allOf(t, s, "shop"); err == nil || !strings.Contains(err.Error(), "has 5 databases") {
		t.Errorf("too many databases: %v", err)
	}
	s.Exec(t, "", "DROP DATABASE b", "DROP DATABASE c")
	s.Exec(t, "a b", "UPDATE tutti.progress SET member = 2, cluster = 'c'")
	if _, err := allOf(t, s, "shop"); err == nil || !strings.Contains(err.Error(), "belongs to member 2") {
		t.Errorf("databases of two servers: %v", err)
	}
}

// itemsThatDiffer are those that are not the same in two databases.
func itemsThatDiffer(a, b *bootstrap.Contents) (names []string) {
	left := map[string]string{}
	for _, i := range a.Items {
		left[i.Name] = i.Value
	}
	for _, i := range b.Items {
		if left[i.Name] != i.Value {
			names = append(names, i.Name)
		}
		delete(left, i.Name)
	}
	for name := range left {
		names = append(names, name)
	}
	return names
}

// Whatever is changed in one of two equal databases is found, and named.
func TestContents(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t)
	one, two := s.NewDatabase(t), s.NewDatabase(t)
	schema := []string{
		"CREATE SCHEMA app", "CREATE TYPE app.mood AS ENUM ('sad', 'ok')",
		"CREATE DOMAIN app.positive AS int CHECK (VALUE > 0)",
		"CREATE TYPE app.pair AS (a int, b text)", "CREATE TYPE app.span AS RANGE (subtype = int)",
		"CREATE TABLE app.account(id serial PRIMARY KEY, owner text NOT NULL DEFAULT 'nobody', m app.mood, n " +
			"app.positive, p app.pair)",
		"CREATE TABLE app.entry(id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, account int REFERENCES app.account, " +
			"at timestamptz) PARTITION BY RANGE (id)",
		"CREATE TABLE app.entry1 PARTITION OF app.entry FOR VALUES FROM (1) TO (1000)",
		"CREATE INDEX ON app.account (owner)",
		"CREATE VIEW app.owners AS SELECT owner FROM app.account",
		"CREATE MATERIALIZED VIEW app.counted AS SELECT count(*) FROM app.account",
		"CREATE FUNCTION app.f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'",
		"CREATE AGGREGATE app.total(int) (SFUNC = int4pl, STYPE = int)",
		"CREATE TRIGGER t BEFORE UPDATE ON app.account FOR EACH ROW EXECUTE FUNCTION app.f()",
		"CREATE RULE r AS ON DELETE TO app.entry1 DO ALSO NOTIFY gone",
		"CREATE SEQUENCE app.loose", "SELECT nextval('app.loose')",
		"CREATE POLICY mine ON app.account USING (owner = current_user)",
		"CREATE OPERATOR app.### (LEFTARG = int, RIGHTARG = int, FUNCTION = int4pl)",
		"CREATE PUBLICATION p FOR TABLE app.account",
		"INSERT INTO app.account(owner) SELECT 'o' || i FROM generate_series(1, 10) i",
		"INSERT INTO app.entry(account) VALUES (1)",
		"SELECT lo_from_bytea(12345, 'large')",
	}
	s.Exec(t, one, schema...)
	s.Exec(t, two, schema...)
	equal := contentsOf(t, s, one)
	if d := itemsThatDiffer(equal, contentsOf(t, s, two)); len(d) > 0 {
		t.Fatalf("equal databases differ in %v", d)
	}
	if d := itemsThatDiffer(equal, contentsOf(t, s, one)); len(d) > 0 {
		t.Fatalf("a database differs from itself, once Tutti is installed, in %v", d)
	}
	for i := 1; i < len(equal.Items); i++ {
		if equal.Items[i-1].Name >= equal.Items[i].Name {
			t.Errorf("%q does not come before %q", equal.Items[i-1].Name, equal.Items[i].Name)
		}
	}
	before := equal
	for _, change := range []struct{ sql, want string }{
		{"UPDATE app.account SET owner = 'x' WHERE id = 3", "the content of app.account"},
		{"INSERT INTO app.entry(account) VALUES (2)", "the content of app.entry1"},
		{"ALTER TABLE app.account ADD extra int", "the definition of app.account"},
		{"ALTER TABLE app.account ALTER owner SET DEFAULT 'you'", "the definition of app.account"},
		{"CREATE UNIQUE INDEX ON app.account (owner)", "the definition of app.account"},
		{"ALTER TABLE app.account ENABLE ROW LEVEL SECURITY", "the definition of app.account"},
		{"ALTER POLICY mine ON app.account USING (true)", "the definition of app.account"},
		{"ALTER TABLE app.account DISABLE TRIGGER t", "the definition of app.account"},
		{"DROP RULE r ON app.entry1", "the definition of app.entry1"},
		{"GRANT SELECT ON app.account TO PUBLIC", "the definition of app.account"},
		{"CREATE OR REPLACE VIEW app.owners AS SELECT lower(owner) AS owner FROM app.account",
			"the definition of app.owners"},
		{"CREATE OR REPLACE FUNCTION app.f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'",
			"function app.f()"},
		{"DROP AGGREGATE app.total(int)", "function app.total(integer)"},
		{"ALTER TYPE app.mood ADD VALUE 'good'", "type app.mood"},
		{"ALTER DOMAIN app.positive ADD CHECK (VALUE < 1000)", "type app.positive"},
		{"ALTER TYPE app.pair ADD ATTRIBUTE c int", "the definition of app.pair"},
		{"SELECT nextval('app.loose')", "the definition of app.loose"},
		{"DROP OPERATOR app.### (int, int)", "operator app.###(integer,integer)"},
		{"DROP PUBLICATION p", "publication p"},
		{"CREATE SCHEMA other", "schema other"},
		{"CREATE EXTENSION hstore", "extension hstore"},
		{"COMMENT ON LARGE OBJECT 12345 IS 'other'", "the content of large objects"},
		{"CREATE ROLE contents_test LOGIN", "role contents_test"},
		{"ALTER DATABASE " + two + " SET work_mem = '5MB'", "the settings of the database"},
	} {
		s.Exec(t, two, "SET backtrace_functions = 'tutti_applies'", "SET session_replication_role = replica",
			change.sql)
		after, err := ReadItems(t.Context(), ownString(s, two))
		if err != nil {
			t.Fatal(err)
		}
		if d := strings.Join(itemsThatDiffer(before, after), "; "); !strings.Contains(d, change.want) {
			t.Errorf("after %s the difference is %q, want %q", change.sql, d, change.want)
		}
		before = after
	}
	s.Exec(t, one, "UPDATE tutti.progress SET member = 2, cluster = 'c'")
	if c, err := allOf(t, s, one); err != nil || c.CopyOf != 2 || len(c.Items) > 0 {
		t.Errorf("a copy of member 2 says that it is %v, %v", c, err)
	}
	for cluster, want := range map[string]string{"c": "is gone but its database is there",
		"d": `belongs to cluster "d"`} {
		s.Exec(t, one, "UPDATE tutti.progress SET member = 1, cluster = '"+cluster+"'")
		_, err := allOf(t, s, one)
		if failure.Permanent(err, true, time.Now()) == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("a database of cluster %s gives %v", cluster, err)
		}
	}
}
