package cluster

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestDefinitionsStopTheirTablesOnly: transactions of other nodes that were open when a definition was ordered, and
// that have written to a table it concerns, lose; those that have not go on.
func TestDefinitionsStopTheirTablesOnly(t *testing.T) {
	c := use(t)
	a, b := c.Connect(1), c.Connect(2)
	a.Do("CREATE SCHEMA ext", "CREATE TABLE ext.other(k int PRIMARY KEY)",
		"CREATE TABLE ext.referred(k int PRIMARY KEY)",
		"CREATE TABLE ext.t(k int PRIMARY KEY, r int REFERENCES ext.referred, v int)",
		"CREATE TABLE ext.parted(k int, v int) PARTITION BY LIST (k)",
		"CREATE TABLE ext.part1 PARTITION OF ext.parted FOR VALUES IN (1)",
		"CREATE TABLE ext.rest PARTITION OF ext.parted DEFAULT", "CREATE TABLE ext.base(k int PRIMARY KEY)",
		"CREATE TABLE ext.derived() INHERITS (ext.base)",
		"CREATE TABLE ext.shape(a int)", "CREATE TABLE ext.shaped(k int PRIMARY KEY, s ext.shape)",
		"CREATE FUNCTION ext.elsewhere(int) RETURNS int LANGUAGE plpgsql AS 'BEGIN INSERT INTO ext.other VALUES "+
			"(1000 + $1); RETURN $1; END'",
		"INSERT INTO ext.t VALUES (1000)", "CREATE TABLE ext.past()", "CREATE TABLE ext.moves()")
	c.Everywhere("SELECT count(*) FROM ext.t", "1")
	for i, s := range []struct {
		definition, write string
		loses             bool
	}{
		{"CREATE TABLE ext.new1(k int PRIMARY KEY)", "INSERT INTO ext.t VALUES (%d)", false},
		{"CREATE INDEX ON ext.t(v)", "INSERT INTO ext.other VALUES (%d)", false},
		{"CREATE INDEX CONCURRENTLY ON ext.t(v)", "INSERT INTO ext.other VALUES (%d)", false},
		{"CREATE INDEX ON ext.t(v)", "INSERT INTO ext.t VALUES (%d)", true},
		{"ALTER TABLE ext.t ADD COLUMN c%d int DEFAULT 7", "INSERT INTO ext.t VALUES (%d)", true},
		{"ALTER TABLE ext.t ADD COLUMN c%d int DEFAULT 7", "INSERT INTO ext.other VALUES (%d)", false},
		{"SET search_path = ext; ALTER TABLE t ADD COLUMN c%d int", "INSERT INTO ext.t VALUES (%d)", true},
		// the other end of a foreign key
		{"ALTER TABLE ext.t ALTER COLUMN r TYPE bigint", "INSERT INTO ext.referred VALUES (%d)", true},
		{"CREATE TABLE ext.new2 PARTITION OF ext.parted FOR VALUES IN (2)", "INSERT INTO ext.rest VALUES (1000 + %d)",
			true},
		{"CREATE TABLE ext.new3 PARTITION OF ext.parted FOR VALUES IN (3)", "INSERT INTO ext.other VALUES (%d)", false},
		{"ALTER TABLE ext.parted ADD COLUMN c%d int", "INSERT INTO ext.part1 VALUES (1)", true},
		// as pg_restore makes them, while it fills others
		{"CREATE INDEX part1_v ON ext.part1(v)", "INSERT INTO ext.rest VALUES (1000 + %d)", false},
		{"CREATE INDEX part1_v2 ON ext.part1(v)", "INSERT INTO ext.part1 VALUES (1)", true},
		{"CREATE INDEX parted_v ON ONLY ext.parted(v)", "INSERT INTO ext.part1 VALUES (1)", false},
		{"ALTER INDEX ext.parted_v ATTACH PARTITION ext.part1_v", "INSERT INTO ext.rest VALUES (1000 + %d)", false},
		{"CREATE INDEX rest_v ON ext.rest(v)", "INSERT INTO ext.part1 VALUES (1)", false},
		// its index has another name now
		{"ALTER INDEX ext.parted_v ATTACH PARTITION ext.rest_v", "INSERT INTO ext.rest VALUES (1000 + %d)", true},
		{"ALTER TABLE ONLY ext.part1 ADD UNIQUE (k, v)", "INSERT INTO ext.rest VALUES (1000 + %d)", false},
		{"CREATE UNIQUE INDEX ON ext.parted(k, v)", "INSERT INTO ext.part1 VALUES (1)", true},
		{"ALTER TABLE ONLY ext.base ADD UNIQUE (k)", "INSERT INTO ext.derived VALUES (%d)", false},
		{"ALTER TABLE ONLY ext.base ADD UNIQUE (k)", "INSERT INTO ext.base VALUES (%d)", true},
		{"ALTER TABLE ext.base ADD CHECK (k > 0)", "INSERT INTO ext.derived VALUES (%d)", true},
		{"ALTER TABLE ext.derived ALTER COLUMN k SET DEFAULT 7", "INSERT INTO ext.base VALUES (%d)", false},
		{"ALTER TABLE ext.t ALTER COLUMN v SET STATISTICS 7", "INSERT INTO ext.referred VALUES (%d)", false},
		{"ALTER TABLE ext.t ADD FOREIGN KEY (v) REFERENCES ext.other", "INSERT INTO ext.other VALUES (%d)", true},
		{"ALTER TABLE ext.part1 ALTER COLUMN k SET NOT NULL", "INSERT INTO ext.rest VALUES (1000 + %d)", false},
		{"ALTER TABLE ext.rest ALTER COLUMN k SET NOT NULL; ALTER TABLE ext.new2 ALTER COLUMN k SET NOT NULL; ALTER " +
			"TABLE ext.new3 ALTER COLUMN k SET NOT NULL", "INSERT INTO ext.part1 VALUES (1)", false},
		// PostgreSQL looks there
		{"ALTER TABLE ONLY ext.parted ALTER COLUMN k SET NOT NULL", "INSERT INTO ext.part1 VALUES (1)", true},
		// its rows are there, too
		{"ALTER TABLE ext.shape ADD COLUMN c%d int", "INSERT INTO ext.shaped VALUES (%d, ROW(1))", true},
		{"CREATE FUNCTION ext.f%d() RETURNS int LANGUAGE sql AS 'SELECT 1'", "INSERT INTO ext.t VALUES (%d)", false},
		{"CREATE ROLE ext_role%d", "INSERT INTO ext.t VALUES (%d)", false},
		{"GRANT SELECT ON ext.t TO PUBLIC", "INSERT INTO ext.t VALUES (%d)", false},
		{"DROP TABLE ext.new1", "INSERT INTO ext.t VALUES (%d)", false},
		{"ALTER FUNCTION ext.elsewhere(int) OWNER TO CURRENT_USER", "INSERT INTO ext.t VALUES (%d)", false},
		{"ALTER FUNCTION ext.elsewhere(int) COST 10", "INSERT INTO ext.t VALUES (%d)", false},
		{"CREATE PUBLICATION ext_published", "INSERT INTO ext.t VALUES (%d)", false},
		{"ALTER PUBLICATION ext_published OWNER TO CURRENT_USER", "INSERT INTO ext.t VALUES (%d)", false},
		// its rows must be told apart now, and no lock keeps them out
		{"ALTER PUBLICATION ext_published ADD TABLE ext.shaped", "INSERT INTO ext.shaped VALUES (%d)", true},
		{"ALTER PUBLICATION ext_published DROP TABLE ext.shaped", "INSERT INTO ext.shaped VALUES (%d)", false},
		// those of all its tables
		{"ALTER PUBLICATION ext_published SET (publish = 'insert')", "INSERT INTO ext.t VALUES (%d)", true},
		{"DROP PUBLICATION ext_published", "INSERT INTO ext.t VALUES (%d)", false},
		// a lie: it writes
		{"ALTER TABLE ext.t ADD CHECK (ext.elsewhere(k) > 0)", "INSERT INTO ext.other VALUES (%d)", true},
		{"ALTER TABLE ext.t RENAME COLUMN v TO w", "INSERT INTO ext.other VALUES (%d)", false},
		{"ALTER TABLE ext.moves SET SCHEMA public", "INSERT INTO ext.other VALUES (%d)", true}, // a barrier
	} {
		number := func(sql string) string {
			if strings.Contains(sql, "%d") {
				return fmt.Sprintf(sql, 100+i)
			}
			return sql
		}
		b.Do("BEGIN ISOLATION LEVEL REPEATABLE READ", "SELECT 1", number(s.write))
		a.Do(number(s.definition))
		a.Do("RESET search_path", "INSERT INTO ext.past DEFAULT VALUES")
		switch err := b.Try("COMMIT"); {
		case s.loses && Code(err) != "40001":
			t.Errorf("%s while another node's transaction has run %s: COMMIT gives %v, want 40001", s.definition,
				s.write, err)
		case !s.loses && err != nil:
			t.Errorf("%s while another node's transaction has run %s: %v", s.definition, s.write, Explain(err))
		}
		b.Do("ROLLBACK")
		c.Everywhere("SELECT count(*) FROM ext.past", fmt.Sprint(i+1)) // the next one writes after the definition
		c.Everywhere(pending, "0")                                     // also after one that has become long
	}
	a.Do("DROP SCHEMA ext CASCADE")
	c.Check()
}

