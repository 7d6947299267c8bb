package captest

import (
	"fmt"

	"math/rand/v2"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tuttidb/tutti/internal/apply"
	"github.com/tuttidb/tutti/internal/capture"
	"github.com/tuttidb/tutti/internal/pgtest"
	"github.com/tuttidb/tutti/internal/writeset"
)

func TestWithoutKey(t *testing.T) {
	p := newPair(t, "CREATE TABLE log(x int, u int UNIQUE)", "CREATE TABLE dup(x int, y text)",
		"CREATE TABLE nothing()")
	p.tx("INSERT INTO log VALUES (1, 1), (1, NULL), (1, NULL), (2, 2)",
		"INSERT INTO dup SELECT 1, 'a' FROM generate_series(1, 5)",
		"INSERT INTO nothing SELECT FROM generate_series(1, 4)")
	p.equal()
	for _, c := range []struct {
		name string
		sql  []string
		want []writeset.Op
	}{
		{"two of five", []string{"DELETE FROM dup WHERE ctid = ANY (SELECT ctid FROM dup LIMIT 2)"},
			[]writeset.Op{del, del}},
		{"two of three changed", []string{"UPDATE dup SET y = 'b' WHERE ctid = ANY (SELECT ctid FROM dup LIMIT 2)"},
			[]writeset.Op{del, upd, del, upd}},
		{"unique value and nulls", []string{"UPDATE log SET x = x + 10"},
			[]writeset.Op{del, upd, del, upd, del, upd, del, upd}},
		{"unique value goes on", []string{"DELETE FROM log WHERE u = 1", "UPDATE log SET u = 1 WHERE u = 2",
			"INSERT INTO log VALUES (7, 2)"}, []writeset.Op{del, del, upd, ins}},
		{"inserted and deleted", []string{"INSERT INTO dup VALUES (9, 'c')", "DELETE FROM dup WHERE x = 9"}, nil},
		{"inserted twice, one deleted", []string{"INSERT INTO dup VALUES (8, 'c'), (8, 'c')",
			"DELETE FROM dup WHERE ctid = (SELECT min(ctid) FROM dup WHERE x = 8)"}, []writeset.Op{ins}},
		{"changed twice", []string{"UPDATE dup SET x = 80 WHERE x = 8", "UPDATE dup SET x = 81 WHERE x = 80"},
			[]writeset.Op{del, upd}},
		{"changed and back", []string{"UPDATE dup SET x = 82 WHERE x = 81", "UPDATE dup SET x = 81 WHERE x = 82"}, nil},
		{"not changed", []string{"UPDATE dup SET x = x"}, nil},
		{"savepoint", []string{"SAVEPOINT s", "DELETE FROM dup", "ROLLBACK TO s", "DELETE FROM dup WHERE x = 81"},
			[]writeset.Op{del}},
		{"emptied between", []string{"DELETE FROM dup", "TRUNCATE dup", "INSERT INTO dup VALUES (1, 'a')",
			"UPDATE dup SET y = NULL"}, []writeset.Op{trunc, ins}},
		{"no columns", []string{"DELETE FROM nothing WHERE ctid = ANY (SELECT ctid FROM nothing LIMIT 3)"},
			[]writeset.Op{del, del, del}},
	} {
		t.Run(c.name, func(t *testing.T) {
			wantOps(t, p.tx(c.sql...), c.want...)
			p.equal()
		})
	}
	p.ddl("ALTER TABLE log ADD id serial PRIMARY KEY")
	p.tx("UPDATE log SET x = 2 WHERE u = 1")
	wantOps(t, p.last, upd)
	p.ddl("ALTER TABLE log DROP id")
	p.tx("UPDATE log SET x = 3 WHERE u = 1")
	wantOps(t, p.last, del, upd)
	p.equal()
}

// A transaction that wrote a row back as it was is certified all the same.
func TestWrittenBackHoldsItsKeys(t *testing.T) {
	p := newPair(t, "CREATE TABLE k(x int)")
	p.tx("INSERT INTO k VALUES (1), (2)")
	a, b := p.probe("UPDATE k SET x = x WHERE x = 1"), p.probe("DELETE FROM k WHERE x = 1")
	if len(a.Rows) != 0 || a.Empty() || !common(a, b, true) {
		t.Fatalf("no conflict between %+v and %+v", a, b)
	}
}

