package captest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tuttidb/tutti/internal/apply"
	"github.com/tuttidb/tutti/internal/capture"
	"github.com/tuttidb/tutti/internal/pgtest"
	"github.com/tuttidb/tutti/internal/writeset"
)

// Concurrent SERIALIZABLE transactions on different tables have nothing to do with each other.
// Were capture tables shared, or tutti.mark scanned, then the second transaction here
// would be the pivot of a dangerous structure: it writes where the first has read, and
// reads where the third, which commits first, writes.
func TestSerializableIsLeftAlone(t *testing.T) {
	p := newPair(t, "CREATE TABLE t0(id int PRIMARY KEY)", "CREATE TABLE t1(id int PRIMARY KEY)",
		"CREATE TABLE t2(id int PRIMARY KEY)")
	s := pgtest.Shared(t)
	c := []*pgx.Conn{p.a}
	taken := map[uint32]bool{p.a.PgConn().PID() % 16: true}
	for len(c) < 3 { // backends that agree modulo 16 would share a capture table, see C7
		if n := s.Connect(t, p.dbA); !taken[n.PgConn().PID()%16] {
			taken[n.PgConn().PID()%16] = true
			c = append(c, n)
		}
	}
	p.exec(p.a, "INSERT INTO tutti.mark VALUES (0, 0, 0), (1, 0, 0), (2, 0, 0)")
	for round := range 3 {
		for i := range c {
			p.exec(c[i], "BEGIN ISOLATION LEVEL SERIALIZABLE; SET LOCAL tutti.tx = on; SELECT FROM t0 LIMIT 0")
		}
		for i := range c {
			p.exec(c[i], fmt.Sprintf("INSERT INTO t%d VALUES (%d)", i, round))
			w, _, err := collect(c[i], int32(i), 1, uint64(round))
			if err != nil {
				t.Fatal(explain(err))
			}
			wantOps(t, w, ins)
		}
		for i := range c {
			p.exec(c[len(c)-1-i], "COMMIT")
		}
	}
}

