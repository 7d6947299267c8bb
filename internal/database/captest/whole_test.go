package captest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tuttidb/tutti/internal/writeset"
)

// What holds of rows that are captured one by one holds of statements that are captured as a whole.
func TestBulkIsTheSame(t *testing.T) {
	inBulk = true
	defer func() { inBulk = false }()
	for name, test := range map[string]func(*testing.T){
		"Rows": TestRows, "NetEffect": TestNetEffect, "FinalImageWins": TestFinalImageWins,
		"ForeignKeysAndCascades": TestForeignKeysAndCascades,
		"Conflicts":              TestConflicts, "Truncate": TestTruncate, "LocalTables": TestLocalTables,
		"ManyWaysToWrite": TestManyWaysToWrite,
		"Types":           TestTypes, "PartitionsAndInheritance": TestPartitionsAndInheritance,
		"SchemaChanges": TestSchemaChanges,
		"WithoutKey":    TestWithoutKey, "UniqueIndexIsTheKey": TestUniqueIndexIsTheKey, "WideKeys": TestWideKeys,
		"RandomWorkload": TestRandomWorkload,
	} {
		t.Run(name, test)
	}
}

// Every way to write to tables that are captured as a whole, in statements of thousands of rows, so that
// they come in several pieces, and of a few. What is captured is what a row trigger captures.
func TestBulkTraps(t *testing.T) {
	p := newPair(t, "CREATE TABLE t(id int PRIMARY KEY, a int, x text, u int UNIQUE)",
		"CREATE TABLE other(id int PRIMARY KEY, a int)", "CREATE VIEW v AS SELECT id, a FROM t WHERE a > 0",
		"CREATE TABLE tree(id int PRIMARY KEY, up int REFERENCES tree ON DELETE CASCADE ON UPDATE CASCADE, o int "+
			"REFERENCES other ON DELETE SET NULL)",
		"CREATE TABLE ruled(id int PRIMARY KEY)",
		"CREATE RULE r AS ON INSERT TO ruled DO ALSO INSERT INTO other VALUES (NEW.id)",
		"CREATE TABLE sec(id int PRIMARY KEY, a int)", "ALTER TABLE sec ENABLE ROW LEVEL SECURITY",
		"CREATE TABLE hist(a int, b text)", "CREATE TABLE seq(id int PRIMARY KEY, a int)",
		"CREATE TABLE gen(id int GENERATED ALWAYS AS IDENTITY, gone int, k int PRIMARY KEY, d int GENERATED ALWAYS "+
			"AS (k * 2) STORED, x text)", "ALTER TABLE gen DROP COLUMN gone",
		"CREATE FUNCTION more(i int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN UPDATE public.seq SET a = a + 1000 "+
			"WHERE id = i - 1; INSERT INTO public.other VALUES (i + 100000, 1) ON CONFLICT DO NOTHING; RETURN i; "+
			"END $$",
		"CREATE FUNCTION ins(i int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN INSERT INTO public.t VALUES (i + "+
			"500000); INSERT INTO public.hist VALUES (i); RETURN i; END $$",
		"CREATE FUNCTION undone(i int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN UPDATE public.other SET a = 77; "+
			"RAISE division_by_zero; EXCEPTION WHEN OTHERS THEN RETURN i; END $$")
	p.bulk = true
	for _, sql := range [][]string{
		{"INSERT INTO t SELECT g, g, 'x', g FROM generate_series(1, 6000) g",
			"INSERT INTO other SELECT g FROM generate_series(1, 3000) g"},
		{"UPDATE t SET a = a + 1"},
		{"UPDATE t SET a = a + 1", "UPDATE t SET x = 'y' WHERE id % 2 = 0", "DELETE FROM t WHERE id % 10 = 0",
			"INSERT INTO t SELECT g FROM generate_series(10, 3000, 10) g"},
		{"UPDATE t SET id = -id WHERE id < 4000"},
		{"UPDATE t SET id = -id WHERE id < 0", "UPDATE t SET u = u + 10000, id = CASE WHEN id % 3 = 0 THEN id + " +
			"20000 ELSE id END"},
		{"UPDATE t SET id = 1000000 - id", "UPDATE t SET id = 1000000 - id"}, // every key, twice
		{"UPDATE t SET a = a + 1 WHERE false", "DELETE FROM t WHERE false", "INSERT INTO t SELECT 1 WHERE false"},
		{"INSERT INTO seq SELECT g, g FROM generate_series(1, 3000) g"},
		{"UPDATE seq SET a = -more(id)"}, // rows that the statement has changed are changed again by what it calls
		{"INSERT INTO t SELECT -ins(g) FROM generate_series(1, 2500) g"},
		{"UPDATE t SET a = undone(id) WHERE id BETWEEN 1 AND 10"},
		{"WITH d AS (DELETE FROM t WHERE id < 1000 RETURNING *), i AS (INSERT INTO t SELECT id + 700000, a FROM d " +
			"RETURNING *), o AS (INSERT INTO other SELECT id FROM i WHERE id > 700100 RETURNING *) UPDATE t SET a = " +
			"(SELECT count(*) FROM o) WHERE id BETWEEN 1000 AND 2000"},
		{"WITH i AS (INSERT INTO t SELECT g FROM generate_series(800000, 803000) g RETURNING *) INSERT INTO t SELECT " +
			"id + 10000 FROM i"},
		{"INSERT INTO t SELECT g, 5, 'c' FROM generate_series(1000, 5000) g ON CONFLICT (id) DO UPDATE SET a = t.a + " +
			"1, u = NULL"},
		{"INSERT INTO t SELECT g FROM generate_series(1000, 5200) g ON CONFLICT DO NOTHING"},
		{"MERGE INTO t USING generate_series(4000, 8000) g ON id = g WHEN MATCHED AND g % 3 = 0 THEN DELETE WHEN " +
			"MATCHED AND g % 3 = 1 THEN UPDATE SET a = -g WHEN NOT MATCHED THEN INSERT VALUES (g, g)"},
		{"UPDATE v SET a = a + 1", "INSERT INTO v VALUES (900000, 1)", "DELETE FROM v WHERE id = 900000"},
		{"INSERT INTO tree SELECT g, NULLIF(g / 2, 0), g % 100 + 1 FROM generate_series(1, 5000) g"},
		{"UPDATE tree SET id = id + 5000 WHERE id = 3", "DELETE FROM other WHERE id = 7"},
		{"DELETE FROM tree WHERE id IN (2, 9)"},
		{"INSERT INTO ruled SELECT g + 50000 FROM generate_series(1, 10) g",
			"INSERT INTO sec SELECT g FROM generate_series(1, 10) g", "UPDATE sec SET a = 1"},
		{"INSERT INTO gen(k, x) SELECT g, 'g' FROM generate_series(1, 3000) g"},
		{"UPDATE gen SET x = 'h'", "UPDATE gen SET id = DEFAULT, k = k + 10000 WHERE k % 7 = 0",
			"UPDATE gen SET id = DEFAULT WHERE k % 7 = 1"},
		{"SAVEPOINT a", "UPDATE t SET a = 0", "ROLLBACK TO a", "UPDATE t SET a = 1 WHERE id > 5000", "SAVEPOINT b",
			"DELETE FROM t", "ROLLBACK TO b", "RELEASE b"},
		{"INSERT INTO hist SELECT g, 'h' FROM generate_series(1, 3000) g", "UPDATE hist SET b = 'i' WHERE a % 2 = 0",
			"DELETE FROM hist WHERE a % 5 = 0"},
		{"UPDATE t SET x = repeat('tutti', 100000) WHERE id % 500 = 0",
			"UPDATE t SET x = (SELECT string_agg(md5(g::text), '') FROM generate_series(1, 20000) g) WHERE id % " +
				"900 = 0"},
		{"UPDATE t SET a = 3"},
		{"UPDATE t SET a = 4", "TRUNCATE t", "INSERT INTO t SELECT g FROM generate_series(1, 4000) g"},
	} {
		w := p.tx(sql...)
		seen := map[[2]uint64]bool{}
		for _, r := range w.Rows {
			k := [2]uint64{uint64(r.Table), r.Identity}
			if r.Identity != 0 && r.Op != writeset.OpTruncate && seen[k] {
				t.Fatalf("%q: an identity occurs twice", sql)
			}
			seen[k] = true
		}
		p.equal()
	}
	p.rereads = 0
	p.tx("UPDATE t SET a = 5", "UPDATE t SET a = 6", "DELETE FROM t WHERE id > 3000",
		"INSERT INTO t SELECT g FROM generate_series(3500, 5000) g")
	if p.rereads > 0 {
		t.Error("rows that one statement after the other has changed were read again")
	}
	p.equal()
}

