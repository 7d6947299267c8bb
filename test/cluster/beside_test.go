package cluster

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// definers are what sessions of one node do beside each other, again and again, each to its own relations: @ is the
// session's number, and # an operator of its own. The statements of a line are sent one by one. On one server none
// of them waits for another for long, or loses.
var definers = map[string][]string{
	"table": {
		"CREATE TABLE beside@(a int PRIMARY KEY, b text)", "INSERT INTO beside@ VALUES (1, 'x')",
		"ALTER TABLE beside@ ADD COLUMN c int DEFAULT 7", "CREATE INDEX ON beside@(b)", "DROP TABLE beside@",
	},
	"block": {
		"BEGIN; CREATE TABLE beside@(a serial PRIMARY KEY, b text); INSERT INTO beside@(b) VALUES ('x'); " +
			"ALTER TABLE beside@ ADD COLUMN c int; COMMIT", "DROP TABLE beside@",
	},
	"function": {
		"CREATE FUNCTION beside@() RETURNS int LANGUAGE sql AS 'SELECT 1'", "SELECT beside@()",
		"CREATE OR REPLACE FUNCTION beside@() RETURNS int LANGUAGE sql AS 'SELECT 2'", "DROP FUNCTION beside@()",
	},
	"type": {
		"CREATE TYPE beside@ AS ENUM ('a')", "CREATE TABLE of_beside@(i int, x beside@)",
		"INSERT INTO of_beside@ VALUES (1, 'a')", "ALTER TYPE beside@ ADD VALUE 'b'", "DROP TYPE beside@ CASCADE",
		"DROP TABLE of_beside@",
	},
	"do": {
		"DO $$ BEGIN CREATE TABLE beside@(a int PRIMARY KEY); INSERT INTO beside@ VALUES (1); END $$",
		"DO $$ BEGIN DROP TABLE beside@; END $$",
	},
	"rights": {
		"GRANT SELECT ON beside_rights TO PUBLIC", "COMMENT ON TABLE beside_rights IS 'some'",
		"REVOKE SELECT ON beside_rights FROM PUBLIC",
	},
	"schema": {
		"CREATE SCHEMA beside@", "CREATE TABLE beside@.t(a int)", "CREATE VIEW beside@.v AS SELECT a FROM beside@.t",
		"DROP SCHEMA beside@ CASCADE",
	},
	"operator": {
		"CREATE FUNCTION beside@(int, text) RETURNS bool LANGUAGE sql AS 'SELECT true'",
		"CREATE OPERATOR # (LEFTARG = int, RIGHTARG = text, FUNCTION = beside@)",
		"DROP FUNCTION beside@(int, text) CASCADE",
	},
	"renames": {
		"CREATE TABLE beside@(a int PRIMARY KEY, b int UNIQUE)", "CREATE TABLE to_beside@(b int REFERENCES beside@(b))",
		"ALTER TABLE beside@ RENAME b TO c", "ALTER TABLE beside@ RENAME CONSTRAINT beside@_b_key TO beside@_c",
		"BEGIN; INSERT INTO beside@ VALUES (1, 1); ALTER TABLE beside@ RENAME TO renamed@; " +
			"INSERT INTO to_beside@ VALUES (1); ALTER TABLE renamed@ RENAME COLUMN c TO d; COMMIT",
		"UPDATE renamed@ SET a = 2 WHERE d = 1", "DROP TABLE to_beside@, renamed@",
	},
	"writing function": {
		"CREATE FUNCTION beside@() RETURNS void LANGUAGE sql AS 'INSERT INTO beside_rows(n) VALUES (0)'",
		"CREATE PROCEDURE beside_to@() BEGIN ATOMIC UPDATE beside_rows SET n = 0 WHERE n = -7;END",
		"DROP FUNCTION beside@()", "DROP PROCEDURE beside_to@()",
	},
	"domain": {
		"CREATE DOMAIN beside@ AS int", "ALTER DOMAIN beside@ ADD CHECK (VALUE > 0)", "DROP DOMAIN beside@",
	},
	"maintenance": {"VACUUM FULL pg_am", "VACUUM FULL pg_class", "SELECT pg_sleep(0.5)"},
	"private": {
		"CREATE TEMP TABLE IF NOT EXISTS mine(a int)", "CREATE TABLE beside@(a int PRIMARY KEY)",
		"INSERT INTO beside@ VALUES (1)", "DROP TABLE beside@",
	},
	"rows": {
		"BEGIN; INSERT INTO beside_rows(n) VALUES (@); SELECT pg_sleep(0.02); " +
			"UPDATE beside_rows SET n = n + 1000 WHERE n = @; COMMIT",
	},
	"serializable": {
		"BEGIN ISOLATION LEVEL SERIALIZABLE; CREATE TABLE beside@(a int); INSERT INTO beside@ VALUES (1); " +
			"DECLARE c CURSOR FOR SELECT a FROM beside@ FOR UPDATE; UPDATE beside@ SET a = 2; COMMIT",
		"DROP TABLE beside@",
	},
	"savepoint": {
		"BEGIN; SAVEPOINT a; INSERT INTO beside_rows(n) VALUES (@); SAVEPOINT b; SELECT pg_sleep(0.02); " +
			"INSERT INTO beside_rows(n) VALUES (@); ROLLBACK TO b; COMMIT",
	},
	"behind rows": {
		"BEGIN; INSERT INTO beside_rows(n) VALUES (@); CREATE TABLE beside@(a int); DROP TABLE beside@; COMMIT",
	},
	"barrier": {
		"CREATE TYPE beside@ AS ENUM ('a', 'b')", "ALTER TYPE beside@ RENAME VALUE 'a' TO 'c'", "DROP TYPE beside@",
	},
	"single": {
		"INSERT INTO beside_rows(n) SELECT @ FROM generate_series(1, 3)", "UPDATE beside_rows SET n = -@ WHERE n = @",
		"DELETE FROM beside_rows WHERE n = -@",
	},
}

