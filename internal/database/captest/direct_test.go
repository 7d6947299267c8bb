package captest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tuttidb/tutti/internal/capture"
	"github.com/tuttidb/tutti/internal/database/catalog"
	"github.com/tuttidb/tutti/internal/semantics"
	"github.com/tuttidb/tutti/internal/writeset"
)

// rewrite makes a statement direct on the first database, as a node does.
func (p *pair) rewrite(sql string) (*capture.Direct, string, bool) {
	p.t.Helper()
	d, ok := semantics.DirectOf(sql)
	if !ok {
		return nil, "", false
	}
	var schema, name string
	var allowed, unchecked bool
	var unfit, vacant []byte
	if err := p.a.QueryRow(ctx, capture.DirectSQL(d.Relation,
		map[semantics.Verb]string{semantics.Insert: "INSERT", semantics.Update: "UPDATE",
			semantics.Delete: "DELETE"}[d.Verb], d.Calls)).Scan(&schema, &name, &allowed, &unchecked, &unfit,
		&vacant); err != nil || !allowed {
		return nil, "", false
	}
	tx, err := p.a.Begin(ctx)
	if err != nil {
		p.t.Fatal(err)
	}
	tables, err := catalog.Describe(ctx, tx)
	if err != nil {
		p.t.Fatal(explain(err))
	}
	if err := tx.Rollback(ctx); err != nil {
		p.t.Fatal(err)
	}
	t := tables.Capture(schema, name)
	if t == nil {
		return nil, "", false
	}
	how, ok := t.Direct(map[semantics.Verb]writeset.Op{semantics.Insert: writeset.OpInsert,
		semantics.Update: writeset.OpUpdate, semantics.Delete: writeset.OpDelete}[d.Verb], d.Alias, d.Sets, d.Columns,
		true)
	if !ok {
		return nil, "", false
	}
	return how, how.SQL(d.Text, d.Returns), true
}

// direct runs a rewritten statement in the open transaction.
func (p *pair) direct(how *capture.Direct, sql string, add func(capture.Returned) error) error {
	r := p.a.PgConn().ExecParams(ctx, sql, nil, nil, nil, []int16{1})
	return each(r, func(cols [][]byte) error {
		row, err := how.Read(cols[:capture.DirectColumns])
		if err != nil {
			return err
		}
		return add(row)
	})
}

// canonical is a writeset without the order of its keys.
func canonical(w *writeset.Writeset) string {
	var rows, keys []string
	for _, r := range w.Rows {
		rows = append(rows, fmt.Sprintf("%s %d %x %x", w.Tables[r.Table].String(), r.Op, r.Identity, r.Image))
	}
	w.EachKey(func(k writeset.Key) bool {
		keys = append(keys, fmt.Sprintf("%x %d", k.Hash, k.Mode))
		return true
	})
	slices.Sort(keys)
	return strings.Join(rows, "\n") + "\n" + strings.Join(keys, "\n")
}

var directSchema = append([]string{
	"CREATE TABLE plain(id int8 PRIMARY KEY, n numeric, x text, ts timestamptz DEFAULT now(), s int DEFAULT 7)",
	"CREATE TABLE \"Odd table\"(\"Odd table\" int PRIMARY KEY, \"a b\" text UNIQUE, d int GENERATED ALWAYS AS (\"Odd " +
		"table\" + 1) STORED)",
	"CREATE TABLE dropped(gone int, id int PRIMARY KEY, p int REFERENCES plain)", "ALTER TABLE dropped DROP gone",
	"CREATE SCHEMA other", "CREATE TABLE other.plain(id int PRIMARY KEY, v bytea)",
}, randomSchema...)

