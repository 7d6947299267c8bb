package captest

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/tuttidb/tutti/internal/capture"
	"github.com/tuttidb/tutti/internal/session"
	"github.com/tuttidb/tutti/internal/writeset"
)

// randomPut is an INSERT of some columns of one of two tables.
func randomPut(r *rand.Rand) (s unseenStatement) {
	table, names := "put", strings.Split(`n b s x v c f d ts tz r g q m j bp vv "from" t0 z0`, " ")
	if n := len(names); r.IntN(20) > 0 {
		names = slices.DeleteFunc(names[:n-2], func(c string) bool { return c == "m" || c == "j" })
	}
	if r.IntN(3) == 0 {
		table, names = `app."Put it"`, []string{`"from"`, `"a b"`, "at", "c"}
	}
	var columns, values []string
	for _, i := range r.Perm(len(names))[:1+r.IntN(4)] {
		columns = append(columns, names[i])
		oid := cmp.Or(glanceTypes[names[i]], map[string]uint32{`"a b"`: 1043, "at": 1184, "m": 1700,
			"j": 3802}[names[i]])
		values = append(values, s.given(r, oid))
	}
	s.sql = "INSERT INTO " + table + " (" + strings.Join(columns, ", ") + ") VALUES (" + strings.Join(values, ", ") +
		")"
	return s
}

// TestUnseenPut: a row that is put unseen into a table without a key is the one that PostgreSQL makes of the statement,
// byte for byte, for who deletes it as well.
func TestUnseenPut(t *testing.T) {
	p := newPair(t, "CREATE TABLE put ("+plainColumns+")", "CREATE INDEX ON put (n, b)", "CREATE SCHEMA app",
		`CREATE TABLE app."Put it" ("a b" varchar(7), gone int, "from" text, at timestamptz, c char(5))`,
		`ALTER TABLE app."Put it" DROP gone`)
	u := newUnseen(t, p)
	r := rand.New(rand.NewPCG(10, 10))
	clocks := 0
	for range 900 {
		s := randomPut(r)
		how := u.form(&s)
		if how == nil {
			u.left++
			continue
		}
		p.exec(p.a, "BEGIN; SET LOCAL tutti.tx = quiet_direct; SET LOCAL timezone = '"+glanceZones[r.IntN(5)]+"'")
		began := u.began()
		row, err := u.returned(how, &s)
		what, ok := how.Buffered(s.bind(), began)
		p.exec(p.a, map[bool]string{true: "COMMIT", false: "ROLLBACK"}[ok && err == nil])
		switch {
		case !ok && err != nil:
			u.refused++
		case !ok:
			u.left++
		case err != nil:
			t.Errorf("%s %q: PostgreSQL says %v, and unseen it goes", s.sql, s.params, err)
		default:
			u.done++
			if len(what.Row.Image) == 0 || what.Row.Op != writeset.OpPut || !what.Puts || what.Inserts ||
				what.Tag != "INSERT 0 1" {
				t.Fatalf("%s is %+v", s.sql, what)
			}
			if _, ok := how.Buffered(s.bind(), session.Began{}); ok != how.Blind() {
				t.Errorf("%s: without a clock it is %v, and by itself %v", s.sql, ok, how.Blind())
			}
			if !how.Blind() {
				clocks++
			}
			if shape, ok := how.Proves(s.bind(), row); !ok || shape != what.Shape {
				t.Errorf("%s %q: the row that was returned proves nothing", s.sql, s.params)
			}
			if missed, err := u.apply(&what); missed || err != nil {
				t.Fatalf("%s %q: %v, %v", s.sql, s.params, missed, err)
			}
		}
	}
	p.equal()
	p.exec(p.a, capture.TokenSQL(1, "proof", []byte("secret"), 256<<20)) // the Collector has put its own in place
	if p.tx("DELETE FROM put WHERE n IS NULL", `DELETE FROM app."Put it"`); len(p.last.Rows) < 100 {
		t.Errorf("%d rows were deleted", len(p.last.Rows))
	}
	p.equal()
	t.Logf("%d rows were put unseen, %d of them with clocks, %d were left to PostgreSQL, which refused %d more", u.done,
		clocks, u.left, u.refused)
	if u.done < 200 || clocks < 30 || u.left < 50 || u.refused < 50 {
		t.Error("there are too few of one kind")
	}
}

