package semantics

import (
	"slices"
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
		"CREATE STATISTICS a.s ON a, b FROM t":                            {"s"},
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
		"GRANT SELECT ON t TO r":                                          nil,
		"CREATE ROLE r":                                                   nil,
		"not a statement":                                                 nil,
		"SELECT 1 INTO t":                                                 {"t"},
	} {
		got, _ := Named(sql)
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

// TestWords: the words of a definition are all that may be names.
func TestWords(t *testing.T) {
	for sql, want := range map[string][]string{
		`CREATE VIEW v AS SELECT "A b".x + f(1) FROM S."A b" -- note`: {"+", "a b", "f", "s", "v", "view", "x"},
		"CREATE TABLE t(i int DEFAULT nextval('my.Seq'))":             {"i", "int", "my", "nextval", "seq", "t"},
		"CREATE VIEW w AS SELECT 1 <-> größe":                         {"<->", "größe", "view", "w"},
		"it's not":                                                    {"it", "not", "s"},
	} {
		if got := slices.Compact(Words(sql)); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", sql, got, want)
		}
	}
}

// TestMakes: who makes something has not looked for its name.
func TestMakes(t *testing.T) {
	for sql, want := range map[string]bool{
		"CREATE TABLE t()": true, "CREATE INDEX ON t(a)": true,
		"DROP TABLE t": false, "ALTER TABLE t RENAME TO u": false,
		"ALTER TYPE t SET SCHEMA s": false,
	} {
		if _, makes := Named(sql); makes != want {
			t.Errorf("%s: %t", sql, makes)
		}
	}
}