// A statement that returns what it changes says the same as the triggers.
func TestDirectSaysTheSame(t *testing.T) {
	p := newPair(t, directSchema...)
	p.tx("INSERT INTO plain SELECT g, g, 'x' FROM generate_series(1, 20) g",
		"INSERT INTO par SELECT g, g + 20 FROM generate_series(0, 11, 2) g",
		"INSERT INTO uq SELECT g, g * 2, g, 'w' FROM generate_series(0, 11, 3) g",
		`INSERT INTO "Odd table" VALUES (1, 'one'), (2, 'two')`,
		"INSERT INTO dropped VALUES (1, 1), (2, 2)", "INSERT INTO other.plain VALUES (1, 'x')",
		"INSERT INTO gen(k, x) VALUES (1, 1), (2, 2)", "INSERT INTO reg VALUES (1, 'int4', 1)")
	list := []string{
		"INSERT INTO plain VALUES (30, 'NaN', 'y'), (31, NULL, NULL) -- end",
		"UPDATE plain SET n = n + 1, x = CASE WHEN n > 3 THEN x || 'u' ELSE x || 'z' END WHERE id IN (3, 4)",
		"UPDATE plain AS q SET n = q.n + 1 WHERE q.id BETWEEN 5 AND 8",
		"UPDATE ONLY plain SET ts = CURRENT_TIMESTAMP, s = DEFAULT WHERE NOT id > 3;",
		"DELETE FROM dropped WHERE id = 1",
		"DELETE FROM dropped d WHERE d.p IS NOT NULL", "INSERT INTO dropped VALUES (5, 3)",
		"INSERT INTO dropped(id) VALUES (6)", "UPDATE dropped SET p = p WHERE id = 1",
		`INSERT INTO "Odd table" VALUES (5, 'five')`, `DELETE FROM "Odd table" WHERE "a b" = 'one'`,
		`UPDATE "Odd table" SET "a b" = 'x' WHERE "Odd table" = 1`,
		"INSERT INTO other.plain VALUES (3, '\\x00ff')", "UPDATE other.plain SET v = v || '\\x41'",
		"DELETE FROM other.plain", "UPDATE plain SET n = 0 WHERE false",
		"INSERT INTO par VALUES (40, 90)", "DELETE FROM par WHERE id = 4",
		"INSERT INTO uq VALUES (50, 60, 1, 'q'), (51, NULL, NULL, 'q')", "DELETE FROM uq WHERE id < 5",
		"INSERT INTO log VALUES (1, 'x'), (1, 'x')",
		"INSERT INTO plain DEFAULT VALUES", "INSERT INTO plain(id) VALUES (60)", "UPDATE gen SET x = x + 1 WHERE k = 1",
		"INSERT INTO gen(k, x) VALUES (5, 5)",
		"UPDATE plain AS q SET n = q.n + 1 WHERE q.id = 5 RETURNING *, q.n + 1",
		"INSERT INTO dropped VALUES (7, 3) RETURNING id -- end",
		"DELETE FROM dropped WHERE id = 1 RETURNING dropped.*;",
		"UPDATE plain SET x = upper(x) || length(x), ts = date_trunc('day', ts) WHERE id IN (3, 4) AND lower(x) > ''",
	}
	r := rand.New(rand.NewPCG(5, 0))
	for range 400 {
		list = append(list, randomStatement(r))
	}
	ran := map[string]int{}
	for _, sql := range list {
		how, direct, ok := p.rewrite(sql)
		if !ok {
			continue
		}
		var got capture.Collector
		p.exec(p.a, "BEGIN; SET LOCAL tutti.tx = quiet_direct")
		err := p.direct(how, direct, func(r capture.Returned) error {
			if r.Captured() || !r.Alone(false) || r.Alone(true) {
				t.Fatalf("%s: a direct row is captured as well, or not alone", sql)
			}
			return got.AddReturned(&r)
		})
		if n := p.captured(); err == nil && n != 0 {
			t.Fatalf("%s: %d rows were captured by the trigger", sql, n)
		}
		p.exec(p.a, "ROLLBACK; BEGIN; SET LOCAL tutti.tx = on")
		_, err2 := p.a.Exec(ctx, sql)
		if (err == nil) != (err2 == nil) {
			t.Fatalf("%s: directly %v, otherwise %v", sql, err, err2)
		}
		if err == nil {
			want, _, err := collect(p.a, 1, 7, 1)
			if err != nil {
				t.Fatal(explain(err))
			}
			w, err := got.Writeset()
			if err != nil {
				t.Fatal(err)
			}
			if a, b := canonical(w), canonical(want); a != b && !strings.Contains(sql, "CURRENT_") &&
				!strings.Contains(sql, "INTO plain") && !strings.Contains(sql, "INTO gen") {
				t.Fatalf("%s: directly\n%s\notherwise\n%s", sql, a, b)
			}
			ran[strings.Fields(sql)[0]]++
		}
		p.exec(p.a, "ROLLBACK")
	}
	if ran["INSERT"] < 10 || ran["UPDATE"] < 5 || ran["DELETE"] < 10 {
		t.Errorf("too few statements were direct: %v", ran)
	}
}