// TestUnseenPutProves: a row proves an INSERT if it holds the same in all columns but those that have the time.
func TestUnseenPutProves(t *testing.T) {
	p := newPair(t, "CREATE TABLE put ("+unseenColumns+")")
	u := newUnseen(t, p)
	run := func(s *unseenStatement, zone string) session.Returned {
		p.exec(p.a, "BEGIN; SET LOCAL tutti.tx = quiet_direct; SET LOCAL timezone = '"+zone+"'")
		row, err := u.returned(u.form(s), s)
		if p.exec(p.a, "ROLLBACK"); err != nil || row == nil {
			t.Fatalf("%s: %v", s.sql, err)
		}
		return row
	}
	statement := func(sql string, params ...string) *unseenStatement {
		s := &unseenStatement{sql: "INSERT INTO put " + sql}
		for _, p := range params {
			s.params, s.formats = append(s.params, []byte(p)), append(s.formats, 0)
		}
		return s
	}
	const columns, clocks = "(n, x, c, f, q, ts, tz) ", "LOCALTIMESTAMP, now())"
	of := statement(columns+"VALUES ($1, $2, $3, $4, $5, "+clocks, "5", "word", "ab", "t", someUUID+"1")
	how := u.form(of)
	for _, c := range []struct {
		sql    string
		params []string
		want   bool
	}{
		{columns + "VALUES ($1, $2, $3, $4, $5, " + clocks, []string{"5", "word", "ab", "t", someUUID + "1"}, true},
		{columns + "VALUES (5, $1, $2, $3, $4, $5, $6)",
			[]string{"word", "ab  ", "on", "{" + someUUID + "1}", "2001-02-03", "infinity"}, true},
		{columns + "VALUES ($1, $2, $3, $4, $5, NULL, NULL)", []string{"5", "word", "ab", "t", someUUID + "1"}, true},
		{columns + "VALUES ($1, $2, $3, $4, $5, " + clocks, []string{"6", "word", "ab", "t", someUUID + "1"}, false},
		{columns + "VALUES ($1, $2, $3, $4, $5, " + clocks, []string{"5", "word ", "ab", "t", someUUID + "1"}, false},
		{columns + "VALUES ($1, $2, $3, $4, $5, " + clocks, []string{"5", "", "ab", "t", someUUID + "1"}, false},
		{columns + "VALUES ($1, $2, $3, $4, $5, " + clocks, []string{"5", "word", "a b", "t", someUUID + "1"}, false},
		{columns + "VALUES ($1, $2, $3, $4, $5, " + clocks, []string{"5", "word", "ab", "f", someUUID + "1"}, false},
		{columns + "VALUES ($1, $2, $3, $4, $5, " + clocks, []string{"5", "word", "ab", "t", someUUID + "2"}, false},
		{columns + "VALUES (NULL, $1, $2, $3, $4, " + clocks, []string{"word", "ab", "t", someUUID + "1"}, false},
		{"(n, x, c, f, q, ts, tz, m) VALUES ($1, $2, $3, $4, $5, LOCALTIMESTAMP, now(), 1)",
			[]string{"5", "word", "ab", "t", someUUID + "1"}, false},
		{"(n, x, c, f, q, ts, tz, v) VALUES ($1, $2, $3, $4, $5, LOCALTIMESTAMP, now(), $6)",
			[]string{"5", "word", "ab", "t", someUUID + "1", ""}, false},
	} {
		s := statement(c.sql, c.params...)
		for _, zone := range glanceZones {
			if _, ok := how.Proves(of.bind(), run(s, zone)); ok != c.want {
				t.Errorf("%s %q: %v, want %v", s.sql, c.params, ok, c.want)
			}
		}
	}
}

