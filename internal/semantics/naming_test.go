package semantics

import (
	"slices"
	"strings"
	"testing"
)

// TestNamed: a definition says which names it gives and takes.
func TestNamed(t *testing.T) {
	for sql, want := range map[string][]string{
		"CREATE TABLE s.T(id int REFERENCES u)":                           {"t"},
		`CREATE TABLE "T"(LIKE v)`:                                        {"t"},
		"CREATE TABLE t AS SELECT 1":                                      {"t"},
		"CREATE MATERIALIZED VIEW a.v AS SELECT * FROM t":                 {"v"},
		"CREATE OR REPLACE VIEW v AS SELECT * FROM t":                     {"v"},
		"CREATE INDEX i ON t(a)":                                          {"i"},
		"CREATE SEQUENCE s":                                               {"s"},
		"CREATE FUNCTION a.f(int) RETURNS int LANGUAGE sql AS ''":         {"f"},
		"CREATE AGGREGATE g(int) (sfunc = f, stype = int)":                {"g"},
		"CREATE OPERATOR a.||| (leftarg = int, function = f)":             {"|||"},
		"CREATE TYPE e AS ENUM ('x')":                                     {"e"},
		"CREATE TYPE c AS (i int)":                                        {"c"},
		"CREATE TYPE r AS RANGE (subtype = int)":                          {"r"},
		"CREATE DOMAIN d AS int":                                          {"d"},
		"CREATE SCHEMA s CREATE TABLE t(i int) CREATE VIEW v AS SELECT 1": {"s", "t", "v"},
		"CREATE FOREIGN TABLE t(i int) SERVER s":                          {"t"},
		"CREATE STATISTICS a.s ON a, b FROM t":                            nil,
		"CREATE TEXT SEARCH DICTIONARY d (template = simple)":             {"d"},
		"DROP TABLE a.t, u":                                               {"t", "u"},
		"DROP FUNCTION a.f(int), g":                                       {"f", "g"},
		"DROP TYPE a.t":                                                   {"t"},
		"DROP SCHEMA s CASCADE":                                           {"s"},
		"DROP OPERATOR a.+ (int, int)":                                    {"+"},
		"ALTER TABLE a.t RENAME TO u":                                     {"t", "u"},
		"ALTER FUNCTION f(int) RENAME TO g":                               {"f", "g"},
		"ALTER TYPE t SET SCHEMA s":                                       {"t"},
		"ALTER TABLE t SET SCHEMA s":                                      {"t"},
		"ALTER TABLE t ADD COLUMN c int":                                  nil,
		"ALTER TABLE t RENAME COLUMN a TO b":                              nil,
		"CREATE SCHEMA AUTHORIZATION Ann":                                 {"ann"},
		"GRANT USAGE ON SCHEMA s TO r":                                    {"s"},
		"ALTER SCHEMA s OWNER TO r":                                       {"s"},
		"GRANT SELECT ON t TO r":                                          nil,
		"CREATE ROLE r":                                                   nil,
		"not a statement":                                                 nil,
		"SELECT 1 INTO t":                                                 {"t"},
	} {
		got := bare(Named(sql))
		for _, name := range want {
			if !slices.Contains(got, name) {
				t.Errorf("%s gives %q, want %q", sql, got, want)
			}
		}
		if len(got) != len(want) {
			t.Errorf("%s gives %q, want %q", sql, got, want)
		}
	}
}

// bare are names without their kinds, each once.
func bare(names []string) (out []string) {
	for _, n := range names {
		_, name, _ := strings.Cut(n, " ")
		out = append(out, name)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// TestSearched: a definition says for which names it searches: not for columns, for what it makes, or for what is
// behind a schema.
func TestSearched(t *testing.T) {
	for sql, want := range map[string]string{
		`CREATE VIEW v AS SELECT "A b".x + f(1), s.g(2) FROM S.u, "A b", w`: "object +," +
			"object f,object g,relation a b,relation w",
		"CREATE TABLE t(i my, s text DEFAULT nextval('My_seq'), x s.d, PRIMARY KEY (i), FOREIGN KEY (s) REFERENCES " +
			"u)": "object d,object my,object my_seq,object nextval,object text,relation my_seq,relation u",
		"CREATE TABLE t(LIKE u) INHERITS (w)":                                   "relation u,relation w",
		"CREATE TABLE t AS SELECT * FROM t":                                     "relation t",
		"CREATE INDEX i ON t(x my_ops)":                                         "object my_ops,relation t",
		"CREATE FOREIGN TABLE t(i my) SERVER s":                                 "object my",
		"COMMENT ON COLUMN t.c IS NULL":                                         "object c,relation t",
		"DROP TRIGGER x ON t":                                                   "object x,relation t",
		"DROP TABLE t, s.u":                                                     "object t,relation t",
		"DROP FUNCTION f(my)":                                                   "object f,object my",
		"DROP DOMAIN d":                                                         "object d",
		"ALTER TABLE t ADD COLUMN c d":                                          "object d,relation t",
		"ALTER TABLE t RENAME TO u":                                             "relation t",
		"ALTER FUNCTION f() OWNER TO r":                                         "object f",
		"CREATE FUNCTION f(a my) RETURNS t LANGUAGE sql AS 'SELECT'":            "object my,object t",
		"CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT g(x) FROM t; END":  "object g,relation t",
		"CREATE FUNCTION f(t.c%TYPE) RETURNS int LANGUAGE sql AS ''":            "object c,relation t",
		"CREATE TRIGGER x AFTER INSERT ON t EXECUTE FUNCTION f()":               "object f,relation t",
		"CREATE AGGREGATE g(int) (sfunc = f, stype = my)":                       "object f,object my",
		"GRANT SELECT ON t TO r":                                                "relation t",
		"GRANT USAGE ON SCHEMA s TO r":                                          "object s,relation s",
		"COMMENT ON FUNCTION f() IS 'some text'":                                "object f",
		"COMMENT ON TABLE t IS NULL":                                            "object t,relation t",
		"CREATE SCHEMA s CREATE TABLE t(x my) CREATE VIEW v AS SELECT * FROM t": "object my,relation t",
		"CREATE POLICY p ON t USING (a = f(b) COLLATE c)": "object =," +
			"object c,object f,relation t",
		"CREATE OPERATOR ||| (leftarg = my, function = f)": "object f,object my",
		"REFRESH MATERIALIZED VIEW v":                      "relation v",
	} {
		got, ok := Searched(sql)
		if !ok || strings.Join(got, ",") != want {
			t.Errorf("%s: %q, want %q", sql, strings.Join(got, ","), want)
		}
	}
	if _, ok := Searched("not a statement"); ok {
		t.Error("what cannot be read tells its names")
	}
	if got := PathNames(`"$user", public`); strings.Join(got, ",") != "object $user,object public" {
		t.Errorf("the path's schemas are %q", got)
	}
}
