package cluster

import "testing"

// ownersState is what is owned by roles whose names begin with own_, and the rights on it, as the catalogs have it.
const ownersState = `SELECT string_agg(concat_ws(' ', o.type, o.identity, r.rolname, x.owner::regrole, x.acl),
    E'\n' ORDER BY o.type, o.identity)
  FROM (SELECT 'pg_class'::regclass AS class, oid, relowner AS owner, relacl::text AS acl FROM pg_class
    UNION ALL SELECT 'pg_proc'::regclass, oid, proowner, proacl::text FROM pg_proc
    UNION ALL SELECT 'pg_type'::regclass, oid, typowner, typacl::text FROM pg_type
    UNION ALL SELECT 'pg_namespace'::regclass, oid, nspowner, nspacl::text FROM pg_namespace
    UNION ALL SELECT 'pg_operator'::regclass, oid, oprowner, '' FROM pg_operator
    UNION ALL SELECT 'pg_collation'::regclass, oid, collowner, '' FROM pg_collation
    UNION ALL SELECT 'pg_statistic_ext'::regclass, oid, stxowner, '' FROM pg_statistic_ext
    UNION ALL SELECT 'pg_ts_dict'::regclass, oid, dictowner, '' FROM pg_ts_dict
    UNION ALL SELECT 'pg_extension'::regclass, oid, extowner, '' FROM pg_extension
    UNION ALL SELECT 'pg_foreign_server'::regclass, oid, srvowner, srvacl::text FROM pg_foreign_server
    UNION ALL SELECT 'pg_foreign_data_wrapper'::regclass, oid, fdwowner, '' FROM pg_foreign_data_wrapper
    UNION ALL SELECT 'pg_publication'::regclass, oid, pubowner, '' FROM pg_publication
    UNION ALL SELECT 'pg_largeobject'::regclass, oid, lomowner, lomacl::text FROM pg_largeobject_metadata) x
  LEFT JOIN pg_shdepend s ON s.classid = x.class AND s.objid = x.oid AND s.deptype = 'o'
    AND s.dbid = (SELECT oid FROM pg_database WHERE datname = current_database())
  LEFT JOIN pg_roles r ON r.oid = s.refobjid, pg_identify_object(x.class, x.oid, 0) o
  WHERE (o.identity ~ 'own_' OR x.owner::regrole::text ~ 'own_' OR o.type = 'large object')
    AND o.identity !~ '^pg_t' AND o.schema IS DISTINCT FROM 'tutti'`

