package cluster

import (
	"context"
	"strings"
	"testing"
)

// TestReceived: what PostgreSQL stores, and would not take from another member, is refused before it is ordered, by
// whatever way it comes; and what was there before can be deleted.
func TestReceived(t *testing.T) {
	c := use(t)
	s := c.Connect(1)
	s.Do("CREATE TABLE received(k int PRIMARY KEY, q tsquery, z timestamptz(0), za timestamptz(0)[], zr tstzrange, c "+
		"circle, x xml, j jsonb, tz timetz)",
		"CREATE TABLE received_blind(k int PRIMARY KEY, z timestamptz(0))",
		"CREATE TABLE received_plain(z timestamptz(0), q tsquery)",
		"CREATE DOMAIN received_end AS timestamptz(0)", "CREATE TYPE received_pair AS (a int, c circle)",
		"CREATE TABLE received_users(k int PRIMARY KEY, e received_end, p received_pair, a received_pair[])",
		"CREATE TABLE received_text(k int PRIMARY KEY, r regclass)",
		"CREATE TABLE received_tree(k int PRIMARY KEY, t pg_node_tree)",
		"INSERT INTO received(k) SELECT g FROM generate_series(1, 9) g", "INSERT INTO received_blind(k) VALUES (1)")
	const late = `'294276-12-31 23:59:59.9+00'`
	nothing := "0A000" // PostgreSQL up to 15.18 does not take the tsquery of nothing but stop words
	if takesEmptyQuery(s) {
		nothing = ""
	}
	bad := map[string]string{ // statement → SQLSTATE
		"INSERT INTO received(k, z) VALUES (10, " + late +
			")": "22008",
		"UPDATE received SET za = ARRAY[" + late + "::timestamptz(0)] " +
			"WHERE k = 1": "22008",
		"UPDATE received SET zr = tstzrange(NULL, " + late +
			"::timestamptz(0)) WHERE k = 1": "22008",
		"INSERT INTO received(k, c) VALUES (10, " +
			"circle(point(0,0),-1))": "22P03",
		`INSERT INTO received(k, x) VALUES (10, xmlelement(name a, ` +
			`E'\x01'))`: "2200N",
		"UPDATE received SET tz = timetz '00:00+00' AT TIME ZONE interval '20:00' " +
			"WHERE k = 1": "22009",
		"INSERT INTO received_users(k, e) VALUES (1, " + late +
			")": "22008",
		"INSERT INTO received_users(k, p) VALUES (1, ROW(1, " +
			"circle(point(0,0),-1)))": "22P03",
		"INSERT INTO received_users(k, a) VALUES (1, ARRAY[ROW(1, " +
			"circle(point(0,0),-1))::received_pair])": "22P03",
		"INSERT INTO received_tree SELECT 1, adbin FROM pg_attrdef " +
			"LIMIT 1": "0A000",
		"INSERT INTO received(k, z) SELECT g, " + late +
			" FROM generate_series(11, 3000) g": "22008",
		"DO $$ BEGIN EXECUTE 'CREATE TABLE received_made(c circle)'; INSERT INTO received_made VALUES " +
			"(circle(point(0,0),-1)); END $$": "22P03",
		"CREATE TABLE received_as AS SELECT " +
			"circle(point(0,0),-1) AS c": "22P03",
		"BEGIN; INSERT INTO received(k) VALUES (10); ALTER TABLE received ADD n int; UPDATE received SET c = " +
			"circle(point(0,0),-1) WHERE k = 10; COMMIT": "22P03",
	}
	const stopWords = "INSERT INTO received(k, q) VALUES (10, plainto_tsquery('english', 'the'))"
	if nothing != "" {
		bad[stopWords] = nothing
	} else {
		s.Do(stopWords)
		c.Everywhere("SELECT numnode(q) FROM received WHERE k = 10", "0")
		s.Do("DELETE FROM received WHERE k = 10")
	}
	for q, code := range bad {
		c1 := c.Connect(1)
		if err := c1.Try(q); Code(err) != code || !strings.Contains(Explain(err), "other member") &&
			!strings.Contains(Explain(err), "another member") {
			t.Errorf("%s: %v, want %s", q, Explain(err), code)
		}
		if got := c1.Get("SELECT count(*) FROM received"); got != "9" { // nothing of it is left
			t.Fatalf("%s: there are %s rows", q, got)
		}
	}
	ctx := context.Background()
	for _, before := range []int{0, 2000} {
		data := strings.Repeat("2000-01-01 00:00:00+00\n", before) + "294276-12-31 23:59:59.9+00\n"
		if _, err := s.PgConn().CopyFrom(ctx, strings.NewReader(data),
			"COPY received_plain(z) FROM STDIN"); Code(err) != "22008" {
			t.Errorf("COPY behind %d rows: %v", before, err)
		}
	}
	for _, q := range []string{"UPDATE received_blind SET z = $1 WHERE k = $2",
		"INSERT INTO received_plain(z) VALUES ($1)"} {
		args := []any{"294276-12-31 23:59:59.9+00", 1}
		if strings.Contains(q, "INSERT") {
			args = args[:1]
		}
		for n := range 8 { // which is enough for it to be carried out blindly
			good := append([]any{"2000-01-01 00:00:00+00"}, args[1:]...)
			if _, err := s.Exec(ctx, q, good...); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Exec(ctx, q, args...); Code(err) != "22008" {
				t.Errorf("%s, time %d: %v", q, n, err)
			}
		}
	}
	s.Do("UPDATE received SET q = 'a & b', z = now(), za = ARRAY[now()], zr = '[2020-01-01,2021-01-01)', c = " +
		"'<(0,0),1>', x = '<a/>', j = '{\"a\": [1, {\"b\": null}]}', tz = '12:00+02' WHERE k > 5")
	s.Do("SELECT 1", "INSERT INTO received_text VALUES (1, 'received'), (2, 'pg_class')",
		"CREATE TEMP TABLE only_here(k int)")
	if err := s.Try("INSERT INTO received_text VALUES (3, 'only_here')"); Code(err) == "" {
		t.Error("a table that only one member has was named")
	}
	c.Everywhere("SELECT count(*) FROM received_text", "2")
	c.Everywhere("SELECT count(q) || ' ' || count(z) || ' ' || count(za) || ' ' || count(x) FROM received", "4 4 4 4")
	// What every member has made by itself.
	s.Do("ALTER TABLE received ADD nothing tsquery DEFAULT plainto_tsquery('english', 'the')")
	if err := s.Try("UPDATE received SET k = -k WHERE k = 1"); Code(err) != nothing {
		t.Errorf("a row with a value that was made everywhere: %v", err)
	}
	s.Do("DELETE FROM received WHERE k IN (1, -1)", "UPDATE received SET nothing = 'a' WHERE k = 2",
		"DELETE FROM received WHERE k = 2")
	c.Everywhere("SELECT count(*) FROM received", "7")
	s.Do("DROP TABLE received, received_blind, received_plain, received_users, received_text, received_tree")
	c.Check()
}