// The unique index on columns that are NOT NULL takes the primary key's place.
func TestUniqueIndexIsTheKey(t *testing.T) {
	p := newPair(t, "CREATE TABLE u(a int NOT NULL, b text NOT NULL, c int, UNIQUE (a, b))",
		"CREATE TABLE child(id int PRIMARY KEY, a int, b text, FOREIGN KEY (a, b) REFERENCES u(a, b) ON DELETE "+
			"CASCADE)",
		"CREATE TABLE later(a int NOT NULL UNIQUE DEFERRABLE)", "CREATE TABLE part(a int NOT NULL)",
		"CREATE UNIQUE INDEX ON part(a) WHERE a > 0", "CREATE TABLE ex(a int NOT NULL)",
		"CREATE UNIQUE INDEX ON ex((a % 10))",
		"CREATE TABLE nul(a int UNIQUE)", "CREATE TABLE nohash(a interval NOT NULL UNIQUE)",
		"CREATE TABLE pt(k int NOT NULL, x int, UNIQUE (k)) PARTITION BY RANGE (k)",
		"CREATE TABLE pt1 PARTITION OF pt FOR VALUES FROM (0) TO (10)",
		"CREATE TABLE pt2 PARTITION OF pt FOR VALUES FROM (10) TO (20)")
	p.tx("INSERT INTO u SELECT g, 'x', 0 FROM generate_series(1, 5) g", "INSERT INTO child VALUES (1, 1, 'x')",
		"INSERT INTO pt VALUES (1, 1), (11, 1)")
	w := p.tx("UPDATE u SET c = 1 WHERE a = 1", "UPDATE u SET c = 2 WHERE a = 1")
	wantOps(t, w, upd)
	if common(w, p.probe("INSERT INTO child VALUES (2, 1, 'x')"), true) {
		t.Error("an update of no key conflicts with a reference")
	}
	if !common(p.probe("DELETE FROM u WHERE a = 1"), p.probe("INSERT INTO child VALUES (2, 1, 'x')"), true) {
		t.Error("a deletion does not conflict with a reference")
	}
	wantOps(t, p.tx("UPDATE u SET a = 9 WHERE a = 2"), del, ins)
	wantOps(t, p.tx("DELETE FROM u WHERE a = 1"), del, del)
	wantOps(t, p.tx("UPDATE pt SET k = 15 WHERE k = 1", "UPDATE pt SET x = 2 WHERE k = 15"), del, ins)
	p.equal()
	for _, name := range []string{"later", "part", "ex", "nul", "nohash"} {
		if d := p.tables.Capture("public", name); d.Key() != nil {
			t.Errorf("index %q is the key of table %s", d.Key().Name, name)
		}
		p.tx("INSERT INTO "+name+" VALUES ('101')", "UPDATE "+name+" SET a = a")
		p.tx("DELETE FROM " + name)
		wantOps(t, p.last, del)
	}
	p.equal()
	p.ddl("ALTER TABLE u ALTER b DROP NOT NULL", "ALTER TABLE child DROP CONSTRAINT child_a_b_fkey")
	wantOps(t, p.tx("UPDATE u SET c = 3 WHERE a = 9"), del, upd)
	p.equal()
}

// TestNotNullUnproven: a column may have NULLs still where NOT NULL is NOT VALID, as of PostgreSQL 18. Older ones are
// given the catalogs that it would have.
func TestNotNullUnproven(t *testing.T) {
	p := newPair(t, "CREATE TABLE unproven(a int UNIQUE, b int)")
	p.tx("INSERT INTO unproven VALUES (NULL, 1), (NULL, 2), (3, 3)")
	var version int
	p.scan(p.a, "SELECT current_setting('server_version_num')::int", &version)
	if version >= 180000 {
		p.ddl("ALTER TABLE unproven ADD CONSTRAINT proven NOT NULL a NOT VALID")
	} else {
		p.ddl("LOCK TABLE unproven", "SET LOCAL allow_system_table_mods = on",
			"UPDATE pg_attribute SET attnotnull = true WHERE attrelid = 'unproven'::regclass AND attname = 'a'",
			"CREATE TEMPORARY TABLE made ON COMMIT DROP AS SELECT * FROM pg_constraint WHERE conrelid = "+
				"'unproven'::regclass",
			"UPDATE made SET oid = 1, conname = 'proven', contype = 'n', convalidated = false, conindid = 0",
			"INSERT INTO pg_constraint SELECT * FROM made")
	}
	if d := p.tables.Capture("public", "unproven"); d.Key() != nil {
		t.Errorf("index %q is the key", d.Key().Name)
	}
	wantOps(t, p.tx("DELETE FROM unproven WHERE b = 1"), del)
	p.equal()
	if version >= 180000 {
		p.tx("DELETE FROM unproven WHERE a IS NULL")
		p.ddl("ALTER TABLE unproven VALIDATE CONSTRAINT proven")
		if p.tables.Capture("public", "unproven").Key() == nil {
			t.Error("it is no key although it is proven")
		}
	}
}