// A marked text is the only thing that keeps a row trigger still, and then a statement trigger fires.
func TestBulkGuards(t *testing.T) {
	p := newPair(t, "CREATE TABLE t(id int PRIMARY KEY, a int)",
		"CREATE FUNCTION sets(i int, v text) RETURNS int LANGUAGE plpgsql AS $$ BEGIN PERFORM set_config('tutti.tx', "+
			"v, true); RETURN i; END $$")
	p.tx("INSERT INTO t SELECT g FROM generate_series(1, 10) g")
	captured := func(setting, sql string) (n int) {
		t.Helper()
		p.exec(p.a, "BEGIN; SET LOCAL tutti.tx = "+setting)
		p.exec(p.a, sql)
		p.scan(p.a, fmt.Sprintf("SELECT coalesce(sum(CASE WHEN op > 40 THEN cardinality(keys) ELSE 1 END), 0) FROM "+
			"tutti.capture%s WHERE xid = txid_current()", p.window()), &n)
		p.exec(p.a, "ROLLBACK")
		return n
	}
	for _, c := range []struct{ setting, sql string }{
		{"quiet_bulk", "UPDATE t SET a = 1"},                         // no mark
		{"quiet_bulk", "UPDATE t SET a = 1 " + "-- /*tutti bulk*/ "}, // not in front
		{"quiet_direct", "UPDATE t SET a = 1"},
		{"quiet_bulk", "/*tutti bulk*/ UPDATE t SET a = 1"},
		{"quiet_bulk", "DO $$ BEGIN EXECUTE '/*tutti bulk*/ UPDATE t SET a = 1'; END $$"}, // not what the client runs
		{"quiet_bulk", "/*tutti bulk*/ DO $$ BEGIN UPDATE public.t SET a = 1; END $$"},
	} {
		if n := captured(c.setting, c.sql); n != 10 {
			t.Errorf("%s: %s: %d rows are captured, want 10", c.setting, c.sql, n)
		}
	}
	// Whatever happens to the setting meanwhile, no row is missed.
	for _, v := range []string{"on", "quiet_bulk", "quiet_direct"} {
		for _, begin := range []string{"on", "quiet_bulk"} {
			if n := captured(begin, "/*tutti bulk*/ UPDATE t SET a = sets(1, '"+v+"')"); n < 10 {
				t.Errorf("%d rows are captured while a function sets %s", n, v)
			}
			if n := captured(begin, "UPDATE t SET a = sets(1, '"+v+"')"); n < 10 {
				t.Errorf("%d rows are captured while a function sets %s in a plain statement", n, v)
			}
		}
	}
	p.exec(p.a, "BEGIN; SET LOCAL tutti.tx = off")
	_, err := p.a.Exec(ctx, "/*tutti bulk*/ UPDATE t SET a = 1")
	wantState(t, err, "TT001")
	p.exec(p.a, "ROLLBACK")
	if !strings.HasPrefix("/*tutti bulk*/ ", "/*tutti ") {
		t.Error("the session does not refuse the mark in clients' texts")
	}
}

// window is which table the open transaction's rows are in.
func (p *pair) window() (s string) {
	p.scan(p.a, "SELECT ((txid_current() >> 16) & 3)::text", &s)
	return s
}