// takesEmptyQuery reports whether the server receives the tsquery of nothing but stop words, as it sends it.
func takesEmptyQuery(s *Conn) bool {
	const tsquery = 3615
	r := s.PgConn().ExecParams(context.Background(), "SELECT numnode($1)", [][]byte{{0, 0, 0, 0}}, []uint32{tsquery},
		[]int16{1}, nil)
	return r.Read().Err == nil
}

// TestFits: rows that fit at their member, because of how their values were compressed there, are refused.
func TestFits(t *testing.T) {
	c := use(t)
	s := c.Connect(2)
	s.Do("CREATE TABLE stores(k int PRIMARY KEY, t text)", "CREATE INDEX ON stores(t)",
		"CREATE TABLE stores_source(k int, t text COMPRESSION lz4)",
		"CREATE TABLE stores_plain(k int PRIMARY KEY, t text)", "ALTER TABLE stores_plain ALTER t SET STORAGE PLAIN",
		"CREATE TABLE stores_low(k int PRIMARY KEY, t text)", "CREATE INDEX ON stores_low(lower(t))",
		"INSERT INTO stores_source VALUES (1, repeat('0123456789abcdefghij', 30000)), (2, repeat('x', 100000))")
	const long = "repeat('0123456789abcdefghij', 30000)" // 600,000 bytes: lz4 makes less than 2704 of it, pglz more
	s.Do("SET default_toast_compression = 'lz4'")
	for _, q := range []string{
		"INSERT INTO stores VALUES (1, " + long + ")", "INSERT INTO stores_low VALUES (1, " + long + ")",
		"INSERT INTO stores SELECT * FROM stores_source",
		"INSERT INTO stores_plain SELECT * FROM stores_source WHERE k = 2",
	} {
		if err := s.Try(q); Code(err) != "54000" {
			t.Errorf("%s: %v", q, Explain(err))
		}
	}
	s.Do("INSERT INTO stores VALUES (2, repeat('x', 100000))", "UPDATE stores SET t = repeat('y', 90000) WHERE k = 2",
		"INSERT INTO stores_low VALUES (2, repeat('Z', 50000))")
	// its own lock is in nobody's way
	s.Do("BEGIN", "LOCK TABLE stores", "INSERT INTO stores VALUES (3, repeat('z', 100000))", "COMMIT")
	c.Everywhere("SELECT string_agg(k || left(t, 1), ' ' ORDER BY k) FROM stores", "2y 3z")
	if got := s.Get("SELECT count(*) FROM pg_class WHERE relpersistence = 't'"); got != "0" {
		t.Errorf("%s temporary tables are left", got)
	}
	s.Do("DROP TABLE stores, stores_source, stores_plain, stores_low")
	c.Check()
}

