package cluster

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// What a CHECK constraint says may depend on the time, on settings, and on other tables. What it has
// let pass at one node is applied at all, later as well, and afterwards it holds again.
func TestChecksThatChangeTheirMind(t *testing.T) {
	t.Parallel()
	c := New(t, 3)
	c.StartNodes()
	s := c.Connect(1)
	s.Do("CREATE TABLE offers(id int PRIMARY KEY, until timestamptz CHECK (until > clock_timestamp()))",
		"CREATE TABLE tenants(id int PRIMARY KEY, name text CHECK (name IS NOT DISTINCT FROM "+
			"current_setting('app.tenant', true)))",
		"CREATE TABLE closed(id int PRIMARY KEY)",
		"CREATE FUNCTION open(i int) RETURNS bool LANGUAGE plpgsql AS $$BEGIN IF EXISTS (SELECT FROM closed c WHERE "+
			"c.id = i) THEN RAISE EXCEPTION 'closed'; END IF; RETURN true; END$$",
		"CREATE TABLE entries(id int PRIMARY KEY, at int CHECK (open(at)))")
	c.Everywhere("SELECT count(*) FROM entries", "0")

	s.Do("SET app.tenant = 'a'", "INSERT INTO tenants VALUES (1, 'a')")
	c.Everywhere("SELECT count(*) FROM tenants", "1")

	c.Stop(3)
	s.Do("INSERT INTO offers SELECT g, clock_timestamp() + interval '4 s' FROM generate_series(1, 5) g",
		"INSERT INTO entries VALUES (1, 7), (2, 8)", "UPDATE entries SET id = 3 WHERE id = 2",
		// The check is deferred to nobody: rows, then a change of the schema, then rows, in one transaction.
		"BEGIN", "INSERT INTO tenants VALUES (2, 'a')", "ALTER TABLE tenants ADD note text",
		"INSERT INTO tenants VALUES (3, 'a', 'x')", "COMMIT",
		"INSERT INTO closed VALUES (7), (8)")
	time.Sleep(4500 * time.Millisecond)
	c.Run(3)
	c.WaitReady()
	c.Everywhere("SELECT count(*) FROM offers", "5")
	c.Everywhere("SELECT string_agg(id || ':' || at, ' ' ORDER BY id) FROM entries", "1:7 3:8")
	c.Everywhere("SELECT count(*) FROM tenants", "3")
	c.Settled()

	for k := range 3 {
		s := c.Connect(k + 1)
		for _, sql := range []string{"INSERT INTO offers VALUES (9, '2001-01-01')",
			"INSERT INTO tenants VALUES (9, 'b')"} {
			s.Do("SET app.tenant = 'c'")
			if got := Code(s.Try(sql)); got != "23514" {
				t.Errorf("node %d: %s: SQLSTATE %q instead of 23514", k+1, sql, got)
			}
		}
		if got := Code(s.Try("INSERT INTO entries VALUES (9, 7)")); got != "P0001" {
			t.Errorf("node %d: a row for a closed entry: SQLSTATE %q", k+1, got)
		}
	}
	c.Check()
}

// Code of indexes, generated columns and domains cannot be passed over where rows are applied. It is tried
// at another node before the order, and what it refuses there is refused everywhere.
func TestCodeThatRefusesElsewhere(t *testing.T) {
	c := use(t)
	s := c.Connect(1)
	s.Do("CREATE SCHEMA coded", "SET search_path = coded",
		"CREATE FUNCTION picky(i int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$BEGIN IF "+
			"current_setting('app.picky', true) IS DISTINCT FROM 'no' THEN RAISE EXCEPTION 'too picky for %', i; END "+
			"IF; RETURN i; END$$",
		"SET app.picky = 'no'",
		"CREATE TABLE indexed(id int PRIMARY KEY, v int)", "CREATE INDEX ON indexed(coded.picky(v))",
		"CREATE TABLE madebycode(id int PRIMARY KEY, v int, w int GENERATED ALWAYS AS (coded.picky(v)) STORED)",
		"CREATE DOMAIN dom AS int CHECK (coded.picky(VALUE) > 0)", "CREATE TABLE typed(id int PRIMARY KEY, v dom)",
		"CREATE DOMAIN tenant AS text CHECK (VALUE IS NOT DISTINCT FROM current_setting('app.tenant', true))",
		"CREATE TABLE ownedbycode(id int PRIMARY KEY, v tenant)",
		"CREATE TABLE plain(id int PRIMARY KEY, v int)", "SET app.tenant = 'a'")
	for _, sql := range []string{"INSERT INTO indexed VALUES (1, 1)", "INSERT INTO madebycode VALUES (1, 1)",
		"INSERT INTO typed VALUES (1, 1)", "INSERT INTO ownedbycode VALUES (1, 'a')"} {
		if got := Code(s.Try(sql)); got != "0A000" {
			t.Errorf("%s: SQLSTATE %q instead of 0A000", sql, got)
		}
		s.Do("BEGIN", "INSERT INTO plain VALUES (1, 1)", sql)
		if got := Code(s.Try("COMMIT")); got != "0A000" {
			t.Errorf("BEGIN; %s; COMMIT: SQLSTATE %q instead of 0A000", sql, got)
		}
	}
	s.Do("CREATE OR REPLACE FUNCTION picky(i int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RETURN i; END'")
	for i := range 20 {
		s.Do(fmt.Sprintf("INSERT INTO indexed VALUES (%d, %[1]d)", i))
	}
	s.Do("INSERT INTO madebycode(id, v) VALUES (1, 1)", "INSERT INTO typed VALUES (1, 1)")
	c.Everywhere("SELECT count(*) FROM coded.indexed", "20")
	c.Everywhere("SELECT count(*) FROM coded.plain", "0")
	c.Check()
}

