package captest

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tuttidb/tutti/internal/writeset"
)

const (
	ins   = writeset.OpInsert
	upd   = writeset.OpUpdate
	del   = writeset.OpDelete
	repl  = writeset.OpReplace
	trunc = writeset.OpTruncate
)

func wantOps(t *testing.T, w *writeset.Writeset, want ...writeset.Op) {
	t.Helper()
	got := ops(w)
	if inBulk { // what was captured row by row comes first
		got, want = slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))
	}
	if len(got) != len(want) {
		t.Fatalf("operations are %v, want %v", got, want)
	}
	for i := range got {
		if got[i] != want[i] {
			t.Fatalf("operations are %v, want %v", got, want)
		}
	}
}

func wantState(t *testing.T, err error, state string) {
	t.Helper()
	var pg *pgconn.PgError
	if !errors.As(err, &pg) || pg.Code != state {
		t.Fatalf("error is %v, want SQLSTATE %s", err, state)
	}
	if state == "0A000" && pg.Hint == "" {
		t.Fatalf("error %v has no hint", err)
	}
}

func TestNetEffect(t *testing.T) {
	p := newPair(t, "CREATE TABLE t(id int PRIMARY KEY, a int, u int UNIQUE)", "CREATE TABLE other(id int PRIMARY KEY)")
	p.tx("INSERT INTO t SELECT g, g, g FROM generate_series(1, 10) g")
	for _, c := range []struct {
		name string
		sql  []string
		want []writeset.Op
	}{
		{"update twice", []string{"UPDATE t SET a = 5 WHERE id = 1", "UPDATE t SET a = 6 WHERE id = 1"},
			[]writeset.Op{upd}},
		{"insert, update", []string{"INSERT INTO t VALUES (11, 1, 11)", "UPDATE t SET a = 2 WHERE id = 11"},
			[]writeset.Op{ins}},
		{"insert, delete", []string{"INSERT INTO t VALUES (12, 1, 12)", "DELETE FROM t WHERE id = 12"}, nil},
		{"delete, insert", []string{"DELETE FROM t WHERE id = 2", "INSERT INTO t VALUES (2, 3, 99)"},
			[]writeset.Op{repl}},
		{"update, delete", []string{"UPDATE t SET a = 0 WHERE id = 3", "DELETE FROM t WHERE id = 3"},
			[]writeset.Op{del}},
		{"unique swap", []string{"UPDATE t SET u = -1 WHERE id = 4", "UPDATE t SET u = 4 WHERE id = 5",
			"UPDATE t SET u = 5 WHERE id = 4"}, []writeset.Op{repl, repl}},
		{"moved key", []string{"UPDATE t SET id = 66 WHERE id = 6"}, []writeset.Op{del, ins}},
		{"moved key and back", []string{"UPDATE t SET id = 77 WHERE id = 7", "UPDATE t SET id = 7 WHERE id = 77"},
			[]writeset.Op{repl}},
		{"delete, insert, delete", []string{"DELETE FROM t WHERE id = 8", "INSERT INTO t VALUES (8, 3, 98)",
			"DELETE FROM t WHERE id = 8"}, []writeset.Op{del}},
		{"savepoint", []string{"SAVEPOINT s", "UPDATE t SET a = 1000 WHERE id = 9", "ROLLBACK TO s",
			"UPDATE t SET a = 7 WHERE id = 10"}, []writeset.Op{upd}},
		{"exception block", []string{"DO $$ BEGIN UPDATE t SET a = 1000 WHERE id = 9; RAISE division_by_zero; " +
			"EXCEPTION WHEN OTHERS THEN UPDATE t SET a = 8 WHERE id = 10; END $$"}, []writeset.Op{upd}},
		{"no row", []string{"UPDATE t SET a = 1 WHERE id = -1"}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			wantOps(t, p.tx(c.sql...), c.want...)
			p.equal()
		})
	}
	if p.rereads == 0 {
		t.Fatal("nothing was read again")
	}
}