// TestWritersGoOnWhileTablesAreDefined: at every node clients write to one table without conflicts while others make,
// change and drop their own; nobody loses.
func TestWritersGoOnWhileTablesAreDefined(t *testing.T) {
	c := use(t)
	c.Connect(1).Do("CREATE TABLE goon(k int PRIMARY KEY, v int)",
		"INSERT INTO goon SELECT g, 0 FROM generate_series(1, 30) g")
	c.Everywhere("SELECT count(*) FROM goon", "30")
	var writers, definers sync.WaitGroup
	stop := make(chan struct{})
	writes := make([]int, 4)
	for k := 1; k <= 3; k++ {
		s, d := c.Connect(k), c.Connect(k)
		writers.Add(1)
		go func() {
			defer writers.Done()
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				if err := s.Try(fmt.Sprintf("BEGIN; UPDATE goon SET v = v + 1 WHERE k = %d; UPDATE goon SET v = v + "+
					"1 WHERE k = %d; COMMIT", k, 10+k)); err != nil {
					t.Errorf("node %d: a writer lost to a definition of another table: %v", k, Explain(err))
					return
				}
				writes[k]++
			}
		}()
		definers.Add(1)
		go func() {
			defer definers.Done()
			for i := range 12 {
				for _, sql := range []string{
					"CREATE TABLE goon%d_%d(id serial PRIMARY KEY, a int)", "CREATE INDEX ON goon%d_%d(a)",
					"ALTER TABLE goon%d_%d ADD COLUMN b text DEFAULT 'x'",
					"INSERT INTO goon%d_%d(a) VALUES (1)", "DROP TABLE goon%d_%d",
				} {
					if err := d.Try(fmt.Sprintf(sql, k, i)); err != nil {
						t.Errorf("node %d: %s: %v", k, sql, Explain(err))
						return
					}
				}
			}
		}()
	}
	definers.Wait()
	close(stop)
	writers.Wait()
	t.Logf("%v transactions beside 144 definitions", writes[1:])
	c.Check()
}

