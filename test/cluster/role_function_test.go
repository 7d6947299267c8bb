package cluster

import (
	"strings"
	"testing"
)

// sharedState is what all databases share, of roles whose names begin with fn_ and of the current database.
const sharedState = `SELECT concat_ws(E'\n',
  (SELECT string_agg((to_jsonb(a) - 'oid')::text, E'\n' ORDER BY rolname) FROM pg_authid a WHERE rolname ~ '^fn_'),
  (SELECT string_agg(concat_ws(' ', m.roleid::regrole, m.member::regrole, m.grantor::regrole, m.admin_option), E'\n' ORDER BY m.roleid::regrole::text, m.member::regrole::text)
    FROM pg_auth_members m JOIN pg_roles r ON r.oid = m.member WHERE r.rolname ~ '^fn_'),
  (SELECT string_agg(concat_ws(' ', r.rolname, d.datname, s.setconfig::text), E'\n' ORDER BY r.rolname, d.datname) FROM pg_db_role_setting s LEFT JOIN pg_roles r ON r.oid = setrole LEFT JOIN pg_database d ON d.oid = setdatabase),
  (SELECT string_agg(concat_ws(' ', r.rolname, d.description), E'\n' ORDER BY r.rolname) FROM pg_shdescription d JOIN pg_roles r ON r.oid = d.objoid),
  (SELECT concat_ws(' ', datdba::regrole, datconnlimit, shobj_description(oid, 'pg_database')) FROM pg_database WHERE datname = current_database()),
  (SELECT string_agg(concat_ws(' ', x.grantor::regrole, x.grantee::regrole, privilege_type, is_grantable), E'\n' ORDER BY x.grantor::regrole::text, x.grantee::regrole::text, privilege_type)
    FROM pg_database, aclexplode(coalesce(datacl, acldefault('d', datdba))) x WHERE datname = current_database()))`