var putSchema = []string{
	"CREATE DOMAIN little AS int CHECK (VALUE < 10)", "CREATE TYPE mood AS ENUM ('good')",
	"CREATE TABLE free (n int, b bigint, x text, c char(2), g float8, d date, ts timestamp, tz timestamptz, " +
		"t0 timestamp(0), z0 timestamptz(3), m numeric, j jsonb, k json, o interval, y bytea, bits bit(4), h time)",
	"CREATE TABLE needs (n int NOT NULL, a int)", "CREATE TABLE given (n int DEFAULT 7, a int)",
	"CREATE TABLE counted (n serial, a int)",
	"CREATE TABLE ident (n int GENERATED BY DEFAULT AS IDENTITY, a int)",
	"CREATE TABLE always (n int GENERATED ALWAYS AS IDENTITY, a int)",
	"CREATE TABLE computed (n int, g int GENERATED ALWAYS AS (n) STORED)", "CREATE TABLE uniq (n int UNIQUE, a int)",
	"CREATE TABLE named (n int NOT NULL, a int)",
	"CREATE UNIQUE INDEX ON named (n)", "CREATE TABLE keyed (n int PRIMARY KEY, a int)",
	"CREATE TABLE refers (n int REFERENCES keyed, a int)",
	"CREATE TABLE checked (n int CHECK (n > 0), a int)", "CREATE TABLE excludes (n int, a int, EXCLUDE (n WITH =))",
	"CREATE TABLE indexed (n int, a int, x text)",
	"CREATE INDEX ON indexed (n)", "CREATE INDEX ON indexed (x)", "CREATE INDEX ON indexed USING hash (a)",
	"CREATE TABLE expressed (n int, a int)",
	"CREATE INDEX ON expressed ((1 / n))", "CREATE TABLE partial (n int, a int)",
	"CREATE INDEX ON partial (a) WHERE 1 / n > 0", "CREATE TABLE domained (n little, a int)",
	"CREATE TABLE moody (n int, a mood)", "CREATE TABLE arrayed (n int, a int[])",
	"CREATE TABLE titled (n int, a name)", "CREATE TABLE packed (n int, x text)",
	"ALTER TABLE packed ALTER x SET STORAGE PLAIN", "CREATE TABLE fired (n int, a int)",
	"CREATE FUNCTION fire() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$",
	"CREATE TRIGGER fire BEFORE INSERT ON fired FOR EACH ROW EXECUTE FUNCTION fire()",
	"CREATE TABLE ruled (n int, a int)", "CREATE RULE r AS ON INSERT TO ruled DO INSTEAD NOTHING",
	"CREATE TABLE up (n int)", "CREATE TABLE down (a int) INHERITS (up)",
	"CREATE TABLE parts (n int, a int) PARTITION BY LIST (n)",
	"CREATE TABLE part PARTITION OF parts FOR VALUES IN (1)", "CREATE TABLE secret (n int)",
	"ALTER TABLE secret ENABLE ROW LEVEL SECURITY",
	"CREATE VIEW seen AS SELECT * FROM free", "CREATE UNLOGGED TABLE unlogged (n int)",
}

