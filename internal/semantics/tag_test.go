package semantics

import "testing"

// TestQuietTag: the command tags are PostgreSQL's, however the text is written.
func TestQuietTag(t *testing.T) {
	for _, c := range []struct{ want, sql string }{
		{"TRUNCATE TABLE", `TRUNCATE "a", b RESTART IDENTITY`},
		{"TRUNCATE TABLE", "/* step 1 */ truncate\ttable a -- all"},
		{"SELECT 1", "SELECT setval('s', 5)"}, {"SELECT 1", "WITH x AS (SELECT 1) SELECT setval('s', 5) FROM x"},
		{"SELECT 1", "(SELECT setval('s', 5))"},
		{"GRANT ROLE", "GRANT a TO b"}, {"REVOKE ROLE", "-- x\nREVOKE a FROM b"},
		{"GRANT", "GRANT CONNECT ON DATABASE d TO a"}, {"REVOKE", "REVOKE ALL ON DATABASE d FROM a"},
		{"CREATE ROLE", "create user a"}, {"CREATE ROLE", "CREATE GROUP a"}, {"ALTER ROLE", "ALTER USER a CREATEDB"},
		{"ALTER ROLE", "ALTER GROUP a ADD USER b"}, {"DROP ROLE", "DROP USER IF EXISTS a"},
		{"REASSIGN OWNED", "REASSIGN OWNED BY a TO b"},
		{"ALTER ROLE", "ALTER ROLE a SET work_mem = '1MB'"}, {"ALTER ROLE", "ALTER ROLE a IN DATABASE d RESET ALL"},
		{"ALTER ROLE", "ALTER ROLE a RENAME TO b"},
		{"ALTER DATABASE", "ALTER DATABASE d SET work_mem = '1MB'"}, {"ALTER DATABASE", "ALTER DATABASE d OWNER TO a"},
		{"ALTER DATABASE", "ALTER DATABASE d CONNECTION LIMIT 5"},
		{"COMMENT", "COMMENT ON DATABASE d IS 'x'"}, {"COMMENT", "COMMENT ON ROLE a IS 'x'"},
		{"SECURITY LABEL", "SECURITY LABEL ON ROLE a IS 'x'"},
		{"CREATE EVENT TRIGGER", "CREATE EVENT TRIGGER e ON sql_drop EXECUTE FUNCTION f()"},
		{"ALTER EVENT TRIGGER", "ALTER EVENT TRIGGER e DISABLE"},
		{"ALTER EVENT TRIGGER", "ALTER EVENT TRIGGER e RENAME TO f"},
		{"ALTER EVENT TRIGGER", "ALTER EVENT TRIGGER e OWNER TO a"}, {"DROP EVENT TRIGGER", "DROP EVENT TRIGGER e"},
	} {
		if got := QuietTag(c.sql); got != c.want {
			t.Errorf("%s: %q, want %q", c.sql, got, c.want)
		}
	}
}
