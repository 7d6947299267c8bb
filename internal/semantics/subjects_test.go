package semantics

import (
	"encoding/json"
	"testing"
)

// TestSubjects: what a definition drops or changes is read from its text as the grammar has it.
func TestSubjects(t *testing.T) {
	for _, c := range []struct{ sql, want string }{
		{`DROP TABLE a, "B".c`, `[{"kind":"relation","name":"a","args":null},` +
			`{"kind":"relation","schema":"B","name":"c","args":null}]`},
		{"DROP INDEX d.s.i", `[{"kind":"relation","schema":"s","name":"i","args":null}]`},
		{"DROP TYPE a, s.b", `[{"kind":"type","name":"a","args":null},` +
			`{"kind":"type","schema":"s","name":"b","args":null}]`},
		{"DROP DOMAIN a", `[{"kind":"type","name":"a","args":null}]`},
		{"DROP FUNCTION f", `[{"kind":"function","name":"f","args":null}]`},
		{`DROP FUNCTION f(), s.f(int, "T"[], s.u)`, `[{"kind":"function","name":"f","args":[]},` +
			`{"kind":"function","schema":"s","name":"f","args":["\"pg_catalog\".\"int4\"","\"T\"[]","\"s\".\"u\""]}]`},
		{"DROP AGGREGATE f(*)", `[{"kind":"function","name":"f","args":[]}]`},
		{"DROP EXTENSION e", `[{"kind":"extension","name":"e","args":null}]`},
		{"DROP COLLATION s.c", `[{"kind":"collation","schema":"s","name":"c","args":null}]`},
		{"DROP ROLE r", "null"}, {"DROP SCHEMA s", "null"},
		{"ALTER TABLE s.t DROP COLUMN a, DROP CONSTRAINT b, ADD c int",
			`[{"kind":"relation","schema":"s","name":"t","args":null,"col":"a"},` +
				`{"kind":"relation","schema":"s","name":"t","args":null,"con":"b"},` +
				`{"kind":"relation","schema":"s","name":"t","args":null}]`},
		{"ALTER TYPE c ADD ATTRIBUTE a int", `[{"kind":"relation","name":"c","args":null}]`},
		{"ALTER DOMAIN s.d ADD CHECK (VALUE > 0)", `[{"kind":"type","schema":"s","name":"d","args":null}]`},
		{"ALTER TABLE t RENAME a TO b", `[{"kind":"relation","name":"t","args":null}]`},
		{"no SQL", "null"}, {"DROP TABLE a; DROP TABLE b", "null"},
	} {
		if got, err := json.Marshal(Subjects(c.sql)); string(got) != c.want || err != nil {
			t.Errorf("%s: %s, %v, want %s", c.sql, got, err, c.want)
		}
	}
}

func TestRenames(t *testing.T) {
	for _, c := range []struct {
		sql, table string
		whole, ok  bool
	}{
		{`ALTER TABLE s."T" RENAME TO u`, "T", true, true},
		{"/* a */ alter table if exists only t rename a to b;", "t", false, true},
		{"ALTER TABLE t RENAME CONSTRAINT a TO b", "t", false, true},
		{"ALTER VIEW t RENAME a TO b", "", false, false},
		{"ALTER INDEX t RENAME TO b", "", false, false},
		{"ALTER TABLE t SET SCHEMA rename", "", false, false},
		{"ALTER TABLE t RENAME a TO b; ALTER TABLE t RENAME b TO c", "", false, false},
	} {
		table, whole, ok := Renames(c.sql)
		if ok != c.ok || ok && (table != c.table || whole != c.whole) {
			t.Errorf("%s: %q %t %t", c.sql, table, whole, ok)
		}
	}
}

func TestSpellsFunction(t *testing.T) {
	for sql, want := range map[string]bool{
		"CREATE FUNCTION f() RETURNS void LANGUAGE sql AS 'SELECT 1'": true,
		"CREATE PROCEDURE f() BEGIN ATOMIC SELECT 1; END":             true,
		"CREATE FUNCTION f() RETURNS void LANGUAGE plpgsql AS ''":     false,
		"CREATE TABLE t(a int)":                                       false,
	} {
		if SpellsFunction(sql) != want {
			t.Errorf("%s: not %t", sql, want)
		}
	}
}
