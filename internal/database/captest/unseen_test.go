package captest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tuttidb/tutti/internal/apply"
	collecting "github.com/tuttidb/tutti/internal/collect"
	"github.com/tuttidb/tutti/internal/database/catalog"
	"github.com/tuttidb/tutti/internal/semantics"
	"github.com/tuttidb/tutti/internal/session"
	"github.com/tuttidb/tutti/internal/wire"
	"github.com/tuttidb/tutti/internal/writeset"
)

const unseenColumns = "n int, b bigint, s smallint, x text, v varchar(5), c char(4), f bool, d date, ts timestamp, " +
	"tz timestamptz, r real, g float8, q uuid, m numeric, j jsonb"

// unseenTables are the tables, and their keys.
var unseenTables = map[string][]string{"t2": {"id"}, "t4": {"id"}, "t8": {"id"}, "tu": {"id"}, "two": {"a", "k"},
	"tx": {"id"}}

var unseenTypes = map[string]uint32{"n": 23, "b": 20, "s": 21, "x": 25, "v": 1043, "c": 1042, "f": 16, "d": 1082,
	"ts": 1114, "tz": 1184, "r": 700, "g": 701, "q": 2950, "m": 1700, "j": 3802,
	"t2.id": 21, "t4.id": 23, "t8.id": 20, "tu.id": 2950, "two.a": 23, "two.k": 2950, "tx.id": 25}

const someUUID = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a0"

// unseenStatement is an UPDATE, DELETE or INSERT, with its parameters.
type unseenStatement struct {
	sql     string
	types   []uint32
	formats []int16
	params  [][]byte
}

// parameter adds a parameter for a column of a type, and gives its name.
func (s *unseenStatement) parameter(r *rand.Rand, oid uint32, key bool) string {
	typ := []uint32{0, 0, oid, 20, 23, 25, 1043}[r.IntN(7)]
	if r.IntN(8) > 0 {
		typ = oid
	}
	format := int16(r.IntN(2))
	switch oid {
	case 1082, 1114, 1184, 700, 701:
		format = 1
	}
	as := typ
	if as == 0 {
		as = oid
	}
	s.types, s.formats, s.params = append(s.types, typ), append(s.formats, format),
		append(s.params, unseenValue(r, as, format == 1, key))
	return fmt.Sprintf("$%d", len(s.params))
}

// unseenValue is a value of a type: mostly a good one, in its text or its binary form.
func unseenValue(r *rand.Rand, oid uint32, bin, key bool) []byte {
	if r.IntN(100) == 0 {
		return nil
	}
	pick := func(list ...string) string { return list[r.IntN(len(list))] }
	long := func(n int64, size int) []byte {
		out := binary.BigEndian.AppendUint64(nil, uint64(n))
		return out[8-size:]
	}
	switch oid {
	case 20, 21, 23:
		n := []int64{1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 10, -1, math.MinInt16, math.MaxInt16, math.MinInt32, math.MaxInt32,
			math.MinInt64, math.MaxInt64, 1 << 40, -1 << 33}[r.IntN(20)]
		if !key && r.IntN(2) == 0 {
			n = []int64{-5, 32767, -32768, 32768, math.MaxInt32, math.MinInt32, math.MaxInt32 + 1, math.MaxInt64,
				math.MinInt64, 1 << 44, 1<<44 + 1, 1<<31 - 3}[r.IntN(12)]
		}
		if bin {
			return long(n, map[uint32]int{20: 8, 21: 2, 23: 4}[oid])
		}
		if r.IntN(20) == 0 {
			return []byte(pick(" 3", "+4", "0x5", "1_0", "", "x"))
		}
		return strconv.AppendInt(nil, n, 10)
	case 16:
		if bin {
			return []byte{byte(r.IntN(2))}
		}
		return []byte(pick("t", "f", "true", "false", "on", "0", "no", " t", "maybe"))
	case 2950:
		if bin {
			b, _ := strconv.ParseUint(fmt.Sprint(r.IntN(9)), 10, 8)
			return append([]byte{0xa0, 0xee, 0xbc, 0x99, 0x9c, 0x0b, 0x4e, 0xf8, 0xbb, 0x6d, 0x6b, 0xb9, 0xbd, 0x38,
				0x0a}, byte(b))
		}
		return []byte(pick(someUUID, strings.ToUpper(someUUID), strings.ReplaceAll(someUUID, "-", ""), "{"+someUUID) +
			fmt.Sprint(r.IntN(9)))
	case 1082:
		return long([]int64{0, 8000, -2451545, 2145031947, 2145031948, math.MaxInt32, math.MinInt32,
			-2451546}[r.IntN(8)], 4)
	case 1114, 1184:
		return long([]int64{0, 700000000000000, math.MaxInt64, math.MinInt64, -211813488000000000, -211813488000000001,
			9223371331199999999, 9223371331200000000}[r.IntN(8)], 8)
	case 700:
		return long(int64(math.Float32bits(float32(r.NormFloat64()))), 4)
	case 701:
		return long(int64(math.Float64bits(r.NormFloat64())), 8)
	}
	return []byte(pick("", "a", "abcd", "abcd  ", "abcde", "abcdef", "größe", "größen", "日本語日本", "日本語日本語", "x\x00y",
		"\xff\xfe", "  ", "7", "it's", strings.Repeat("long ", 2000)))
}

