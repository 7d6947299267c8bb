package session_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

// TestLiterals: which statements that come as Queries are run directly, with their literals as parameters.
func TestLiterals(t *testing.T) {
	s, l := direct(t)
	noted := l.noted(s)
	l.do("Q CREATE TABLE lit (id int PRIMARY KEY, v text, n int, UNIQUE (v, n))\nQ CREATE INDEX ON lit (n)\nQ CREATE " +
		"TABLE spans (id int PRIMARY KEY, s interval day)")
	const ins = "Q INSERT INTO t VALUES (%d, 'x')"
	three := func(sql string) string { return fmt.Sprintf("%s\n%[1]s\n%[1]s", sql) }
	for _, c := range []struct{ name, lines, want string }{
		{"insert", fmt.Sprintf(ins+"\n"+ins, 10, 11), "insert, insert; 1 captured"},
		{"insert again", fmt.Sprintf(ins+"\n"+ins, 12, 13), "insert, insert; 0 captured"},
		{"block", "Q BEGIN\n" + fmt.Sprintf(ins+"\nQ SELECT 1\n"+ins, 14, 15) + "\nQ COMMIT",
			"insert insert; 0 captured"},
		{"with prepared ones", "Q BEGIN\n" + fmt.Sprintf(ins, 16) +
			"\nB |upd|y|16\nE |0\nS\nB |ins|17|x\nE |0\nS\nQ COMMIT", "insert insert; 0 captured"},
		{"then captured", "Q BEGIN\n" + fmt.Sprintf(ins, 18) + "\nQ UPDATE t SET v = E'y' WHERE id = 18\n" +
			fmt.Sprintf(ins, 19) + "\nQ COMMIT", "insert insert; 2 captured"},
		{"several in a Query", "Q " + fmt.Sprintf("INSERT INTO t VALUES (%d, 'x'); INSERT INTO t VALUES (%d, 'x')", 20,
			21), "insert insert; 2 captured"},
		{"several with a block", "Q BEGIN; " + fmt.Sprintf(
			"INSERT INTO t VALUES (%d, 'x'); INSERT INTO t VALUES (%d, 'x'); COMMIT", 22, 23),
			"insert insert; 0 captured"},
		{"more of the key", three("Q UPDATE t SET v = v || 'z' WHERE id IN (10, 11) AND v > ''"),
			"update update, update update, update update; 2 captured"},
		{"no key", three("Q UPDATE t SET v = v || 'z' WHERE id > 22"),
			"update update update, update update update, update update update; 9 captured"},
		{"an index that finds many", three("Q INSERT INTO lit VALUES (1, 'a', 1), (2, 'b', 1)\nQ DELETE FROM lit " +
			"WHERE n = 1"), "insert insert, delete delete, insert insert, delete delete, insert insert, delete " +
			"delete; 8 captured"},
		{"another key", three("Q INSERT INTO lit VALUES (1, 'a', 1)\nQ DELETE FROM lit WHERE v = 'a' AND n = 1"),
			"insert, delete, insert, delete, insert, delete; 2 captured"},
		{"fields of an interval", three("Q INSERT INTO spans VALUES (1, '5')\nQ DELETE FROM spans WHERE id = 1"),
			"insert, delete, insert, delete, insert, delete; 6 captured"},
		{"returning", three("Q INSERT INTO lit VALUES (1, 'a', 1) RETURNING *\nQ DELETE FROM lit WHERE id = 1 " +
			"RETURNING v || 'x' AS y, n"), "insert, delete, insert, delete, insert, delete; 2 captured"},
		{"prepared, with strings", "P s|UPDATE t SET v = 'c' WHERE id = $1|23\nS\n" + three("B |s|10\nE |0\nS"),
			"update, update, update; 1 captured"},
		{"prepared, with strings of times", "Q CREATE TABLE times (id int PRIMARY KEY, at timestamptz, v text)\nQ " +
			"INSERT INTO times VALUES (1)\nP t|UPDATE times SET v = 'c', at = $2 WHERE id = $1|23\nP u|UPDATE times " +
			"SET v = 'c' WHERE id = $1|23\nS\n" +
			three("B |t|1|2020-01-01\nE |0\nS\nB |u|1\nE |0\nS"),
			"insert, update, update, update, update, update, update; 5 captured"},
		{"between", three("Q UPDATE t SET v = 'x' WHERE id = 10 AND id BETWEEN 1 AND 20"),
			"update, update, update; 3 captured"},
		{"returning a function", three("Q UPDATE t SET v = 'x' WHERE id = 10 RETURNING repeat(v, 2)"),
			"update, update, update; 3 captured"},
		{"returning the row", three("Q UPDATE t SET v = 'x' WHERE id = 10 RETURNING t"),
			"update, update, update; 3 captured"},
		{"returning a query", three("Q UPDATE t SET v = 'x' WHERE id = 10 RETURNING (SELECT 1)"),
			"update, update, update; 3 captured"},
		{"a function", three("Q UPDATE t SET v = upper('x') || now() WHERE id = 10 AND length(v) > 0"),
			"update, update, update; 1 captured"},
		{"another function", three("Q UPDATE t SET v = repeat('x', 2) WHERE id = 10"),
			"update, update, update; 3 captured"},
		{"escapes", three(`Q UPDATE t SET v = E'\\x' WHERE id = 10`), "update, update, update; 3 captured"},
		{"a parameter", three("Q UPDATE t SET v = 'x' WHERE id = $1"), "; 0 captured"},
		{"other encodings", "Q SET client_encoding = latin1\n" + fmt.Sprintf(ins, 24) + "\nQ RESET client_encoding",
			"insert; 1 captured"},
		{"strings with escapes", "Q SET standard_conforming_strings = off\n" + fmt.Sprintf(ins, 25) +
			"\nQ RESET standard_conforming_strings", "insert; 1 captured"},
	} {
		got := l.do(c.lines)
		if n := noted(); n != c.want || strings.Contains(got, "ERROR") != (c.name == "a parameter") {
			t.Errorf("%s: submitted %q, want %q; the client got\n%s", c.name, n, c.want, got)
		}
	}
	for i := range 2 * 256 { // what comes once makes room for what comes again
		l.do(fmt.Sprintf("Q DELETE FROM t WHERE id = 99 AND v <> ''%s", strings.Repeat(" ", i)))
	}
	noted()
	l.do(fmt.Sprintf(ins, 26))
	if n := noted(); n != "insert; 0 captured" {
		t.Errorf("an old form after many others: %s", n)
	}
	l.do(three("Q UPDATE t SET v = 'new' WHERE id = 10 AND v <> ''"))
	if n := noted(); n != "update, update, update; 1 captured" {
		t.Errorf("a new form after many others: %s", n)
	}
}

