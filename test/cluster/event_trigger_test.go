package cluster

import "testing"

// TestEventTriggersOfUsers: a user's event trigger that refuses whatever Tutti defines for itself fires for the
// client's definitions alone, in a block, outside of one, and for a role that is no superuser.
func TestEventTriggersOfUsers(t *testing.T) {
	c := use(t)
	s := c.Connect(1)
	s.Do("CREATE ROLE strict_role", "GRANT CREATE ON SCHEMA public TO strict_role")
	s.Do(`CREATE FUNCTION only_tables() RETURNS event_trigger LANGUAGE plpgsql AS $$
		BEGIN IF tg_tag !~ '(TABLE|INDEX|EVENT TRIGGER)$' THEN RAISE EXCEPTION 'no %', tg_tag; END IF; END $$`)
	s.Do("CREATE EVENT TRIGGER strict_start ON ddl_command_start EXECUTE FUNCTION only_tables()",
		"CREATE EVENT TRIGGER strict_end ON ddl_command_end EXECUTE FUNCTION only_tables()",
		"CREATE EVENT TRIGGER strict_drop ON sql_drop EXECUTE FUNCTION only_tables()")
	steps := func(s *Conn) {
		s.Do("CREATE TABLE strict_alone(id serial PRIMARY KEY, v text)", "ALTER TABLE strict_alone ADD w int", "INSERT INTO strict_alone(v, w) VALUES ('a', 1)")
		s.Do("BEGIN; CREATE TABLE strict_block(id int PRIMARY KEY, v text); INSERT INTO strict_block VALUES (1, 'x'); ALTER TABLE strict_block ADD w int DEFAULT 3; UPDATE strict_block SET w = 4; COMMIT")
		c.Everywhere("SELECT b.w + a.w FROM strict_block b, strict_alone a", "5")
		s.Do("BEGIN; DROP TABLE strict_block; COMMIT", "DROP TABLE strict_alone")
		c.Everywhere("SELECT to_regclass('strict_alone') IS NULL", "t")
	}
	steps(c.Connect(2))
	plain := c.Connect(3)
	plain.Do("SET ROLE strict_role")
	steps(plain)
	if err := s.Try("CREATE VIEW strict_view AS SELECT 1"); err == nil {
		t.Error("the event trigger does not fire for a client's definition")
	}
	s.Do("DROP EVENT TRIGGER strict_start", "DROP EVENT TRIGGER strict_end", "DROP EVENT TRIGGER strict_drop", "DROP FUNCTION only_tables()",
		"REVOKE CREATE ON SCHEMA public FROM strict_role", "DROP ROLE strict_role")
	c.Check()
}

// TestExtraChecks: PL/pgSQL's further checks, which a session may have made errors, find nothing in functions of Tutti's.
func TestExtraChecks(t *testing.T) {
	c := use(t)
	s := c.Connect(1)
	s.Do("SET plpgsql.extra_errors = 'all'", "SET plpgsql.extra_warnings = 'all'", "SET plpgsql.variable_conflict = 'use_variable'")
	s.Do("CREATE TABLE checked(id serial PRIMARY KEY, v text)", "INSERT INTO checked(v) SELECT 'a' FROM generate_series(1, 40)")
	s.Do("ALTER TABLE checked ADD w int DEFAULT 3", "ALTER TABLE checked ADD x float8 DEFAULT random()", "ALTER SEQUENCE checked_id_seq INCREMENT BY 2", "SELECT setval('checked_id_seq', 50)")
	s.Do("BEGIN; CREATE TABLE checked_too AS SELECT * FROM checked; ALTER TABLE checked_too ADD y int DEFAULT 1; UPDATE checked SET w = id, id = id + 1000; SELECT setval('checked_id_seq', 7); COMMIT")
	s.Do("DO $$ BEGIN DELETE FROM checked WHERE w < 10; ALTER TABLE checked ADD z int; TRUNCATE checked_too RESTART IDENTITY; PERFORM pg_advisory_xact_lock(77); END $$")
	s.Do("BEGIN ISOLATION LEVEL SERIALIZABLE; UPDATE checked SET v = 'b' WHERE id = 1011; INSERT INTO checked_too SELECT * FROM checked; COMMIT")
	c.Everywhere("SELECT count(*) FROM checked WHERE w >= 10 AND x IS NOT NULL", "31")
	s.Do("DROP TABLE checked, checked_too")
	c.Check()
}