// TestUnseenPutIsRefused: an INSERT is not carried out unseen if what it stores is not certain, or something else
// decides whether it may.
func TestUnseenPutIsRefused(t *testing.T) {
	p := newPair(t, putSchema...)
	u := newUnseen(t, p)
	// parameters are '1', or of eight bytes where their number has a colon before it
	for sql, want := range map[string]bool{
		"free (n) VALUES ($1)": true, "free (n, x, c) VALUES ($1, $2, 'y')": true,
		"free (n, x, ts, tz, b) VALUES ($1, $2, LOCALTIMESTAMP, now(), 7)": true,
		"public.free (n) VALUES ($1)":                                      true, "free AS f (n) VALUES ($1)": true,
		"free (g) VALUES ($1)":  false,
		"free (g) VALUES ($:1)": true, "free (d) VALUES ($1)": false,
		"free (n, b) VALUES ($1, NULL)": false, "free (n, b) VALUES ($1, DEFAULT)": false, "free (x) VALUES (5)": false,
		"free (n) VALUES ('5')":       false,
		"free (n, b) VALUES ($1, $1)": false, "free (n) VALUES (1 + 1)": false, "free VALUES ($1)": false,
		"free VALUES (1)": false, "free (m) VALUES ($1)": false,
		"free (m) VALUES (1)": false, "free (j) VALUES ($1)": false, "free (k) VALUES ('1')": false,
		"free (o) VALUES ($1)": false, "free (y) VALUES ($1)": false,
		"free (bits) VALUES ($1)": false, "free (n, m) VALUES ($1, NULL)": false, "free (c) VALUES ('abc')": false,
		"free (c) VALUES ('ab')":       true,
		"free (n) VALUES (2147483648)": false, "free (ts) VALUES ($:1)": true, "free (ts) VALUES ($1)": false,
		"free (tz) VALUES ($:1)": true, "free (t0) VALUES ($:1)": false,
		"free (z0) VALUES ($:1)": false, "free (ts) VALUES (now())": true, "free (tz) VALUES (CURRENT_TIMESTAMP)": true,
		"free (ts) VALUES (LOCALTIMESTAMP)": true,
		"free (tz) VALUES (LOCALTIMESTAMP)": false, "free (t0) VALUES (now())": false,
		"free (t0) VALUES (LOCALTIMESTAMP)": false, "free (z0) VALUES (CURRENT_TIMESTAMP)": false,
		"free (d) VALUES (now())": false, "free (x) VALUES (now())": false, "free (h) VALUES (now())": false,
		"free (ts) VALUES (CURRENT_TIMESTAMP(3))": false,
		"free (tz) VALUES (clock_timestamp())":    false, "free (tz) VALUES (statement_timestamp())": false,
		"free (d) VALUES (CURRENT_DATE)": false, "free (tz) VALUES ('now')": false,
		"free (n) VALUES (CASE WHEN random() < 0.5 THEN 1 END)": false,
		"free (x) VALUES (nullif(CURRENT_USER, 'x'))":           false, "free (n) VALUES ($1), ($2)": false,
		"free (n) VALUES (1), (2)": false, "free (n) VALUES (1) LIMIT 0": false,
		"free (n) VALUES ($1) RETURNING n": false, "free (n) VALUES ($1) ON CONFLICT DO NOTHING": false,
		"free (n) SELECT $1": false, "free (n) SELECT 1": false, "needs (a) VALUES ($1)": false,
		"needs (n) VALUES ($1)": true, "needs (n, a) VALUES ($1, $2)": true,
		"given (a) VALUES ($1)": false, "given (n) VALUES ($1)": true, "counted (a) VALUES ($1)": false,
		"counted (n) VALUES ($1)": true, "ident (a) VALUES ($1)": false,
		"ident (n, a) VALUES ($1, $2)": true, "always (a) VALUES ($1)": false,
		"always (n, a) OVERRIDING SYSTEM VALUE VALUES ($1, $2)": false, "computed (n) VALUES ($1)": false,
		"uniq (n) VALUES ($1)": false, "uniq (a) VALUES ($1)": false, "named (n) VALUES ($1)": false,
		"keyed (n) VALUES ($1)": false, "refers (n) VALUES ($1)": false,
		"refers (a) VALUES ($1)": false, "checked (n) VALUES ($1)": false, "checked (a) VALUES ($1)": false,
		"excludes (n) VALUES ($1)": false, "indexed (n) VALUES ($1)": true,
		"indexed (a) VALUES ($1)": false, "indexed (x) VALUES ($1)": false, "expressed (n) VALUES ($1)": false,
		"expressed (a) VALUES ($1)": false, "partial (n) VALUES ($1)": false,
		"partial (a) VALUES ($1)": false, "domained (a) VALUES ($1)": false, "moody (n) VALUES ($1)": false,
		"arrayed (n) VALUES ($1)": false, "titled (n) VALUES ($1)": false,
		"packed (n) VALUES ($1)": false, "fired (n) VALUES ($1)": false, "ruled (n) VALUES ($1)": false,
		"up (n) VALUES ($1)": false, "down (n) VALUES ($1)": false,
		"parts (n) VALUES ($1)": false, "part (n) VALUES ($1)": false, "secret (n) VALUES ($1)": false,
		"seen (n) VALUES ($1)": false, "unlogged (n) VALUES ($1)": false,
	} {
		s := unseenStatement{sql: "INSERT INTO " + strings.ReplaceAll(sql, "$:", "$")}
		for i := range strings.Count(sql, "$") {
			if s.params, s.formats = append(s.params, []byte("1")),
				append(s.formats, 0); strings.Contains(sql, fmt.Sprintf("$:%d", i+1)) {
				s.params[i], s.formats[i] = make([]byte, 8), 1
			}
		}
		how, ok := u.form(&s), false
		if how != nil {
			_, ok = how.Buffered(s.bind(), session.Began{Known: true, Stamp: 5, Local: 6})
		}
		if ok != want {
			t.Errorf("%s: %v, want %v", s.sql, ok, want)
		}
	}
}