// TestDefinitionsOfOneTableStopOnlyIt: what a definition changes may be out of date when it has its place in the order,
// because another client has defined the same table. Who writes elsewhere does not lose by that.
func TestDefinitionsOfOneTableStopOnlyIt(t *testing.T) {
	c := use(t)
	c.Connect(1).Do("CREATE TABLE onlyit(k int PRIMARY KEY, v int)", "CREATE TABLE notit(k int PRIMARY KEY, v int)",
		"INSERT INTO notit VALUES (1, 0)")
	c.Everywhere("SELECT count(*) FROM notit", "1")
	var definers, writers sync.WaitGroup
	stop := make(chan struct{})
	for k := 1; k <= 2; k++ {
		s := c.Connect(1)
		definers.Go(func() {
			for i := range 60 {
				if err := s.Try(fmt.Sprintf("ALTER TABLE onlyit ALTER COLUMN v SET STATISTICS %d", 10*k+i%7)); err !=
					nil {
					t.Errorf("%v", Explain(err))
				}
			}
		})
	}
	writer, writes := c.Connect(3), 0
	writers.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			if err := writer.Try("BEGIN; UPDATE notit SET v = v + 1; SELECT pg_sleep(0.02); COMMIT"); err != nil {
				t.Errorf("a writer lost to a definition of another table: %v", Explain(err))
				return
			}
			writes++
		}
	})
	definers.Wait()
	close(stop)
	writers.Wait()
	t.Logf("%d transactions beside 120 definitions", writes)
	c.Check()
}

// TestDefinitionsOfOneTableMeet: two nodes define the same table at once, and each other's partitions, while a third
// writes; the copies stay equal, and whoever is refused is told a reason.
func TestDefinitionsOfOneTableMeet(t *testing.T) {
	c := use(t)
	c.Connect(1).Do("CREATE TABLE meet(k int, v int) PARTITION BY LIST (k)",
		"CREATE TABLE meet_rest PARTITION OF meet DEFAULT",
		"CREATE TABLE meet_p(k int, v int)", "CREATE TYPE meet_type AS (a int)")
	c.Everywhere("SELECT to_regtype('meet_type') IS NOT NULL", "t")
	var wg sync.WaitGroup
	run := func(k int, sql ...string) {
		s := c.Connect(k)
		wg.Add(1)
		go func() {
			defer wg.Done()
			deadline := time.Now().Add(3 * time.Second)
			for i := 0; time.Now().Before(deadline); i++ {
				q := sql[i%len(sql)]
				if strings.Contains(q, "%d") {
					q = fmt.Sprintf(q, i%7)
				}
				switch err := s.Try(q); Code(err) {
				case "", "40001", "40P01", "23514", "42P17", "42809", "42703", "42701", "42704", "42P01", "42710",
					"42P16", "42601", "42804":
				default:
					t.Errorf("node %d: %s: %v", k, q, Explain(err))
					return
				}
			}
		}()
	}
	run(1, "ALTER TABLE meet ATTACH PARTITION meet_p FOR VALUES IN (1)", "ALTER TABLE meet DETACH PARTITION meet_p")
	run(2, "ALTER TABLE meet ADD COLUMN c%d int", "ALTER TABLE meet DROP COLUMN c%d", "CREATE INDEX ON meet(v)")
	run(3, "INSERT INTO meet VALUES (1, %d), (2, 0)", "UPDATE meet SET v = v + 1", "DELETE FROM meet WHERE v > 5")
	run(1, "INSERT INTO meet_p VALUES (1, %d)", "DELETE FROM meet_rest",
		"BEGIN; ALTER TABLE meet_p ADD COLUMN IF NOT EXISTS x int; INSERT INTO meet_p VALUES (1, 1); COMMIT",
		"ROLLBACK", "ALTER TABLE meet_p DROP COLUMN IF EXISTS x")
	wg.Wait()
	c.Check()
}
