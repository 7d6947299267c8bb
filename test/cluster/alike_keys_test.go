package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
)

// alikeKeys are values of types whose hashes leave something out, by which PostgreSQL hashes a and b alike, and c and
// d; a is the same as another spelling of it.
var alikeKeys = []struct{ name, columns, key, a, b, c, d, again string }{
	{"numeric", "k numeric", "k", "1", "-1", "2", "-2", "1.00"},
	{"arrays", "k int[]", "k", "'{1,2}'::int[]", "'{{1,2}}'::int[]", "'[0:1]={1,2}'::int[]", "'[3:4]={1,2}'::int[]",
		"'[1:2]={1,2}'::int[]"},
	{"arrays of numeric", "k numeric[]", "k", "'{1,2}'::numeric[]", "'{{1,2}}'::numeric[]", "'{-1,2}'::numeric[]",
		"'{1,-2}'::numeric[]", "'{1.0,2.00}'::numeric[]"},
	{"jsonb", "k jsonb", "k", "'[1]'::jsonb", "'[-1]'::jsonb", "'[[1],2]'::jsonb", "'[1,[2]]'::jsonb",
		"'[1.00]'::jsonb"},
	{"ranges", "k numrange", "k", "'[1,2]'::numrange", "'[-1,2]'::numrange", "'[1,3)'::numrange", "'[-1,3)'::numrange",
		"'[1.0,2.00]'::numrange"},
	{"intervals", "k interval", "k", "'1 day'::interval", "'-1 day'::interval", "'1 mon'::interval",
		"'-30 days'::interval", "'24:00:00'::interval"},
	{"two columns", "k numeric, l int", "k, l", "(1, 1)", "(-1, 1)", "(3, -2)", "(-3, -2)", "(1.000, 1)"},
	{"addresses and text", "k inet, l text", "k, l", "('10.0.0.0/8'::inet, 'x')", "('10.0.0.0/9'::inet, 'x')",
		"('::1', '')", "('::', '1')", "('10.0.0.0/8', 'x')"},
}

