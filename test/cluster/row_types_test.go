package cluster

import (
	"testing"
	"time"
)

// TestRowTypes: rows of a relation are in a column of another table, and it gets or loses a column. PostgreSQL locks
// only the relation. Who has written such a row before loses.
func TestRowTypes(t *testing.T) {
	c := use(t)
	reader, b := c.Connect(1), c.Connect(3)
	for _, s := range []struct{ name, of, before, change string }{
		{"outside a block", "TABLE rt.t(a int)", "", "ALTER TABLE rt.t ADD COLUMN b int"},
		{"while another session of the member reads", "TABLE rt.t(a int)", "READER",
			"ALTER TABLE rt.t ADD COLUMN b int"},
		{"in a block", "TABLE rt.t(a int)", "", "BEGIN; ALTER TABLE rt.t ADD COLUMN b int; COMMIT"},
		{"in a DO block", "TABLE rt.t(a int)", "",
			"DO $$ BEGIN ALTER TABLE rt.t ADD COLUMN b int; ALTER TABLE rt.t DROP COLUMN a; END $$"},
		{"with a temporary table", "TABLE rt.t(a int)", "CREATE TEMP TABLE mine(id int)",
			"ALTER TABLE rt.t ADD COLUMN b int"},
		{"a view", "VIEW rt.t AS SELECT 1 AS a", "", "CREATE OR REPLACE VIEW rt.t AS SELECT 1 AS a, 2 AS b"},
		{"a view in a block", "VIEW rt.t AS SELECT 1 AS a", "",
			"BEGIN; CREATE OR REPLACE VIEW rt.t AS SELECT 1 AS a, 2 AS b; COMMIT"},
	} {
		t.Run(s.name, func(t *testing.T) {
			a := c.Connect(1)
			a.Do("CREATE SCHEMA rt", "CREATE "+s.of, "CREATE TABLE rt.x(id int PRIMARY KEY, c rt.t)",
				"INSERT INTO rt.x VALUES (0, ROW(7))")
			c.Everywhere("SELECT count(*) FROM rt.x", "1")
			switch s.before {
			case "":
			case "READER":
				reader.Do("BEGIN", "SELECT count(*) FROM rt.t")
				defer time.AfterFunc(200*time.Millisecond, func() { _ = reader.Try("COMMIT") }).Stop()
			default:
				a.Do(s.before)
			}
			b.Do("BEGIN ISOLATION LEVEL REPEATABLE READ", "INSERT INTO rt.x VALUES (1, ROW(1))")
			if err := a.Try(s.change); err != nil {
				t.Error(Explain(err))
			}
			c.Eventually(3, "SELECT count(*) FROM pg_attribute WHERE attrelid = 'rt.t'::regclass AND attname = 'b'",
				"1")
			if err := b.Try("COMMIT"); Code(err) != "40001" {
				t.Errorf("who has written a row of the old kind: COMMIT gives %v", err)
			}
			b.Do("ROLLBACK", "INSERT INTO rt.x SELECT 1, c FROM rt.x")
			c.Everywhere("SELECT count(DISTINCT c) FROM rt.x", "1")
			a.Do("DROP SCHEMA rt CASCADE")
		})
	}
	c.Check()
}

// TestRowTypesLater: what such a table's keys and rows are made of follows the change, too.
func TestRowTypesLater(t *testing.T) {
	c := use(t)
	a, b := c.Connect(1), c.Connect(3)
	begin := func() {
		a.Do("CREATE SCHEMA rl", "CREATE TABLE rl.t(a int)")
		for range 5 { // OIDs of this member alone
			a.Do("CREATE TEMP TABLE o(id serial PRIMARY KEY)", "DROP TABLE o")
		}
	}
	t.Run("OIDs", func(t *testing.T) {
		begin()
		a.Do("CREATE TABLE rl.x(id int PRIMARY KEY, c rl.t)", "CREATE TABLE rl.named(id int)",
			"ALTER TABLE rl.t ADD COLUMN r regclass",
			"INSERT INTO rl.x VALUES (1, ROW(1, 'rl.named'))")
		c.Everywhere("SELECT (c).r::text FROM rl.x", "rl.named")
		c.Check()
		a.Do("DROP SCHEMA rl CASCADE")
	})
	t.Run("a key of an enum", func(t *testing.T) {
		begin()
		a.Do("CREATE TABLE rl.x(id int PRIMARY KEY, c rl.t UNIQUE)", "CREATE TYPE rl.e AS ENUM ('p', 'q')",
			"ALTER TABLE rl.t ADD COLUMN e rl.e")
		for range 10 {
			c.Settled()
			a.Do("BEGIN ISOLATION LEVEL REPEATABLE READ", "INSERT INTO rl.x VALUES (1, ROW(1, 'p'))")
			b.Do("BEGIN ISOLATION LEVEL REPEATABLE READ", "INSERT INTO rl.x VALUES (2, ROW(1, 'p'))")
			other := make(chan error, 1)
			go func() { other <- b.Try("COMMIT") }()
			if one := a.Try("COMMIT"); (one == nil) == (<-other == nil) {
				t.Fatal("both have committed the same key, or none")
			}
			_, _ = a.Try("ROLLBACK"), b.Try("ROLLBACK")
			a.Do("DELETE FROM rl.x")
		}
		a.Do("DROP SCHEMA rl CASCADE")
	})
	t.Run("a column renamed", func(t *testing.T) {
		begin()
		a.Do("CREATE TABLE rl.x(id int PRIMARY KEY, c rl.t)", "CREATE UNIQUE INDEX ON rl.x (((c).a))",
			"ALTER TABLE rl.t RENAME COLUMN a TO b", "INSERT INTO rl.x VALUES (1, ROW(1))")
		c.Everywhere("SELECT (c).b FROM rl.x", "1")
		a.Do("DROP SCHEMA rl CASCADE")
	})
}
