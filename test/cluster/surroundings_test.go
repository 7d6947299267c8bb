package cluster

import (
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
)

func wantCode(t *testing.T, what string, err error, code string) {
	t.Helper()
	var pg *pgconn.PgError
	if !errors.As(err, &pg) || pg.Code != code {
		t.Errorf("%s: %v, not %s", what, err, code)
	}
}

// TestDefinitionsSeeTemporaryObjects: what a definition outside a block does to temporary objects, or because
// of them, it does; the others get the rest.
func TestDefinitionsSeeTemporaryObjects(t *testing.T) {
	c := use(t)
	s := c.Connect(1)
	s.Do("CREATE TABLE keptbytemp(a text)", "INSERT INTO keptbytemp VALUES ('abc')",
		"CREATE TEMP TABLE heir(b int) INHERITS (keptbytemp)", "INSERT INTO heir VALUES ('ab', 1)",
		"ALTER TABLE keptbytemp ALTER a TYPE int USING length(a)", "CREATE VIEW seenbytemp AS SELECT b FROM heir",
		"CREATE VIEW open AS SELECT a FROM keptbytemp")
	s.Do("CREATE FUNCTION heirs() RETURNS bigint LANGUAGE sql AS 'SELECT count(*) FROM heir'")
	if got := s.Get("SELECT heirs()"); got != "1" {
		t.Errorf("a function finds %s rows of a temporary table", got)
	}
	c.Everywhere("SELECT count(*) FROM pg_proc WHERE proname = 'heirs'", "1")
	wantCode(t, "the function elsewhere", c.Connect(2).Try("SELECT heirs()"), "42P01")
	if got := s.Get("SELECT sum(a) FROM keptbytemp"); got != "5" {
		t.Errorf("the sum is %s", got)
	}
	c.Everywhere("SELECT string_agg(a::text, ' ') FROM ONLY keptbytemp", "3")
	c.Eventually(2, "SELECT a FROM open", "3")
	wantCode(t, "a temporary view at another node", c.Connect(2).Try("SELECT * FROM seenbytemp"), "42P01")
	s.Do("DROP TABLE keptbytemp CASCADE", "DROP FUNCTION heirs")
	c.Everywhere("SELECT to_regclass('open') IS NULL", "t")
	c.Check()
}

// TestReadOnlySessionsDefineNothing: a session that may not write cannot drop a table.
func TestReadOnlySessionsDefineNothing(t *testing.T) {
	c := use(t)
	c.Connect(1).Do("CREATE TABLE stays(k int)")
	s := c.Connect(1)
	s.Do("SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY")
	for _, q := range []string{"DROP TABLE stays", "CREATE TABLE more(k int)", "ALTER TABLE stays ADD x int"} {
		wantCode(t, q, s.Try(q), "25006")
	}
	c.Everywhere("SELECT count(*) FROM stays", "0")
	s.Do("SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE", "DROP TABLE stays")
}

// TestDefinitionsWaitForLocks: a definition waits for the transactions of its node that use the table, and
// does not make them fail.
func TestDefinitionsWaitForLocks(t *testing.T) {
	c := use(t)
	reader, owner := c.Connect(1), c.Connect(1)
	reader.Do("CREATE TABLE inuse(k int PRIMARY KEY)", "BEGIN", "SELECT * FROM inuse", "INSERT INTO inuse VALUES (1)")
	owner.Do("SET lock_timeout = '100ms'")
	wantCode(t, "a locked table", owner.Try("ALTER TABLE inuse ADD x int"), "55P03")
	owner.Do("SET lock_timeout = 0")
	done := make(chan error, 1)
	go func() { done <- owner.Try("ALTER TABLE inuse ADD x int") }()
	c.Eventually(1, "SELECT count(*) > 0 FROM pg_locks WHERE relation = 'inuse'::regclass AND NOT granted", "t")
	reader.Do("COMMIT")
	if err := <-done; err != nil {
		t.Error(err)
	}
	c.Everywhere("SELECT count(*), count(x) FROM inuse", "1|0")
	owner.Do("DROP TABLE inuse")
	c.Check()
}