// TestIndexesWithoutOrder: a B-tree of rows or arrays with parts that have no order holds what it happens to hold at
// each member, dead entries too. Such an index is refused.
func TestIndexesWithoutOrder(t *testing.T) {
	c := use(t)
	s := c.Connect(2)
	s.Do("CREATE TYPE orderless_inner AS (n int, c circle)",
		"CREATE TYPE orderless_outer AS (t text, i orderless_inner[])",
		"CREATE DOMAIN orderless_domain AS orderless_outer",
		"CREATE TYPE ordered_pair AS (v varchar(5), m numeric[], r int4range)",
		`CREATE TABLE orderless(k int PRIMARY KEY, o orderless_outer, d orderless_domain, p point[], j json[],
			f ordered_pair)`)
	for _, q := range []string{
		"CREATE INDEX ON orderless(o)", "CREATE INDEX ON orderless(d)", "CREATE UNIQUE INDEX ON orderless(k, p)",
		"CREATE INDEX ON orderless(j)", "ALTER TABLE orderless ADD UNIQUE (o)",
		"CREATE TABLE orderless_key(o orderless_inner PRIMARY KEY)", "CREATE INDEX ON orderless((ARRAY[o]))",
		"BEGIN; CREATE INDEX ON orderless(o); COMMIT", "DO $$ BEGIN CREATE INDEX ON orderless(o); END $$",
	} {
		if err := c.Connect(2).Try(q); Code(err) != "0A000" || !strings.Contains(err.Error(), "has no order") {
			t.Errorf("%s: %v", q, Explain(err))
		}
	}
	s.Do("CREATE INDEX ON orderless(f)", "CREATE INDEX ON orderless(((o).t))",
		"CREATE INDEX ON orderless USING gist ((p[1]))",
		`INSERT INTO orderless(k, o, f)
			SELECT g, ROW('a', ARRAY[ROW(1, circle '<(0,0),1>')::orderless_inner])::orderless_outer,
				ROW('x', ARRAY[1, 2.5], int4range(1, 2))::ordered_pair
			FROM generate_series(1, 3) g`,
		"UPDATE orderless SET f.m = '{3}', o.t = 'b'")
	c.Everywhere("SELECT count(*) FROM orderless WHERE (f).m = '{3}'", "3")
	s.Do("DROP TABLE orderless", "DROP DOMAIN orderless_domain",
		"DROP TYPE orderless_outer, orderless_inner, ordered_pair")
	c.Check()
}