// TestDefinitionsBesideEachOther: sessions of one node that define things of their own, and others that write, do
// not make each other lose.
func TestDefinitionsBesideEachOther(t *testing.T) {
	c := use(t)
	a := c.Connect(1)
	a.Do("CREATE TABLE beside_rows(id bigserial PRIMARY KEY, n int)", "CREATE TABLE beside_rights(id int PRIMARY KEY)")
	c.Everywhere("SELECT count(*) FROM beside_rows", "0")
	var mu sync.Mutex
	lost, ran := map[string]int{}, map[string]int{}
	var all sync.WaitGroup
	end := time.Now().Add(seconds(8 * time.Second))
	for n, kind := range slices.Sorted(maps.Keys(definers)) {
		s, own := c.Connect(1), strings.NewReplacer("@", fmt.Sprint(n+1), "#", "##"+strings.Repeat("#", n))
		do := func(line string) (code string) {
			for _, sql := range strings.Split(line, "; ") {
				err := s.Try(own.Replace(sql))
				mu.Lock()
				if ran[kind]++; err != nil {
					lost[fmt.Sprintf("%s: %s: %s", kind, sql, Explain(err))]++
				}
				mu.Unlock()
				if err != nil {
					_ = s.Try("ROLLBACK")
					return Code(err)
				}
			}
			return ""
		}
		all.Go(func() {
			for time.Now().Before(end) {
				for _, line := range definers[kind] {
					if strings.HasPrefix(line, "DO ") {
						line = strings.ReplaceAll(line, "; ", ";")
					}
					code := do(line)
					for code == "40001" {
						code = do(line)
					}
					if code != "" {
						return
					}
				}
			}
		})
	}
	all.Wait()
	t.Logf("statements: %v", ran)
	for _, what := range slices.Sorted(maps.Keys(lost)) {
		t.Errorf("%d times %s", lost[what], what)
	}
	c.Settled()
}