// TestDomainsThatTheirRowsBreak: a constraint of a domain that is not validated lets values stand that no
// member can read in; what would change such a row is refused at its origin, and ends nobody.
func TestDomainsThatTheirRowsBreak(t *testing.T) {
	c := use(t)
	s := c.Connect(1)
	s.Do("CREATE DOMAIN things AS int", "CREATE TABLE thethings(stuff things)", "INSERT INTO thethings VALUES (55)",
		"CREATE TABLE keyedbydomain(id int PRIMARY KEY, stuff things)",
		"INSERT INTO keyedbydomain VALUES (1, 55), (2, 66)",
		"ALTER DOMAIN things ADD CONSTRAINT small CHECK (VALUE < 11) NOT VALID")
	for _, sql := range []string{"UPDATE thethings SET stuff = 10", "DELETE FROM thethings",
		"DELETE FROM keyedbydomain WHERE id = 1"} {
		if got := Code(s.Try(sql)); got != "0A000" {
			t.Errorf("%s: SQLSTATE %q instead of 0A000", sql, got)
		}
	}
	s.Do("UPDATE keyedbydomain SET stuff = 10", "DELETE FROM keyedbydomain WHERE id = 2",
		"INSERT INTO thethings VALUES (3)", "TRUNCATE thethings", "ALTER DOMAIN things VALIDATE CONSTRAINT small",
		"INSERT INTO thethings VALUES (4)", "UPDATE thethings SET stuff = 5")
	c.Everywhere("SELECT sum(stuff) FROM thethings", "5")
	c.Everywhere("SELECT stuff FROM keyedbydomain", "10")
	s.Do("DROP TABLE thethings, keyedbydomain", "DROP DOMAIN things")
	c.Check()
}

// TestTextThatIsNone: text that a function in C has made of any bytes is stored by PostgreSQL, and cannot be read in
// again. What holds such text is refused at its origin, and ends nobody.
func TestTextThatIsNone(t *testing.T) {
	c := use(t)
	s := c.Connect(1)
	s.Do("CREATE CAST (bytea AS text) WITHOUT FUNCTION", "CREATE DOMAIN noword AS text",
		"CREATE TYPE nowords AS (n int, w text)",
		"CREATE TABLE notext(id int PRIMARY KEY, a text, b text[], c noword, d nowords, e jsonb, f xml)",
		"INSERT INTO notext VALUES (1, 'é', '{é}', 'é', (200, 'é'), '\"é\"')",
		"CREATE TABLE notextatall(a text)")
	const bad = `('\x636166c3'::bytea)::text`
	for _, sql := range []string{"INSERT INTO notext(id, a) VALUES (2, " + bad + ")",
		"UPDATE notext SET a = a || " + bad, "UPDATE notext SET b = ARRAY['x', " + bad + "]",
		"UPDATE notext SET c = " + bad, "UPDATE notext SET d = ROW(200, " + bad + ")::nowords",
		"UPDATE notext SET a = ('\\x6100'::bytea)::text",
		"INSERT INTO notextatall SELECT " + bad + " FROM generate_series(1, 5000)"} {
		err := s.Try(sql)
		if got := Code(err); got != "22021" || !strings.Contains(err.Error(),
			`invalid byte sequence for encoding "UTF8": 0x`) {
			t.Errorf("%s: %v", sql, err)
		}
	}
	err := s.Try("BEGIN; INSERT INTO notext(id, a) VALUES (3, " + bad +
		"); CREATE TABLE notextnew(a text); INSERT INTO notextnew VALUES (" + bad + "); COMMIT")
	if Code(err) != "22021" {
		t.Errorf("with a definition: %v", err)
	}
	if err := s.Try("BEGIN; CREATE TABLE notextnew(a text); INSERT INTO notextnew VALUES (" + bad +
		"); COMMIT"); Code(err) != "22021" {
		t.Errorf("in a new table: %v", err)
	}
	s.Do("UPDATE notext SET a = a || '…', d = ROW(-1, 'é')::nowords", "DROP CAST (bytea AS text)")
	c.Everywhere("SELECT a || b[1] || c || (d).w || (SELECT count(*) FROM notextatall) FROM notext", "é…ééé0")
	c.Check()
}