// TestLiteralsLikePlain runs random statements, each several times with other literals, as Queries at a plain
// PostgreSQL and through sessions. All answers, and what the table holds, must be the same.
func TestLiteralsLikePlain(t *testing.T) {
	plain, tutti := newStage(t, false), newStage(t, true)
	for seed := range uint64(6) {
		script := randomLiterals(rand.New(rand.NewPCG(seed, 1)))
		want := plain.play(t, script, nil)
		if got := tutti.play(t, script, &fakeHost{}); got != want {
			t.Errorf("seed %d:\n%s", seed, difference(numbered(want), numbered(got)))
		}
		if n := strings.Count(want, "CommandComplete UPDATE 1"); n < 8 || strings.Count(want, "ERROR") < 20 {
			t.Errorf("seed %d: too little happens: %d updates", seed, n)
		}
	}
}

// numbered tells which statement answers belong to.
func numbered(trace string) string {
	lines := strings.Split(trace, "\n")
	for i, n := 0, 1; i < len(lines); i++ {
		if strings.HasPrefix(lines[i], "ReadyForQuery") {
			n++
		}
		lines[i] = fmt.Sprintf("%d: %s", n, lines[i])
	}
	return strings.Join(lines, "\n")
}

// randomLiterals makes a script.
func randomLiterals(r *rand.Rand) string {
	types := []string{"i2 int2", "i4 int", "i8 int8", "n numeric(6,2)", "f4 float4", "f8 float8", "v text",
		"vc varchar(5)", "c char(4)", "b bool", "d date", "ts timestamptz", "u uuid", "j jsonb", "ba bytea", "ia int[]",
		"ta text[]", "o oid", "q \"char\"", "nm name", "tm time(1)", "m money"}
	out := []string{"Q SET TimeZone = 'UTC'", "Q CREATE TABLE lit (id int PRIMARY KEY, " + strings.Join(types, ", ") +
		")"}
	for i := range 6 {
		out = append(out, fmt.Sprintf("Q INSERT INTO lit VALUES (%d)", i))
	}
	for range 60 {
		statement := randomStatement(r, types)
		for range 5 {
			out = append(out, "Q "+statement())
		}
	}
	return strings.Join(append(out, "Q SELECT * FROM lit ORDER BY id", "Q DROP TABLE lit"), "\n")
}