// TestKeysThatHashAlike: rows whose keys PostgreSQL's hash functions take for equal are different rows, in all that is
// done to them in one transaction, and in those of several members.
func TestKeysThatHashAlike(t *testing.T) {
	c := use(t)
	for _, x := range alikeKeys {
		t.Run(x.name, func(t *testing.T) {
			c := c.in(t)
			one, two, three := c.Connect(1), c.Connect(2), c.Connect(3)
			key := "(" + x.key + ")"
			values := func(k string, v int) string { return fmt.Sprintf("(%s, %d)", strings.Trim(k, "()"), v) }
			all := fmt.Sprintf("SELECT count(*), sum(v), md5(string_agg(concat_ws(' ', %s, v), ',' ORDER BY %s)) "+
				"FROM alike", x.key, x.key)
			same := func(count string, sum int) {
				t.Helper()
				want := one.Get(all)
				if !strings.HasPrefix(want, fmt.Sprintf("%s|%d|", count, sum)) {
					t.Fatalf("rows are %s: %s", want, one.Get("SELECT * FROM alike"))
				}
				c.Everywhere(all, want)
			}
			one.Do("CREATE TABLE alike("+x.columns+", v int, PRIMARY KEY ("+x.key+"))",
				"INSERT INTO alike VALUES "+values(x.a, 0)+", "+values(x.b, 0))
			one.Do("BEGIN", "UPDATE alike SET v = 10 WHERE "+key+" = "+x.a,
				"UPDATE alike SET v = 20 WHERE "+key+" = "+x.b, "COMMIT")
			same("2", 30)
			one.Do("INSERT INTO alike VALUES "+values(x.c, 0)+", "+values(x.d, 0), "UPDATE alike SET v = v + 1")
			same("4", 34)
			for range 3 { // one after the other, which the others may carry out together
				for _, k := range []string{x.a, x.b, x.c, x.d} {
					if _, err := one.Exec(context.Background(),
						"UPDATE alike SET v = v + 1 WHERE "+key+" = "+k); err != nil {
						t.Fatal(Explain(err))
					}
				}
			}
			same("4", 46)
			set := "(" + x.key + ") = ROW" + "(" + strings.Trim(x.d, "()") + ")"
			one.Do("DELETE FROM alike WHERE "+key+" = "+x.d, "UPDATE alike SET "+set+" WHERE "+key+" = "+x.c)
			same("3", 42)
			// The same key, as it is written otherwise.
			set = "(" + x.key + ") = ROW" + "(" + strings.Trim(x.again, "()") + ")"
			one.Do("BEGIN", "UPDATE alike SET "+set+", v = v + 1 WHERE "+key+" = "+x.a,
				"UPDATE alike SET v = v + 1 WHERE "+key+" = "+x.a, "COMMIT")
			same("3", 44)
			two.Do("INSERT INTO alike VALUES " + values(x.a, 7) + " ON CONFLICT (" + x.key + ") DO UPDATE SET " + set +
				", v = alike.v + 1")
			c.Everywhere("SELECT sum(v) FROM alike", "45")
			two.Do("BEGIN", "DELETE FROM alike WHERE "+key+" = "+x.a, "INSERT INTO alike VALUES "+values(x.again, 1),
				"INSERT INTO alike VALUES "+values(x.c, 0), "COMMIT")
			c.Everywhere("SELECT sum(v) FROM alike", "29")
			same("4", 29)
			alikeAtTwo(t, one, two, "DELETE FROM alike WHERE "+key+" = "+x.a,
				"INSERT INTO alike VALUES "+values(x.a, 1), "INSERT INTO alike VALUES "+values(x.again, 1))
			same("4", 29)
			alikeAtTwo(t, one, two, "", "UPDATE alike SET v = v + 1 WHERE "+key+" = "+x.a,
				"DELETE FROM alike WHERE "+key+" = "+x.again)
			c.Settled()
			c.Everywhere(all, three.Get(all))
			references(t, c, one, two, x.columns, x.key, values(x.b, 1), strings.Trim(x.b, "()"))
			one.Do("DROP TABLE alike_refers, alike")
		})
	}
	c.Check()
}

// alikeAtTwo has two members do something to one key at the same time: one of them loses.
func alikeAtTwo(t *testing.T, one, two *Conn, before, first, second string) {
	t.Helper()
	if before != "" {
		one.Do(before)
	}
	one.c.Settled()
	one.Do("BEGIN ISOLATION LEVEL REPEATABLE READ", first)
	two.Do("BEGIN ISOLATION LEVEL REPEATABLE READ", second)
	errs := []error{one.Try("COMMIT"), two.Try("COMMIT")}
	codes := []string{Code(errs[0]), Code(errs[1])}
	slices.Sort(codes)
	if codes[0] != "" || codes[1] != "40001" {
		t.Errorf("%s and %s: %v", first, second, errors.Join(errs...))
	}
	for _, s := range []*Conn{one, two} {
		s.Do("ROLLBACK")
	}
}

// references: who refers to a row and who deletes it meet.
func references(t *testing.T, c *Cluster, one, two *Conn, columns, key, row, value string) {
	t.Helper()
	one.Do("CREATE TABLE alike_refers("+columns+", n int PRIMARY KEY, FOREIGN KEY ("+key+") REFERENCES alike)",
		"INSERT INTO alike_refers VALUES "+row)
	if code := Code(two.Try("DELETE FROM alike WHERE (" + key + ") = (" + value + ")")); code != "23503" {
		c.Everywhere("SELECT count(*) FROM alike_refers", "1")
		if code = Code(two.Try("DELETE FROM alike WHERE (" + key + ") = (" + value + ")")); code != "23503" {
			t.Errorf("a row that is referred to is deleted: %q", code)
		}
	}
	one.Do("DELETE FROM alike_refers")
	c.Everywhere("SELECT count(*) FROM alike_refers", "0")
	alikeAtTwo(t, one, two, "", "INSERT INTO alike_refers VALUES "+row,
		"DELETE FROM alike WHERE ("+key+") = ("+value+")")
	c.Everywhere("SELECT count(*) FROM alike_refers r WHERE NOT EXISTS (SELECT FROM alike a WHERE a.k = r.k)", "0")
}

