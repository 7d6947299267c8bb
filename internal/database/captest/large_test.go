package captest

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tuttidb/tutti/internal/apply"
	"github.com/tuttidb/tutti/internal/pgtest"
	"github.com/tuttidb/tutti/internal/writeset"
)

// objects are the large objects of a database: owner and pages.
func (p *pair) objects(on int) string {
	p.t.Helper()
	c := p.a
	if on == 2 {
		c = p.b
	}
	var out string
	p.scan(c, `SELECT coalesce(string_agg(concat(m.oid, ' ', pg_get_userbyid(m.lomowner), ' ', coalesce((
		SELECT string_agg(concat(pageno, ':', length(data), ':', md5(data)), ' ' ORDER BY pageno) FROM pg_largeobject WHERE loid = m.oid), '')), E'\n' ORDER BY m.oid), '') FROM pg_largeobject_metadata m`, &out)
	return out
}

func (p *pair) sameObjects(name string) {
	p.t.Helper()
	p.sync()
	if a, b := p.objects(1), p.objects(2); a != b {
		p.t.Errorf("%s:\na:\n%s\nb:\n%s", name, a, b)
	}
}

func TestLargeObjects(t *testing.T) {
	p := newPair(t, "CREATE TABLE beside(id int PRIMARY KEY, x text)",
		"CREATE FUNCTION with_settings() RETURNS int LANGUAGE plpgsql SET work_mem = '1MB' AS $$ BEGIN RETURN "+
			"lo_open(43, 131072); END $$")
	steps := [][]string{
		{"SELECT lo_create(42)"},
		{"SELECT lo_put(42, 0, convert_to(repeat('abc', 5000), 'UTF8'))"},
		{"SELECT lo_put(42, 4090, 'overwritten')", "SELECT lo_put(42, 10000, 'x')"},
		{"SELECT lo_put(42, 1000000, 'behind a gap')"},
		{"INSERT INTO beside VALUES (1, 'a')", "SELECT lo_from_bytea(43, 'in the middle')", "UPDATE beside SET x = 'b'",
			"SELECT lo_unlink(42)", "DELETE FROM beside"},
		{"SELECT lo_unlink(43), lo_from_bytea(43, repeat('again', 1000)::bytea)"},
		{"SELECT lo_create(44)", "SELECT lo_unlink(44)"},
		{"SELECT lo_open(43, x'60000'::int); SELECT lo_lseek(0, 3000, 0); SELECT lowrite(0, repeat('y', " +
			"3000)::bytea); SELECT lo_truncate(0, 5000)"},
		{"SELECT lo_open(43, x'20000'::int); SELECT lo_truncate(0, 4096)"},
		{"SELECT lo_open(43, x'20000'::int); SELECT lo_truncate64(0, 81920)"},
		{"SELECT lo_open(43, x'20000'::int); SELECT lo_truncate(0, 20000)", "SELECT lo_put(43, 30000, 'z')",
			"SELECT lo_put(43, 100, 'z')"},
		{"SELECT lo_put(43, 50, 'kept')", "SAVEPOINT a", "SELECT lo_put(43, 2048 * 300, 'lost')",
			"SELECT lo_unlink(43)", "ROLLBACK TO a"},
		{"SELECT lo_put(43, 7, '')"},
		{"SAVEPOINT b", "SELECT lo_open(43, x'20000'::int), lo_put(43, 9000, 'kept')", "RELEASE b",
			"SELECT lowrite(0, 'through a descriptor of a subtransaction')"},
		{"DO $$ BEGIN PERFORM lo_put(43, 100, 'lost'); RAISE 'x'; EXCEPTION WHEN OTHERS THEN PERFORM lo_put(43, 200, " +
			"'kept'); END $$"},
		{"SET LOCAL search_path = pg_catalog", "SELECT lo_open(43, x'20000'::int), public.with_settings()",
			"SELECT lowrite(1, 'opened in a function')"},
		{"SELECT lo_from_bytea(45, decode(repeat('00112233', 2048 * 400), 'hex'))"},
		{"SELECT lo_create(46), lo_open(46, x'20000'::int), lowrite(0, 'a'), lo_create(47), lo_open(47, " +
			"x'20000'::int), lowrite(1, 'b'), lowrite(0, 'c')"},
	}
	for _, isolation := range []string{"read committed", "repeatable read", "serializable"} {
		for i, s := range steps {
			if _, err := p.try(isolation, s...); err != nil {
				t.Fatalf("%q: %s", s, explain(err))
			}
			p.sameObjects(fmt.Sprint(isolation, i, s))
		}
		p.tx("SELECT lo_unlink(oid) FROM pg_largeobject_metadata")
		p.sameObjects("unlinked")
		if p.objects(1) != "" {
			t.Error(p.objects(1))
		}
		for _, s := range steps { // as one batch
			p.tx(s...)
		}
		p.sameObjects("at once")
		p.tx("SELECT lo_unlink(oid) FROM pg_largeobject_metadata")
		p.sameObjects("unlinked")
	}
}

