package cluster

import (
	"fmt"
	"strings"
	"sync"
	"testing"
)

// TestNoWayAround: what a function sets, prepares or calls does not have a statement committed at one member alone. It
// is at all members, or refused with the given SQLSTATE. Each case is a session of its own.
func TestNoWayAround(t *testing.T) {
	c := use(t)
	s := c.Connect(1)
	s.Do("CREATE TABLE away(id int PRIMARY KEY, v int)",
		`CREATE FUNCTION away_set(name text, value text, here bool) RETURNS text LANGUAGE sql AS 'SELECT `+
			`set_config(name, value, here)'`,
		`CREATE FUNCTION away_put(i int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN INSERT INTO away VALUES (i, 0); `+
			`RETURN i; END $$`,
		`CREATE FUNCTION away_hidden(i int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN PERFORM set_config('tutti.tx', `+
			`'on', false); INSERT INTO away VALUES (i, 0); RETURN i; END $$`,
		`CREATE FUNCTION away_back(i int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN INSERT INTO away VALUES (i, 0); `+
			`PERFORM set_config('tutti.tx', 'quiet_direct', true); RETURN i; END $$`,
		`CREATE FUNCTION away_role(name text) RETURNS int LANGUAGE plpgsql AS $$ BEGIN EXECUTE format('CREATE ROLE `+
			`%I', name); RETURN 1; END $$`,
		`CREATE FUNCTION away_run(a text) RETURNS int LANGUAGE plpgsql AS $$ BEGIN EXECUTE a; RETURN 1; END $$`,
		"CREATE VIEW away_view AS SELECT away_hidden(41) AS x",
		"CREATE VIEW away_role_view AS SELECT away_role('away_viewed') AS x",
		`CREATE FUNCTION away_random() RETURNS int LANGUAGE plpgsql AS $$ BEGIN RETURN (random() * 1000000)::int; `+
			`END $$`,
		"CREATE FUNCTION away_cast(text) RETURNS int LANGUAGE sql AS 'SELECT away_random()'",
		"CREATE DOMAIN away_drawn AS int DEFAULT away_random()",
		"CREATE VIEW away_drawing AS SELECT id, away_random() AS r FROM away",
		"CREATE VIEW away_builtin AS SELECT id, random() AS r FROM away",
		"CREATE VIEW away_over AS SELECT * FROM away_drawing",
		"CREATE VIEW away_recent AS SELECT id FROM away WHERE now() > 'epoch'",
		"CREATE VIEW away_word AS SELECT id, CURRENT_DATE AS d FROM away",
		"CREATE FOREIGN DATA WRAPPER away_wrapper", "CREATE SERVER away_server FOREIGN DATA WRAPPER away_wrapper",
		"CREATE FOREIGN TABLE away_foreign(id int) SERVER away_server",
		"CREATE VIEW away_outside AS SELECT id FROM away_foreign",
		"CREATE TABLE away_parts(d date) PARTITION BY RANGE (d)",
		"CREATE TABLE away_typed(id int PRIMARY KEY, t text)", "INSERT INTO away_typed VALUES (1, 'x'), (2, 'y')")
	rows := func(ids string) string { return "SELECT count(*) FROM away WHERE id IN (" + ids + ")" }
	asks := map[string]string{}
	for _, x := range []struct {
		what, sql, code string // statements apart by a line's end
		ask, want       string
	}{
		{"tutti.tx, with a computed name", "SELECT away_set('tutti' || '.tx', 'on', false)\nSELECT away_put(1)", "",
			rows("1"), "1"},
		{"tutti.tx, in DO", "DO $$ BEGIN PERFORM set_config('tutti.tx', 'on', false); END $$\nSELECT away_put(2)", "",
			rows("2"), "1"},
		{"tutti.tx, with the write", "SELECT away_hidden(3)", "", rows("3"), "1"},
		{"the same in a view", "SELECT x FROM away_view", "", rows("41"), "1"},
		{"the same by EXECUTE", "PREPARE p AS SELECT away_hidden(5)\nEXECUTE p", "", rows("5"), "1"},
		{"the same in EXPLAIN", "EXPLAIN ANALYZE SELECT away_hidden(6)", "", rows("6"), "1"},
		{"the same in COPY", "COPY (SELECT away_hidden(7)) TO STDOUT", "", rows("7"), "1"},
		{"the same at a cursor's end", "DECLARE c CURSOR WITH HOLD FOR SELECT away_hidden(8)", "25006", rows("8"), "0"},
		{"the same behind a write", "BEGIN\nINSERT INTO away VALUES (18, 0)\nDECLARE c CURSOR WITH HOLD FOR SELECT " +
			"away_hidden(19)\nCOMMIT", "", rows("18, 19"), "1"},
		{"the same in a function of the session",
			"CREATE FUNCTION pg_temp.h(i int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN PERFORM " +
				"set_config('tutti.tx', 'on', false); INSERT INTO away VALUES (i, 0); RETURN i; END $$\nSELECT " +
				"pg_temp.h(9)", "", rows("9"), "1"},
		{"transaction_read_only", "SELECT away_set('transaction_read_only', 'off', false), away_put(10)", "",
			rows("10"), "1"},
		{"default_transaction_read_only", "SELECT away_set('default_transaction_read_only', 'off', false), " +
			"away_hidden(11)", "", rows("11"), "1"},
		{"tutti.ddl", "DO $$ BEGIN PERFORM set_config('tutti.ddl', 'own', false); CREATE TABLE away_ddl(i int); END $$",
			"", "SELECT to_regclass('away_ddl') IS NOT NULL", "t"},
		{"tutti.ddl, repeated", "DO $$ BEGIN PERFORM set_config('tutti.ddl', 'on', false); CREATE TABLE away_ddl2(i " +
			"int); END $$", "", "SELECT to_regclass('away_ddl2') IS NOT NULL", "t"},
		{"tutti.ddl, a turn", "DO $$ BEGIN PERFORM set_config('tutti.ddl', 'turn', false); CREATE TABLE away_ddl3(i " +
			"int); END $$", "40001", "SELECT to_regclass('away_ddl3') IS NULL", "t"},
		{"session_replication_role", "DO $$ BEGIN SET session_replication_role = replica; INSERT INTO away VALUES " +
			"(12, 0); SET session_replication_role = origin; END $$", "0A000", rows("12"), "0"},
		{"the same with DDL", "DO $$ BEGIN SET session_replication_role = replica; CREATE TABLE away_ddl4(i int); " +
			"SET session_replication_role = origin; END $$", "0A000", "SELECT to_regclass('away_ddl4') IS NULL", "t"},
		{"the same, TRUNCATE", "DO $$ BEGIN SET session_replication_role = replica; TRUNCATE away; SET " +
			"session_replication_role = origin; END $$", "0A000", rows("1"), "1"},
		{"a role by SELECT", "SELECT away_role('away_r1')", "",
			"SELECT count(*) FROM pg_roles WHERE rolname = 'away_r1'", "1"},
		{"a role in a view", "SELECT x FROM away_role_view", "",
			"SELECT count(*) FROM pg_roles WHERE rolname = 'away_viewed'", "1"},
		{"a large object", "DO $$ BEGIN EXECUTE 'SELECT tutti' || '_lo_create(4711)'; END $$", "0A000",
			"SELECT count(*) FROM pg_largeobject_metadata WHERE oid = 4711", "0"},
		{"a large object by SELECT", "BEGIN\nSELECT away_run('SELECT tutti' || '_lo_create(4712)')\nCOMMIT", "0A000",
			"SELECT count(*) FROM pg_largeobject_metadata WHERE oid = 4712", "0"},
		{"a large object beside others", "DO $$ BEGIN EXECUTE 'SELECT tutti' || '_lo_create(4714)'; PERFORM " +
			"lo_create(4713); END $$", "0A000",
			"SELECT count(*) FROM pg_largeobject_metadata WHERE oid IN (4713, 4714)", "0"},
		{"tutti.tx in a procedure", "DO $$ BEGIN PERFORM set_config('tutti.tx', 'on', true); INSERT INTO away VALUES " +
			"(13, 0); COMMIT; END $$", "0A000", rows("13"), "0"},
		{"the same later", "DO $$ BEGIN INSERT INTO away VALUES (14, 0); COMMIT; PERFORM set_config('tutti.tx', " +
			"'on', true); INSERT INTO away VALUES (15, 0); COMMIT; END $$", "0A000", rows("14, 15"), "1"},
		{"the same with DDL", "DO $$ BEGIN PERFORM set_config('tutti.tx', 'on', true); CREATE TABLE away_ddl5(i " +
			"int); COMMIT; END $$", "0A000", "SELECT to_regclass('away_ddl5') IS NULL", "t"},
		{"a procedure that leaves it", "DO $$ BEGIN INSERT INTO away VALUES (16, 0); COMMIT; INSERT INTO away VALUES " +
			"(17, 0); COMMIT; CREATE TABLE away_ddl6(i int); END $$", "", rows("16, 17"), "2"},
		{"a domain's default", "ALTER TABLE away_typed ADD COLUMN d away_drawn", "0A000",
			"SELECT count(*) FROM pg_attribute WHERE attrelid = 'away_typed'::regclass AND attname = 'd'", "0"},
		{"the same in a block", "BEGIN\nALTER TABLE away_typed ADD COLUMN e away_drawn\nCOMMIT", "",
			"SELECT count(DISTINCT e) FROM away_typed", "2"},
		{"USING a function", "ALTER TABLE away_typed ALTER COLUMN t TYPE int USING away_random()", "0A000",
			"SELECT max(t) FROM away_typed", "y"},
		{"the same in DO", "DO $$ BEGIN ALTER TABLE away_typed ALTER t TYPE int USING \"away_cast\" (t); END $$",
			"0A000", "SELECT max(t) FROM away_typed", "y"},
		{"one of PostgreSQL's in DO", "DO $$ BEGIN ALTER TABLE away_typed ALTER t TYPE text USING random(); END $$",
			"0A000", "SELECT max(t) FROM away_typed", "y"},
		{"a literal in a block", "BEGIN\nALTER TABLE away_typed ALTER t TYPE timestamptz USING 'now'", "0A000",
			"SELECT max(t) FROM away_typed", "y"},
		{"the same in DO", "DO $$ BEGIN ALTER TABLE away_typed ALTER t TYPE timestamptz USING 'now'; END $$", "0A000",
			"SELECT max(t) FROM away_typed", "y"},
		{"bounds in DO", "DO $$ BEGIN CREATE TABLE away_part PARTITION OF away_parts FOR VALUES FROM ('today') TO " +
			"(maxvalue); END $$", "0A000", "SELECT to_regclass('away_part') IS NULL", "t"},
		{"USING what is steady", "ALTER TABLE away_typed ALTER t TYPE varchar(9) USING lower(t)", "",
			"SELECT max(t) FROM away_typed", "y"},
		{"a materialized view", "CREATE MATERIALIZED VIEW away_m1 AS SELECT id, away_random() FROM away", "0A000",
			"SELECT to_regclass('away_m1') IS NULL", "t"},
		{"the same over a foreign table", "CREATE MATERIALIZED VIEW away_m11 AS SELECT * FROM away_outside WITH NO " +
			"DATA", "0A000", "SELECT to_regclass('away_m11') IS NULL", "t"},
		{"the same over views", "CREATE MATERIALIZED VIEW away_m2 AS SELECT * FROM away_over", "0A000",
			"SELECT to_regclass('away_m2') IS NULL", "t"},
		{"the same over one of PostgreSQL's", "CREATE MATERIALIZED VIEW away_m3 AS SELECT * FROM away_builtin", "0A000",
			"SELECT to_regclass('away_m3') IS NULL", "t"},
		{"the same in DO", "DO $$ BEGIN CREATE MATERIALIZED VIEW away_m4 AS SELECT * FROM away_over; END $$", "0A000",
			"SELECT to_regclass('away_m4') IS NULL", "t"},
		{"one over the clock", "CREATE MATERIALIZED VIEW away_m9 AS SELECT * FROM away_recent", "0A000",
			"SELECT to_regclass('away_m9') IS NULL", "t"},
		{"the same, by a word", "CREATE MATERIALIZED VIEW away_m10 AS SELECT * FROM away_word", "0A000",
			"SELECT to_regclass('away_m10') IS NULL", "t"},
		{"the same in DO", "DO $$ BEGIN CREATE MATERIALIZED VIEW away_m11 AS SELECT id, now() FROM away; END $$",
			"0A000", "SELECT to_regclass('away_m11') IS NULL", "t"},
		{"the same, by a literal", "CREATE MATERIALIZED VIEW away_m12 AS SELECT id, 'today'::timestamp FROM away",
			"0A000", "SELECT to_regclass('away_m12') IS NULL", "t"},
		{"a text like that", "CREATE MATERIALIZED VIEW away_m13 AS SELECT id, 'today' AS x FROM away", "",
			"SELECT count(*) > 5 FROM away_m13", "t"},
		{"one that comes to the clock", "CREATE VIEW away_turns AS SELECT 1 AS x, timestamptz 'epoch' AS at\nCREATE " +
			"MATERIALIZED VIEW away_m14 AS SELECT * FROM away_turns\nCREATE OR REPLACE VIEW away_turns AS SELECT 2 " +
			"AS x, now() AS at\nREFRESH MATERIALIZED VIEW away_m14", "0A000", "SELECT x FROM away_m14", "1"},
		{"a steady one", "CREATE MATERIALIZED VIEW away_m5 AS SELECT v + 1 FROM away\nREFRESH MATERIALIZED VIEW " +
			"away_m5", "", "SELECT count(*) > 5 FROM away_m5", "t"},
		{"one that becomes unsteady", "CREATE FUNCTION away_was() RETURNS int STABLE LANGUAGE sql AS 'SELECT " +
			"1'\nCREATE MATERIALIZED VIEW away_m6 AS SELECT away_was() AS x\nCREATE OR REPLACE FUNCTION away_was() " +
			"RETURNS int VOLATILE LANGUAGE sql AS 'SELECT away_random()'\nREFRESH MATERIALIZED VIEW away_m6", "0A000",
			"SELECT x FROM away_m6", "1"},
		{"one of a table that changes", "DO $$ BEGIN CREATE TABLE away_new AS SELECT 1 AS x; CREATE MATERIALIZED " +
			"VIEW away_m7 AS SELECT * FROM away_new; UPDATE away_new SET x = 2; END $$", "0A000",
			"SELECT to_regclass('away_m7') IS NULL", "t"},
		{"one of a table that stays", "DO $$ BEGIN CREATE TABLE away_new AS SELECT 1 AS x; CREATE MATERIALIZED VIEW " +
			"away_m8 AS SELECT * FROM away_new; END $$", "", "SELECT x FROM away_m8", "1"},
	} {
		var err error
		s := c.Connect(1)
		for sql := range strings.SplitSeq(x.sql, "\n") {
			if err = s.Try(sql); err != nil {
				break
			}
		}
		if Code(err) != x.code {
			t.Errorf("%s: %s, want %q", x.what, Explain(err), x.code)
		}
		asks[x.ask] = x.want
		_ = s.Close(s.ctx())
	}
	for ask, want := range asks {
		c.Everywhere(ask, want)
	}
	awayDirect(t, c)
	awayLevel(t, c)
	awayWaiters(t, c)
	c.Check()
}