// TestDefinitionsOfOtherNodes: blocks that define things of their own do not lose because sessions of other nodes
// define others meanwhile, functions in the same database or roles in another one.
func TestDefinitionsOfOtherNodes(t *testing.T) {
	c := use(t)
	c.Connect(1).Do("CREATE DATABASE beside_others")
	defer func() {
		_ = c.Connect(1).Try("DROP DATABASE beside_others WITH (FORCE)") // others count them
		c.Settled()
	}()
	others := c.In("beside_others")
	for _, k := range c.All() {
		others.Connect(k)
	}
	var all sync.WaitGroup
	end := time.Now().Add(seconds(8 * time.Second))
	var ran atomic.Int64
	for i, x := range []struct {
		node  int
		in    *Cluster
		lines []string
	}{
		{1, others, definers["block"]}, {1, others, definers["do"]}, {1, others, definers["block"]},
		{2, others, definers["function"]}, {3, others, definers["function"]},
		{2, c, []string{"CREATE ROLE of_beside@", "ALTER ROLE of_beside@ LOGIN", "DROP ROLE IF EXISTS of_beside@"}},
		{3, others, []string{"DROP ROLE IF EXISTS of_beside@", "CREATE ROLE of_beside@", "DROP ROLE of_beside@"}},
	} {
		s, own := x.in.Connect(x.node), strings.NewReplacer("@", fmt.Sprint(900+i))
		all.Go(func() {
			for time.Now().Before(end) {
				for _, line := range x.lines {
					if x.node > 1 { // who never rests can keep a block waiting for longer than others wait for that
						time.Sleep(5 * time.Millisecond)
					}
					sqls := strings.Split(line, "; ")
					if strings.HasPrefix(line, "DO ") {
						sqls = []string{line}
					}
					for _, sql := range sqls {
						ran.Add(1)
						if err := s.Try(own.Replace(sql)); err != nil {
							t.Errorf("node %d, %s: %s: %s", x.node, own.Replace(line), own.Replace(sql), Explain(err))
							_ = s.Try("ROLLBACK")
							break
						}
					}
				}
			}
		})
	}
	all.Wait()
	t.Logf("%d statements", ran.Load())
	others.Check()
	c.Check()
}

// TestRenamedBesideWriters: who has written to a table under a name that another member has altered meanwhile loses;
// who has written to a table that is not known by that name does not.
func TestRenamedBesideWriters(t *testing.T) {
	c := use(t)
	a, b, free := c.Connect(1), c.Connect(2), c.Connect(2)
	a.Do("CREATE SCHEMA names", "CREATE TABLE names.t(id int PRIMARY KEY, k int UNIQUE)",
		"CREATE TABLE names_of(id int PRIMARY KEY, k int REFERENCES names.t(k))",
		"CREATE TABLE names_whole(id int, at date) PARTITION BY RANGE (at)",
		"CREATE TABLE names_part PARTITION OF names_whole DEFAULT", "CREATE TABLE names_free(id int PRIMARY KEY)",
		"INSERT INTO names.t VALUES (1, 1)")
	c.Settled()
	for i, x := range []struct{ writes, renames, back string }{
		{"INSERT INTO names_of VALUES (2, 1)", "ALTER TABLE names.t RENAME k TO l",
			"ALTER TABLE names.t RENAME l TO k"},
		{"INSERT INTO names_of VALUES (2, 1)", "BEGIN; ALTER TABLE names.t RENAME k TO l; COMMIT",
			"ALTER TABLE names.t RENAME COLUMN l TO k"},
		{"INSERT INTO names.t VALUES (2, 2)", "ALTER TABLE names.t RENAME CONSTRAINT t_k_key TO l",
			"ALTER TABLE names.t RENAME CONSTRAINT l TO t_k_key"},
		{"INSERT INTO names.t VALUES (2, 2)", "ALTER TABLE names.t RENAME TO u", "ALTER TABLE names.u RENAME TO t"},
		{"INSERT INTO names_of VALUES (2, 1)", "ALTER TABLE names.t RENAME TO u", "ALTER TABLE names.u RENAME TO t"},
		{"INSERT INTO names_part VALUES (2, now())", "ALTER TABLE names_whole RENAME TO names_all",
			"ALTER TABLE names_all RENAME TO names_whole"},
	} {
		b.Do("BEGIN ISOLATION LEVEL REPEATABLE READ", x.writes) // or it would be done again
		free.Do("BEGIN ISOLATION LEVEL REPEATABLE READ", fmt.Sprintf("INSERT INTO names_free VALUES (%d)", i))
		a.Do(x.renames)
		c.Settled()
		if err := b.Try("COMMIT"); Code(err) != "40001" {
			t.Errorf("%s, then %s: %v", x.writes, x.renames, err)
		}
		if err := free.Try("COMMIT"); err != nil {
			t.Errorf("beside %s: %v", x.renames, err)
			_ = free.Try("ROLLBACK")
		}
		a.Do(x.back)
		c.Settled()
	}
	c.Check()
}

