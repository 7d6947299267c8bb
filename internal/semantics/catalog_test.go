package semantics

import "testing"

func TestTold(t *testing.T) {
	for sql, want := range map[string]string{
		"SELECT 1": "SELECT 1",
		"SELECT seqincrement\nFROM " +
			"pg_catalog.pg_sequence\nWHERE x": "SELECT seqincrement\nFROM tutti.pg_sequence()   \nWHERE x",
		"SELECT * FROM a, " +
			"pg_catalog.pg_sequence": "SELECT * FROM a, tutti.pg_sequence()   ",
		"SELECT (pg_catalog.pg_sequence.seqmin) FROM pg_catalog.pg_sequence WHERE a.oid " +
			"=pg_catalog.pg_sequence.seqrelid": "SELECT (           pg_sequence.seqmin) FROM tutti.pg_sequence()    " +
			"WHERE a.oid =           pg_sequence.seqrelid",
		"SELECT pg_sequence.seqmin FROM " +
			"pg_catalog.pg_sequence": "SELECT pg_sequence.seqmin FROM tutti.pg_sequence()   ",
		"SELECT 'pg_catalog.pg_sequence.x'":         "SELECT 'pg_catalog.pg_sequence.x'",
		"SELECT 'pg_catalog.pg_sequence'::regclass": "SELECT 'pg_catalog.pg_sequence'::regclass",
		"SELECT * FROM " +
			"pg_catalog.pg_sequences": "SELECT * FROM pg_catalog.pg_sequences",
		"INSERT INTO t VALUES ('FROM pg_catalog.pg_sequence WHERE', E'\\' FROM pg_catalog.pg_sequence ', " +
			"$$ FROM pg_prepared_statements $$)": "INSERT INTO t VALUES ('FROM pg_catalog.pg_sequence WHERE', " +
			"E'\\' FROM pg_catalog.pg_sequence ', $$ FROM pg_prepared_statements $$)",
		"/* FROM pg_catalog.pg_sequence */ SELECT 'x' FROM pg_catalog.pg_sequence -- , pg_catalog.pg_sequence": "/* " +
			"FROM pg_catalog.pg_sequence */ SELECT 'x' FROM tutti.pg_sequence()    -- , pg_catalog.pg_sequence",
		"SELECT name FROM pg_prepared_statements, " +
			"x": "SELECT name FROM tutti.prepared_by_user, x",
		"SELECT pg_catalog.pg_sequence_last_value(1)": "SELECT pg_catalog.pg_sequence_last_value(1)",
	} {
		if got := Told(sql); got != want || len(got) != len(sql) {
			t.Errorf("%s becomes %s", sql, got)
		}
	}
}