// captured counts the rows the open transaction has captured by triggers.
func (p *pair) captured() (n int) {
	p.t.Helper()
	if p.a.PgConn().TxStatus() != 'T' {
		return 0
	}
	p.scan(p.a,
		`SELECT (SELECT count(*) FROM tutti.capture0 WHERE xid = txid_current()) + (SELECT count(*) FROM tutti.capture1 WHERE xid = txid_current())
		+ (SELECT count(*) FROM tutti.capture2 WHERE xid = txid_current()) + (SELECT count(*) FROM tutti.capture3 WHERE xid = txid_current())`, &n)
	return n
}

// What may write anything else, or later, is never direct.
func TestDirectIsRefused(t *testing.T) {
	p := newPair(t, append(slices.Clone(randomSchema), []string{
		"CREATE TABLE ok(id int PRIMARY KEY, v int, w int UNIQUE)", "CREATE TABLE ref(id int PRIMARY KEY)",
		"CREATE TABLE child(id int PRIMARY KEY, r int REFERENCES ref ON DELETE CASCADE)",
		"CREATE TABLE rls(id int PRIMARY KEY)", "ALTER TABLE rls ENABLE ROW LEVEL SECURITY",
		"CREATE TABLE ruled(id int PRIMARY KEY)",
		"CREATE RULE r AS ON INSERT TO ruled DO ALSO INSERT INTO log VALUES (1, 'r')",
		"CREATE TABLE up(id int PRIMARY KEY)", "CREATE TABLE down() INHERITS (up)",
		"CREATE DOMAIN dom AS int CHECK (VALUE > 0)", "CREATE TABLE domained(id int PRIMARY KEY, d dom)",
		"CREATE FUNCTION f(int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT $1'",
		"CREATE TABLE checked(id int PRIMARY KEY CHECK (f(id) > 0))",
		"CREATE TABLE def(id int PRIMARY KEY, v int DEFAULT f(1))",
		"CREATE TABLE indexed(id int PRIMARY KEY, v int)", "CREATE INDEX ON indexed (f(v))",
		"CREATE TABLE late(id int PRIMARY KEY, v int UNIQUE DEFERRABLE)",
		"CREATE TABLE lateref(id int PRIMARY KEY, r int REFERENCES ok DEFERRABLE)", "CREATE TYPE mood AS ENUM ('a')",
		"CREATE TABLE moody(id int PRIMARY KEY, m mood)", "CREATE TABLE keyless(v int)",
		"CREATE TABLE viadomain(id int PRIMARY KEY CHECK (id::dom IS NOT NULL))",
		"CREATE TABLE viaquery(id int PRIMARY KEY, x xml DEFAULT query_to_xml('SELECT 1', true, true, ''))",
		"CREATE VIEW seen AS SELECT * FROM ref", "CREATE UNLOGGED TABLE unlogged(id int PRIMARY KEY)",
	}...)...)
	for _, sql := range []string{
		"INSERT INTO ok VALUES (1, 1, 1)", "DELETE FROM ok", "UPDATE ok SET v = 1", "INSERT INTO rls VALUES (1)",
		"INSERT INTO ruled VALUES (1)", "INSERT INTO up VALUES (1)", "INSERT INTO down VALUES (1)",
		"INSERT INTO domained VALUES (1, 1)",
		"INSERT INTO checked VALUES (1)", "INSERT INTO def VALUES (1)", "INSERT INTO indexed VALUES (1)",
		"INSERT INTO late VALUES (1, 1)", "INSERT INTO lateref VALUES (1, 1)", "INSERT INTO moody VALUES (1, 'a')",
		"UPDATE keyless SET v = 1", "DELETE FROM keyless", "INSERT INTO seen VALUES (1)",
		"INSERT INTO unlogged VALUES (1)", "DELETE FROM ref", "INSERT INTO pt VALUES (1, 1, 'x')",
		"INSERT INTO pt0 VALUES (1, 1, 'x')",
		"INSERT INTO acc VALUES (1, 1)", "INSERT INTO ex VALUES (1, NULL)", "INSERT INTO px VALUES (1)",
		"INSERT INTO reg VALUES (1)", "UPDATE child SET r = 1", "UPDATE child SET id = 1",
		"UPDATE gen SET id = DEFAULT",
		"INSERT INTO child SELECT 1, 1", "INSERT INTO child VALUES (1, 1) ON CONFLICT DO NOTHING",
		"INSERT INTO child VALUES (f(1), 1)", "INSERT INTO viadomain VALUES (1)", "INSERT INTO viaquery VALUES (1)",
		"UPDATE ok SET v = '1'::text::int", "UPDATE ok SET v = f(1)", "UPDATE ok SET v = pg_backend_pid()",
		"INSERT INTO child VALUES (1, (SELECT 1))", "INSERT INTO child VALUES (1, 1) RETURNING f(id)",
		"INSERT INTO child VALUES (1, 1) RETURNING child", "INSERT INTO child VALUES (1, 1) RETURNING (child.*)::text",
		"DELETE FROM child WHERE child.f = 1", "DELETE FROM child c WHERE c IS NULL",
		"WITH x AS (SELECT 1) INSERT INTO child VALUES (1, 1)", "DELETE FROM child USING ref",
		"DELETE FROM child WHERE EXISTS (SELECT 1)", "DELETE FROM child WHERE id OPERATOR(public.=) 1",
		"INSERT INTO child VALUES ('1'::dom, 1)",
		"INSERT INTO child VALUES (1, 1); SELECT 1", "DELETE FROM child WHERE CURRENT OF c", "TRUNCATE child",
		"MERGE INTO child USING ref ON true WHEN MATCHED THEN DELETE", "UPDATE child SET (r, id) = (SELECT 1, 1)",
	} {
		if _, direct, ok := p.rewrite(sql); ok {
			t.Errorf("%s is direct: %s", sql, direct)
		}
	}
	for _, sql := range []string{"INSERT INTO child VALUES (1, 1)", "INSERT INTO ref VALUES (1)", "DELETE FROM child",
		"INSERT INTO keyless VALUES (1)", "INSERT INTO gen(k) VALUES (1)",
		"INSERT INTO child VALUES (1, 1) RETURNING id + 1, *, child.*, ctid"} {
		if _, _, ok := p.rewrite(sql); !ok {
			t.Errorf("%s is not direct", sql)
		}
	}
	p.exec(p.a, "SET search_path = public, pg_catalog")
	if _, _, ok := p.rewrite("INSERT INTO ref VALUES (1)"); ok {
		t.Error("a statement is direct whose names may be a user's before they are PostgreSQL's")
	}
	p.exec(p.a, "RESET search_path")
	p.ddl("CREATE FUNCTION plus(int, text) RETURNS int LANGUAGE sql AS 'SELECT 1'",
		"CREATE OPERATOR + (LEFTARG = int, RIGHTARG = text, FUNCTION = plus)")
	if _, _, ok := p.rewrite("INSERT INTO ref VALUES (1)"); ok {
		t.Error("a statement is direct although an operator may be a user's")
	}
}

