package semantics

import "testing"

// TestCode: after these texts nobody knows what a session may call.
func TestCode(t *testing.T) {
	for sql, want := range map[string]bool{
		"SELECT 1": false, "UPDATE t SET a = 1 WHERE id = $1": false, "CREATE TABLE t(i int)": false,
		"INSERT INTO t VALUES (1) ON CONFLICT DO NOTHING":                    false,
		"DO $$ BEGIN END $$":                                                 true,
		"CREATE FUNCTION pg_temp.f() RETURNS int LANGUAGE sql AS 'SELECT 1'": true,
		"CREATE OR REPLACE PROCEDURE p() LANGUAGE sql AS ''":                 true,
		"SELECT query_to_xml('SELECT f()', true, true, '')":                  true,
		"SELECT ts_stat('SELECT f()')":                                       true,
		"CREATE TRIGGER g AFTER INSERT ON t EXECUTE FUNCTION f()":            true,
		"something that is no SQL":                                           true,
	} {
		if got := Classify(sql)[0].Code; got != want {
			t.Errorf("%s: %v", sql, got)
		}
	}
}

// TestNativeLargeObjects: the names that PostgreSQL's writers of large objects have here are in no text but one about
// rights.
func TestNativeLargeObjects(t *testing.T) {
	for sql, want := range map[string]bool{
		"SELECT tutti_lo_create(1)": true, "DO $$ BEGIN PERFORM TUTTI_LO_unlink(1); END $$": true,
		"SELECT f('SELECT tutti_lowrite(0, '''')')":                                   true,
		"CREATE FUNCTION f() RETURNS oid LANGUAGE sql AS 'SELECT tutti_lo_create(0)'": true,
		"GRANT EXECUTE ON FUNCTION tutti_lo_import(text, oid) TO x":                   false,
		"SELECT lo_create(1)": false,
	} {
		if got := Classify(sql)[0]; (got.Kind == Refused) != want || want && got.Refusal.Code != "0A000" {
			t.Errorf("%s: %+v", sql, got)
		}
	}
}