func randomUnseen(r *rand.Rand, table string, drops bool) (s unseenStatement) {
	either := func(oid uint32, constant string) string {
		if r.IntN(2) == 0 {
			return constant
		}
		return s.parameter(r, oid, false)
	}
	if r.IntN(40) == 0 {
		s.parameter(r, 23, false) // which it has no use for
	}
	columns := strings.Split("n b s x v c f d ts tz r g q m j", " ")
	var set []string
	for _, i := range r.Perm(len(columns))[:1+r.IntN(3)] {
		c := columns[i]
		oid := unseenTypes[c]
		switch k := r.IntN(10); {
		case (oid == 20 || oid == 23 || oid == 21) && k < 5:
			set = append(set, []string{c + " = " + c + " + ", c + " = " + table + "." + c + " - "}[r.IntN(2)]+
				either(oid, "3"))
		case oid == 25 && k < 3:
			set = append(set, c+" = 'it''s'")
		case k == 0:
			set = append(set, c+" = "+[]string{"true", "17", "NULL", "'5'", "DEFAULT"}[r.IntN(5)])
		default:
			set = append(set, c+" = "+s.parameter(r, oid, false))
		}
	}
	var where []string
	for _, k := range unseenTables[table] {
		oid := unseenTypes[table+"."+k]
		if oid != 2950 && oid != 25 && r.IntN(6) == 0 {
			where = append(where, fmt.Sprintf("%s = %d", k, r.IntN(12)))
		} else {
			where = append(where, k+" = "+s.parameter(r, oid, true))
		}
	}
	if s.sql = "UPDATE " + table + " SET " + strings.Join(set, ", ") + " WHERE " + strings.Join(where, " AND "); drops {
		s = unseenStatement{}
		where = nil
		for _, k := range unseenTables[table] {
			where = append(where, k+" = "+s.parameter(r, unseenTypes[table+"."+k], true))
		}
		s.sql = "DELETE FROM " + table + " WHERE " + strings.Join(where, " AND ")
	}
	return s
}

// TestUnseenIsTheUpdate: what is carried out unseen does to a row what PostgreSQL does, if it does anything; and it is
// the row that PostgreSQL takes it for.
func TestUnseenIsTheUpdate(t *testing.T) {
	p := newPair(t, "CREATE TABLE t2 (id smallint PRIMARY KEY, "+unseenColumns+")",
		"CREATE TABLE t4 (id int PRIMARY KEY, "+unseenColumns+")", "CREATE INDEX ON t4 (n, b)",
		"CREATE TABLE t8 (id bigint PRIMARY KEY, "+unseenColumns+")",
		"CREATE TABLE tu (id uuid PRIMARY KEY, "+unseenColumns+")",
		"CREATE TABLE two (a int, gone int, k uuid, "+unseenColumns+", PRIMARY KEY (k, a))",
		"ALTER TABLE two DROP gone", "CREATE TABLE tx (id text PRIMARY KEY, "+unseenColumns+")")
	for _, table := range []string{"t2", "t4", "t8"} {
		p.tx("INSERT INTO "+table+" SELECT g, g, g, g FROM generate_series(1, 9) g", "INSERT INTO "+table+" (id) SELECT g FROM unnest('{-1,-32768,32767,-2147483648,2147483647,-9223372036854775808,9223372036854775807,1099511627776,-8589934592}'::bigint[]) g WHERE g BETWEEN "+
			map[string]string{"t2": "-32768 AND 32767", "t4": "-2147483648 AND 2147483647",
				"t8": "-9223372036854775808 AND 9223372036854775807"}[table],
			"UPDATE "+table+" SET n = NULL, b = 4611686018427387904 WHERE id = 5")
	}
	p.tx("INSERT INTO tu SELECT ('"+someUUID+"' || g)::uuid, 1, 2, 3 FROM generate_series(0, 7) g",
		"INSERT INTO two SELECT g, ('"+someUUID+"' || g)::uuid, 1, 2, 3 FROM generate_series(0, 7) g",
		"INSERT INTO tx VALUES ('a', 1), ('b', 2)")
	p.sync()
	unseen := newUnseen(t, p)
	r := rand.New(rand.NewPCG(8, 8))
	for i := range 2700 {
		table := []string{"t2", "t4", "t8", "tu", "two", "tx"}[r.IntN(6)]
		unseen.run(randomUnseen(r, table, i >= 2500), table)
	}
	for table := range unseenTables { // order-free: each for itself
		unseen.same("SELECT t::text FROM public." + table + " t ORDER BY 1")
	}
	t.Logf("%d updates were carried out unseen, %d found nothing, and %d were left to PostgreSQL, which refused %d",
		unseen.done, unseen.missed, unseen.left, unseen.refused)
	if unseen.done < 300 || unseen.missed < 50 || unseen.left < 300 || unseen.refused < 100 {
		t.Error("there are too few of one kind")
	}
}