// No prepared direct statement outlives a change of its table; what other writes capture
// is noticed; the text alone does not make a statement direct.
func TestDirectGuards(t *testing.T) {
	p := newPair(t, "CREATE TABLE t(id int PRIMARY KEY, v int)", "CREATE TABLE o(id int PRIMARY KEY)",
		"CREATE FUNCTION put(int) RETURNS int LANGUAGE sql AS 'INSERT INTO t VALUES ($1, 1); INSERT INTO o VALUES "+
			"($1) RETURNING id'",
		"CREATE FUNCTION forge() RETURNS void LANGUAGE plpgsql AS $$ BEGIN EXECUTE '/*tutti direct*/ INSERT INTO o "+
			"VALUES (77)'; END $$")
	how, sql, ok := p.rewrite("INSERT INTO t VALUES (1, 1)")
	if !ok {
		t.Fatal("not direct")
	}
	if _, err := p.a.Prepare(ctx, "d", sql); err != nil {
		t.Fatal(explain(err))
	}
	run := func() (rows []capture.Returned, err error) {
		err = each(p.a.PgConn().ExecPrepared(ctx, "d", nil, nil, []int16{1}), func(cols [][]byte) error {
			r, err := how.Read(cols)
			rows = append(rows, r)
			return err
		})
		return rows, err
	}
	for _, c := range []struct {
		before   string
		captured bool
		n        int
	}{{"SET LOCAL tutti.tx = quiet_direct", false, 0}, {"SET LOCAL tutti.tx = on", true, 1},
		{"SET LOCAL tutti.tx = quiet_direct; SELECT put(9)", true, 3},
		{"SET LOCAL tutti.tx = quiet_direct; SELECT forge()", true, 2},
		{"SET LOCAL tutti.tx = quiet_direct; SAVEPOINT a; SELECT put(9); ROLLBACK TO a", false, 0},
		{"SET LOCAL tutti.tx = quiet_direct; TRUNCATE o", true, 2}} {
		p.exec(p.a, "BEGIN; "+c.before)
		rows, err := run()
		if err != nil || len(rows) != 1 || rows[0].Captured() != c.captured || p.captured() != c.n {
			t.Errorf("after %s: %v, %d rows, %d captured, want %d", c.before, err, len(rows), p.captured(), c.n)
		}
		p.exec(p.a, "ROLLBACK")
	}
	p.exec(p.a, "BEGIN; SET LOCAL tutti.tx = quiet_direct; CREATE TEMP TABLE x(a int)")
	if rows, err := run(); err != nil || rows[0].Alone(false) {
		t.Errorf("%v; a transaction with temporary objects is taken for alone", err)
	}
	p.exec(p.a, "ROLLBACK")
	var pg *pgconn.PgError
	if _, err := run(); !errors.As(err, &pg) || pg.Code != capture.OutsideState {
		t.Errorf("outside a Tutti transaction: %v", err)
	}
	// The function is called alike in both databases, so that what clients do with it fails or
	// succeeds in both, and stands in no definition's way.
	p.ddl("CREATE VIEW seen AS SELECT tutti." + regexp.MustCompile("direct_[0-9a-f]{16}_[0-9a-f]{16}").FindString(sql) +
		"()")
	for _, ddl := range []string{"CREATE UNIQUE INDEX ON t (v)", "ALTER TABLE t ADD x int",
		"CREATE TABLE child(id int PRIMARY KEY REFERENCES t ON UPDATE CASCADE)",
		"ALTER TABLE t ENABLE ROW LEVEL SECURITY", "DROP TABLE child; ALTER TABLE t DISABLE ROW LEVEL SECURITY"} {
		p.ddl(ddl)
		p.exec(p.a, "BEGIN; SET LOCAL tutti.tx = quiet_direct")
		if _, err := run(); !errors.As(err, &pg) || pg.Code != "42883" {
			t.Errorf("after %s: %v", ddl, err)
		}
		p.exec(p.a, "ROLLBACK")
		if how, sql, ok = p.rewrite("INSERT INTO t VALUES (1, 1)"); !ok {
			if !strings.Contains(ddl, "ENABLE ROW") {
				t.Fatalf("not direct after %s", ddl)
			}
			continue
		}
		p.exec(p.a, "DEALLOCATE d")
		if err := p.a.Deallocate(ctx, "d"); err != nil && !errors.As(err, &pg) {
			t.Fatal(err)
		}
		if _, err := p.a.Prepare(ctx, "d", sql); err != nil {
			t.Fatal(explain(err))
		}
	}
}