// awayDirect: the same between direct statements.
func awayDirect(t *testing.T, c *Cluster) {
	for _, x := range []struct{ what, between, code, ask, want string }{
		{"a function sets tutti.tx back", "SELECT away_back(101)", "0A000", "SELECT count(*) FROM away WHERE id = 101",
			"0"},
		{"a function makes a role", "SELECT away_role('away_r2')", "",
			"SELECT count(*) FROM pg_roles WHERE rolname = 'away_r2'", "1"},
		{"a view makes a role", "SELECT replace(x::text, 'a', 'b') FROM (SELECT away_role('away_r3') AS x) y", "",
			"SELECT count(*) FROM pg_roles WHERE rolname = 'away_r3'", "1"},
		{"a function writes a large object", "SELECT away_run('SELECT tutti' || '_lo_create(4715)')", "0A000",
			"SELECT count(*) FROM pg_largeobject_metadata WHERE oid = 4715", "0"},
	} {
		s := c.Connect(1)
		s.Do("DELETE FROM away WHERE id BETWEEN 200 AND 299", "INSERT INTO away SELECT generate_series(200, 209), 0")
		prepare(t, s, "put", "UPDATE away SET v = v + $1 WHERE id = $2")
		for range 3 {
			execute(t, s, "put", "1", "200")
		}
		s.Do("BEGIN")
		execute(t, s, "put", "1", "201")
		err := s.Try(x.between)
		for i := 0; err == nil && i < 2; i++ {
			err = s.PgConn().ExecPrepared(s.ctx(), "put", [][]byte{[]byte("1"), []byte("202")}, nil, nil).Read().Err
		}
		if err == nil {
			err = s.Try("COMMIT")
		}
		if Code(err) != x.code {
			t.Errorf("%s: %s, want %q", x.what, Explain(err), x.code)
		}
		c.Everywhere(x.ask, x.want)
	}
}