// randomStatement makes a statement that has other literals each time.
func randomStatement(r *rand.Rand, types []string) func() string {
	column := func() string { name, _, _ := strings.Cut(types[r.IntN(len(types))], " "); return name }
	pick := func(list ...string) string { return list[r.IntN(len(list))] }
	var text []string // between literals
	add := func(parts ...string) {
		for _, p := range parts {
			text = append(text, p)
		}
	}
	value := func(c string) {
		switch r.IntN(9) {
		case 0:
			add(c+pick(" + ", " - ", " || ", " * ", "-", "||"), "")
		case 1:
			add("coalesce("+c+", ", ")")
		case 2:
			add("CASE WHEN id > ", " THEN ", " ELSE ", " END")
		case 3:
			add("-", "")
		case 5:
			add(pick("upper(", "length(", "round(", "concat("+c+", ", "substring("+c+", ", "abs(",
				"replace("+c+", '1', ", "to_char("+c+", ", "date_trunc('day', ", "mod("+c+", ", "btrim("), ")")
		case 4:
			add("", "::"+pick("text", "int", "numeric", "numeric(3,1)", "date", "varchar(2)", "bool", "float8",
				"interval", "timestamptz", "jsonb", "int[]", "bytea"))
		default:
			add("", "")
		}
	}
	join := func(s string) { // the last literal is followed by s
		text[len(text)-1] += s
	}
	var all []string
	start := func(s string) { all = append(all, s) }
	take := func() {
		all[len(all)-1] += text[0]
		all = append(all, text[1:]...)
		text = nil
	}
	switch c := column(); r.IntN(8) {
	case 0:
		start("INSERT INTO lit (id, " + c + ") VALUES (")
		add("", ", ")
		take()
		value(c)
		join(")")
		take()
	case 1:
		start("DELETE FROM lit WHERE id = ")
		add("", " AND "+c+pick(" = ", " > ", "<>", " IN (1, ", " LIKE ", " IS DISTINCT FROM "))
		take()
		add("", "")
		if strings.HasSuffix(all[len(all)-1], "(1, ") {
			join(")")
		}
		take()
	default:
		start("UPDATE lit SET " + c + " = ")
		value(c)
		join(" WHERE id = ")
		take()
		add("", "")
		take()
	}
	all[len(all)-1] += pick("", "", "", " RETURNING *", " RETURNING id + 5 AS x, "+column(),
		" returning lit."+column()+", ctid IS NULL, "+column()+"::text;")
	kinds := make([]int, len(all)) // a slot has numbers of one kind, or strings, mostly
	for i := range kinds {
		kinds[i] = r.IntN(len(literalKinds))
	}
	return func() string {
		s := all[0]
		for i, part := range all[1:] {
			switch before := strings.TrimSpace(all[i]); {
			case strings.HasSuffix(before, "id =") || strings.HasSuffix(before, "VALUES ("):
				s += pick("1", "2", "3", "4", "5", "7", "100") + part
			case r.IntN(10) == 0:
				s += "'1'" + part
			default:
				s += pick(literalKinds[kinds[i]]...) + part
			}
		}
		return s
	}
}