// TestOwnersInFunctions: what REASSIGN OWNED does inside DO blocks, functions and procedures is everywhere. PostgreSQL
// calls no event trigger for it.
func TestOwnersInFunctions(t *testing.T) {
	c := use(t)
	s := c.Connect(1)
	s.Do("CREATE ROLE own_a", "CREATE ROLE own_b", "CREATE ROLE own_c", "CREATE ROLE own_reader",
		"GRANT own_a, own_b TO own_c", "GRANT CREATE ON DATABASE postgres TO own_b", "CREATE SCHEMA own_a "+
			"AUTHORIZATION own_a", "GRANT USAGE ON SCHEMA own_a TO own_b",
		`CREATE FUNCTION own_give(a text, b text) RETURNS int LANGUAGE plpgsql AS $$
			BEGIN EXECUTE format('reassign %s by %I to %I', 'owned', a, b); RETURN 1; END $$`,
		`CREATE FUNCTION own_role(a text) RETURNS int LANGUAGE plpgsql AS $$
			BEGIN EXECUTE format('CREATE ROLE %I', a); RETURN 1; END $$`,
		"CREATE PROCEDURE own_in_steps() LANGUAGE plpgsql AS $$ BEGIN REASSIGN OWNED BY own_a TO own_b; COMMIT; "+
			"PERFORM 1; COMMIT; END $$",
		"CREATE TABLE own_seen (id int PRIMARY KEY)", "GRANT INSERT ON own_seen TO own_c",
		"CREATE FUNCTION own_fires() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM own_give('own_b', "+
			"'own_a'); "+
			"RETURN NEW; END $$",
		"SET ROLE own_a", "SET search_path = own_a, public",
		"CREATE TABLE own_t (id serial PRIMARY KEY, n int GENERATED ALWAYS AS IDENTITY, v text)",
		"GRANT SELECT ON own_t TO own_reader", "CREATE SEQUENCE own_alone", "CREATE VIEW own_v AS TABLE own_t",
		"CREATE MATERIALIZED VIEW own_m AS SELECT 1 AS one", "CREATE TYPE own_e AS ENUM ('a')",
		"CREATE DOMAIN own_d AS int", "CREATE TYPE own_c AS (x int)", "CREATE TYPE own_r AS RANGE (SUBTYPE = int)",
		"CREATE AGGREGATE own_sum (int) (SFUNC = int4pl, STYPE = int)",
		"CREATE OPERATOR !@ (LEFTARG = int, RIGHTARG = int, FUNCTION = int4pl)",
		`CREATE COLLATION own_col FROM "C"`, "CREATE STATISTICS own_s ON id, v FROM own_t",
		"CREATE TEXT SEARCH DICTIONARY own_dict (TEMPLATE = simple)", "CREATE TEMPORARY TABLE own_mine (id int)",
		"SELECT lo_create(70501)",
		"CREATE TABLE own_parts (id int) PARTITION BY LIST (id)", "CREATE TABLE own_p PARTITION OF own_parts DEFAULT",
		"RESET ROLE", "CREATE FOREIGN DATA WRAPPER own_w", "ALTER FOREIGN DATA WRAPPER own_w OWNER TO CURRENT_USER",
		"CREATE SERVER own_server FOREIGN DATA WRAPPER own_w", "GRANT USAGE ON FOREIGN DATA WRAPPER own_w TO "+
			"own_a, own_b",
		"ALTER SERVER own_server OWNER TO own_a", "CREATE PUBLICATION own_pub FOR TABLE own_t")
	const roles = "SELECT string_agg(rolname || rolcreatedb, ',' ORDER BY rolname) FROM pg_roles WHERE rolname " +
		"~ '^own_'"
	last := s.Get(ownersState)
	for _, x := range []struct{ what, sql string }{
		{"DO", "DO $$ BEGIN REASSIGN OWNED BY own_a TO own_b; END $$"},
		{"a computed statement", "SELECT own_give('own_b', 'own_a')"},
		{"a block, definitions of what has another owner now", "GRANT CREATE ON SCHEMA own_a TO own_b; BEGIN; " +
			"INSERT INTO own_seen VALUES (1); SET ROLE own_c; SELECT own_give('own_a', 'own_b'); SET ROLE own_b; " +
			"ALTER TABLE own_t RENAME TO own_u; DROP VIEW own_v; CREATE TABLE own_new (id int); RESET ROLE; COMMIT"},
		{"two in one block, and definitions between", "DO $$ BEGIN CREATE TABLE own_x (id int); ALTER TABLE own_x " +
			"OWNER TO own_b; REASSIGN OWNED BY own_b TO own_a; ALTER TABLE own_x RENAME TO own_y; REASSIGN OWNED " +
			"BY own_a TO own_c; DROP TABLE own_new; END $$"},
		{"a role that goes", "DO $$ BEGIN REASSIGN OWNED BY own_c TO own_b; DROP OWNED BY own_c; DROP ROLE own_c; " +
			"CREATE ROLE own_d; END $$"},
		{"a definition that calls it", "CREATE TABLE own_made AS SELECT own_give('own_b', 'own_a') AS one"},
		{"a procedure that commits and writes nothing", "CALL own_in_steps()"},
		{"a trigger", "CREATE TRIGGER own_fires BEFORE INSERT ON own_seen FOR EACH ROW EXECUTE FUNCTION " +
			"own_fires(); INSERT INTO own_seen VALUES (2)"},
		{"a procedure that writes in between", "DO $$ BEGIN INSERT INTO own_seen VALUES (3); COMMIT; REASSIGN " +
			"OWNED BY own_a TO own_d; COMMIT; INSERT INTO own_seen VALUES (4); END $$"},
		{"what is undone", "DROP TRIGGER own_fires ON own_seen; BEGIN; SAVEPOINT a; SELECT own_give('own_d', " +
			"'own_a'); ROLLBACK TO a; SELECT own_give('own_d', 'own_b'); COMMIT"},
		{"before a definition that has no event trigger", "BEGIN; SELECT own_give('own_b', 'own_a'), " +
			"own_role('own_e'); ALTER ROLE own_d CREATEDB; COMMIT"},
		{"the superuser's", "DO $$ BEGIN REASSIGN OWNED BY own_a TO CURRENT_USER; END $$"},
	} {
		t.Log(x.what)
		s.Do(x.sql)
		state := s.Get(ownersState)
		if state == last {
			t.Errorf("%s: nothing has changed", x.what)
		}
		last = state
		c.Everywhere(ownersState, state)
		c.Everywhere(roles, s.Get(roles))
	}
	// In another database, whose order has no definitions of roles.
	s.Do("CREATE DATABASE own_aside")
	aside := c.In("own_aside")
	a := aside.Connect(2)
	a.Do("CREATE TABLE own_t (id int)", "ALTER TABLE own_t OWNER TO own_a",
		"DO $$ BEGIN REASSIGN OWNED BY own_a TO own_b; END $$")
	aside.Everywhere("SELECT tableowner FROM pg_tables WHERE tablename = 'own_t'", "own_b")
	c.Check()
	a.Do("DROP TABLE own_t")
	s.Do("DROP DATABASE own_aside WITH (FORCE)", "DROP SCHEMA own_a CASCADE", "DROP FOREIGN DATA WRAPPER own_w "+
		"CASCADE",
		"DROP PUBLICATION own_pub", "SELECT lo_unlink(70501)", "DROP TABLE own_seen", "DROP PROCEDURE own_in_steps",
		"DROP FUNCTION own_give, own_role, own_fires",
		"DROP OWNED BY own_a, own_b, own_d, own_reader", "DROP ROLE own_a, own_b, own_d, own_e, own_reader")
}
