package cluster

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

// TestDefinitionsDoNotLendRights: code of an ordinary role that runs inside a definition
// must not get at the superuser on whose connection definitions run.
func TestDefinitionsDoNotLendRights(t *testing.T) {
	c := use(t)
	super := c.Connect(1)
	super.Do("CREATE ROLE eve LOGIN")
	super.Do("GRANT CREATE ON SCHEMA public TO eve")
	c.Everywhere("SELECT has_schema_privilege('eve', 'public', 'CREATE')", "t")
	s := c.Connect(2)
	s.Do("SET ROLE eve")
	s.Do("CREATE TABLE lent(id serial PRIMARY KEY, v int)")
	s.Do("INSERT INTO lent(v) VALUES (1)")
	s.Do(`CREATE FUNCTION seize() RETURNS bigint LANGUAGE plpgsql AS $$
		BEGIN PERFORM set_config('role', 'none', false); EXECUTE 'ALTER ROLE eve SUPERUSER'; RETURN 5; END $$`)
	for _, q := range []string{"SELECT setval('lent_id_seq', seize())", "ALTER TABLE lent ADD CHECK (seize() > v)"} {
		if err := s.Try(q); err == nil || !strings.Contains(err.Error(), "role") {
			t.Errorf("%s: %v", q, err)
		}
	}
	// In a block it is run at the client's member first, where this one does no harm. Elsewhere it fails, and no member
	// ends by that.
	s.Do(`CREATE FUNCTION seize_elsewhere() RETURNS bigint LANGUAGE plpgsql AS $$
		BEGIN IF current_setting('application_name') <> 'home' THEN PERFORM seize(); END IF; RETURN 5; END $$`)
	s.Do("SET application_name = 'home'")
	for i, q := range []string{"SELECT setval('lent_id_seq', seize_elsewhere())",
		"/* a /* b */ */ -- c\n (SELECT setval('lent_id_seq', seize_elsewhere()))",
		"WITH x AS (SELECT 1) SELECT setval('lent_id_seq', seize_elsewhere()) FROM x"} {
		s.Do("BEGIN", fmt.Sprintf("INSERT INTO lent VALUES (%d, 2)", 1000+i), q, "COMMIT")
	}
	c.Everywhere("SELECT count(*) FROM lent", "4")
	s.Do("ALTER TABLE lent ADD COLUMN w int")
	c.Everywhere("SELECT rolsuper FROM pg_roles WHERE rolname = 'eve'", "f")
	s.Do("DROP TABLE lent")
	s.Do("DROP FUNCTION seize()", "DROP FUNCTION seize_elsewhere()")
	s.Do("RESET ROLE")
	super.Do("REVOKE CREATE ON SCHEMA public FROM eve")
	super.Do("DROP ROLE eve")
}

// TestOwners: what a role owns gets another owner at all members, in a block and outside, although PostgreSQL has no
// event trigger for it; and what is said of a role in default privileges alone goes away at all members.
func TestOwners(t *testing.T) {
	c := use(t)
	a := c.Connect(1)
	a.Do("CREATE ROLE owner_a", "CREATE ROLE owner_b", "GRANT CREATE ON SCHEMA public TO owner_a, owner_b",
		"SET ROLE owner_a", "CREATE TABLE owned(id int PRIMARY KEY)", "RESET ROLE",
		"REASSIGN OWNED BY owner_a TO owner_b")
	const owner = "SELECT tableowner FROM pg_tables WHERE tablename = 'owned'"
	c.Everywhere(owner, "owner_b")
	a.Do("BEGIN", "INSERT INTO owned VALUES (1)", "REASSIGN OWNED BY owner_b TO owner_a", "COMMIT")
	c.Everywhere(owner, "owner_a")
	a.Do("ALTER DEFAULT PRIVILEGES FOR ROLE owner_a GRANT SELECT ON TABLES TO owner_b",
		"REVOKE CREATE ON SCHEMA public FROM owner_b")
	c.Everywhere("SELECT count(*) FROM pg_default_acl", "1")
	a.Do("DROP OWNED BY owner_b")
	c.Everywhere("SELECT count(*) FROM pg_default_acl", "0")
	a.Do("DROP ROLE owner_b", "DROP OWNED BY owner_a", "DROP ROLE owner_a")
	c.Everywhere("SELECT count(*) FROM pg_roles WHERE rolname ~ '^owner_'", "0")
}

// TestNoConflictWithOneself: one session alone is never told 40001, whatever foreign keys
// its transactions leave behind.
func TestNoConflictWithOneself(t *testing.T) {
	c := use(t)
	s := c.Connect(3)
	s.Do("CREATE TABLE self_parent(id int PRIMARY KEY)")
	s.Do("CREATE TABLE self_child(id int PRIMARY KEY, p int REFERENCES self_parent)")
	for i := range 60 {
		s.Do(fmt.Sprintf("INSERT INTO self_parent VALUES (%d)", i))
		s.Do(fmt.Sprintf("BEGIN; INSERT INTO self_child VALUES (%d, %d); COMMIT", i, i))
		s.Do(fmt.Sprintf("BEGIN; DELETE FROM self_child WHERE id = %d; DELETE FROM self_parent WHERE id = %d; COMMIT",
			i, i))
	}
	c.Everywhere("SELECT count(*) FROM self_parent", "0")
}

// TestRoleWithoutRowSecurity: a role that is to be told when row security keeps rows from it, as those that take dumps
// are, writes as any other.
func TestRoleWithoutRowSecurity(t *testing.T) {
	c := use(t)
	super := c.Connect(1)
	super.Do("CREATE ROLE dumper LOGIN", "ALTER ROLE dumper SET row_security = off",
		"CREATE TABLE unguarded_rows(k int PRIMARY KEY)", "GRANT ALL ON unguarded_rows TO dumper")
	c.Everywhere("SELECT has_table_privilege('dumper', 'unguarded_rows', 'INSERT')", "t")
	ctx, cancel := context.WithTimeout(context.Background(), sqlTimeout)
	defer cancel()
	s, err := pgx.Connect(ctx, strings.Replace(c.URL(2), "postgres@", "dumper@", 1))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close(ctx)
	for i, q := range []string{"INSERT INTO unguarded_rows VALUES ($1)", "INSERT INTO unguarded_rows SELECT $1 + 100",
		"SET row_security = on; INSERT INTO unguarded_rows VALUES (200)", "INSERT INTO unguarded_rows VALUES ($1)"} {
		var err error
		if strings.Contains(q, ";") {
			_, err = s.PgConn().Exec(ctx, q).ReadAll()
		} else {
			_, err = s.Exec(ctx, q, i)
		}
		if err != nil {
			t.Errorf("%s: %v", q, Explain(err))
		}
	}
	c.Everywhere("SELECT count(*) FROM unguarded_rows", "4")
	super.Do("DROP TABLE unguarded_rows", "DROP ROLE dumper")
	c.Check()
}