func TestWithoutKeyConflicts(t *testing.T) {
	p := newPair(t, "CREATE TYPE mood AS ENUM ('sad', 'ok')", "CREATE TABLE k(x int, f float8, u int UNIQUE)",
		"CREATE TABLE m(x mood, y int)", "CREATE TABLE arr(x int[], y int)")
	// stored in two ways
	p.tx("INSERT INTO arr VALUES ('{1,2}', 1), ('{1,2}', 1)", "UPDATE arr SET x[1] = NULL WHERE ctid = '(0,2)'",
		"UPDATE arr SET x[1] = 1 WHERE x[1] IS NULL")
	p.tx("INSERT INTO k VALUES (1, 1), (1, 1), (2, 2)", "INSERT INTO m VALUES ('sad', 1), ('ok', 2)")
	for _, c := range []struct {
		name, a, b string
		conflict   bool
	}{
		{"equal rows inserted", "INSERT INTO k VALUES (1, 1)", "INSERT INTO k VALUES (1, 1)", false},
		{"an equal row inserted and one deleted", "INSERT INTO k VALUES (1, 1)", "DELETE FROM k WHERE x = 1", false},
		{"equal rows deleted", "DELETE FROM k WHERE ctid = '(0,1)'", "DELETE FROM k WHERE ctid = '(0,2)'", true},
		{"changed and deleted", "UPDATE k SET f = 3 WHERE x = 1", "DELETE FROM k WHERE x = 1", true},
		{"changed alike", "UPDATE k SET f = 3 WHERE x = 1", "UPDATE k SET f = 3 WHERE x = 1", true},
		{"other rows", "UPDATE k SET f = 3 WHERE x = 1", "UPDATE k SET f = 3 WHERE x = 2", false},
		{"unique value", "UPDATE k SET u = 3 WHERE x = 2", "INSERT INTO k VALUES (9, 9, 3)", true},
		{"emptied", "TRUNCATE k", "DELETE FROM k WHERE x = 1", true},
		{"by text", "DELETE FROM m WHERE y = 1", "UPDATE m SET x = 'ok' WHERE y = 1", true},
		{"equal arrays", "DELETE FROM arr WHERE ctid = '(0,1)'", "DELETE FROM arr WHERE ctid > '(0,1)'", true},
		{"by text, other rows", "DELETE FROM m WHERE y = 1", "DELETE FROM m WHERE y = 2", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, b := p.probe(c.a), p.probe(c.b)
			if got := common(a, b, true); got != c.conflict || a.Empty() || b.Empty() {
				t.Fatalf("conflict is %v, want %v\n%+v\n%+v", got, c.conflict, a, b)
			}
		})
	}
}