// TestReferencesAcrossTypes: a key that is referred to by another type is the same key.
func TestReferencesAcrossTypes(t *testing.T) {
	c := use(t)
	for _, x := range [][5]string{
		{"int8", "numeric", "5", "5.00", "6"}, {"text", "char(20)", "'abc'", "'abc   '", "'abd'"},
		{"int2", "int8", "5", "5", "6"}, {"numeric", "float8", "0.5", "0.50", "0.6"},
		{"date", "timestamp", "'2020-01-02'", "'2020-01-02 00:00'", "'2020-01-03'"},
		{"cidr", "inet", "'10.0.0.0/8'", "'10.0.0.0/8'", "'10.0.0.0/9'"}, {"varchar", "text", "'a'", "'a'", "'b'"},
		{"timestamp", "timestamptz", "'2020-01-02 00:00'", "'2020-01-02 00:00'", "'2020-01-03'"},
		{"bit(3)", "varbit", "'101'", "'101'", "'1'"}, {"float4", "float8", "0.5", "0.5", "0.6"},
	} {
		t.Run(x[0]+" to "+x[1], func(t *testing.T) {
			c := c.in(t)
			one, two := c.Connect(1), c.Connect(2)
			one.Do("CREATE TABLE across_keys(k "+x[1]+" PRIMARY KEY)", "CREATE TABLE across_refers(k "+x[0]+
				" REFERENCES across_keys, n int PRIMARY KEY)", "INSERT INTO across_keys VALUES ("+x[3]+")")
			c.Everywhere("SELECT count(*) FROM across_keys", "1")
			alikeAtTwo(t, one, two, "", "INSERT INTO across_refers VALUES ("+x[2]+", 1)", "DELETE FROM across_keys")
			c.Everywhere("SELECT count(*) FROM across_refers r WHERE NOT EXISTS (SELECT FROM across_keys)", "0")
			for _, goes := range []string{"DELETE FROM across_keys", "UPDATE across_keys SET k = " + x[4]} {
				one.Do("DELETE FROM across_refers", "TRUNCATE across_keys CASCADE",
					"INSERT INTO across_keys VALUES ("+x[3]+")")
				c.Settled()
				// At READ COMMITTED, what came between the statement and COMMIT is there already.
				one.Do("BEGIN", goes)
				two.Do("INSERT INTO across_refers VALUES (" + x[2] + ", 1)")
				c.Everywhere("SELECT count(*) FROM across_refers", "1")
				if code := Code(one.Try("COMMIT")); code != "40001" {
					t.Errorf("%s beside a row that refers to it: %q", goes, code)
				}
			}
			one.Do("DROP TABLE across_refers, across_keys")
		})
	}
	c.Check()
}

// TestReferencesBetweenPartitions: where both tables are partitioned, and the key's values cannot be hashed, or not as
// the other table's type.
func TestReferencesBetweenPartitions(t *testing.T) {
	c := use(t)
	one, two := c.Connect(1), c.Connect(2)
	for _, x := range [][3]string{{"interval", "interval", "'1 day'"}, {"timestamptz", "timestamp", "'2020-01-02'"}} {
		one.Do("CREATE TABLE apart_keys(k int, i "+x[0]+", PRIMARY KEY (k, i)) PARTITION BY HASH (k)",
			"CREATE TABLE apart_keys_0 PARTITION OF apart_keys FOR VALUES WITH (MODULUS 1, REMAINDER 0)",
			"CREATE TABLE apart_refers(n int PRIMARY KEY, k int, i "+x[1]+
				", FOREIGN KEY (k, i) REFERENCES apart_keys) PARTITION BY HASH (n)",
			"CREATE TABLE apart_refers_0 PARTITION OF apart_refers FOR VALUES WITH (MODULUS 1, REMAINDER 0)")
		for _, level := range []string{"READ COMMITTED", "REPEATABLE READ"} {
			for _, first := range []string{"refers", "deletes"} {
				one.Do("TRUNCATE apart_keys CASCADE", "INSERT INTO apart_keys VALUES (1, "+x[2]+")")
				c.Settled()
				one.Do("BEGIN ISOLATION LEVEL "+level, "DELETE FROM apart_keys")
				two.Do("BEGIN ISOLATION LEVEL "+level, "INSERT INTO apart_refers VALUES (1, 1, "+x[2]+")")
				winner, loser := one, two
				if first == "refers" {
					winner, loser = two, one
				}
				winner.Do("COMMIT")
				c.Settled()
				if code := Code(loser.Try("COMMIT")); code != "40001" {
					t.Errorf("%s to %s at %s, %s first: %q", x[1], x[0], level, first, code)
				}
			}
		}
		one.Do("DROP TABLE apart_refers, apart_keys")
	}
	c.Check()
}

