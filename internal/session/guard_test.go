package session_test

import (
	"strings"
	"testing"
)

// TestOwnNames: a function finds no name of the session's own statements, and so cannot put others in their place.
func TestOwnNames(t *testing.T) {
	l := newStage(t, true).live(t)
	l.want("Q SELECT count(*) FROM pg_prepared_statement() WHERE name LIKE 'tutti%'", "DataRow 0\n")
	l.want("Q SELECT count(*) FROM pg_catalog.pg_prepared_statements AS p WHERE p.name LIKE 'tutti%'", "DataRow 0\n")
	l.want("Q SELECT count(*) FROM pg_catalog.tutti_prepared_statement()", "42501")
	l.do(`Q PREPARE mine AS SELECT 1`)
	l.want("Q SELECT name, statement FROM pg_prepared_statement()", "DataRow mine|PREPARE mine AS SELECT 1\n")
	l.want(`Q DO $$ DECLARE n text; BEGIN FOR n IN SELECT name FROM pg_prepared_statement() UNION SELECT name FROM `+
		`pg_catalog.pg_prepared_statements UNION SELECT 'tutti collect' LOOP BEGIN EXECUTE format('DEALLOCATE %I', `+
		`n); EXCEPTION WHEN invalid_sql_statement_name THEN END; EXECUTE format('PREPARE %I (int8, int4, int8, int8, `+
		`bool) AS SELECT 1::int2, 1::int8, NULL::int8[], NULL::bytea, NULL::bytea WHERE $1 + $2 + $3 + $4 = 0 AND $5 `+
		`AND false', n); END LOOP; END $$`, "CommandComplete DO")
	before := l.host.committed
	l.want("Q INSERT INTO t VALUES (1001, 'x')", "INSERT 0 1")
	if l.host.committed != before+1 {
		t.Errorf("%d transactions were ordered, want %d", l.host.committed, before+1)
	}
}

// TestOutsideIsReadOnly: where there may be functions of users', what is run outside of transactions cannot write, and
// where there are none nothing is sent for that.
func TestOutsideIsReadOnly(t *testing.T) {
	s := newStage(t, true)
	l := s.live(t)
	l.want("Q SELECT current_setting('transaction_read_only')", "DataRow off\n") // asked, it is what it will be
	l.want("Q SHOW transaction_read_only", "DataRow off\n")
	l.do("Q DO $$ BEGIN CREATE FUNCTION pg_temp.r() RETURNS text LANGUAGE sql " +
		"AS 'SELECT current_setting(''transaction_'' || ''read_only'')'; END $$")
	l.want("Q SELECT pg_temp.r()", "DataRow "+map[bool]string{true: "off", false: "on"}[s.hides(t)]+"\n")
	l.want("Q BEGIN\nQ SELECT pg_temp.r()\nQ COMMIT", "DataRow off\n")
	s.define(t, "CREATE FUNCTION public.mode() RETURNS text LANGUAGE sql "+
		"AS 'SELECT current_setting(''transaction_'' || ''read_only'')'")
	l = s.live(t)
	l.want("Q SELECT mode()", "DataRow on\n")
	l.want("P a|SELECT mode()\nB |a\nE |0\nS", "DataRow on\n")
	out := l.do("Q SELECT mode(), set_config('transaction_' || 'read_only', 'off', false)")
	if !strings.Contains(out, "25001") {
		t.Errorf("READ ONLY was taken back: %s", out)
	}
	l.do("Q CREATE TEMP SEQUENCE numbers")
	l.want("Q SELECT nextval('numbers')", "DataRow 1\n")
}

// hides reports whether READ ONLY does not refuse all that writes, so that a session with functions of its own runs
// what calls them in transactions of Tutti's.
func (s *stage) hides(t *testing.T) (old bool) {
	t.Helper()
	err := s.admin.QueryRow(t.Context(), "SELECT current_setting('server_version_num')::int < 160000").Scan(&old)
	if err != nil {
		t.Fatal(err)
	}
	return old
}