// Rows of every kind are found again by their images.
func TestWithoutKeyTypes(t *testing.T) {
	p := newPair(t, "CREATE EXTENSION citext; CREATE EXTENSION hstore", "CREATE TYPE mood AS ENUM ('sad', 'ok')",
		"CREATE DOMAIN pos AS int CHECK (VALUE > 0) NOT NULL", "CREATE TYPE pt AS (a int, m mood)",
		`CREATE TABLE w(gone int, a int, "s" float8, "r" numeric, t text, "u" json, js jsonb, x xml, m mood, ms mood[], p pt, ps pt[], d pos, pp point, arr int[], c citext, h hstore,
			ts timestamptz DEFAULT '2024-01-01', iv interval, tv tsvector, rng int4range, b bytea, g int GENERATED ALWAYS AS (a * 2) STORED, id int GENERATED ALWAYS AS IDENTITY, late text)`,
		"ALTER TABLE w DROP gone", "CREATE TABLE reg(a regclass, f float8, x text)", "CREATE TABLE old(a int)")
	p.tx("INSERT INTO old SELECT generate_series(1, 3)")
	p.ddl("ALTER TABLE old ADD b text DEFAULT 'missing', ADD c int NOT NULL DEFAULT 7")
	for i, f := range []string{"'NaN'", "0", "'-0'", "0.1::float8 + 0.2", "NULL", "'infinity'"} {
		p.tx(fmt.Sprintf(
			`INSERT INTO w(a, s, r, t, u, js, x, m, ms, p, ps, d, pp, arr, c, h, iv, tv, rng, b) VALUES (%d, %s, 1.50, repeat(md5('%d'), 5000), '{"b" : 1, "a": 1.0}', '{"b" : 1, "a": 1.0}', '<a>ü</a>', 'ok',
			'{sad,NULL}', '(1,sad)', '{"(2,ok)",NULL}', 5, '(1,-0)', '{1,2}', 'AbC', 'a=>1', '1 mon -3 days', 'a:1 b', '[1,3)', '\x00ff')`, i, f, i),
			fmt.Sprintf(`INSERT INTO reg VALUES ('w', %s, E'a "quoted" \\ line\n')`, f))
	}
	p.equal()
	// The same values, stored otherwise: the array has a bitmap of nulls without having nulls.
	p.exec(p.b, "UPDATE public.w SET arr[1] = NULL; UPDATE public.w SET arr[1] = 1")
	p.tx("UPDATE w SET a = a + 1 WHERE a < 3", "UPDATE reg SET a = 'old' WHERE f = 0",
		"UPDATE old SET b = 'there' WHERE a = 1")
	p.equal()
	p.tx("UPDATE w SET late = t, m = 'sad'", "UPDATE w SET t = NULL WHERE a = 5", "DELETE FROM reg WHERE f = 'NaN'",
		"DELETE FROM old WHERE a = 2")
	p.equal()
	p.tx("DELETE FROM w", "DELETE FROM reg", "DELETE FROM old")
	p.equal()
}

// TestWithoutKeyComputed: rows are found whatever is computed of them: in an image it may be another value than in the
// table, or none, as of the virtual columns of PostgreSQL 18.
func TestWithoutKeyComputed(t *testing.T) {
	p := newPair(t, "CREATE FUNCTION f(int) RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT 1'",
		"CREATE TABLE w(a int, g int GENERATED ALWAYS AS (f(a)) STORED, \"B\" text)",
		"CREATE TABLE named(a int, g int GENERATED ALWAYS AS (f(a)) STORED, r regclass DEFAULT 'w')",
		"CREATE TABLE computed(g int GENERATED ALWAYS AS (f(1)) STORED)")
	p.exec(p.b, "SET backtrace_functions = 'tutti_on'; CREATE OR REPLACE FUNCTION public.f(int) RETURNS int "+
		"IMMUTABLE LANGUAGE sql AS 'SELECT 2'; SET backtrace_functions = 'tutti_applies'")
	var version int
	p.scan(p.a, "SELECT current_setting('server_version_num')::int", &version)
	if version >= 180000 {
		p.ddl("CREATE TABLE virtual(a int, g int GENERATED ALWAYS AS (a * 2), \"B\" text)")
		p.tx("INSERT INTO virtual VALUES (1, DEFAULT, 'x'), (1, DEFAULT, 'x'), (2, DEFAULT, NULL)")
		p.tx("UPDATE virtual SET a = 3 WHERE a = 2", "DELETE FROM virtual WHERE ctid = '(0,1)'")
		p.equal()
	}
	p.tx("INSERT INTO w VALUES (1, DEFAULT, 'x'), (1, DEFAULT, 'x'), (2, DEFAULT, NULL)",
		"INSERT INTO named VALUES (1), (2)", "INSERT INTO computed VALUES (DEFAULT), (DEFAULT)")
	p.sync()
	p.tx("UPDATE w SET a = 3 WHERE a = 2", "DELETE FROM w WHERE ctid = '(0,1)'", "UPDATE named SET a = 3 WHERE a = 2",
		"DELETE FROM named WHERE a = 1", "DELETE FROM computed WHERE ctid = '(0,1)'")
	p.sync()
	for _, c := range []*pgx.Conn{p.a, p.b} {
		var rows string
		p.scan(c, "SELECT concat_ws(' ', (SELECT string_agg(a || coalesce(\"B\", '-'), ',' ORDER BY a) FROM "+
			"public.w), (SELECT string_agg(a::text, ',') FROM public.named), "+
			"(SELECT count(*) FROM public.computed))", &rows)
		if rows != "1x,3- 3 1" {
			t.Errorf("the rows are %s", rows)
		}
	}
}

