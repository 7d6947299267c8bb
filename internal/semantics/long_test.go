package semantics

import (
	"reflect"
	"testing"
)

// TestLong: what shows readers something new without making them wait, and what may read other tables, is not long.
func TestLong(t *testing.T) {
	for sql, want := range map[string]Long{
		"CREATE INDEX ON t(a)":                                      LongLocked,
		"CREATE UNIQUE INDEX i ON t(f(a)) WHERE b > 0":              LongLocked,
		"ALTER TABLE t ADD CHECK (a > 0)":                           LongLocked,
		"ALTER TABLE t ADD CHECK (length(a) > 0)":                   LongLocked,
		"ALTER TABLE t ADD CHECK (f(a) > 0)":                        NotLong,
		"ALTER TABLE t ADD CHECK (s.lower(a) = a)":                  NotLong,
		"ALTER TABLE t ADD FOREIGN KEY (a) REFERENCES u":            LongNamed,
		"ALTER TABLE t ALTER a TYPE bigint USING b + 1":             LongNamed,
		"ALTER TABLE t ALTER a TYPE bigint USING f(b)":              NotLong,
		"ALTER TABLE t VALIDATE CONSTRAINT c":                       LongFree,
		"ALTER TABLE t VALIDATE CONSTRAINT c, ALTER a SET NOT NULL": LongLocked,
		"ALTER TABLE t ADD b int REFERENCES u, ADD CHECK (a > 0)":   LongNamed,
		"ALTER TABLE t ADD b int DEFAULT 0":                         LongLocked,
		"ALTER TABLE t DROP COLUMN a":                               NotLong,
		"ALTER TABLE t ATTACH PARTITION p DEFAULT":                  LongAttached,
		"ALTER TABLE t ATTACH PARTITION p FOR VALUES IN (f(1))":     NotLong,
		"ALTER INDEX t ATTACH PARTITION p":                          NotLong,
		"ALTER TABLE t DETACH PARTITION p":                          NotLong,
		"ALTER TABLE t RENAME a TO b":                               NotLong,
		"REFRESH MATERIALIZED VIEW CONCURRENTLY v":                  LongSnapshot,
		"REFRESH MATERIALIZED VIEW v":                               LongSnapshot,
		"REFRESH MATERIALIZED VIEW v WITH NO DATA":                  NotLong,
		"CREATE TABLE t AS SELECT 1":                                NotLong,
		"CREATE TABLE t(a int)":                                     NotLong,
		"DROP INDEX i":                                              NotLong,
		"CREATE ROLE r":                                             NotLong,
	} {
		if got := Classify(sql)[0].Long; got != want {
			t.Errorf("%s: %d, want %d", sql, got, want)
		}
	}
}

// TestAhead: what reads tables that it does not lock, or is followed by something at its end, waits for its turn.
func TestAhead(t *testing.T) {
	for sql, want := range map[string]bool{
		"CREATE TABLE t(a serial PRIMARY KEY, b text DEFAULT f())": true, "CREATE TABLE p PARTITION OF t DEFAULT": true,
		"CREATE INDEX ON t(a)": true, "CREATE VIEW v AS SELECT * FROM t": true,
		"GRANT SELECT ON t TO r": true, "COMMENT ON TABLE t IS 'x'": true, "ALTER TABLE t ADD b int DEFAULT 0": true,
		"ALTER TABLE t DROP COLUMN a, ALTER b SET DEFAULT 5": true, "ALTER TABLE t ALTER a TYPE bigint": true,
		"CREATE TABLE t AS SELECT 1": false, "REFRESH MATERIALIZED VIEW v": false,
		"CREATE MATERIALIZED VIEW v AS SELECT 1": false, "DROP TABLE t": false, "TRUNCATE t": false,
		"ALTER TABLE t RENAME TO u":           false,
		"ALTER TABLE t DROP COLUMN a CASCADE": false, "ALTER TABLE t ATTACH PARTITION p DEFAULT": false,
		"ALTER TABLE t ALTER a TYPE bigint USING f(b)": false, "ALTER TABLE t ADD CHECK (f(a) > 0)": false,
		"CREATE ROLE r": false, "GRANT r TO s": false, "ALTER INDEX i RENAME TO j": false,
		"CREATE SCHEMA s CREATE TABLE t(a int)": false, "CREATE SCHEMA s": true,
		"GRANT CONNECT ON DATABASE d TO r": false,
	} {
		if got := Classify(sql)[0].Ahead; got != want {
			t.Errorf("%s: %v, want %v", sql, got, want)
		}
	}
}

// TestConcurrent: what may fail for a row, and what has no name, is not built by every member for itself.
func TestConcurrent(t *testing.T) {
	const sql = `CREATE INDEX CONCURRENTLY i ON "S".t (a DESC, "B") INCLUDE (c) WHERE d IS NULL AND NOT e IS NOT NULL`
	want := &Concurrent{Text: sql, Relation: `"S"."t"`, Name: "i", Columns: []string{"a", "B", "c"}}
	if got := Classify("SELECT 1; " + sql)[1].Concurrent; !reflect.DeepEqual(got, want) {
		t.Errorf("%s: %+v, want %+v", sql, got, want)
	}
	for _, sql := range []string{
		"CREATE INDEX i ON t(a)", "CREATE UNIQUE INDEX CONCURRENTLY i ON t(a)", "CREATE INDEX CONCURRENTLY ON t(a)",
		"CREATE INDEX CONCURRENTLY i ON t(lower(a))",
		"CREATE INDEX CONCURRENTLY i ON t(a) WHERE 1/b > 0", "CREATE INDEX CONCURRENTLY i ON t(a) WHERE b IS NULL OR c",
		"CREATE INDEX CONCURRENTLY i ON t USING gin (a)",
		"CREATE INDEX CONCURRENTLY i ON t(a ops)", "DROP INDEX CONCURRENTLY i",
	} {
		if got := Classify(sql)[0].Concurrent; got != nil {
			t.Errorf("%s: %+v, want nil", sql, got)
		}
	}
}