// The outer statement's trigger for a row fires after a user trigger has already changed that row
// again, so the older image is captured last.
func TestFinalImageWins(t *testing.T) {
	p := newPair(t, "CREATE TABLE t(id int PRIMARY KEY, a int)",
		`CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			IF pg_trigger_depth() = 1 THEN UPDATE public.t SET a = a + 100 WHERE id <> NEW.id; END IF; RETURN NULL; END $$`,
		"CREATE TRIGGER a_user AFTER UPDATE ON t FOR EACH ROW EXECUTE FUNCTION f()")
	p.tx("INSERT INTO t SELECT g, 0 FROM generate_series(1, 5) g")
	p.tx("UPDATE t SET a = a + 1")
	p.equal()
	var a int
	p.scan(p.b, "SELECT min(a) FROM public.t", &a)
	if a != 401 {
		t.Fatalf("a is %d, want 401", a)
	}
}

func TestOutsideATransactionOfTutti(t *testing.T) {
	p := newPair(t, "CREATE TABLE t(id int PRIMARY KEY)")
	for _, sql := range []string{"INSERT INTO t VALUES (1)", "TRUNCATE t"} {
		_, err := p.a.Exec(ctx, sql)
		wantState(t, err, "TT001")
	}
	p.exec(p.a, "SET backtrace_functions = 'tutti_applies'; SET session_replication_role = replica; INSERT INTO t "+
		"VALUES (1); RESET session_replication_role")
}

func TestForeignKeysAndCascades(t *testing.T) {
	p := newPair(t, "CREATE TABLE parent(id bigint PRIMARY KEY, code varchar(10) UNIQUE)",
		"CREATE TABLE child(id int PRIMARY KEY, parent int REFERENCES parent ON DELETE CASCADE ON UPDATE CASCADE, "+
			"code text REFERENCES parent(code) ON DELETE SET NULL)")
	p.tx("INSERT INTO parent VALUES (1, 'one'), (2, 'two'), (3, 'three')")
	var parent1, code2 uint64
	w := p.last
	parent1 = w.Rows[0].Identity
	for _, k := range p.tx("UPDATE parent SET code = 'zwei' WHERE id = 2").Keys {
		if k.Mode == writeset.Exclusive {
			code2 = k.Hash // the later of old and new is the old one, see header
		}
	}
	p.tx("UPDATE parent SET code = 'two' WHERE id = 2")
	w = p.tx("INSERT INTO child VALUES (10, 1, 'two')")
	if !holds(w, parent1, writeset.Shared) || !holds(w, code2, writeset.Shared) {
		t.Fatalf("an insert holds %v, want %x and %x shared", w.Keys, parent1, code2)
	}
	if w = p.tx("UPDATE child SET id = id WHERE id = 10"); len(w.Keys) != 1 {
		t.Fatalf("an update of no key holds %v, want the table key", w.Keys)
	}
	if w = p.tx("INSERT INTO child VALUES (11, NULL, NULL)"); len(w.Keys) != 1 {
		t.Fatalf("null references hold %v, want the table key", w.Keys)
	}
	p.tx("UPDATE parent SET id = 100 WHERE id = 1")
	wantOps(t, p.last, del, ins, upd)
	p.tx("DELETE FROM parent WHERE id = 2")
	wantOps(t, p.last, del, upd)
	p.tx("DELETE FROM parent WHERE id = 100")
	wantOps(t, p.last, del, del)
	p.equal()
}

func holds(w *writeset.Writeset, hash uint64, mode writeset.Mode) (found bool) {
	w.EachKey(func(k writeset.Key) bool {
		found = found || k.Hash == hash && k.Mode == mode
		return !found
	})
	return found
}

