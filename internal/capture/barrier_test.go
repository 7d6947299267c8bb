package capture

import (
	"testing"

	"github.com/tuttidb/tutti/internal/writeset"
)

// TestBarriers: a definition is a barrier if rows that were captured before may mean something else behind it, or have
// a table of another name, and no lock tells which tables these are.
func TestBarriers(t *testing.T) {
	for _, c := range []struct {
		tag, sql string
		barrier  bool
	}{
		{"CREATE TABLE", "CREATE TABLE a(i int)", false},
		{"ALTER TABLE", "ALTER TABLE a ADD COLUMN c int", false},
		{"ALTER TABLE", "ALTER TABLE a RENAME TO b", true},
		{"ALTER TABLE", "ALTER TABLE a SET SCHEMA s", true},
		{"ALTER TYPE", "ALTER TYPE e ADD VALUE 'x'", false},
		{"ALTER TYPE", "alter type s.e\n add value if not exists 'rename' before 'y'", false},
		{"ALTER TYPE", "ALTER TYPE e RENAME VALUE 'x' TO 'y'", true},
		{"ALTER TYPE", "ALTER TYPE e RENAME VALUE ' add value ' TO 'y'", true},
		{"ALTER TYPE", "ALTER TYPE c ADD ATTRIBUTE i int", true},
		{"ALTER TYPE", `ALTER TYPE "a b" ADD VALUE 'x'`, true}, // for certain is enough
		{"ALTER DOMAIN", "ALTER DOMAIN d ADD CHECK (VALUE > 0)", false},
		{"ALTER DOMAIN", "ALTER DOMAIN d RENAME TO e", true},
		{"DROP TYPE", "DROP TYPE e CASCADE", false},
		{"DROP FUNCTION", "DROP FUNCTION f() CASCADE", false},
		{"DROP SCHEMA", "DROP SCHEMA s CASCADE", false},
		{"CREATE OPERATOR", "CREATE OPERATOR # (LEFTARG = int, FUNCTION = f)", false},
		{"ALTER OPERATOR FAMILY", "ALTER OPERATOR FAMILY f USING btree DROP FUNCTION 1 (int, int)", true},
		{"ALTER SCHEMA", "ALTER SCHEMA s RENAME TO t", true},
		{"ALTER INDEX", "ALTER INDEX i RENAME TO j", true},
		{"ALTER VIEW", "ALTER VIEW v RENAME COLUMN a TO b", true},
		{"CREATE EXTENSION", "CREATE EXTENSION x", true},
		{"DROP OWNED", "DROP OWNED BY r", true}, {"REASSIGN OWNED", "DO 'BEGIN PERFORM …; END'", false},
		{"", "CREATE ROLE r", true},
		{"", "CREATE EVENT TRIGGER e ON ddl_command_end EXECUTE FUNCTION f()", true},
	} {
		if d := (Definition{Tag: c.tag, SQL: c.sql}); d.barrier() != c.barrier {
			t.Errorf("%s: a barrier: %t", c.sql, d.barrier())
		}
	}
	moved := &Moved{Tables: [][2]string{{"s", "u"}, {"s", "below"}}, Renamed: [][2]string{{"s", "u"}}}
	d := Definition{Tag: "ALTER TABLE", SQL: "ALTER TABLE t RENAME TO u", Moved: moved}
	if names, _ := d.known(); d.barrier() || len(names) != 3 || names[2] != [2]string{"s", "t"} {
		t.Errorf("a table of another name is not held by both: %v", names)
	}
	if moved.Rows = true; !d.barrier() {
		t.Error("a table of another name whose rows are in columns elsewhere is no barrier")
	}
	if d.SQL = "ALTER TABLE u RENAME a TO b"; d.barrier() {
		t.Error("a column of another name is a barrier")
	}
	if d := (Definition{Tag: "ALTER TABLE", Typed: true, Moved: moved}); !d.barrier() {
		t.Error("what changes the columns of a row type elsewhere is none")
	}
}

// TestRedescribes: the member at which a transaction has run describes all tables anew if the transaction's definitions
// may have changed the description of one that it does not hold.
func TestRedescribes(t *testing.T) {
	for sql, all := range map[string]bool{
		`{"tag": "CREATE TABLE", "sql": "CREATE TABLE a(i int)"}`:                            false,
		`{"tag": "DROP TYPE", "sql": "DROP TYPE e CASCADE"}`:                                 false,
		`{"tag": "ALTER DOMAIN", "sql": "ALTER DOMAIN d ADD CHECK (VALUE > f()) NOT VALID"}`: true,
		`{"tag": "ALTER TABLE", "sql": "ALTER TABLE a RENAME TO b"}`:                         true,
		`{"tag": "ALTER TABLE", "sql": "ALTER TABLE a RENAME i TO j", "moved": {}}`:          true,
		`{"tag": "CREATE OPERATOR", "sql": "CREATE OPERATOR # (LEFTARG = int)"}`:             false,
	} {
		w := &writeset.Writeset{Steps: []writeset.Step{{Rows: &writeset.Writeset{}}, {Definition: []byte(sql)}}}
		if got, err := Redescribes(w); err != nil || got != all {
			t.Errorf("%s: %t %v", sql, got, err)
		}
	}
	if _, err := Redescribes(&writeset.Writeset{Steps: []writeset.Step{{Definition: []byte("{")}}}); err == nil {
		t.Error("what cannot be read is believed")
	}
}

// TestRenamedTablesAreHeld: a table of another name is held by both names, and so is what refers to it.
func TestRenamedTablesAreHeld(t *testing.T) {
	s := &steps{}
	image := `{"tag": "ALTER TABLE", "sql": "ALTER TABLE t RENAME TO u",` +
		`"moved": {"tables": [["s", "u"], ["s", "refers"]], "renamed": [["s", "u"]]}}`
	if err := s.define([]byte(image), nil); err != nil {
		t.Fatal(err)
	}
	w, err := s.writeset()
	if err != nil || w.Barrier {
		t.Fatalf("a barrier: %t, %v", w.Barrier, err)
	}
	held := map[string]bool{}
	for _, k := range w.Keys {
		held[w.Tables[k.Table].Name] = k.Mode == writeset.Exclusive && k.Hash == TableKey("s", w.Tables[k.Table].Name)
	}
	if !held["t"] || !held["u"] || !held["refers"] {
		t.Errorf("held: %v", held)
	}
}
