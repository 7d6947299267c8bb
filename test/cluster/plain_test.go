package cluster

import (
	"strings"
	"testing"
)

// TestPasswords: a role made with a clear-text password has the same verifier everywhere, what only looks like a
// verifier included, and the text goes nowhere.
func TestPasswords(t *testing.T) {
	c := use(t)
	s := c.Connect(1)
	s.Do("CREATE ROLE cleartext LOGIN PASSWORD 'secret'", "CREATE ROLE nearly PASSWORD 'SCRAM-SHA-256$4096:a$b:c'",
		"CREATE ROLE nomd5 PASSWORD 'md5012345678901234567890123456789zz'",
		"SET password_encryption = 'md5'", "CREATE ROLE hashed PASSWORD 'role_pwd1'", "BEGIN",
		"ALTER ROLE hashed PASSWORD 'x'", "COMMIT")
	const roles = "SELECT string_agg(rolname || rolpassword, ',' ORDER BY rolname) FROM pg_authid WHERE rolname IN " +
		"('cleartext', 'nearly', 'nomd5', 'hashed')"
	verifiers := s.Get(roles)
	if strings.Count(verifiers, "SCRAM-SHA-256$4096:") != 3 || !strings.Contains(verifiers, "hashedmd5") ||
		strings.Contains(verifiers, ":a$b") || strings.Contains(verifiers, "md50123") {
		t.Errorf("verifiers: %s", verifiers)
	}
	c.Everywhere(roles, verifiers)
	s.Do("DROP ROLE cleartext, nearly, nomd5, hashed")
}

// TestDatabaseSettings: what ALTER DATABASE says holds everywhere; a database that is not there is PostgreSQL's error.
func TestDatabaseSettings(t *testing.T) {
	c := use(t)
	s := c.Connect(1)
	s.Do("ALTER DATABASE postgres SET work_mem = '5MB'", "DROP DATABASE IF EXISTS nowhere", "BEGIN",
		"ALTER DATABASE postgres SET default_transaction_read_only = off", "COMMIT")
	c.Everywhere("SELECT setconfig::text FROM pg_db_role_setting WHERE setrole = 0",
		"{work_mem=5MB,default_transaction_read_only=off}")
	for sql, code := range map[string]string{"DROP DATABASE nowhere": "3D000",
		"ALTER DATABASE nowhere SET work_mem = '5MB'": "3D000", "ALTER DATABASE postgres SET TABLESPACE x": "0A000",
		"ALTER TABLE nowhere SET TABLESPACE x": "42P01"} {
		if got := Code(s.Try(sql)); got != code {
			t.Errorf("%s: SQLSTATE %q instead of %s", sql, got, code)
		}
	}
	s.Do("ALTER DATABASE postgres RESET ALL")
	c.Everywhere("SELECT count(*) FROM pg_db_role_setting WHERE setrole = 0", "0")
}

// TestBackslashes: with standard_conforming_strings off a text means what PostgreSQL reads in it, and hides nothing.
func TestBackslashes(t *testing.T) {
	c := use(t)
	s := c.Connect(1)
	s.Do("CREATE TABLE backslashes(id int PRIMARY KEY, a text)", "SET standard_conforming_strings = off",
		`INSERT INTO backslashes VALUES (1, 'a\'; COMMIT; --')`,
		`INSERT INTO backslashes VALUES (2, 'b\\'); INSERT INTO backslashes VALUES (3, '\\'); SELECT '\''`,
		`CREATE TABLE backslashed(a text DEFAULT '\\x')`)
	if err := s.Try(`BEGIN; INSERT INTO backslashes VALUES (4, 'c\\'); COMMIT; INSERT INTO backslashes VALUES (5, ` +
		`U&'\0061')`); err == nil {
		t.Error("a string with Unicode escapes is taken")
	}
	s.Do(`BEGIN; INSERT INTO backslashes VALUES (6, 'c\'); COMMIT; --'); ROLLBACK`)
	c.Everywhere("SELECT string_agg(a, '|' ORDER BY id) FROM backslashes", `a'; COMMIT; --|b\|\`)
	s.Do("SET standard_conforming_strings = on", "INSERT INTO backslashed DEFAULT VALUES")
	c.Everywhere("SELECT a FROM backslashed", `\x`)
	c.Check()
}

// TestQueriesOfSeveral: what PostgreSQL refuses outside a transaction block is refused in a query of several
// statements.
func TestQueriesOfSeveral(t *testing.T) {
	s := use(t).Connect(1)
	for sql, code := range map[string]string{"SELECT 1; SAVEPOINT a": "25P01", "ROLLBACK TO a; SELECT 1": "25P01",
		"SELECT 1; RELEASE a": "25P01", "SELECT 1; COMMIT; VACUUM": "25001",
		"BEGIN; SELECT 1; SAVEPOINT a; RELEASE a; COMMIT": ""} {
		if got := Code(s.Try(sql)); got != code {
			t.Errorf("%s: SQLSTATE %q instead of %q", sql, got, code)
		}
	}
}

// TestAccessMethods: a table that is made from a query has its access method everywhere.
func TestAccessMethods(t *testing.T) {
	c := use(t)
	s := c.Connect(1)
	s.Do("CREATE ACCESS METHOD pile TYPE TABLE HANDLER heap_tableam_handler",
		"CREATE TABLE piled USING pile AS SELECT 1 AS a", "CREATE TEMP TABLE ruled(a int)",
		"CREATE RULE nothing AS ON INSERT TO ruled DO INSTEAD NOTHING", "DROP RULE nothing ON ruled")
	c.Everywhere("SELECT amname FROM pg_am m JOIN pg_class c ON c.relam = m.oid WHERE relname = 'piled'", "pile")
	s.Do("DROP TABLE piled", "DROP ACCESS METHOD pile")
}

// TestPreparedStatements: a session's own are not among those that it is told of, nor are definitions.
func TestPreparedStatements(t *testing.T) {
	s := use(t).Connect(1)
	s.Do("PREPARE mine AS SELECT 1")
	if _, err := s.Prepare(s.ctx(), "made", "CREATE TABLE prepared_too()"); err != nil {
		t.Fatal(err)
	}
	for _, sql := range []string{"SELECT string_agg(name, ',') FROM pg_prepared_statements",
		"SELECT string_agg(name, ',') FROM pg_catalog.pg_prepared_statements p"} {
		if got := s.Get(sql); got != "mine" {
			t.Errorf("%s: %s", sql, got)
		}
	}
}