// TestCollidingKeysFail: where two rows have one hash all the same, a transaction that changes both fails, and nothing
// else does.
func TestCollidingKeysFail(t *testing.T) {
	c := use(t)
	one := c.Connect(1)
	one.Do("CREATE TABLE collides(k numeric PRIMARY KEY, v int)", "INSERT INTO collides VALUES (1, 0), (-1, 0), (2, 0)")
	if _, err := c.alone(1, "postgres").Exec(context.Background(), `BEGIN; SET LOCAL backtrace_functions = 'tutti_on';
		CREATE FUNCTION tutti.signless(n numeric) RETURNS numeric LANGUAGE sql IMMUTABLE AS 'SELECT trim_scale(abs(n))';
		DO $$ DECLARE f regprocedure; BEGIN
			FOR f IN SELECT oid FROM pg_proc WHERE pronamespace = 'tutti'::regnamespace AND strpos(prosrc, 'pg_catalog.trim_scale') > 0 AND strpos(prosrc, '"collides"') > 0 LOOP
				EXECUTE replace(pg_get_functiondef(f), 'pg_catalog.trim_scale', 'tutti.signless');
			END LOOP;
		END $$; COMMIT`); err != nil {
		t.Fatal(Explain(err))
	}
	for _, x := range [][2]string{
		{"DO $$ BEGIN UPDATE collides SET v = 1 WHERE k = 1; UPDATE collides SET v = 2 WHERE k = -1; END $$",
			"(1) and (-1)"},
		{"DO $$ BEGIN UPDATE collides SET k = -k WHERE k = 2; END $$", "(2) and (-2)"},
		{"DO $$ BEGIN DELETE FROM collides WHERE k = 1; UPDATE collides SET v = 2 WHERE k = -1; END $$",
			"(1) and (-1)"},
	} {
		for _, block := range []bool{false, true} {
			var err error
			if block {
				one.Do("BEGIN", x[0])
				err = one.Try("COMMIT")
			} else {
				err = one.Try(x[0])
			}
			var pg *pgconn.PgError
			if !errors.As(err, &pg) || pg.Code != "0A000" || !strings.Contains(pg.Detail, x[1]) ||
				pg.TableName != "collides" || pg.Hint == "" {
				t.Errorf("%s: %v", x[0], Explain(err))
			}
		}
	}
	one.Do("DO $$ BEGIN UPDATE collides SET v = 5 WHERE k = 1; UPDATE collides SET k = 1.0 WHERE k = 1; UPDATE " +
		"collides SET v = v + 1 WHERE k = 1; END $$")
	c.Everywhere("SELECT k, v FROM collides ORDER BY k", "-1|0,1.0|6,2|0")
	one.Do("DROP TABLE collides")
	if _, err := c.alone(1, "postgres").Exec(context.Background(),
		"BEGIN; SET LOCAL backtrace_functions = 'tutti_on'; DROP FUNCTION tutti.signless; COMMIT"); err != nil {
		t.Fatal(Explain(err))
	}
	c.Check()
}