// A batch may hold rows of several members, whose types have different OIDs.
func TestWithoutKeyOfSeveralMembers(t *testing.T) {
	schema := []string{"CREATE TYPE mood AS ENUM ('sad', 'ok')", "CREATE TABLE k(x int, m mood)"}
	p := newPair(t, schema...)
	q := &pair{t: t, a: p.b, b: pgtest.Shared(t).Connect(t, pgtest.Shared(t).NewDatabase(t)), seq: 100}
	p.exec(q.b, "CREATE TABLE shift(a int, b text); CREATE TABLE shift2(a int); DROP TABLE shift, shift2")
	q.install(q.b)
	for k, v := range apply.SessionSettings() {
		p.exec(q.b, fmt.Sprintf("SELECT set_config('%s', '%s', false)", k, v))
	}
	q.tables = p.tables
	q.exec(q.b, "SET search_path = public; SET backtrace_functions = 'tutti_on'; "+strings.Join(schema, "; ")+
		"; SET backtrace_functions = ''; SET search_path = pg_catalog")
	all := []*writeset.Writeset{p.tx("INSERT INTO k VALUES (1, 'sad'), (1, 'sad'), (2, 'ok')")}
	p.sync()
	q.exec(q.a, "SET session_replication_role = origin; SET search_path = public; RESET enable_seqscan")
	all = append(all, q.tx("UPDATE k SET m = 'ok' WHERE ctid = '(0,1)'"), q.tx("DELETE FROM k WHERE x = 2"),
		q.tx("INSERT INTO k VALUES (3, 'sad')"))
	q.pending = all
	if c := all[1].Rows[0].Image; string(c) == string(all[0].Rows[0].Image) {
		t.Fatal("the members' images do not differ")
	}
	q.equal()
}

var keylessSchema = []string{"CREATE TYPE mood AS ENUM ('sad', 'ok')", "CREATE TABLE plain(x int, y text)",
	"CREATE TABLE user_type(x int, y text, m mood DEFAULT 'ok')",
	"CREATE TABLE by_text(x int, y text, r regclass DEFAULT 'plain')",
	"CREATE TABLE uniq(x int UNIQUE, y text)", "CREATE TABLE again(x int, y text)",
	// Changes rows that the outer statement changes, too: captured in another order than written.
	`CREATE FUNCTION again() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		IF pg_trigger_depth() = 1 THEN UPDATE public.again SET y = y || 'a' WHERE x = NEW.x OR x = NEW.x + 1; END IF; RETURN NULL; END $$`,
	"CREATE TRIGGER a_user AFTER INSERT OR UPDATE ON again FOR EACH ROW EXECUTE FUNCTION again()",
	"CREATE TABLE moved(x int, y text) PARTITION BY HASH (x)",
	"CREATE TABLE moved0 PARTITION OF moved FOR VALUES WITH (MODULUS 2, REMAINDER 0)",
	"CREATE TABLE moved1 PARTITION OF moved FOR VALUES WITH (MODULUS 2, REMAINDER 1)"}