func common(a, b *writeset.Writeset, conflict bool) (found bool) {
	a.EachKey(func(k writeset.Key) bool {
		b.EachKey(func(l writeset.Key) bool {
			found = found || k.Hash == l.Hash && k.Mode.Conflicts(l.Mode) == conflict
			return !found
		})
		return !found
	})
	return found
}

// Each case runs two transactions from the same state and asks whether they may both commit.
func TestConflicts(t *testing.T) {
	p := newPair(t,
		"CREATE EXTENSION citext; CREATE EXTENSION btree_gist",
		"CREATE COLLATION nocase (provider = icu, locale = 'und-u-ks-level2', deterministic = false)",
		"CREATE TABLE n(id numeric PRIMARY KEY, a int)",
		"CREATE TABLE ci(id citext PRIMARY KEY, x text COLLATE nocase UNIQUE, a int)",
		"CREATE TABLE u(id int PRIMARY KEY, x int, y int, z text, a int, UNIQUE (x, y))",
		"CREATE TABLE nnd(id int PRIMARY KEY, x int UNIQUE NULLS NOT DISTINCT)",
		"CREATE TABLE part(id int PRIMARY KEY, x int, live bool)", "CREATE UNIQUE INDEX ON part(x) WHERE live",
		`CREATE TABLE ex(id int PRIMARY KEY, mail text, "t" int)`, "CREATE UNIQUE INDEX ON ex(lower(mail))",
		"CREATE TABLE excl(id int PRIMARY KEY, r int4range, a int, EXCLUDE USING gist (r WITH &&))",
		"CREATE TABLE m(id int PRIMARY KEY, v money UNIQUE, a int)",
		"CREATE TABLE mpk(v bit(3) PRIMARY KEY, a int)",
		"CREATE TABLE mref(id int PRIMARY KEY, v bit(3) REFERENCES mpk)",
		"CREATE FUNCTION mine(int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT $1 / 10'",
		"CREATE TABLE fx(id int PRIMARY KEY, x int, a int)", "CREATE UNIQUE INDEX ON fx(public.mine(x))",
		"CREATE TABLE pr(id int, k int, PRIMARY KEY (k, id)) PARTITION BY RANGE (k)",
		"CREATE TABLE pr1 PARTITION OF pr FOR VALUES FROM (0) TO (10)",
		"CREATE TABLE pr2 PARTITION OF pr FOR VALUES FROM (10) TO (20)",
		"CREATE TABLE prc(id int PRIMARY KEY, kid int, kk int, FOREIGN KEY (kid, kk) REFERENCES pr(id, k))",
		"CREATE TABLE self(id int PRIMARY KEY, up int REFERENCES self)",
		"CREATE DOMAIN amount AS numeric CHECK (VALUE > 0)", "CREATE TABLE np(id amount PRIMARY KEY)",
		"CREATE TABLE nc(id int PRIMARY KEY, n int REFERENCES np)",
		"CREATE TABLE two(a int, b int8, PRIMARY KEY (a, b))",
		"CREATE TABLE twoc(id int PRIMARY KEY, y int, x int, FOREIGN KEY (y, x) REFERENCES two(b, a))")
	p.tx("INSERT INTO n VALUES (1.0, 0)", "INSERT INTO ci VALUES ('abc', 'x', 0)",
		"INSERT INTO u VALUES (1, 1, 1, 'a', 0), (2, 2, 2, 'b', 0), (3, NULL, 3, 'c', 0)",
		"INSERT INTO part VALUES (1, 1, false), (2, 2, true), (3, 1, false)",
		"INSERT INTO ex VALUES (1, 'a', 1), (2, 'b', 2)",
		"INSERT INTO excl VALUES (1, '[1,2)', 0), (2, '[3,4)', 0)", "INSERT INTO m VALUES (1, 1, 0), (2, 2, 0)",
		"INSERT INTO mpk VALUES ('001', 1)",
		"INSERT INTO fx VALUES (1, 10, 0), (2, 20, 0)", "INSERT INTO pr VALUES (1, 1), (2, 11)",
		"INSERT INTO self VALUES (1, NULL), (2, NULL)",
		"INSERT INTO np VALUES (5.00), (6)", "INSERT INTO two VALUES (1, 2), (2, 1)")
	p.equal()
	for _, c := range []struct {
		name, a, b string
		conflict   bool
	}{
		{"numeric equality", "UPDATE n SET a = 1", "UPDATE n SET id = 1.00", true},
		{"citext equality", "UPDATE ci SET a = 1", "UPDATE ci SET id = 'ABC'", true},
		{"collation equality", "INSERT INTO ci VALUES ('1', 'q')", "INSERT INTO ci VALUES ('2', 'Q')", true},
		{"two rows", "UPDATE u SET a = 1 WHERE id = 1", "UPDATE u SET a = 1 WHERE id = 2", false},
		{"unique insert", "INSERT INTO u VALUES (11, 7, 7)", "INSERT INTO u VALUES (12, 7, 7)", true},
		{"unique insert of others", "INSERT INTO u VALUES (11, 7, 7)", "INSERT INTO u VALUES (12, 7, 8)", false},
		{"unique nulls", "INSERT INTO u VALUES (11, NULL, 7)", "INSERT INTO u VALUES (12, NULL, 7)", false},
		{"old unique value", "UPDATE u SET x = 50 WHERE id = 1",
			quietly("DELETE FROM u WHERE id = 1") + "INSERT INTO u VALUES (12, 1, 1)", true},
		{"deleted unique value", "DELETE FROM u WHERE id = 1",
			quietly("DELETE FROM u WHERE id = 1") + "INSERT INTO u VALUES (12, 1, 1)", true},
		{"unique value untouched", "UPDATE u SET a = 50 WHERE id = 1", "INSERT INTO u VALUES (12, 1, 2)", false},
		{"nulls not distinct", "INSERT INTO nnd VALUES (1, NULL)", "INSERT INTO nnd VALUES (2, NULL)", true},
		{"outside a partial index", "UPDATE part SET x = 9 WHERE id = 1", "UPDATE part SET x = 9 WHERE id = 3", false},
		{"entering a partial index", "UPDATE part SET live = true WHERE id = 1", "INSERT INTO part VALUES (9, 1, true)",
			true},
		{"leaving a partial index", "UPDATE part SET live = false WHERE id = 2",
			quietly("DELETE FROM part WHERE id = 2") + "INSERT INTO part VALUES (9, 2, true)", true},
		{"expression index", "INSERT INTO ex VALUES (11, 'New')", "INSERT INTO ex VALUES (12, 'NEW')", true},
		{"expression index, others", "INSERT INTO ex VALUES (11, 'New')", "INSERT INTO ex VALUES (12, 'NEWER')", false},
		{"exclusion constraint", "INSERT INTO excl VALUES (11, '[10,20)')", "INSERT INTO excl VALUES (12, '[15,30)')",
			true},
		{"exclusion constraint untouched", "UPDATE excl SET a = 1 WHERE id = 1", "UPDATE excl SET a = 1 WHERE id = 2",
			false},
		{"no hash", "INSERT INTO m VALUES (11, 11)", "INSERT INTO m VALUES (12, 11)", true},
		{"no hash, untouched", "UPDATE m SET a = 1 WHERE id = 1", "UPDATE m SET a = 1 WHERE id = 2", false},
		{"no hash, primary", "INSERT INTO mpk VALUES ('110')", "INSERT INTO mpk VALUES ('110')", true},
		{"no hash, referenced", "INSERT INTO mref VALUES (1, '001')", "DELETE FROM mpk WHERE v = '001'", true},
		{"user-written expression", "INSERT INTO fx VALUES (11, 30)", "INSERT INTO fx VALUES (12, 31)", true},
		{"user-written expression untouched", "UPDATE fx SET a = 1 WHERE id = 1", "UPDATE fx SET a = 1 WHERE id = 2",
			false},
		{"reference into a partition", "INSERT INTO prc VALUES (1, 2, 11)", "DELETE FROM pr WHERE id = 2", true},
		{"reference into another partition", "INSERT INTO prc VALUES (1, 1, 1)", "DELETE FROM pr WHERE id = 2", false},
		{"reference and harmless update", "INSERT INTO self VALUES (9, 1)", "UPDATE self SET up = 2 WHERE id = 1",
			false},
		{"reference and delete", "INSERT INTO self VALUES (9, 1)", "DELETE FROM self WHERE id = 1", true},
		{"reference with a cast", "INSERT INTO nc VALUES (1, 5)", "DELETE FROM np WHERE id = 5", true},
		{"reference with a cast, others", "INSERT INTO nc VALUES (1, 5)", "DELETE FROM np WHERE id = 6", false},
		{"reference in another column order", "INSERT INTO twoc VALUES (1, 2, 1)", "DELETE FROM two WHERE a = 1", true},
		{"reference in another column order, others", "INSERT INTO twoc VALUES (1, 2, 1)",
			"DELETE FROM two WHERE a = 2", false},
		{"moved between partitions", "UPDATE pr SET k = 15 WHERE id = 1", "INSERT INTO pr VALUES (1, 15)", true},
		{"truncate and insert", "TRUNCATE nnd", "INSERT INTO nnd VALUES (7, 7)", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, b := p.probe(c.a), p.probe(c.b)
			if a.Empty() || b.Empty() {
				t.Fatal("a transaction changed nothing")
			}
			if got := common(a, b, true); got != c.conflict {
				t.Fatalf("conflict is %v, want %v\n%+v\n%+v", got, c.conflict, a, b)
			}
		})
	}
}