// TestRolesInFunctions: what DO blocks and functions do to roles and databases is everywhere, in its order among their
// other definitions. PostgreSQL calls no event trigger for it.
func TestRolesInFunctions(t *testing.T) {
	c := use(t)
	s := c.Connect(1)
	s.Do("CREATE TABLE fn_rights (id int PRIMARY KEY)",
		`CREATE PROCEDURE fn_tenant(name text) LANGUAGE plpgsql AS $$ BEGIN
		EXECUTE format('CREATE ROLE %I LOGIN', name); EXECUTE format('GRANT fn_app TO %I', name); EXECUTE format('CREATE SCHEMA %I AUTHORIZATION %1$I', name);
		INSERT INTO fn_rights VALUES (length(name)); EXECUTE format('GRANT SELECT ON fn_rights TO %I', name); END $$`,
		`CREATE PROCEDURE fn_in_steps() LANGUAGE plpgsql AS $$ BEGIN INSERT INTO fn_rights VALUES (101); CREATE ROLE `+
			`fn_step1; COMMIT; INSERT INTO fn_rights VALUES (102); CREATE ROLE fn_step2; END $$`,
		`CREATE FUNCTION fn_make(name text) RETURNS int LANGUAGE plpgsql AS $$ BEGIN EXECUTE format('CREATE ROLE `+
			`%I', name); RETURN 1; END $$`)
	states := map[string]bool{}
	for _, x := range []struct{ what, want, sql string }{
		{"the idiom", "t",
			`DO $$ BEGIN IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'fn_app') THEN CREATE ROLE fn_app LOGIN PASSWORD 'secret' VALID UNTIL '2040-01-01' CONNECTION LIMIT 7;
			GRANT SELECT ON fn_rights TO fn_app; ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO fn_app; END IF; END $$; SELECT has_table_privilege('fn_app', 'fn_rights', 'SELECT')`},
		{"the database's rights", "t",
			`DO $$ BEGIN EXECUTE format('REVOKE CONNECT ON DATABASE %I FROM PUBLIC', current_database()); EXECUTE format('GRANT CREATE, TEMP ON DATABASE %I TO fn_app WITH GRANT OPTION', current_database());
			EXECUTE format('ALTER DATABASE %I SET work_mem = ''5MB''', current_database()); END $$; SELECT has_database_privilege('fn_app', current_database(), 'CREATE')`},
		{"rights that were passed on", "t", `DO $$ BEGIN CREATE ROLE fn_other; SET LOCAL ROLE fn_app; EXECUTE ` +
			`format('GRANT CREATE ON DATABASE %I TO fn_other', current_database()); END $$; SELECT ` +
			`has_database_privilege('fn_other', current_database(), 'CREATE')`},
		{"attributes, settings, comments", "7", `DO $$ BEGIN ALTER ROLE fn_other CREATEDB; ALTER ROLE fn_other SET ` +
			`search_path = a, b; COMMENT ON ROLE fn_other IS 'another'; ALTER ROLE fn_app VALID UNTIL 'infinity'; ` +
			`END $$; SELECT rolconnlimit FROM pg_roles WHERE rolname = 'fn_app'`},
		{"a procedure", "t", `CALL fn_tenant('fn_t1'); SELECT pg_has_role('fn_t1', 'fn_app', 'MEMBER')`},
		{"a procedure in a block", "t", `BEGIN; CREATE ROLE fn_block; CALL fn_tenant('fn_t22'); GRANT fn_block TO ` +
			`fn_t22; COMMIT; SELECT pg_has_role('fn_t22', 'fn_block', 'MEMBER')`},
		{"a procedure that commits", "2", `CALL fn_in_steps(); SELECT count(*) FROM pg_roles WHERE rolname ~ ` +
			`'^fn_step'`},
		{"a function in a block", "1", `BEGIN; SELECT fn_make('fn_made'); COMMIT; SELECT count(*) FROM pg_roles ` +
			`WHERE rolname = 'fn_made'`},
		{"a function in INSERT", "1", `INSERT INTO fn_rights SELECT 200 + fn_make('fn_inserted'); SELECT count(*) ` +
			`FROM pg_roles WHERE rolname = 'fn_inserted'`},
		{"memberships", "f", `DO $$ BEGIN GRANT fn_app TO fn_other WITH ADMIN OPTION; REVOKE fn_app FROM fn_t1; END ` +
			`$$; SELECT pg_has_role('fn_t1', 'fn_app', 'MEMBER')`},
		{"settings that go", "", `DO $$ BEGIN ALTER ROLE fn_other RESET search_path; COMMENT ON ROLE fn_other IS ` +
			`NULL; EXECUTE format('ALTER DATABASE %I RESET work_mem', current_database()); END $$; SELECT rolconfig ` +
			`FROM pg_roles WHERE rolname = 'fn_other'`},
		{"what is undone", "0", `DO $$ BEGIN BEGIN CREATE ROLE fn_never; ALTER ROLE fn_app SUPERUSER; RAISE ` +
			`division_by_zero; EXCEPTION WHEN division_by_zero THEN CREATE ROLE fn_instead; END; END $$; SELECT ` +
			`count(*) FROM pg_roles WHERE rolname = 'fn_never'`},
		{"a name that changes", "1", `DO $$ BEGIN ALTER ROLE fn_instead RENAME TO fn_renamed; COMMENT ON ROLE ` +
			`fn_renamed IS 'was another'; END $$; SELECT count(*) FROM pg_roles WHERE rolname IN ('fn_instead', ` +
			`'fn_renamed')`},
		{"roles that go", "0",
			`DO $$ DECLARE r name; BEGIN DROP TABLE fn_rights; FOR r IN SELECT rolname FROM pg_roles WHERE rolname ~ '^fn_' ORDER BY rolname DESC LOOP EXECUTE format('DROP OWNED BY %I CASCADE', r); END LOOP;
			FOR r IN SELECT rolname FROM pg_roles WHERE rolname ~ '^fn_' LOOP EXECUTE format('DROP ROLE %I', r); END LOOP;
			EXECUTE format('GRANT CONNECT ON DATABASE %I TO PUBLIC', current_database()); END $$; SELECT count(*) FROM pg_roles WHERE rolname ~ '^fn_'`},
	} {
		statements := strings.Split(x.sql, "; SELECT ")
		all := strings.Join(statements[:len(statements)-1], "; SELECT ")
		s.Do(all)
		state := s.Get(sharedState)
		if x.what != "what is undone" && states[state] {
			t.Errorf("%s: nothing has changed", x.what)
		}
		states[state] = true
		c.Everywhere("SELECT "+statements[len(statements)-1], x.want)
		c.Everywhere(sharedState, state)
	}
	for _, x := range []struct{ what, sql, want string }{
		{"an owner", "ALTER ROLE fn_a RENAME TO fn_z", "fn_z a, fn_b b"},
		{"two, and what one of them makes", "ALTER ROLE fn_z RENAME TO fn_a; ALTER ROLE fn_b RENAME TO fn_y; " +
			"CREATE SCHEMA fn_c AUTHORIZATION CURRENT_USER; ALTER ROLE fn_y CREATEDB", "fn_a a, fn_y b"},
		{"two that change their names with each other", "ALTER ROLE fn_a RENAME TO fn_x; ALTER ROLE fn_y RENAME TO " +
			"fn_a; ALTER ROLE fn_x RENAME TO fn_y", "fn_y a, fn_a b"},
		{"an owner of something new", "CREATE SCHEMA fn_d AUTHORIZATION fn_a; ALTER ROLE fn_a RENAME TO fn_v",
			"fn_y a, fn_v b, fn_v d"},
		{"one, and its name for another", "ALTER ROLE fn_v RENAME TO fn_u; CREATE ROLE fn_v; DROP SCHEMA fn_d",
			"fn_y a, fn_u b"},
		{"nobody", "ALTER ROLE fn_u PASSWORD 'x' CREATEDB; ALTER ROLE fn_y PASSWORD 'x'", "fn_y a, fn_u b"},
	} {
		if x.what == "an owner" {
			s.Do("CREATE ROLE fn_a", "CREATE ROLE fn_b", "CREATE SCHEMA fn_a AUTHORIZATION fn_a",
				"CREATE SCHEMA fn_b AUTHORIZATION fn_b",
				"ALTER DEFAULT PRIVILEGES FOR ROLE fn_b GRANT SELECT ON TABLES TO fn_a")
		}
		s.Do("DO $$ BEGIN " + x.sql + "; END $$")
		c.Everywhere(`SELECT string_agg(nspowner::regrole || ' ' || right(nspname, 1), ', ' ORDER BY nspname)
			FROM pg_namespace WHERE nspname ~ '^fn_[abd]$'`, x.want)
		c.Everywhere(sharedState, s.Get(sharedState))
	}
	// Two members may have temporary tables of one name, each of another role.
	s.Do("CREATE ROLE fn_t", "CREATE TEMPORARY TABLE fn_temporary (i int)", "ALTER TABLE fn_temporary OWNER TO fn_t")
	other := c.Connect(2)
	temporary := "(SELECT nspname FROM pg_namespace WHERE oid = pg_my_temp_schema())"
	for other.Do("CREATE TEMPORARY TABLE IF NOT EXISTS fn_temporary (i int)"); other.Get("SELECT "+temporary) <
		s.Get("SELECT "+temporary); other.Do("CREATE TEMPORARY TABLE IF NOT EXISTS fn_temporary (i int)") {
		other = c.Connect(2)
	}
	other.Do("ALTER TABLE fn_temporary OWNER TO fn_y")
	s.Do("DO $$ BEGIN ALTER ROLE fn_t CREATEDB; END $$", "DROP TABLE fn_temporary")
	other.Do("DROP TABLE fn_temporary")
	c.Everywhere(sharedState, s.Get(sharedState))
	s.Do("DROP SCHEMA fn_a, fn_b, fn_c", "DROP OWNED BY fn_u", "DROP ROLE fn_u, fn_y, fn_v, fn_t")
	// Which of two with the same things is which cannot be told.
	s.Do("CREATE ROLE fn_a", "CREATE ROLE fn_b", "CREATE TABLE fn_both (id int PRIMARY KEY)",
		"GRANT SELECT ON fn_both TO fn_a, fn_b")
	if err := s.Try("DO $$ BEGIN ALTER ROLE fn_a RENAME TO fn_c; ALTER ROLE fn_b RENAME TO fn_d; END $$"); Code(err) !=
		"0A000" {
		t.Errorf("two roles with rights on the same table get other names in a DO block: %v", err)
	}
	s.Do("DROP TABLE fn_both", "DROP ROLE fn_a, fn_b")
	c.Check()
}
