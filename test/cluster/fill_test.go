package cluster

import (
	"fmt"
	"testing"
)

// TestColumnsThatFillRows: columns are added whose values in the rows that are there are computed, for
// all of them once or for each anew. Every node has those of the first.
func TestColumnsThatFillRows(t *testing.T) {
	c := use(t)
	c.Connect(1).Do("CREATE TABLE filled(id int PRIMARY KEY, v text)",
		"INSERT INTO filled SELECT g FROM generate_series(1, 50) g",
		"CREATE TABLE refers(id int REFERENCES filled ON DELETE CASCADE)", "INSERT INTO refers VALUES (1), (2)",
		"CREATE TABLE fillnokey(v text)", "INSERT INTO fillnokey SELECT 'same' FROM generate_series(1, 20)",
		"CREATE TABLE fillparts(k int) PARTITION BY RANGE (k)",
		"CREATE TABLE fillpart1 PARTITION OF fillparts FOR VALUES FROM (0) TO (10)",
		"INSERT INTO fillparts VALUES (1), (2)",
		"CREATE FUNCTION drawn() RETURNS int LANGUAGE sql VOLATILE AS 'SELECT (random() * 1000000)::int'",
		"CREATE FUNCTION steady() RETURNS text LANGUAGE sql STABLE AS 'SELECT clock_timestamp()::text'")
	for i, column := range []string{
		"a timestamptz NOT NULL DEFAULT now()", "b uuid DEFAULT gen_random_uuid()",
		"d date DEFAULT current_date, ADD e text DEFAULT steady()", "f int DEFAULT drawn()",
		"g timestamp[] DEFAULT ARRAY[now()], ADD h text DEFAULT upper('x') CHECK (h > '')", "j serial",
		"l float DEFAULT random(), ADD m timestamptz DEFAULT now()",
		"n text DEFAULT nullif(current_user, current_user)",
	} {
		c.Settled()
		for _, table := range []string{"filled", "fillnokey", "fillparts"} {
			c.Connect(1 + i%3).Do(fmt.Sprintf("ALTER TABLE %s ADD COLUMN %s", table, column))
		}
	}
	c.Settled()
	c.Connect(2).Do("ALTER TABLE filled ADD COLUMN u uuid DEFAULT gen_random_uuid() UNIQUE",
		"ALTER TABLE fillnokey ADD COLUMN id bigserial PRIMARY KEY",
		"ALTER TABLE filled ADD COLUMN i bigint GENERATED ALWAYS AS IDENTITY")
	c.Settled()
	s := c.Connect(3)
	s.Do("BEGIN; INSERT INTO filled(id) VALUES (100); ALTER TABLE filled ADD COLUMN o serial, ADD p timestamptz "+
		"DEFAULT now(); UPDATE filled SET o = o + 100; ALTER TABLE filled ADD IF NOT EXISTS a timestamptz DEFAULT "+
		"clock_timestamp()",
		"ALTER TABLE filled ADD COLUMN IF NOT EXISTS q timestamptz DEFAULT now(), ADD IF NOT EXISTS p date DEFAULT "+
			"current_date; INSERT INTO filled(id) VALUES (101); COMMIT",
		"DO $$ BEGIN ALTER TABLE filled ADD COLUMN r timestamptz DEFAULT now(); UPDATE filled SET v = 'done'; END $$")
	// In a block, what comes next sees the values of the first member.
	s.Do("BEGIN", "ALTER TABLE filled ADD COLUMN s uuid DEFAULT gen_random_uuid()",
		"ALTER TABLE filled RENAME COLUMN s TO t", "ALTER TABLE filled ADD COLUMN w float DEFAULT random()",
		"ALTER TABLE filled ADD CONSTRAINT w_range CHECK (w::text <> '')",
		"ALTER TABLE filled ALTER COLUMN w TYPE text USING 'is ' || w", "CREATE UNIQUE INDEX ON filled(t)", "COMMIT")
	refused(t, "a function that fills rows one by one",
		s.Try("DO $$ BEGIN ALTER TABLE filled ADD COLUMN never serial; END $$"))
	c.Settled()
	for node := 1; node <= 3; node++ {
		c.Connect(node).Do(fmt.Sprintf("INSERT INTO filled(id, v) VALUES (%d, 'more')", 200+node),
			"INSERT INTO fillnokey(v) VALUES ('more')", "UPDATE filled SET v = v || r WHERE id = 7")
	}
	c.Everywhere("SELECT count(*), count(DISTINCT b), count(DISTINCT j), count(DISTINCT i), count(DISTINCT o), "+
		"count(a), count(n) FROM filled", "55|55|55|55|55|55|0")
	c.Everywhere("SELECT count(DISTINCT t), count(DISTINCT w), count(*) FILTER (WHERE w ~ '^is 0') FROM filled WHERE "+
		"id < 200", "52|52|52")
	c.Everywhere("SELECT count(DISTINCT id), count(*) FROM fillnokey", "23|23")
	c.Everywhere("SELECT count(*) FROM refers", "2")
	c.Everywhere("SELECT string_agg(attname || ' ' || pg_get_expr(adbin, adrelid), ', ' ORDER BY attnum) FROM "+
		"pg_attrdef d JOIN pg_attribute a ON attrelid = adrelid AND attnum = adnum WHERE attrelid = "+
		"'filled'::regclass AND attname IN ('a', 'd', 'p', 'r')",
		"a now(), d CURRENT_DATE, p now(), r now()")
	// Where nothing was written anew, no rows have followed that would hide a difference.
	c.Connect(1).Do("CREATE TABLE fillonce(id int)", "INSERT INTO fillonce VALUES (1), (2)",
		"ALTER TABLE fillonce ADD a timestamptz NOT NULL DEFAULT now()")
	c.Settled()
	c.Connect(2).Do("BEGIN; ALTER TABLE fillonce ADD IF NOT EXISTS a date DEFAULT current_date, ADD b text DEFAULT "+
		"steady(); COMMIT", "DO $$ BEGIN ALTER TABLE fillonce ADD r timestamptz DEFAULT now(); END $$")
	c.Everywhere("SELECT count(DISTINCT (a, b, r)), count(b) FROM fillonce", "1|2")
	c.Check()
	c.Connect(1).Do("DROP TABLE refers, fillonce, filled, fillnokey, fillparts", "DROP FUNCTION drawn",
		"DROP FUNCTION steady")
}