func TestCollectMarksAndText(t *testing.T) {
	p := newPair(t, "CREATE TABLE t(id int PRIMARY KEY, u int UNIQUE)")
	p.tx("SELECT 1")
	var n int
	if p.scan(p.a, "SELECT count(*) FROM tutti.mark", &n); n != 0 {
		t.Fatal("a reading transaction left a mark")
	}
	p.tx("INSERT INTO t VALUES (1, 5)", "INSERT INTO t VALUES (2, NULL)")
	var inc, seq uint64
	if p.scan(p.a, "SELECT incarnation, seq FROM tutti.mark WHERE slot = 1", &inc, &seq); inc != 7 || seq != p.seq {
		t.Fatalf("mark is %d.%d, want 7.%d", inc, seq, p.seq)
	}
	p.exec(p.a, "BEGIN ISOLATION LEVEL REPEATABLE READ; SET LOCAL tutti.tx = on; SET LOCAL bytea_output = 'escape'; "+
		"INSERT INTO t VALUES (3, 7), (4, NULL); SAVEPOINT again")
	var text, binary capture.Collector
	res, err := p.a.PgConn().Exec(ctx, capture.CollectSQL(1, 1, 7, 99)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range res[0].Rows {
		if err := text.AddText(r); err != nil {
			t.Fatal(err)
		}
	}
	p.exec(p.a, "ROLLBACK TO again") // nothing can be written behind the collect step
	r := p.a.PgConn().ExecParams(ctx, capture.CollectStatement,
		[][]byte{[]byte("1"), []byte("1"), []byte("7"), []byte("99"), []byte("f")}, capture.CollectParameterOIDs(), nil,
		[]int16{1})
	if err := each(r, binary.AddBinary); err != nil {
		t.Fatal(err)
	}
	p.exec(p.a, "ROLLBACK")
	a, err1 := text.Writeset()
	b, err2 := binary.Writeset()
	if err1 != nil || err2 != nil || string(a.Append(nil)) != string(b.Append(nil)) || len(a.Rows) != 2 ||
		text.Isolation() != "repeatable read" || binary.Isolation() != text.Isolation() ||
		text.Order() == 0 || text.Order() >= binary.Order() {
		t.Fatalf("text and binary differ: %v %v %+v %+v", err1, err2, a, b)
	}
}

// Captured rows are out of reach for clients, with hostile names in their search_path too.
func TestClientsCannotReachCapturedRows(t *testing.T) {
	p := newPair(t, "CREATE TABLE t(id int PRIMARY KEY, secret text)", "CREATE SCHEMA evil",
		"ALTER TABLE t ENABLE ROW LEVEL SECURITY", "CREATE POLICY mine ON t FOR ALL TO PUBLIC USING (id > 0)",
		"CREATE SCHEMA closed", "CREATE TABLE closed.c(id int PRIMARY KEY, x int)",
		"CREATE FUNCTION writer() RETURNS void LANGUAGE sql SECURITY DEFINER AS 'INSERT INTO closed.c VALUES (1, 1); "+
			"UPDATE closed.c SET x = 2'",
		"CREATE FUNCTION evil.eq(text, text) RETURNS bool LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'hijacked as "+
			"%', current_user; END $$",
		"CREATE OPERATOR evil.= (LEFTARG = text, RIGHTARG = text, FUNCTION = evil.eq)",
		"CREATE OPERATOR evil.<> (LEFTARG = text, RIGHTARG = text, FUNCTION = evil.eq)",
		"CREATE FUNCTION evil.current_setting(text, bool) RETURNS text LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION "+
			"'hijacked'; END $$")
	role := strings.ReplaceAll(p.dbA, "-", "_") + "_client"
	p.exec(p.a, "SET backtrace_functions = 'tutti_on'; CREATE ROLE "+role+
		"; GRANT SELECT, INSERT, UPDATE, DELETE ON t TO "+role+"; GRANT USAGE ON SCHEMA evil TO "+role+
		"; RESET backtrace_functions")
	defer p.exec(p.a, "RESET ROLE; SET backtrace_functions = 'tutti_on'; DROP OWNED BY "+role+"; DROP ROLE "+role)
	p.exec(p.a, "SET ROLE "+role+"; SET search_path = evil, pg_catalog, public")
	p.tx("INSERT INTO t VALUES (1, 'a'), (2, 'b')", "UPDATE t SET secret = 'c'", "SELECT public.writer()")
	for _, sql := range []string{
		"SELECT * FROM tutti.capture0", "INSERT INTO tutti.capture0 VALUES (1, 1, '', 1, 1, NULL, '')",
		"SELECT tutti.put('', 1::int2, 1, NULL, '')", "SELECT * FROM tutti.mark", "SELECT * FROM tutti.token",
		"INSERT INTO tutti.mark VALUES (1, 1, 1)", "LOCK TABLE tutti.mark IN ROW EXCLUSIVE MODE",
		"UPDATE tutti.mark SET slot = slot + 1", "DELETE FROM tutti.mark",
		"INSERT INTO tutti.mark VALUES (1, 1, 1) ON CONFLICT (slot) DO UPDATE SET seq = 9",
		"SELECT set_config('tutti.proof', 'guessed', true); INSERT INTO tutti.mark VALUES (1, 1, 1)",
		"INSERT INTO tutti.token VALUES (5)",
		"INSERT INTO t VALUES (9, 'x'); SELECT * FROM tutti.collect(2, 1, 1, 1, false, true)",
		"UPDATE tutti.progress SET ordinal = 1", "SELECT * FROM tutti.collect_serializable(1, 1, 1)",
		"SELECT tutti.captured_idents('')",
		"SELECT tutti.privileged('', 'SELECT 1', NULL, true)", "SELECT tutti.peek(2)", "SELECT tutti.freeze(NULL)",
		"SELECT tutti.recapture('t', '', 'SELECT 1')", "SELECT * FROM tutti.definitions",
		"SELECT tutti.adopt_definitions()", "TRUNCATE tutti.capture1",
		"SELECT tutti.key_form(23::oid, 0::oid)", "INSERT INTO tutti.temporary VALUES (1, pg_backend_pid(), now())",
		"DELETE FROM tutti.temporary",
	} {
		_, err := p.try("read committed", sql)
		wantState(t, err, "42501")
	}
	p.exec(p.a, "RESET ROLE; INSERT INTO tutti.mark VALUES (77, 1, 1); SET ROLE "+role)
	// its rows cannot be locked
	for _, sql := range []string{"UPDATE tutti.mark SET seq = 9", "SELECT slot FROM tutti.mark FOR UPDATE"} {
		if tag, err := p.a.Exec(ctx, sql); err != nil || tag.RowsAffected() != 0 {
			t.Errorf("%s: %v, %v", sql, tag, err)
		}
	}
	p.exec(p.a, "RESET ROLE; DELETE FROM tutti.mark WHERE slot = 77; RESET search_path")
	var final string
	p.scan(p.a, "SELECT p.proname FROM pg_proc p WHERE proname ~ '^final_' AND prosrc LIKE '%\"public\".\"t\"%'",
		&final)
	p.exec(p.a, "SET ROLE "+role)
	var n int
	p.scan(p.a, "SELECT count(*) FROM tutti."+final+"(ARRAY[ROW(1, NULL)::t], false)", &n)
	if n != 0 {
		t.Fatal("a client read a row it did not change")
	}
	p.exec(p.a, "RESET ROLE")
	p.equal()
}

func TestCleanup(t *testing.T) {
	p := newPair(t, "CREATE TABLE t(id int PRIMARY KEY, x text)")
	s := pgtest.Shared(t)
	other := s.Connect(t, p.dbA)
	size := func() (n int64) {
		p.scan(other, "SELECT sum(pg_table_size(oid))::int8 FROM pg_class WHERE relname LIKE 'capture%' AND relkind "+
			"= 'r' AND relnamespace = 'tutti'::regnamespace", &n)
		return n
	}
	const fill = "INSERT INTO t SELECT g, repeat(md5(g::text), 20) FROM generate_series(1, 5000) g ON CONFLICT (id) " +
		"DO UPDATE SET x = EXCLUDED.x"
	if _, err := p.try("serializable", fill); err != nil {
		t.Fatal(err)
	}
	p.exec(p.a, "BEGIN ISOLATION LEVEL SERIALIZABLE; SET LOCAL tutti.tx = on; "+fill)
	p.exec(other, capture.CleanupSQL())
	if w, _, err := collect(p.a, 1, 1, 1); err != nil || len(w.Rows) != 5000 {
		t.Fatalf("captured rows were cleaned up while in use: %v", err)
	}
	p.exec(p.a, "COMMIT")
	if n := size(); n < 1<<20 {
		t.Fatalf("captured rows take %d bytes", n)
	}
	p.exec(other, capture.CleanupSQL())
	if n := size(); n > 1<<20 {
		t.Fatalf("captured rows take %d bytes after cleaning up", n)
	}
}

func TestDivergenceIsNoticed(t *testing.T) {
	p := newPair(t, "CREATE TABLE t(id int PRIMARY KEY, a int)")
	p.tx("INSERT INTO t VALUES (1, 1)")
	p.equal()
	p.exec(p.b, "DELETE FROM public.t")
	p.tx("UPDATE t SET a = 2")
	if err := p.apply(p.pending); err == nil || !strings.Contains(err.Error(), "public.t") {
		t.Fatalf("error is %v", err)
	}
}

// A generic plan made while the table was empty uses the primary key.
func TestPlansUseThePrimaryKey(t *testing.T) {
	p := newPair(t, "CREATE TABLE t(id int PRIMARY KEY, a int)")
	p.tx("INSERT INTO t VALUES (1, 1)")
	p.equal()
	p.tx("UPDATE t SET a = 2")
	w := *p.last
	image := w.Rows[0].Image
	w.Rows = append([]writeset.Row{{Op: del, Identity: 97, Image: image}, {Op: del, Identity: 98, Image: image},
		{Op: ins, Identity: 99, Image: image}}, w.Rows...)
	ops, err := apply.Plan([]*writeset.Writeset{&w}, p.tables.Apply, apply.InPlace)
	if err != nil || len(ops) != 3 {
		t.Fatal(err, ops)
	}
	for _, o := range ops {
		p.exec(p.b, "PREPARE q AS "+o.SQL)
		rows, err := p.b.Query(ctx, "EXPLAIN EXECUTE q("+strings.Repeat(", '{}'", len(o.Args))[2:]+")")
		if err != nil {
			t.Fatal(err)
		}
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		plan := strings.Join(lines, "\n")
		if err != nil || !strings.Contains(plan, "Index Scan using t_pkey") || strings.Contains(plan, "Hash") ||
			strings.Contains(plan, "Seq Scan") {
			t.Fatalf("%v plan of %s:\n%s", err, o.SQL, plan)
		}
		p.exec(p.b, "DEALLOCATE q")
	}
}

func BenchmarkCapture(b *testing.B) {
	p := newPair(b, "CREATE TABLE t(id int PRIMARY KEY, a int, filler text)",
		"CREATE UNLOGGED TABLE plain(id int PRIMARY KEY, a int, filler text)",
		"CREATE TABLE wide(id int PRIMARY KEY, u text UNIQUE, p int REFERENCES t)")
	const n = 20000
	for _, table := range []string{"plain", "t"} {
		p.exec(p.a, fmt.Sprintf("SET tutti.tx = on; INSERT INTO %s SELECT g, 0, repeat('x', 40) FROM "+
			"generate_series(1, %d) g", table, n))
	}
	for _, q := range []struct{ name, sql string }{
		{"update-one-plain", "UPDATE plain SET a = a + 1 WHERE id = i"},
		{"update-one", "UPDATE t SET a = a + 1 WHERE id = i"},
		{"insert-one-plain", "INSERT INTO plain VALUES (i + 100000, 1, 'x')"},
		{"insert-one", "INSERT INTO t VALUES (i + 100000, 1, 'x')"},
		{"insert-one-keys", "INSERT INTO wide VALUES (i, i::text, i)"},
		{"update-bulk-plain", ""}, {"update-bulk", ""},
	} {
		b.Run(q.name, func(b *testing.B) {
			for range b.N {
				p.exec(p.a, "BEGIN")
				b.StartTimer()
				switch q.name {
				case "update-bulk-plain":
					p.exec(p.a, "UPDATE plain SET a = a + 1")
				case "update-bulk":
					p.exec(p.a, "UPDATE t SET a = a + 1")
				default:
					p.exec(p.a, fmt.Sprintf("DO $$ BEGIN FOR i IN 1..%d LOOP %s; END LOOP; END $$", n, q.sql))
				}
				b.StopTimer()
				p.exec(p.a, "ROLLBACK")
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n/1000, "µs/row")
		})
	}
}