// TestReferenceKeys: where a reference's key cannot be computed it holds one that who deletes such a row, or changes
// its key, holds Exclusive, whatever way that is captured.
func TestReferenceKeys(t *testing.T) {
	p := newPair(t, "CREATE DOMAIN at AS timestamp", "CREATE TABLE keyed(k timestamptz PRIMARY KEY, a int)",
		"CREATE TABLE keyless(k timestamptz UNIQUE, a int)", "CREATE TABLE spans(k interval PRIMARY KEY, a int)",
		"CREATE TABLE to_keyed(k at REFERENCES keyed)", "CREATE TABLE to_keyless(k timestamp REFERENCES keyless(k))",
		"CREATE TABLE to_spans(k interval REFERENCES spans)")
	const day = "'2020-01-02'"
	for name, k := range map[string]string{"keyed": day, "keyless": day, "spans": "'1 day'"} {
		p.tx("INSERT INTO " + name + " VALUES (" + k + ", 1)")
		for _, c := range []struct {
			change string
			want   bool
		}{
			{"DELETE FROM " + name, true}, {"UPDATE " + name + " SET k = k + '1 day'", true},
			{"UPDATE " + name + " SET a = 2", false},
		} {
			for _, bulk := range []bool{false, true} {
				p.bulk = false
				refers := p.probe("INSERT INTO to_" + name + " VALUES (" + k + ")")
				p.bulk = bulk
				got := false
				p.probe(c.change).EachKey(func(k writeset.Key) bool {
					got = got || k.Mode == writeset.Exclusive && slices.ContainsFunc(refers.Keys,
						func(l writeset.Key) bool { return l.Hash == k.Hash && l.Mode == writeset.Shared })
					return true
				})
				if got != c.want {
					t.Errorf("%s, in bulk %t: %t", c.change, bulk, got)
				}
			}
		}
	}
}

