package captest

import "testing"

// TestAhead: rows that are copied in before it is their turn are as they were at their origin: values of many types
// and lengths, nulls, generated and dropped columns.
func TestAhead(t *testing.T) {
	p := newPair(t, "CREATE TYPE light AS ENUM ('red', 'green')", "CREATE TYPE pt AS (x bigint, y text)",
		"CREATE DOMAIN small AS bigint CHECK (VALUE < 100000)",
		`CREATE TABLE t(gone text, id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, "A b" numeric, twice numeric GENERATED ALWAYS AS ("A b" * 2) STORED, l light, p pt, d small, a bigint[], j jsonb,
			ts timestamptz, b bytea, long text, r int8range, n name)`, "ALTER TABLE t DROP COLUMN gone")
	p.tx(`INSERT INTO t("A b", l, p, d, a, j, ts, b, long, r, n) SELECT g / 7.0, CASE WHEN g % 2 = 0 THEN 'red' END::light, ROW(g, 'y' || g)::pt, g, ARRAY[g, NULL, 1], jsonb_build_object('k', g),
		'2026-01-01 UTC'::timestamptz + g * '1 h'::interval, decode(md5(g::text), 'hex'), repeat('long ' || g, CASE WHEN g % 100 = 0 THEN 5000 ELSE 1 END), int8range(g, g + 5), 'n' || g
		FROM generate_series(1::bigint, 3000) g`)
	p.equal()
	if p.copied != 3000 {
		t.Errorf("%d rows of 3000 were copied", p.copied)
	}
	p.tx(`UPDATE t SET "A b" = NULL, long = 'short' WHERE id % 3 = 0`)
	p.equal()
	p.tx("DELETE FROM t WHERE id % 5 = 0")
	p.equal()
}

// TestAheadMixed: so is what does several things to a table, or gives rows other keys.
func TestAheadMixed(t *testing.T) {
	p := newPair(t, "CREATE TABLE t(id int PRIMARY KEY, u int UNIQUE, v text)",
		"CREATE TABLE w(id int PRIMARY KEY, v text)")
	for i, tx := range [][]string{
		{"INSERT INTO t SELECT g, g, 'a' FROM generate_series(1, 900) g",
			"INSERT INTO w SELECT g, 'a' FROM generate_series(1, 500) g"},
		{"UPDATE t SET id = id + 1000 WHERE id <= 300"},
		{"UPDATE t SET u = u + 2000"},
		{"DELETE FROM t WHERE id < 500", "UPDATE t SET v = 'b' WHERE id < 700",
			"INSERT INTO t SELECT g, g, 'c' FROM generate_series(1, 400) g", "DELETE FROM w WHERE id % 3 = 0"},
		{"DELETE FROM w", "INSERT INTO w SELECT g, 'd' FROM generate_series(100, 800) g"},
		{"UPDATE w SET id = id + 5000", "INSERT INTO w SELECT g, 'e' FROM generate_series(1, 300) g",
			"UPDATE t SET v = 'f' WHERE id % 2 = 0"},
	} {
		p.tx(tx...)
		p.equal()
		if p.ran != i+1 {
			t.Errorf("%q was not executed ahead", tx)
			p.ran = i + 1
		}
	}
}

// TestAheadRefuses: what cannot be executed as it comes is executed in its turn, with the same end.
func TestAheadRefuses(t *testing.T) {
	p := newPair(t, "CREATE TABLE t(id int PRIMARY KEY, u int UNIQUE)", "CREATE TABLE k(v int)")
	p.tx("INSERT INTO t SELECT g, g FROM generate_series(1, 500) g")
	p.equal()
	p.tx("UPDATE t SET id = id + 1000", "INSERT INTO t VALUES (1, 501)")
	p.equal()
	p.tx("UPDATE t SET u = -u")
	p.equal()
	p.tx("DELETE FROM t WHERE u > -600", "INSERT INTO t SELECT g, g FROM generate_series(1, 300) g")
	p.equal()
	p.tx("TRUNCATE t", "INSERT INTO t SELECT g, g FROM generate_series(1, 300) g")
	p.equal()
	p.tx("INSERT INTO k VALUES (1), (1)")
	p.equal()
	p.tx("DELETE FROM k")
	p.equal()
}