// TestDefinitionFailsBeside: a definition of another session that fails at its place in the order changes nothing, and
// lets no transaction of its member lose that defines something.
func TestDefinitionFailsBeside(t *testing.T) {
	c := use(t)
	a, b := c.Connect(1), c.Connect(1)
	a.Do("CREATE TABLE fails_there (id int)")
	for _, sql := range []string{"CREATE TABLE fails_there (id int)", "ALTER TABLE fails_there ADD COLUMN id int",
		"DROP FUNCTION fails_never()"} {
		a.Do("BEGIN", "CREATE TABLE fails_beside (id int)")
		if err := b.Try(sql); err == nil {
			t.Errorf("%s succeeded", sql)
		}
		a.Do("COMMIT", "DROP TABLE fails_beside")
	}
	a.Do("DROP TABLE fails_there")
}

// TestVacuumOfCatalogsBeside: a VACUUM FULL of catalogs waits for a block with a definition, and keeps neither its
// COMMIT back nor, for long, what other members write.
func TestVacuumOfCatalogsBeside(t *testing.T) {
	c := use(t)
	block, vacuum, other := c.Connect(1), c.Connect(1), c.Connect(2)
	other.Do("CREATE TABLE vacuum_beside(id int PRIMARY KEY)")
	c.Settled()
	for i, catalogs := range [][]string{{"pg_proc", "pg_class"}, {"pg_class", "pg_proc"}} {
		block.Do("BEGIN", fmt.Sprintf("CREATE TABLE vacuum_beside%d(id int PRIMARY KEY)", i))
		vacuumed := make(chan error, 1)
		go func() {
			var err error
			for _, name := range catalogs {
				err = errors.Join(err, vacuum.Try("VACUUM FULL "+name))
			}
			vacuumed <- err
		}()
		time.Sleep(seconds(3500 * time.Millisecond)) // a cleaning up comes, and must not wait for it
		other.Do(fmt.Sprintf("INSERT INTO vacuum_beside VALUES (%d)", i))
		began := time.Now()
		block.Do("COMMIT")
		if took := time.Since(began); took > seconds(5*time.Second) {
			t.Errorf("VACUUM FULL of %v: the COMMIT of a block took %s", catalogs, took)
		}
		if err := <-vacuumed; err != nil && Code(err) != "40001" {
			t.Errorf("VACUUM FULL of %v: %v", catalogs, err)
		}
		c.Everywhere("SELECT count(*) FROM vacuum_beside", fmt.Sprint(i+1))
	}
	c.Settled()
}

// TestSerialBesideBarriers: a statement outside of blocks is not run twice because another session of its member has
// altered a type: no number of its sequence is left out.
func TestSerialBesideBarriers(t *testing.T) {
	c := use(t)
	writer, definer := c.Connect(1), c.Connect(1)
	definer.Do("CREATE TYPE beside_barriers AS ENUM ('a')", "CREATE TABLE serial_beside(id serial PRIMARY KEY)")
	var ended atomic.Bool
	var all sync.WaitGroup
	barriers := 0
	all.Go(func() {
		for names := []string{"a", "b"}; !ended.Load(); barriers++ {
			definer.Do(fmt.Sprintf("ALTER TYPE beside_barriers RENAME VALUE '%s' TO '%s'", names[0], names[1]))
			slices.Reverse(names)
		}
	})
	const rows = 20
	for range rows {
		writer.Do("INSERT INTO serial_beside SELECT nextval('serial_beside_id_seq') FROM pg_sleep(0.1)")
	}
	ended.Store(true)
	all.Wait()
	if barriers < 3 {
		t.Errorf("%d barriers were ordered meanwhile", barriers)
	}
	c.Everywhere("SELECT max(id) - min(id) + 1 FROM serial_beside", fmt.Sprint(rows))
}