// quietly is a change another member sees as history: not captured.
func quietly(sql string) string {
	return "SET LOCAL backtrace_functions = 'tutti_applies'; SET LOCAL session_replication_role = replica; " + sql +
		"; SET LOCAL session_replication_role = origin; "
}

// probe runs a transaction on a and rolls it back.
func (p *pair) probe(sql ...string) *writeset.Writeset {
	p.t.Helper()
	p.exec(p.a, "BEGIN; SET LOCAL tutti.tx = "+p.setting())
	w, err := p.run(sql)
	if err != nil {
		p.t.Fatal(explain(err))
	}
	p.exec(p.a, "ROLLBACK")
	return w
}

func TestTruncate(t *testing.T) {
	p := newPair(t, "CREATE TABLE a(id int PRIMARY KEY)", "CREATE TABLE b(id int PRIMARY KEY, a int REFERENCES a)",
		"CREATE TABLE log(x int)",
		"CREATE UNLOGGED TABLE ul(id int REFERENCES a)")
	p.tx("INSERT INTO a VALUES (1), (2)", "INSERT INTO b VALUES (1, 1)", "INSERT INTO log VALUES (1), (1)")
	p.tx("INSERT INTO a VALUES (3)", "TRUNCATE a CASCADE", "INSERT INTO a VALUES (1), (4)",
		"DELETE FROM a WHERE id = 4", "INSERT INTO log VALUES (2)")
	wantOps(t, p.last, trunc, trunc, ins, ins)
	p.equal()
	p.tx("INSERT INTO log VALUES (3)", "TRUNCATE log", "INSERT INTO log VALUES (4), (4)")
	wantOps(t, p.last, trunc, ins, ins)
	p.equal()
	var n int
	p.scan(p.b, "SELECT count(*) FROM public.log", &n)
	if n != 2 {
		t.Fatalf("log has %d rows, want 2", n)
	}
}