func TestLargeObjectOwner(t *testing.T) {
	p := newPair(t)
	p.exec(p.a, "DROP ROLE IF EXISTS tutti_test_large; CREATE ROLE tutti_test_large")
	p.tx("SET LOCAL ROLE tutti_test_large", "SELECT lo_from_bytea(50, 'mine')", "RESET ROLE",
		"SELECT lo_from_bytea(51, 'not')")
	p.sameObjects("owners")
	p.refused("42501", "SET LOCAL ROLE tutti_test_large", "SELECT lo_put(51, 0, 'x')")
	p.refused("42501", "SET LOCAL ROLE tutti_test_large", "SELECT lo_unlink(51)")
	p.refused("42501", "SET LOCAL ROLE tutti_test_large", "SELECT lo_import('/etc/hostname')")
	p.refused("42501", "SET LOCAL ROLE tutti_test_large", "SELECT pg_catalog.tutti_lo_import('/etc/hostname')")
	// Nobody can note what he has not done.
	p.refused("42501", "SET LOCAL ROLE tutti_test_large", "SELECT tutti.large_note(51, 3::int2, 0, 10)")
	p.refused("42501", "SET LOCAL ROLE tutti_test_large", "SELECT tutti.large_note(51, 4::int2, 0, 0)")
	p.refused("42501", "SET LOCAL ROLE tutti_test_large", "SELECT tutti.large_note(51, 1::int2, 0, 0)")
	p.refused("42501", "SET LOCAL ROLE tutti_test_large", "SELECT tutti.large_note(51, 2::int2, 0, 0)")
	if w := p.tx("SET LOCAL ROLE tutti_test_large", "SELECT tutti.large_note(99, 2::int2, 0, 0)"); !w.Empty() {
		t.Errorf("%v", w)
	}
	p.refused("42501", "SET LOCAL ROLE tutti_test_large",
		"SELECT tutti.large_apply(ROW(51, 2, NULL, NULL, NULL, NULL)::tutti.large)")
	p.tx("SELECT lo_unlink(oid) FROM pg_largeobject_metadata")
	p.sameObjects("unlinked")
	p.exec(p.a, "DROP ROLE tutti_test_large")
}

func (p *pair) refused(code string, sql ...string) {
	p.t.Helper()
	if _, err := p.try("read committed", sql...); err == nil || !strings.Contains(err.Error(), code) {
		p.t.Errorf("%q: %v", sql, err)
	}
}

// TestLargeObjectKeys: writers of one object conflict, writers of two do not.
func TestLargeObjectKeys(t *testing.T) {
	p := newPair(t)
	exclusive := func(w *writeset.Writeset) (keys []uint64) {
		w.EachKey(func(k writeset.Key) bool {
			if k.Mode == writeset.Exclusive {
				keys = append(keys, k.Hash)
			}
			return true
		})
		return keys
	}
	made := exclusive(p.tx("SELECT lo_create(60)"))
	for _, s := range []string{"lo_put(60, 0, 'x')", "lo_put(60, 1000000, 'x')",
		"lo_open(60, 131072), lo_truncate(0, 7)", "lo_unlink(60)"} {
		if got := exclusive(p.tx("SELECT " + s)); len(got) != 1 || len(made) != 1 || got[0] != made[0] {
			t.Errorf("%s: keys %v, of its creation %v", s, got, made)
		}
	}
	if got := exclusive(p.tx("SELECT lo_create(61)")); len(got) != 1 || got[0] == made[0] {
		t.Errorf("keys %v", got)
	}
	p.exec(p.a, "INSERT INTO tutti.sequencing (member, steps) VALUES (3, 16)")
	var first, second uint32
	p.exec(p.a, "BEGIN; SET LOCAL tutti.tx = on")
	p.scan(p.a, "SELECT lo_creat(-1), lo_create(0)", &first, &second)
	p.exec(p.a, "ROLLBACK")
	if first%64 != 3 || second%64 != 3 || first == second {
		t.Errorf("OIDs %d and %d", first, second)
	}
}