// TestTableLogged: an unlogged table, whose rows are each member's own, becomes a logged one, with the rows of the
// member where that was said.
func TestTableLogged(t *testing.T) {
	c := use(t)
	s := c.Connect(1)
	s.Do("CREATE UNLOGGED TABLE wasown(id serial PRIMARY KEY, v text)", "CREATE UNLOGGED TABLE wasownfree(v text)",
		"CREATE UNLOGGED SEQUENCE wasownseq")
	c.Everywhere("SELECT to_regclass('wasownseq') IS NOT NULL", "t")
	for node := 1; node <= 3; node++ {
		c.Connect(node).Do(fmt.Sprintf("INSERT INTO wasown SELECT g, 'node%d' FROM generate_series(1, %d) g", node,
			node*10), fmt.Sprintf("INSERT INTO wasownfree VALUES ('node%d')", node))
	}
	two := c.Connect(2)
	two.Do("ALTER TABLE wasown SET LOGGED", "ALTER SEQUENCE wasownseq SET LOGGED")
	c.Everywhere("SELECT count(*), min(v), max(v) FROM wasown", "20|node2|node2")
	two.Do("BEGIN; UPDATE wasownfree SET v = v || '!'; ALTER TABLE wasownfree SET LOGGED; INSERT INTO wasownfree " +
		"VALUES ('after'); UPDATE wasownfree SET v = v || '?'; COMMIT")
	c.Everywhere("SELECT string_agg(v, ' ' ORDER BY v) FROM wasownfree", "after? node2!?")
	c.Connect(3).Do("UPDATE wasown SET v = 'three' WHERE id = 3", "INSERT INTO wasownfree VALUES ('three')",
		"ALTER TABLE wasown SET LOGGED")
	c.Everywhere("SELECT count(*) FROM wasown, wasownfree WHERE wasown.v = 'three' AND wasownfree.v = 'three'", "1")
	c.Everywhere("SELECT string_agg(DISTINCT relpersistence::text, '') FROM pg_class WHERE relname ~ '^wasown'", "p")
	refused(t, "with other changes", s.Try("ALTER TABLE wasown SET LOGGED, ADD CHECK (id > 0)"))
	c.Check()
	s.Do("DROP TABLE wasown, wasownfree", "DROP SEQUENCE wasownseq")
}
