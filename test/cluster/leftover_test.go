package cluster

import (
	"fmt"
	"testing"
)

// TestFunctionsGoWithTables: what captures the rows of a table goes with it at every member, however it goes, and stays
// with one that has another name. It is looked for by the names of what was dropped, not among everything.
func TestFunctionsGoWithTables(t *testing.T) {
	c := use(t)
	s := c.Connect(1)
	const functions = "SELECT count(*) FROM pg_proc WHERE pronamespace = 'tutti'::regnamespace AND proname ~ " +
		"'^(capture|bulk|direct|final)_[0-9a-f]{16}'"
	s.Do("CREATE TABLE leftover(k int)") // what follows has changed something before
	c.Everywhere("SELECT count(*) FROM leftover", "0")
	before := s.Get(functions)
	const table = "(k int PRIMARY KEY, v int)"
	for i, definitions := range [][]string{
		{"CREATE TABLE gone" + table, "DROP TABLE gone"},
		{"CREATE SCHEMA gone", "CREATE TABLE gone.a" + table, "CREATE TABLE gone.b" + table,
			"DROP SCHEMA gone CASCADE"},
		{"CREATE TABLE gone" + table, "BEGIN", "DROP TABLE gone", "CREATE TABLE gone(v int PRIMARY KEY, k int)",
			"INSERT INTO gone VALUES (1, 2)", "COMMIT", "INSERT INTO gone VALUES (2, 3)", "DROP TABLE gone"},
		{"CREATE TABLE gone" + table, "CREATE TABLE other(k int PRIMARY KEY)", "BEGIN",
			"ALTER TABLE gone RENAME TO third", "ALTER TABLE other RENAME TO gone", "ALTER TABLE third RENAME TO other",
			"COMMIT", "INSERT INTO gone VALUES (1)", "INSERT INTO other VALUES (1, 2)", "DROP TABLE gone, other"},
		{"CREATE TABLE gone" + table, "ALTER TABLE gone RENAME TO elsewhere", "INSERT INTO elsewhere VALUES (1, 2)",
			"UPDATE elsewhere SET k = 2", "DROP TABLE elsewhere"},
		{"CREATE TABLE gone" + table, "CREATE SCHEMA apart", "ALTER TABLE gone SET SCHEMA apart",
			"INSERT INTO apart.gone VALUES (1, 2)", "ALTER SCHEMA apart RENAME TO aside",
			"INSERT INTO aside.gone VALUES (2, 2)", "DROP SCHEMA aside CASCADE"},
		{"CREATE TABLE gone" + table, "ALTER TABLE gone SET UNLOGGED", "DROP TABLE gone"},
		{"CREATE TABLE gone(k int, v int)",
			"CREATE RULE \"_RETURN\" AS ON SELECT TO gone DO INSTEAD SELECT 1 AS k, 2 AS v", "DROP VIEW gone"},
		{"CREATE TYPE gone_type AS (k int)", "CREATE TABLE gone OF gone_type", "DROP TYPE gone_type CASCADE"},
		{"CREATE TABLE gone(k int) PARTITION BY LIST (k)", "CREATE TABLE gone1 PARTITION OF gone FOR VALUES IN (1)",
			"ALTER TABLE gone DETACH PARTITION gone1", "DROP TABLE gone", "DROP TABLE gone1"},
		{"CREATE FUNCTION gone() RETURNS void LANGUAGE plpgsql AS 'BEGIN CREATE TABLE gone" + table + "; DROP TABLE " +
			"gone; END'", "SELECT gone()", "DROP FUNCTION gone()"},
		{"CREATE TABLE gone" + table, "DO 'BEGIN DROP TABLE gone; END'"},
		{"BEGIN", "CREATE TABLE gone" + table, "SAVEPOINT a", "DROP TABLE gone", "ROLLBACK TO a",
			"INSERT INTO gone VALUES (1, 2)", "COMMIT", "UPDATE gone SET k = 3", "DROP TABLE gone"},
		{"CREATE TABLE gone" + table, "ALTER TABLE gone ADD w int UNIQUE", "INSERT INTO gone VALUES (1, 2, 3)",
			"ALTER TABLE gone DROP CONSTRAINT gone_pkey", "DROP TABLE gone"},
	} {
		for _, sql := range definitions {
			if err := s.Try(sql); err != nil {
				t.Fatalf("%s, of %q: %v", sql, definitions, Explain(err))
			}
		}
		s.Do("INSERT INTO leftover VALUES (1)")
		c.Everywhere("SELECT count(*) FROM leftover", fmt.Sprint(i+1))
		t.Logf("after %q", definitions)
		c.Everywhere(functions, before)
	}
	c.Check()
	s.Do("DROP TABLE leftover")
}