// TestLargeObjectLocks: who writes an object and who applies that hold its row until they end.
func TestLargeObjectLocks(t *testing.T) {
	p := newPair(t)
	locked := func(c *pgx.Conn) bool {
		t.Helper()
		_, err := c.Exec(ctx, "SELECT FROM pg_largeobject_metadata WHERE oid = 70 FOR NO KEY UPDATE NOWAIT")
		var pg *pgconn.PgError
		if err != nil && (!errors.As(err, &pg) || pg.Code != "55P03") {
			t.Fatal(err)
		}
		return err != nil
	}
	s := pgtest.Shared(t)
	besideA, besideB := s.Connect(t, p.dbA), s.Connect(t, p.dbB)
	p.tx("SELECT lo_from_bytea(70, 'x')")
	p.sync()
	for _, q := range []string{"lo_put(70, 0, 'y')", "lo_open(70, 131072), lowrite(0, 'z')",
		"lo_open(70, 131072), lo_truncate(0, 0)"} {
		p.exec(p.a, "BEGIN; SET LOCAL tutti.tx = on")
		p.exec(p.a, "SELECT "+q)
		if !locked(besideA) {
			t.Errorf("%s: not locked where it was run", q)
		}
		p.exec(p.a, "ROLLBACK")
		if locked(besideA) {
			t.Errorf("%s: locked for longer", q)
		}
		p.tx("SELECT " + q)
		tx, _, err := p.open(p.pending, apply.InPlace)
		if err != nil {
			t.Fatal(err)
		}
		if !locked(besideB) {
			t.Errorf("%s: not locked where it is applied", q)
		}
		if err := tx.Commit(ctx); err != nil {
			t.Fatal(err)
		}
		p.pending = nil
	}
	p.tx("SELECT lo_unlink(70)")
	p.sameObjects("unlinked")
}

// TestLargeObjectSnapshots: who writes what has changed since its snapshot is told that, whatever it does.
func TestLargeObjectSnapshots(t *testing.T) {
	p := newPair(t)
	other := pgtest.Shared(t).Connect(t, p.dbA)
	for _, q := range []string{"SELECT lo_unlink(71)", "SELECT lo_put(72, 0, 'x')"} {
		p.tx("SELECT lo_from_bytea(71, 'x')")
		p.exec(p.a, "BEGIN ISOLATION LEVEL REPEATABLE READ; SET LOCAL tutti.tx = on")
		p.exec(p.a, "SELECT 1 FROM pg_class")
		p.exec(other, "BEGIN; SET LOCAL tutti.tx = on; SET LOCAL backtrace_functions = 'tutti_on'; SELECT "+
			"lo_create(72); GRANT SELECT ON LARGE OBJECT 71 TO PUBLIC; COMMIT")
		_, err := p.a.Exec(ctx, q)
		var pg *pgconn.PgError
		if !errors.As(err, &pg) || pg.Code != "40001" {
			t.Errorf("%s: %v", q, err)
		}
		p.exec(p.a, "ROLLBACK; BEGIN; SET LOCAL tutti.tx = on; SELECT lo_unlink(71), lo_unlink(72); COMMIT")
	}
}

// TestLargeObjectLimit: a transaction that writes more than is allowed fails when it is collected.
func TestLargeObjectLimit(t *testing.T) {
	p := newPair(t)
	p.exec(p.a, "UPDATE tutti.token SET bytes_max = 1000000")
	p.tx("SELECT lo_from_bytea(80, convert_to(repeat('x', 999000), 'UTF8'))")
	p.refused("54000", "SELECT lo_put(80, 999000, convert_to(repeat('x', 1001000), 'UTF8'))")
	p.tx("SELECT lo_put(80, 500000, 'y')") // counts what is written
	p.tx("SELECT lo_unlink(80)")
	p.sameObjects("unlinked")
}