func TestLocalTables(t *testing.T) {
	p := newPair(t, "CREATE UNLOGGED TABLE ul(id int PRIMARY KEY)")
	w := p.tx("CREATE TEMP TABLE tt(id int PRIMARY KEY)", "INSERT INTO tt VALUES (1)", "INSERT INTO ul VALUES (1)",
		"DROP TABLE tt")
	if !w.Empty() {
		t.Fatalf("local tables were captured: %+v", w.Rows)
	}
}

func TestDDLOutside(t *testing.T) {
	p := newPair(t, "CREATE TABLE t(id int PRIMARY KEY)", "CREATE MATERIALIZED VIEW mv AS SELECT 1 AS x")
	for _, sql := range []string{"CREATE TABLE x(i int)", "DROP TABLE t", "ALTER TABLE t ADD c int",
		"CREATE INDEX ON t(id)", "GRANT SELECT ON t TO PUBLIC",
		"CREATE FUNCTION g() RETURNS int LANGUAGE sql AS 'SELECT 1'", "SELECT 1 AS x INTO x",
		"COMMENT ON TABLE t IS 'x'", "CREATE SCHEMA s", "REFRESH MATERIALIZED VIEW mv",
		"DROP TRIGGER \"!!tutti\" ON t", "ALTER TABLE t DISABLE TRIGGER ALL"} {
		_, err := p.a.Exec(ctx, sql)
		wantState(t, err, "TT001")
	}
	p.exec(p.a, "CREATE TEMP TABLE tt(id serial PRIMARY KEY, x text); ALTER TABLE tt ADD y int; CREATE INDEX ON "+
		"tt(y); DROP INDEX pg_temp.tt_y_idx; DROP TABLE tt")
	p.exec(p.a, "CREATE TEMP VIEW tv AS SELECT 1 AS x; DROP VIEW tv")
	p.exec(p.a, "SET backtrace_functions = 'tutti_applies'; SET session_replication_role = replica; CREATE TABLE x(i "+
		"int); DROP TABLE x; RESET session_replication_role")
	p.exec(p.a, "REINDEX TABLE t; ANALYZE t")
	p.exec(p.a, "VACUUM t")
}