// awayLevel: transactions run at the level that a function has set as the session's default. The first one may be told
// that it has lost.
func awayLevel(t *testing.T, c *Cluster) {
	for _, level := range []string{"serializable", "repeatable read"} {
		s := c.Connect(1)
		for _, sql := range []string{"INSERT INTO away VALUES (300, 0) ON CONFLICT DO NOTHING", "SELECT 1"} {
			s.Do("SELECT away_set('default_transaction_isolation', '" + level + "', false)")
			for try := 0; ; try++ {
				s.Do("BEGIN", sql)
				s.want("SHOW transaction_isolation", level)
				if err := s.Try("COMMIT"); err == nil {
					break
				} else if try > 0 || Code(err) != "40001" {
					t.Errorf("%s, %s: %s", level, sql, Explain(err))
					break
				}
			}
			s.Do("SELECT away_set('default_transaction_isolation', 'read committed', false)", "BEGIN", sql)
			s.want("SHOW transaction_isolation", "read committed")
			s.Do("COMMIT")
		}
	}
}

// awayWaiters: a statement that waits at another member for a row which is applied as a deletion and an insertion does
// not find it gone: it changes the row, or is told that it has lost.
func awayWaiters(t *testing.T, c *Cluster) {
	var many []string
	for i := range 820 {
		many = append(many, fmt.Sprintf("c%d bool", i))
	}
	s := c.Connect(1)
	s.Do("CREATE TABLE wait_always(id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text UNIQUE, v int)",
		"INSERT INTO wait_always(name, v) VALUES ('a', 0), ('b', 0), ('c', 0)",
		"CREATE TABLE wait_twice(id int PRIMARY KEY, name text, v int)",
		"INSERT INTO wait_twice VALUES (1, 'a', 0), (2, 'b', 0), (3, 'c', 0)",
		"CREATE TABLE wait_part(id int, name text, v int, PRIMARY KEY (id)) PARTITION BY RANGE (id)",
		"CREATE TABLE wait_part1 PARTITION OF wait_part FOR VALUES FROM (0) TO (100)",
		"CREATE TABLE wait_part2 PARTITION OF wait_part FOR VALUES FROM (100) TO (200)",
		"INSERT INTO wait_part VALUES (1, 'a', 0), (2, 'b', 0), (3, 'c', 0)",
		"CREATE TABLE wait_wide(id int PRIMARY KEY, name text, v int, "+strings.Join(many, ", ")+")",
		"INSERT INTO wait_wide VALUES (1, 'a', 0), (2, 'b', 0), (3, 'c', 0)")
	for _, x := range []struct{ table, change string }{
		{"wait_always", "UPDATE wait_always SET id = DEFAULT"},
		{"wait_twice", "UPDATE wait_twice SET id = -id; UPDATE wait_twice SET id = 100 - id"},
		{"wait_part", "UPDATE wait_part SET id = id + 100"}, {"wait_wide", "UPDATE wait_wide SET id = id + 100"},
	} {
		c.Everywhere("SELECT sum(v) FROM "+x.table, "0")
		var wg sync.WaitGroup
		done := make([]int, 3)
		for i, name := range []string{"a", "b", "c"} {
			far := c.Connect(2)
			wg.Go(func() {
				for range 12 {
					r, err := far.PgConn().Exec(far.ctx(),
						"UPDATE "+x.table+" SET v = v + 1 WHERE name = '"+name+"'").ReadAll()
					if err != nil && Code(err) != "40001" {
						t.Errorf("%s: %s", x.table, Explain(err))
					}
					if err == nil {
						done[i]++
						if n := r[0].CommandTag.RowsAffected(); n != 1 {
							t.Errorf("%s: an UPDATE of a row that is there has changed %d", x.table, n)
						}
					}
				}
			})
		}
		for range 6 {
			if err := s.Try("BEGIN; " + x.change + "; COMMIT"); err != nil {
				s.Do("ROLLBACK")
			}
			if x.table == "wait_part" || x.table == "wait_wide" {
				_ = s.Try("UPDATE " + x.table + " SET id = id - 100")
			}
		}
		wg.Wait()
		c.Everywhere("SELECT sum(v) FROM "+x.table, fmt.Sprint(done[0]+done[1]+done[2]))
	}
}

func prepare(t *testing.T, s *Conn, name, sql string) {
	t.Helper()
	if _, err := s.PgConn().Prepare(s.ctx(), name, sql, nil); err != nil {
		t.Fatal(err)
	}
}

func execute(t *testing.T, s *Conn, name string, values ...string) {
	t.Helper()
	var p [][]byte
	for _, v := range values {
		p = append(p, []byte(v))
	}
	if r := s.PgConn().ExecPrepared(s.ctx(), name, p, nil, nil).Read(); r.Err != nil {
		t.Fatal(r.Err)
	}
}