var literalKinds = [][]string{
	{"0", "1", "7", "- 3", "32767", "32768", "2147483647", "-1", "007"},
	{"2147483648", "-2147483648", "-2147483649", "4294967296", "9223372036854775807", "3000000000"},
	{"9223372036854775808", "99999999999999999999", "1.5", "0.005", "-2.345", "12345.678", "1e3", "0.5"},
	{"''", "'x'", "'it''s'", "'abcdefgh'", "'ab   '", "'t'", "'ä€'", "E'a\\b'", "'-'", "' '", "'x'"},
	{"'1'", "'-5'", "' 12 '", "'1.5'", "'32768'", "'1e3'", "'NaN'", "'0x10'", "'5'", "'6'"},
	{"'2024-02-30'", "'2024-02-29'", "'2024-02-29 12:34:56.789+02'", "'infinity'", "'12:34:56.78'", "'1 day'",
		"'20240131'"},
	{"'{}'", "'{1,2}'", "'{\"a\": [1, null]}'", "'[1]'", "'\\x00ff'", "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'",
		"'$5.00'", "NULL", "true"},
}

// TestReturning: rows that a client asks for come in the formats that it asks for, in every mode of a driver.
func TestReturning(t *testing.T) {
	s, plain := newStage(t, true), newStage(t, false).admin
	ctx := t.Context()
	conn, err := pgx.Connect(ctx, s.listen(t, func(c net.Conn) *fakeHost {
		return &fakeHost{admin: s.admin, client: c}
	}))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	const insert, update = "INSERT INTO ret (id, v, n) VALUES ($1, $2, 1.50) RETURNING b, id, n, v",
		"UPDATE ret SET v = $2 WHERE id = $1 RETURNING *, id > 1"
	for _, c := range []*pgx.Conn{conn, plain} {
		if _, err := c.Exec(ctx, "CREATE TABLE ret (id int PRIMARY KEY, v text, n numeric, b bytea DEFAULT "+
			"'\\x0102')"); err != nil {
			t.Fatal(err)
		}
		for name, sql := range map[string]string{"ins": insert, "upd": update} {
			if _, err := c.PgConn().Prepare(ctx, name, sql, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	id := 0
	run := func(c *pgx.Conn, name string, formats []int16) string {
		r := c.PgConn().ExecPrepared(ctx, name, [][]byte{[]byte(fmt.Sprint(id)), []byte("x")}, nil, formats).Read()
		out := fmt.Sprint(r.CommandTag, " ", r.Err)
		for _, f := range r.FieldDescriptions {
			f.TableOID = 0
			out += fmt.Sprintf(" %+v", f)
		}
		return out + fmt.Sprintf(" %x", r.Rows)
	}
	for range 2 {
		for _, formats := range [][]int16{nil, {0}, {1}, {1, 0, 1, 0}, {0, 1, 0, 1}, {1, 1, 1, 1}, {0, 0, 1, 1, 1},
			{1, 0}} {
			id++
			for _, name := range []string{"ins", "upd"} {
				if got, want := run(conn, name, formats), run(plain, name, formats); got != want {
					t.Errorf("%s in formats %v:\n%s\nwant\n%s", name, formats, got, want)
				}
			}
		}
	}
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe,
		pgx.QueryExecModeDescribeExec, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol} {
		for range 4 {
			id++
			var got [4]any
			if err := conn.QueryRow(ctx, insert, mode, id, "it's ä").Scan(&got[0], &got[1], &got[2],
				&got[3]); err != nil {
				t.Fatalf("%v: %v", mode, err)
			}
			if s := fmt.Sprintf("%v %v %v", got[0], got[1], got[3]); s != fmt.Sprintf("[1 2] %d it's ä", id) {
				t.Errorf("%v: %s", mode, s)
			}
		}
	}
}