// Random transactions on tables without key, applied in random batches, leave the same multisets.
func TestRandomWithoutKey(t *testing.T) {
	p := newPair(t, keylessSchema...)
	r := rand.New(rand.NewPCG(19, 0))
	deletes := 0
	for range 150 {
		var sql []string
		for range 1 + r.IntN(6) {
			list := []string{"INSERT INTO %[1]s VALUES (%[2]d, 'y%[3]d')",
				"INSERT INTO %[1]s SELECT %[2]d, 'y' FROM generate_series(1, %[3]d) ON CONFLICT DO NOTHING",
				"UPDATE %[1]s SET y = 'y%[3]d' WHERE x = %[2]d",
				"UPDATE %[1]s SET y = 'one' WHERE ctid = (SELECT max(ctid) FROM %[1]s WHERE x = %[2]d)",
				"DELETE FROM %[1]s WHERE ctid IN (SELECT ctid FROM %[1]s WHERE x = %[2]d LIMIT %[3]d)",
				"DELETE FROM %[1]s WHERE x = %[2]d",
				"UPDATE %[1]s SET x = %[2]d WHERE y = 'y%[3]d' AND (SELECT count(*) FROM %[1]s WHERE x = %[2]d OR y " +
					"= 'y%[3]d') < 2", "DELETE FROM %[1]s WHERE y = 'one' AND x > 5"}
			if r.IntN(60) == 0 {
				list = []string{"TRUNCATE %[1]s"}
			}
			tables := []string{"plain", "user_type", "by_text", "uniq", "again", "moved"}
			s := fmt.Sprintf(list[r.IntN(len(list))]+" -- %[1]s %[2]d %[3]d", tables[r.IntN(len(tables))], r.IntN(8),
				1+r.IntN(3))
			if strings.HasPrefix(s, "INSERT INTO uniq VALUES") {
				s = strings.Replace(s, " --", " ON CONFLICT (x) DO UPDATE SET y = uniq.y || 'c' --", 1)
			}
			sql = append(sql, s)
			if r.IntN(8) == 0 {
				sql = append(sql[:len(sql)-1], "SAVEPOINT s", s, "ROLLBACK TO s")
			}
		}
		for _, row := range p.tx(sql...).Rows {
			if row.Op == del { // or updated
				deletes++
			}
		}
		if r.IntN(6) == 0 {
			for _, batch := range apply.Batches(p.pending, 1+r.IntN(60), 1<<20) {
				if err := p.apply(batch); err != nil {
					t.Fatal(explain(err))
				}
			}
			p.pending = nil
		}
		if r.IntN(20) == 0 {
			p.equal()
		}
	}
	p.equal()
	if deletes < 100 {
		t.Fatalf("the workload did too little: %d rows deleted", deletes)
	}
}

// Equal rows beyond those that are there are a divergence, and so is a row that is there too often to
// have been left by the deletion of all.
func TestDivergenceWithoutKey(t *testing.T) {
	p := newPair(t, "CREATE TABLE t(a int, b text)")
	p.tx("INSERT INTO t VALUES (1, 'x'), (1, 'x'), (2, 'y')")
	p.equal()
	p.tx("DELETE FROM t WHERE a = 1")
	for _, sql := range []string{"DELETE FROM public.t WHERE ctid = '(0,1)'",
		"UPDATE public.t SET b = 'z' WHERE a = 1"} {
		p.exec(p.b, "CREATE TABLE IF NOT EXISTS public.kept AS TABLE public.t; "+sql)
		if err := p.apply(p.pending); err == nil || !strings.Contains(err.Error(), "public.t") ||
			!strings.Contains(err.Error(), "diverged") {
			t.Fatalf("after %s the error is %v", sql, err)
		}
		p.exec(p.b, "DELETE FROM public.t; INSERT INTO public.t TABLE public.kept")
	}
	p.exec(p.b, "DROP TABLE public.kept")
	p.equal()
}

// The table is read once, however many rows are deleted.
func TestPlanWithoutKey(t *testing.T) {
	p := newPair(t, "CREATE TABLE t(a int, b text)")
	p.tx("INSERT INTO t SELECT g, g FROM generate_series(1, 20000) g")
	p.equal()
	p.tx("UPDATE t SET b = b || 'x' WHERE a % 2 = 0", "DELETE FROM t WHERE a % 5 = 1")
	ops, err := apply.Plan(p.pending, p.tables.Apply, apply.InPlace)
	if err != nil || len(ops) != 2 {
		t.Fatal(err, ops)
	}
	for _, o := range ops {
		p.exec(p.b, "PREPARE q AS "+o.SQL)
		rows, err := p.b.Query(ctx, "EXPLAIN EXECUTE q('{}')")
		if err != nil {
			t.Fatal(err)
		}
		var plan []string
		for rows.Next() {
			plan = append(plan, string(rows.RawValues()[0]))
		}
		text := strings.Join(plan, "\n")
		if strings.Count(text, "Seq Scan on t ") != 1 || !strings.Contains(text, "Tid Scan on t") ||
			!strings.Contains(text, "hashed SubPlan") {
			t.Fatalf("the plan is\n%s", text)
		}
		p.exec(p.b, "DEALLOCATE q")
	}
	p.equal()
	if !p.tables.Capture("public", "t").Portable() || p.tables.Capture("public", "t").Key() != (*capture.Index)(nil) {
		t.Error("the table is described wrongly")
	}
}