// The mark of a transaction of direct statements is written only with the right proof.
func TestMarkStatement(t *testing.T) {
	p := newPair(t, "CREATE TABLE t(id int PRIMARY KEY)")
	role := strings.ReplaceAll(p.dbA, "-", "_") + "_marker"
	p.exec(p.a, "SET backtrace_functions = 'tutti_on'; CREATE ROLE "+role+"; RESET backtrace_functions")
	defer p.exec(p.a, "RESET ROLE; SET backtrace_functions = 'tutti_on'; DROP OWNED BY "+role+"; DROP ROLE "+role)
	p.exec(p.a, "SET ROLE "+role)
	for i, c := range []struct {
		proof string
		ok    bool
	}{{"wrong", false}, {"proof", true}, {"", false}, {"proof", true}} {
		p.exec(p.a, "BEGIN; SET LOCAL tutti.tx = quiet_direct")
		_, err := p.a.Exec(ctx, capture.MarkStatement, 5, 6, i, c.proof)
		if (err == nil) != c.ok {
			t.Fatalf("proof %q: %v", c.proof, err)
		}
		if c.ok {
			var tx string
			if p.scan(p.a, "SELECT current_setting('tutti.tx')", &tx); tx != "off" {
				t.Error("after the mark something can be written")
			}
		}
		p.exec(p.a, "COMMIT")
		var secret *string
		if p.scan(p.a, "SELECT nullif(current_setting('tutti.proof', true), '')", &secret); secret != nil {
			t.Error("the proof outlives its transaction")
		}
	}
	p.exec(p.a, "RESET ROLE")
	var seq int
	if p.scan(p.a, "SELECT seq FROM tutti.mark WHERE slot = 5", &seq); seq != 3 {
		t.Errorf("the mark says %d, want 3", seq)
	}
}