// TestDefinitionsWaitForCatalogRows: a definition waits for the transactions of its node that have changed or locked
// what describes the table, and does not make them fail.
func TestDefinitionsWaitForCatalogRows(t *testing.T) {
	c := use(t)
	const locks = "SELECT relname FROM pg_class WHERE oid = 'described'::regclass FOR NO KEY UPDATE"
	holder, another, owner := c.Connect(1), c.Connect(1), c.Connect(1)
	holder.Do("CREATE TABLE described(k int)")
	// so it is locked by several
	another.Do("BEGIN", "SELECT relname FROM pg_class WHERE oid = 'described'::regclass FOR KEY SHARE")
	for _, statement := range []string{"GRANT SELECT ON described TO PUBLIC", locks} {
		holder.Do("BEGIN", statement)
		owner.Do("SET lock_timeout = '100ms'")
		wantCode(t, statement, owner.Try("ALTER TABLE described ADD PRIMARY KEY (k)"), "55P03")
		owner.Do("SET lock_timeout = 0")
		done := make(chan error, 1)
		go func() { done <- owner.Try("ALTER TABLE described ADD PRIMARY KEY (k)") }()
		c.Eventually(1, "SELECT count(*) > 0 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE "+
			"'ALTER TABLE described%'", "t")
		holder.Do("COMMIT")
		if err := <-done; err != nil {
			t.Errorf("%s: %v", statement, err)
		}
		c.Everywhere("SELECT relhasindex FROM pg_class WHERE relname = 'described'", "t")
		owner.Do("ALTER TABLE described DROP CONSTRAINT described_pkey")
	}
	another.Do("ROLLBACK")
	owner.Do("DROP TABLE described")
	c.Check()
}

// TestRenamedToast: a TOAST table, which has another name at each node, and its index get the names that one gives
// them.
func TestRenamedToast(t *testing.T) {
	c := use(t)
	for k := range c.Size() { // so that OIDs differ
		c.Connect(k + 1).Do(strings.Repeat("CREATE TEMP TABLE toast_other (v text); DROP TABLE toast_other;", k+1))
	}
	s := c.Connect(1)
	s.Do(`CREATE TABLE "Wide toast" (k int PRIMARY KEY, v text)`, "SET allow_system_table_mods = on")
	s.Do(`DO $$ DECLARE r record; BEGIN
	  SELECT t.relname AS t, i.relname AS i INTO r FROM pg_class c JOIN pg_class t ON t.oid = c.reltoastrelid JOIN pg_index x ON x.indrelid = t.oid JOIN pg_class i ON i.oid = x.indexrelid WHERE c.relname = 'Wide toast';
	  EXECUTE 'ALTER TABLE pg_toast.' || r.t || ' RENAME TO "Renamed toast"';
	  EXECUTE 'ALTER INDEX pg_toast.' || r.i || ' RENAME TO renamed_toast_index;';
	END $$`)
	c.Everywhere(
		`SELECT t.relname, i.relname, current_setting('allow_system_table_mods') FROM pg_class c JOIN pg_class t ON t.oid = c.reltoastrelid JOIN pg_index x ON x.indrelid = t.oid
	  JOIN pg_class i ON i.oid = x.indexrelid WHERE c.relname = 'Wide toast'`, "Renamed toast|renamed_toast_index|off")
	s.Do(`INSERT INTO "Wide toast" SELECT 1, string_agg(md5(g::text), '') FROM generate_series(1, 1000) g`)
	wantCode(t, "another change", s.Try("DO 'BEGIN ALTER INDEX pg_toast.renamed_toast_index SET (fillfactor = "+
		"50); END'"), "0A000")
	s.Do(`DROP TABLE "Wide toast"`)
	c.Check()
}

// TestDefinitionsWithPLpgSQLSettings: a function is looked at as the session wants it.
func TestDefinitionsWithPLpgSQLSettings(t *testing.T) {
	c := use(t)
	s := c.Connect(1)
	const shadow = "CREATE FUNCTION shadow(x int) RETURNS int LANGUAGE plpgsql AS 'DECLARE x int; BEGIN RETURN 1; END'"
	s.Do("SET plpgsql.extra_errors = 'shadowed_variables'")
	wantCode(t, "a variable that shadows another", s.Try(shadow), "42712")
	s.Do("RESET plpgsql.extra_errors", shadow)
	c.Everywhere("SELECT shadow(2)", "1")
	s.Do("DROP FUNCTION shadow")
}