func TestManyWaysToWrite(t *testing.T) {
	p := newPair(t, "CREATE TABLE t(id int PRIMARY KEY, a int)",
		"CREATE TABLE audit(id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, x text)",
		"CREATE VIEW v AS SELECT id, a FROM t WHERE a > 0", "CREATE TABLE ruled(id int PRIMARY KEY)",
		"CREATE RULE r AS ON INSERT TO ruled DO ALSO INSERT INTO audit(x) VALUES ('rule ' || NEW.id)",
		"CREATE VIEW iv AS SELECT id, a FROM t",
		`CREATE FUNCTION iv() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO public.t VALUES (NEW.id, `+
			`NEW.a * 10); RETURN NEW; END $$`,
		"CREATE TRIGGER x INSTEAD OF INSERT ON iv FOR EACH ROW EXECUTE FUNCTION iv()",
		`CREATE FUNCTION dt() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO public.audit(x) VALUES `+
			`('deferred ' || NEW.id); RETURN NULL; END $$`,
		"CREATE CONSTRAINT TRIGGER dt AFTER UPDATE ON t DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE "+
			"FUNCTION dt()",
		`CREATE FUNCTION bt() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.a := coalesce(NEW.a, -7); RETURN NEW; `+
			`END $$`,
		"CREATE TRIGGER bt BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION bt()",
		"CREATE FUNCTION vol() RETURNS int LANGUAGE sql VOLATILE AS 'INSERT INTO public.t VALUES (500, 5) "+
			"RETURNING id'")
	p.tx("INSERT INTO t VALUES (1, 1), (2, 2), (3, NULL)")
	p.tx("INSERT INTO t VALUES (1, 9), (4, 4) ON CONFLICT (id) DO UPDATE SET a = EXCLUDED.a")
	p.tx("INSERT INTO t VALUES (1, 9) ON CONFLICT DO NOTHING")
	p.tx("MERGE INTO t USING (VALUES (1, 50), (5, 50), (2, NULL)) AS s(id, a) ON t.id = s.id WHEN MATCHED AND s.a IS " +
		"NULL THEN DELETE WHEN MATCHED THEN UPDATE SET a = s.a WHEN NOT MATCHED THEN INSERT VALUES (s.id, s.a)")
	p.tx("WITH d AS (DELETE FROM t WHERE id = 5 RETURNING *), i AS (INSERT INTO t SELECT id + 100, a FROM d " +
		"RETURNING *) UPDATE t SET a = (SELECT max(a) FROM i) + 1 WHERE id = 1")
	p.tx("INSERT INTO v VALUES (20, 20)", "UPDATE v SET a = a + 1 WHERE id = 20", "INSERT INTO iv VALUES (30, 3)")
	p.tx("SELECT vol()", "INSERT INTO ruled VALUES (1)")
	wantOps(t, p.last, ins, ins, ins)
	p.tx("SET session_replication_role = origin", "UPDATE t SET a = a + 1")
	p.equal()
	var n int
	p.scan(p.b, "SELECT count(*) FROM public.audit WHERE x LIKE 'deferred%'", &n)
	if n < 5 {
		t.Fatalf("only %d deferred triggers were captured", n)
	}
	p.copyIn("COPY t FROM STDIN", "600\t1\n601\t\\N\n")
	p.equal()
}

func (p *pair) copyIn(sql, data string) {
	p.t.Helper()
	p.exec(p.a, "BEGIN; SET LOCAL tutti.tx = "+p.setting())
	if _, err := p.a.PgConn().CopyFrom(ctx, strings.NewReader(data), p.mark()+sql); err != nil {
		p.t.Fatal(err)
	}
	w, err := p.run(nil)
	if err != nil {
		p.t.Fatal(explain(err))
	}
	p.exec(p.a, "COMMIT")
	p.pending = append(p.pending, w)
}