// unseen runs statements on p.a, and unseen on p.b.
type unseen struct {
	t *testing.T
	p *pair
	c collecting.Collector

	done, missed, left, refused int
}

func newUnseen(t *testing.T, p *pair) *unseen {
	tx, err := p.a.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	tables, err := catalog.Describe(ctx, tx)
	if err = errors.Join(err, tx.Rollback(ctx)); err != nil {
		t.Fatal(err)
	}
	c, err := collecting.New(ctx, p.a.PgConn(), func() *catalog.Tables { return tables }, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	return &unseen{t: t, p: p, c: c}
}

// form is how a statement is run directly.
func (u *unseen) form(s *unseenStatement) session.Rewritten {
	d, ok := semantics.DirectOf(s.sql)
	if d.Types = s.types; !ok {
		return nil
	}
	r, err := u.p.a.PgConn().Exec(ctx, u.c.AskDirect(&d)).ReadAll()
	if err != nil || len(r[0].Rows) != 1 {
		u.t.Fatalf("%s: %v", s.sql, err)
	}
	how, ok := u.c.Direct(&d, r[0].Rows[0])
	if !ok {
		return nil
	}
	return how
}

func (u *unseen) run(s unseenStatement, table string) {
	u.t.Helper()
	how := u.form(&s)
	if how == nil {
		return
	}
	p := u.p
	p.exec(p.a, "BEGIN; SET LOCAL tutti.tx = quiet_direct")
	var identity uint64
	result := p.a.PgConn().ExecParams(ctx, how.SQL(), s.params, s.types, s.formats, []int16{1})
	count := 0
	err := each(result, func(values [][]byte) error {
		row, err := how.Read(values)
		if count++; err == nil {
			identity = row.Identity()
		}
		return err
	})
	var pg *pgconn.PgError
	if err != nil && !errors.As(err, &pg) {
		u.t.Fatalf("%s: %s", s.sql, explain(err))
	}
	if err != nil {
		u.refused++
	}
	p.exec(p.a, map[bool]string{true: "COMMIT", false: "ROLLBACK"}[err == nil])
	what, ok := how.Buffered(wire.AppendBind(nil, "", "", s.formats, s.params, nil), session.Began{})
	if ok && !how.Blind() {
		u.t.Errorf("%s: it cannot be done unseen, and is", s.sql)
	}
	if !ok {
		u.left++
		if err == nil {
			u.plain(&s)
		}
		return
	}
	missed, applied := u.apply(&what)
	switch {
	case applied != nil:
		u.t.Errorf("%s %q: PostgreSQL says %v, and unseen it fails: %s", s.sql, s.params, err, explain(applied))
	// else it may be NULL, or near the end
	case missed && count > 0 && !strings.Contains(s.sql, " + ") && !strings.Contains(s.sql, " - "):
		u.t.Errorf("%s %q: PostgreSQL has found a row", s.sql, s.params)
	case !missed && count != 1:
		u.t.Errorf("%s %q %v: PostgreSQL says %v, and has found %d rows", s.sql, s.params, s.types, err, count)
	case count == 1 && identity != what.Row.Identity:
		u.t.Errorf("%s %q: the row is %x, not %x", s.sql, s.params, identity, what.Row.Identity)
	case missed && count == 1: // it would be run as what it is
		u.plain(&s)
		u.missed++
	case missed:
		u.missed++
	default:
		u.done++
		where := s.sql[strings.Index(s.sql, "WHERE"):]
		if !strings.Contains(where, "$") {
			u.same("SELECT " + table + "::text FROM public." + table + " " + where)
		}
	}
}

// plain runs a statement as what it is on p.b.
func (u *unseen) plain(s *unseenStatement) {
	u.t.Helper()
	sql := strings.NewReplacer("UPDATE ", "UPDATE public.", "DELETE FROM ", "DELETE FROM public.").Replace(s.sql)
	if _, err := u.p.b.PgConn().ExecParams(ctx, sql, s.params, s.types, s.formats, nil).Close(); err != nil {
		u.t.Fatalf("%s: %s", s.sql, explain(err))
	}
}

// TestUnseenInsert: a row that is deleted and made anew is, unseen, changed to what PostgreSQL makes of it.
func TestUnseenInsert(t *testing.T) {
	const columns = "n int, b bigint, v varchar(5), c char(4), tz timestamptz"
	p := newPair(t, "CREATE TABLE anew (id int PRIMARY KEY, gone int, "+columns+")", "ALTER TABLE anew DROP gone",
		"CREATE INDEX ON anew (n, b)")
	p.sync()
	u := newUnseen(t, p)
	r := rand.New(rand.NewPCG(9, 9))
	const ids = "SELECT g FROM unnest('{1,2,3,4,5,6,7,8,9,0,10,-1,-32768,32767,-2147483648,2147483647}'::int[]) g"
	done, left, refused := 0, 0, 0
	for range 800 {
		s, values := unseenStatement{}, []string(nil)
		names := strings.Split("id n b v c tz", " ")
		order := r.Perm(len(names))
		for i, n := range order {
			oid := unseenTypes[names[n]]
			if names[n] == "id" {
				oid = 23
			}
			if v := s.parameter(r, oid, n == 0); r.IntN(10) > 0 || oid == 1184 {
				values = append(values, v)
			} else {
				s.params, s.types, s.formats = s.params[:len(s.params)-1], s.types[:len(s.types)-1],
					s.formats[:len(s.formats)-1]
				values = append(values, map[uint32]string{20: "-7", 23: "7", 1042: "'it''s'", 1043: "'a'"}[oid])
			}
			order[i] = n
		}
		var columns []string
		for _, n := range order {
			columns = append(columns, names[n])
		}
		s.sql = "INSERT INTO anew (" + strings.Join(columns, ", ") + ") VALUES (" + strings.Join(values, ", ") + ")"
		p.exec(p.a, "BEGIN; SET LOCAL backtrace_functions = 'tutti_applies'; SET LOCAL session_replication_role = "+
			"replica; DELETE FROM anew; COMMIT")
		p.exec(p.b, "BEGIN; DELETE FROM public.anew; INSERT INTO public.anew (id) "+ids+"; COMMIT")
		how := u.form(&s)
		if how == nil {
			left++
			continue
		}
		p.exec(p.a, "BEGIN; SET LOCAL tutti.tx = quiet_direct")
		var identity uint64
		err := each(p.a.PgConn().ExecParams(ctx, how.SQL(), s.params, s.types, s.formats, []int16{1}),
			func(values [][]byte) error {
				row, err := how.Read(values)
				if err == nil {
					identity = row.Identity()
				}
				return err
			})
		p.exec(p.a, map[bool]string{true: "COMMIT", false: "ROLLBACK"}[err == nil])
		what, ok := how.Buffered(wire.AppendBind(nil, "", "", s.formats, s.params, nil), session.Began{})
		if !ok {
			left++
			continue
		}
		if !what.Inserts || how.Blind() || what.Tag != "INSERT 0 1" {
			t.Fatalf("%s is %+v", s.sql, what)
		}
		missed, applied := u.apply(&what)
		switch {
		case applied != nil || missed:
			t.Errorf("%s %q: PostgreSQL says %v, and unseen it says %v, %v", s.sql, s.params, err, missed, applied)
		case err != nil:
			t.Errorf("%s %q: PostgreSQL says %v, and unseen it goes", s.sql, s.params, err)
		case identity != what.Row.Identity:
			t.Errorf("%s %q: the row is %x, not %x", s.sql, s.params, identity, what.Row.Identity)
		default:
			done++
			u.same("SELECT anew::text FROM public.anew WHERE tz IS NOT NULL")
		}
		if err != nil {
			refused++
		}
	}
	if t.Logf("%d rows were made unseen, %d were left to PostgreSQL", done, left); done < 20 || left < 50 {
		t.Error("there are too few of one kind")
	}
}

// apply does what a member's applier does.
func (u *unseen) apply(what *session.Unseen) (missed bool, err error) {
	w := &writeset.Writeset{Tables: []writeset.Table{what.Table}, Rows: []writeset.Row{what.Row}}
	w.AddTableKeys()
	w, err = writeset.Decode(w.Append(nil))
	if err != nil {
		return false, err
	}
	ops, err := apply.Plan([]*writeset.Writeset{w}, u.p.tables.Apply, apply.InPlace)
	if err != nil {
		return false, err
	}
	for _, o := range ops {
		var places []int64
		err := each(u.p.b.PgConn().ExecParams(ctx, o.SQL, o.Args, nil, []int16{int16(o.Format)}, nil),
			func(v [][]byte) error {
				n, err := strconv.ParseInt(string(v[0]), 10, 64)
				places = append(places, n)
				return err
			})
		if err != nil {
			return false, err
		}
		rows, err := o.Missed(places)
		if missed = missed || len(rows) > 0; err != nil {
			return false, err
		}
	}
	return missed, nil
}

// TestUnblind: tables and columns whose new values may not fit are not changed unseen.
func TestUnblind(t *testing.T) {
	p := newPair(t, "CREATE TABLE fits (id int PRIMARY KEY, a text, b int, c int, d text)", "CREATE INDEX ON fits (a)",
		"CREATE INDEX ON fits (b, c)", "CREATE INDEX ON fits USING hash (c)",
		"CREATE TABLE checked (id int PRIMARY KEY, a int CHECK (a > 0))",
		"CREATE TABLE expressed (id int PRIMARY KEY, a int, b int)", "CREATE INDEX ON expressed ((1 / b))",
		"CREATE TABLE computed (id int PRIMARY KEY, a int, g int GENERATED ALWAYS AS (1 / a) STORED)",
		"CREATE TABLE packed (id int PRIMARY KEY, a int, b text)",
		"ALTER TABLE packed ALTER b SET STORAGE PLAIN", "CREATE TABLE parent (id int PRIMARY KEY)",
		"CREATE TABLE child (id int PRIMARY KEY, a int REFERENCES parent, b int)",
		"CREATE TABLE keyless (id int, a int)", "CREATE TABLE named (id int GENERATED ALWAYS AS IDENTITY PRIMARY "+
			"KEY, a int, b int GENERATED ALWAYS AS IDENTITY)", "CREATE TABLE twice (id int PRIMARY KEY, b int UNIQUE)",
		"CREATE TABLE anew (id int PRIMARY KEY, a int, b text)", "CREATE DOMAIN little AS int CHECK (VALUE < 10)",
		"CREATE TABLE domained (id int PRIMARY KEY, a little, b int)")
	unseen := newUnseen(t, p)
	for sql, want := range map[string]bool{
		"UPDATE fits SET d = $1 WHERE id = $2": true, "UPDATE fits SET a = $1 WHERE id = $2": false,
		"UPDATE fits SET b = $1 WHERE id = $2": true, "UPDATE fits SET c = $1 WHERE id = $2": false,
		"UPDATE fits SET d = $1, a = $2 WHERE id = $3": false, "UPDATE fits SET id = $1 WHERE id = $2": false,
		"UPDATE fits SET d = $1 WHERE id = $2 AND b = $3": false, "UPDATE fits SET d = $1": false,
		"UPDATE fits SET d = $1 WHERE id = $2 OR id = $3": false, "UPDATE fits SET d = lower($1) WHERE id = $2": false,
		"UPDATE fits SET b = c + $1 WHERE id = $2":     false,
		"UPDATE fits SET b = $1, c = $1 WHERE id = $2": false, "UPDATE fits SET b = $1 WHERE id = $1": false,
		"UPDATE fits SET d = 5 WHERE id = $1": false, "UPDATE fits SET b = '5' WHERE id = $1": false,
		"UPDATE fits SET b = $1 WHERE id = $2 RETURNING b": false, "UPDATE fits SET b = b * $1 WHERE id = $2": false,
		"UPDATE fits SET b = $1 - b WHERE id = $2": false, "UPDATE fits SET b = $1 + b WHERE id = $2": true,
		"UPDATE checked SET a = $1 WHERE id = $2": false, "UPDATE expressed SET a = $1 WHERE id = $2": false,
		"UPDATE computed SET a = $1 WHERE id = $2": false, "UPDATE packed SET a = $1 WHERE id = $2": false,
		"UPDATE child SET b = $1 WHERE id = $2": true, "UPDATE child SET a = $1 WHERE id = $2": false,
		"UPDATE keyless SET a = $1 WHERE id = $2": false,
		"UPDATE named SET a = $1 WHERE id = $2":   true, "UPDATE domained SET b = $1 WHERE id = $2": false,
		"INSERT INTO fits (id) VALUES ($1)": false, "DELETE FROM fits WHERE id = $1": true,
		"DELETE FROM fits WHERE id = $1 AND b = $2": false, "DELETE FROM fits": false,
		"DELETE FROM fits WHERE id = $1 RETURNING b": false, "DELETE FROM parent WHERE id = $1": false,
		"DELETE FROM child WHERE id = $1": false, "DELETE FROM twice WHERE id = $1": false,
		"DELETE FROM checked WHERE id = $1": false, "DELETE FROM keyless WHERE id = $1": false,
		"DELETE FROM fits WHERE id > $1": false,
	} {
		s := unseenStatement{sql: sql}
		if how := unseen.form(&s); how != nil && how.Blind() != want || how == nil && want {
			t.Errorf("%s: %v, want %v", sql, !want, want)
		}
	}
	for sql, want := range map[string]bool{ // one that makes a deleted row anew
		"INSERT INTO anew (b, id, a) VALUES ($1, $2, $3)": true,
		"INSERT INTO anew (id, a, b) VALUES ($1, 5, 'x')": true, "INSERT INTO anew (id, a, b) VALUES (7, $1, $2)": true,
		"INSERT INTO anew VALUES ($1, $2, $3)": false, "INSERT INTO anew (id, a) VALUES ($1, $2)": false,
		"INSERT INTO anew (id, a, b) VALUES ($1, $2, $3), ($4, $5, $6)":            false,
		"INSERT INTO anew (id, a, b) VALUES ($1, $2, NULL)":                        false,
		"INSERT INTO anew (id, a, b) VALUES ($1, $2, DEFAULT)":                     false,
		"INSERT INTO anew (id, a, b) VALUES ($1, $2, $3) RETURNING id":             false,
		"INSERT INTO anew (id, a, b) SELECT $1, $2, $3":                            false,
		"INSERT INTO anew (id, a, b) VALUES ($1, $2, $3) LIMIT $2":                 false,
		"INSERT INTO anew (id, a, b) VALUES ($1, $2, $3) OFFSET 1":                 false,
		"INSERT INTO anew (id, a, b) VALUES ($1, $2 + 1, $3)":                      false,
		"INSERT INTO anew (id, a, b) VALUES ($1, $1, $2)":                          false,
		"INSERT INTO twice (id, b) VALUES ($1, $2)":                                false,
		"INSERT INTO child (id, a, b) VALUES ($1, $2, $3)":                         false,
		"INSERT INTO parent (id) VALUES ($1)":                                      false,
		"INSERT INTO checked (id, a) VALUES ($1, $2)":                              false,
		"INSERT INTO named (id, a, b) OVERRIDING SYSTEM VALUE VALUES ($1, $2, $3)": false,
		"INSERT INTO fits (id, a, b, c, d) VALUES ($1, $2, $3, $4, $5)":            false,
	} {
		s := unseenStatement{sql: sql}
		how := unseen.form(&s)
		var params [][]byte
		for range strings.Count(sql, "$") {
			params = append(params, []byte("1"))
		}
		ok := false
		if how != nil {
			_, ok = how.Buffered(wire.AppendBind(nil, "", "", nil, params, nil), session.Began{})
		}
		if ok != want {
			t.Errorf("%s: %v, want %v", sql, ok, want)
		}
	}
}

// same compares what a query of one column gives on both sides.
func (u *unseen) same(sql string) {
	u.t.Helper()
	var got [2]string
	for i, c := range []*pgconn.PgConn{u.p.a.PgConn(), u.p.b.PgConn()} {
		r, err := c.Exec(ctx, "SET LOCAL search_path = public; "+sql).ReadAll()
		if err != nil {
			u.t.Fatalf("%s: %s", sql, explain(err))
		}
		got[i] = fmt.Sprintf("%s", r[1].Rows)
	}
	if got[0] != got[1] {
		u.t.Errorf("%s:\n%s\n%s", sql, got[0], got[1])
	}
}
