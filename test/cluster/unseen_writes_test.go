package cluster

import (
	"strings"
	"testing"
)

// procedureRoles are procedures that change roles or databases in transactions which capture nothing else: what is
// asked for then, at all members.
var procedureRoles = []struct{ what, sql, code, ask, want string }{
	{"the only transaction", "CALL pr_only()", "", prRoles, "pr_called"},
	{"one that fails behind it", "CALL pr_fails()", "22012", prRoles, "pr_called,pr_failed"},
	{"the first of several", `DO $$ BEGIN
		CREATE ROLE pr_first; COMMIT; INSERT INTO pr_rows VALUES (1); COMMIT; END $$`, "",
		prRoles, "pr_called,pr_failed,pr_first"},
	{"what is granted later", `DO $$ BEGIN
		CREATE ROLE pr_later; COMMIT; GRANT SELECT ON pr_granted TO pr_later; COMMIT; END $$`, "", `
		SELECT has_table_privilege('pr_later', 'pr_granted', 'SELECT')`, "t"},
	{"one in the middle", `DO $$ BEGIN
		INSERT INTO pr_rows VALUES (2); COMMIT; ALTER ROLE pr_first CREATEDB; COMMIT; PERFORM 1; END $$`, "", `
		SELECT rolcreatedb FROM pg_roles WHERE rolname = 'pr_first'`, "t"},
	{"many", `DO $$ BEGIN
		FOR i IN 1..5 LOOP
			EXECUTE format('CREATE ROLE pr_many%s', i); COMMIT; INSERT INTO pr_rows VALUES (10 + i); COMMIT;
		END LOOP; END $$`, "", "SELECT count(*) FROM pg_roles WHERE rolname ~ '^pr_many'", "5"},
	{"the database", `DO $$ BEGIN
		EXECUTE format('ALTER DATABASE %I CONNECTION LIMIT 90', current_database()); COMMIT;
		EXECUTE format('GRANT CREATE ON DATABASE %I TO pr_called', current_database()); COMMIT; END $$`, "", `
		SELECT datconnlimit, has_database_privilege('pr_called', oid, 'CREATE') FROM pg_database
			WHERE datname = current_database()`, "90|t"},
	{"what goes", `DO $$ BEGIN
		EXECUTE format('REVOKE CREATE ON DATABASE %I FROM pr_called', current_database()); COMMIT;
		DROP ROLE pr_called; COMMIT; END $$`, "", "SELECT count(*) FROM pg_roles WHERE rolname = 'pr_called'", "0"},
	{"what is rolled back", `DO $$ BEGIN
		CREATE ROLE pr_never; ROLLBACK; INSERT INTO pr_rows VALUES (20); COMMIT; END $$`, "", `
		SELECT count(*) FROM pg_roles WHERE rolname = 'pr_never'`, "0"},
	{"the rest", `DO $$ DECLARE r name; BEGIN
		REVOKE ALL ON pr_granted FROM pr_later;
		FOR r IN SELECT rolname FROM pg_roles WHERE rolname ~ '^pr_' LOOP
			EXECUTE format('DROP ROLE %I', r); COMMIT;
		END LOOP; END $$`, "", "SELECT count(*) FROM pg_roles WHERE rolname ~ '^pr_'", "0"},
	{"the limit", `DO $$ BEGIN
		EXECUTE format('ALTER DATABASE %I CONNECTION LIMIT -1', current_database()); COMMIT; END $$`, "", `
		SELECT datconnlimit FROM pg_database WHERE datname = current_database()`, "-1"},
}

const prRoles = "SELECT string_agg(rolname, ',' ORDER BY rolname) FROM pg_roles WHERE rolname ~ '^pr_'"

// TestProcedureRoles: what a procedure does to roles and databases in a transaction of its own that captures nothing
// else is at all members: ahead of what its next transaction does, or behind the statement.
func TestProcedureRoles(t *testing.T) {
	c := use(t)
	s := c.Connect(1)
	s.Do("CREATE TABLE pr_rows(id int PRIMARY KEY)", "CREATE TABLE pr_granted(id int)", `
		CREATE PROCEDURE pr_only() LANGUAGE plpgsql AS $$ BEGIN CREATE ROLE pr_called; COMMIT; END $$`, `
		CREATE PROCEDURE pr_fails() LANGUAGE plpgsql AS $$ BEGIN CREATE ROLE pr_failed; COMMIT; PERFORM 1 / 0; END $$`)
	for _, x := range procedureRoles {
		if err := s.Try(x.sql); Code(err) != x.code {
			t.Errorf("%s: %s, want %q", x.what, Explain(err), x.code)
		}
		c.Everywhere(x.ask, x.want)
	}
	c.Check()
}

// TestNativeLargeObjects: PostgreSQL's own writers of large objects, whose names are made up while a function runs,
// write at no member, whatever calls the function. PostgreSQL 15 lets them write in READ ONLY transactions.
func TestNativeLargeObjects(t *testing.T) {
	c := use(t)
	s := c.Connect(1)
	s.Do(`CREATE FUNCTION nat_run(n int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN
			EXECUTE format('SELECT %s_lo_create(%s)', 'tutti', n); RETURN 1; END $$`,
		"CREATE VIEW nat_view AS SELECT nat_run(47102)")
	for _, x := range []struct{ what, sql string }{
		{"SELECT", "SELECT nat_run(47101)"}, {"a view", "SELECT * FROM nat_view"},
		{"EXECUTE", "PREPARE nat_p AS SELECT nat_run(47103)\nEXECUTE nat_p"},
		{"EXPLAIN", "EXPLAIN ANALYZE SELECT nat_run(47104)"},
		{"several", "SELECT 1; SELECT nat_run(47105); SELECT 2"}, {"COPY", "COPY (SELECT nat_run(47106)) TO STDOUT"},
		{"a function of PostgreSQL's", "SELECT query_to_xml('SELECT tutti' || '_lo_create(47107)', true, false, '')"},
		{"a function of the session", `CREATE FUNCTION pg_temp.nat() RETURNS int LANGUAGE plpgsql AS $$ BEGIN
			EXECUTE 'SELECT tutti' || '_lo_create(47108)'; RETURN 1; END $$` + "\nSELECT pg_temp.nat()"},
	} {
		n := c.Connect(1)
		var err error
		for _, sql := range strings.Split(strings.ReplaceAll(x.sql, "BEGIN\n", "BEGIN "), "\n") {
			if err = n.Try(sql); err != nil {
				break
			}
		}
		if Code(err) != "0A000" {
			t.Errorf("%s: %s, want 0A000", x.what, Explain(err))
		}
		_ = n.Close(n.ctx())
	}
	n := c.Connect(1)
	r := n.PgConn().ExecParams(n.ctx(), "SELECT nat_run($1)", [][]byte{[]byte("47109")}, nil, nil, nil).Read()
	if Code(r.Err) != "0A000" {
		t.Errorf("by the extended protocol: %s, want 0A000", Explain(r.Err))
	}
	c.Everywhere("SELECT count(*) FROM pg_largeobject_metadata WHERE oid BETWEEN 47101 AND 47109", "0")
	c.Check()
}
