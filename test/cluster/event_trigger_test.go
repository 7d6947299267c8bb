package cluster

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestEventTriggersOfUsers: a user's event trigger that refuses whatever Tutti defines for itself fires for the
// client's definitions alone, in a block, outside of one, and for a role that is no superuser.
func TestEventTriggersOfUsers(t *testing.T) {
	c := use(t)
	s := c.Connect(1)
	s.Do("CREATE ROLE strict_role", "GRANT CREATE ON SCHEMA public TO strict_role")
	s.Do(`CREATE FUNCTION only_tables() RETURNS event_trigger LANGUAGE plpgsql AS $$
		BEGIN IF tg_tag !~ '(TABLE|INDEX|EVENT TRIGGER)$' THEN RAISE EXCEPTION 'no %', tg_tag; END IF; END $$`)
	s.Do("CREATE EVENT TRIGGER strict_start ON ddl_command_start EXECUTE FUNCTION only_tables()",
		"CREATE EVENT TRIGGER strict_end ON ddl_command_end EXECUTE FUNCTION only_tables()",
		"CREATE EVENT TRIGGER strict_drop ON sql_drop EXECUTE FUNCTION only_tables()")
	steps := func(s *Conn) {
		s.Do("CREATE TABLE strict_alone(id serial PRIMARY KEY, v text)", "ALTER TABLE strict_alone ADD w int",
			"INSERT INTO strict_alone(v, w) VALUES ('a', 1)")
		s.Do("BEGIN; CREATE TABLE strict_block(id int PRIMARY KEY, v text); INSERT INTO strict_block VALUES (1, " +
			"'x'); ALTER TABLE strict_block ADD w int DEFAULT 3; UPDATE strict_block SET w = 4; COMMIT")
		c.Everywhere("SELECT b.w + a.w FROM strict_block b, strict_alone a", "5")
		s.Do("BEGIN; DROP TABLE strict_block; COMMIT", "DROP TABLE strict_alone")
		c.Everywhere("SELECT to_regclass('strict_alone') IS NULL", "t")
	}
	steps(c.Connect(2))
	plain := c.Connect(3)
	plain.Do("SET ROLE strict_role")
	steps(plain)
	if err := s.Try("CREATE VIEW strict_view AS SELECT 1"); err == nil {
		t.Error("the event trigger does not fire for a client's definition")
	}
	s.Do("DROP EVENT TRIGGER strict_start", "DROP EVENT TRIGGER strict_end", "DROP EVENT TRIGGER strict_drop",
		"DROP FUNCTION only_tables()",
		"REVOKE CREATE ON SCHEMA public FROM strict_role", "DROP ROLE strict_role")
	c.Check()
}

// TestEventTriggersThatWrite: a user's event trigger fires at the client's node alone, for ENABLE ALWAYS, too; what it
// writes, defines and notifies is the same at all nodes, and there once.
func TestEventTriggersThatWrite(t *testing.T) {
	t.Parallel() // mostly it waits
	c := Start(t, 3)
	s, ear := c.Connect(1), c.Connect(3)
	ear.listen("defined")
	s.Do("CREATE TABLE ddl_log(id serial PRIMARY KEY, tag text, what text, made timestamptz, node timestamptz)",
		"CREATE TABLE ddl_count(tag text PRIMARY KEY, n int)",
		"CREATE ROLE ddl_owner", "CREATE ROLE ddl_role", "GRANT ALL ON SCHEMA public TO ddl_role, ddl_owner",
		"GRANT ddl_owner TO ddl_role",
		"GRANT ALL ON ALL TABLES IN SCHEMA public TO ddl_role",
		"GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO ddl_role")
	s.Do(`CREATE FUNCTION log_ddl() RETURNS event_trigger LANGUAGE plpgsql AS $$
		DECLARE o record;
		BEGIN
			FOR o IN SELECT objid, object_identity FROM pg_event_trigger_ddl_commands() LOOP
				INSERT INTO ddl_log(tag, what, made, node) VALUES (tg_tag, o.objid || o.object_identity, clock_timestamp(), pg_postmaster_start_time());
			END LOOP;
			INSERT INTO ddl_count VALUES (tg_tag, 1) ON CONFLICT (tag) DO UPDATE SET n = ddl_count.n + 1;
			PERFORM pg_notify('defined', tg_tag || clock_timestamp()); -- equal ones of a transaction are one
		END $$`,
		`CREATE FUNCTION log_drop() RETURNS event_trigger LANGUAGE plpgsql AS $$
		DECLARE o record;
		BEGIN
			FOR o IN SELECT objid, object_identity FROM pg_event_trigger_dropped_objects() WHERE original OR object_type LIKE 'toast%' LOOP
				INSERT INTO ddl_log(tag, what, made) VALUES (tg_tag, o.objid || o.object_identity, clock_timestamp());
				IF o.object_identity NOT LIKE '%of_drops' THEN
					CREATE TABLE of_drops(n int);
					DROP TABLE of_drops;
				END IF;
			END LOOP;
		END $$`,
		`CREATE FUNCTION give() RETURNS event_trigger LANGUAGE plpgsql AS $$
		DECLARE o record;
		BEGIN
			FOR o IN SELECT objid FROM pg_event_trigger_ddl_commands() WHERE object_type = 'table' AND object_identity NOT LIKE '%of_drops' LOOP
				EXECUTE format('ALTER TABLE %s OWNER TO ddl_owner', o.objid::regclass);
				EXECUTE format('COMMENT ON TABLE %s IS %L', o.objid::regclass, o.objid);
			END LOOP;
		END $$`)
	s.Do("CREATE EVENT TRIGGER log_ddl ON ddl_command_end EXECUTE FUNCTION log_ddl()",
		"CREATE EVENT TRIGGER log_drop ON sql_drop EXECUTE FUNCTION log_drop()",
		"CREATE EVENT TRIGGER give ON ddl_command_end WHEN TAG IN ('CREATE TABLE', 'CREATE TABLE AS') EXECUTE "+
			"FUNCTION give()", "ALTER /* still of */ EVENT TRIGGER log_ddl ENABLE ALWAYS")
	c.Everywhere("SELECT count(*) FROM pg_event_trigger WHERE evtname IN ('log_ddl', 'log_drop', 'give')", "3")
	plain := c.Connect(3)
	plain.Do("SET ROLE ddl_role")
	for i, s := range []*Conn{c.Connect(1), c.Connect(2), plain} {
		name := func(sql string) string { return strings.ReplaceAll(sql, "%", fmt.Sprintf("made%d", i)) }
		s.Do(name("CREATE TABLE %(k int PRIMARY KEY, v text)"),
			name("INSERT INTO % SELECT i, 'v' FROM generate_series(1, 10) i"),
			name("ALTER TABLE % ADD w float8 DEFAULT random(), ADD x int"),
			name("CREATE INDEX CONCURRENTLY %_v ON %(v)"), name("CREATE VIEW %_view AS SELECT * FROM %"),
			name("GRANT SELECT ON % TO PUBLIC"), name("DROP VIEW %_view"))
		s.Do(name("BEGIN; CREATE TABLE %_b AS SELECT * FROM %; UPDATE % SET x = 1; ALTER TABLE %_b ADD y int; INSERT " +
			"INTO %_b(k) VALUES (11); ALTER TABLE %_b ADD z int DEFAULT 2; DROP TABLE %_b; COMMIT"))
		s.Do(name("DO $$ BEGIN CREATE TABLE %_do(k int PRIMARY KEY); INSERT INTO %_do VALUES (1); END $$"))
		c.Everywhere(name("SELECT count(*) FROM %_do"), "1")
		c.Everywhere(name("SELECT to_regclass('%_b') IS NULL AND to_regclass('of_drops') IS NULL"), "t")
		c.Everywhere(name("SELECT pg_get_userbyid(relowner) FROM pg_class WHERE relname = '%'"), "ddl_owner")
		c.Everywhere(name("SELECT obj_description('%'::regclass) = (SELECT max(regexp_replace(what, '\\D.*', '')) "+
			"FROM ddl_log WHERE tag = 'CREATE TABLE' AND what ~ 'public.%$')"), "t")
	}
	c.Everywhere("SELECT string_agg(concat(tag, ' ', n), ', ' ORDER BY tag) FROM ddl_count",
		"ALTER TABLE 18, COMMENT 9, CREATE INDEX 3, CREATE TABLE 15, CREATE TABLE AS 3, CREATE VIEW 3, DROP TABLE "+
			"12, DROP VIEW 3, GRANT 3")
	c.Everywhere("SELECT count(*), count(DISTINCT node) FROM ddl_log", s.Get("SELECT count(*), 3 FROM ddl_log"))
	c.Everywhere("SELECT string_agg(evtenabled::text, '' ORDER BY evtname) FROM pg_event_trigger WHERE evtname IN "+
		"('log_ddl', 'log_drop', 'give')", "OAO")
	c.Check()

	// One that refuses, while others change the table.
	l := c.NewLoad("forbidden")
	l.rest = 10 * time.Millisecond
	stop, done := make(chan struct{}), make(chan struct{})
	go func() { defer close(done); l.Run(3, stop) }()
	for range 3 { // it runs here first, and may lose to others' rows
		if err := s.Try("CREATE INDEX IF NOT EXISTS forbidden_index ON forbidden_accounts(abalance)"); err != nil &&
			Code(err) != "40001" {
			t.Errorf("a definition of a busy table: %s", Explain(err))
		}
	}
	s.Do("CREATE FUNCTION forbid() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'not %', "+
		"tg_tag; END $$", "CREATE EVENT TRIGGER forbid ON ddl_command_start EXECUTE FUNCTION forbid()")
	c.Everywhere("SELECT count(*) FROM pg_event_trigger WHERE evtname = 'forbid'", "1")
	for _, k := range c.All() {
		if code := Code(c.Connect(k).Try("CREATE INDEX forbidden_too ON forbidden_accounts(abalance)")); code !=
			"P0001" {
			t.Errorf("node %d: a definition that an event trigger forbids: %q", k, code)
		}
	}
	s.Do("DROP EVENT TRIGGER forbid")
	close(stop)
	<-done
	l.Verify()
	n, err := strconv.Atoi(s.Get("SELECT sum(n) FROM ddl_count"))
	if err != nil {
		t.Fatal(err)
	}
	ear.hears(n)
	ear.hearsNothing()
	c.Check()
}

// TestExtraChecks: PL/pgSQL's further checks, which a session may have made errors, find nothing in functions of
// Tutti's.
func TestExtraChecks(t *testing.T) {
	c := use(t)
	s := c.Connect(1)
	s.Do("SET plpgsql.extra_errors = 'all'", "SET plpgsql.extra_warnings = 'all'",
		"SET plpgsql.variable_conflict = 'use_variable'")
	s.Do("CREATE TABLE checked(id serial PRIMARY KEY, v text)",
		"INSERT INTO checked(v) SELECT 'a' FROM generate_series(1, 40)")
	s.Do("ALTER TABLE checked ADD w int DEFAULT 3", "ALTER TABLE checked ADD x float8 DEFAULT random()",
		"ALTER SEQUENCE checked_id_seq INCREMENT BY 2", "SELECT setval('checked_id_seq', 50)")
	s.Do("BEGIN; CREATE TABLE checked_too AS SELECT * FROM checked; ALTER TABLE checked_too ADD y int DEFAULT 1; " +
		"UPDATE checked SET w = id, id = id + 1000; SELECT setval('checked_id_seq', 7); COMMIT")
	s.Do("DO $$ BEGIN DELETE FROM checked WHERE w < 10; ALTER TABLE checked ADD z int; TRUNCATE checked_too RESTART " +
		"IDENTITY; PERFORM pg_advisory_xact_lock(77); END $$")
	s.Do("BEGIN ISOLATION LEVEL SERIALIZABLE; UPDATE checked SET v = 'b' WHERE id = 1011; INSERT INTO checked_too " +
		"SELECT * FROM checked; COMMIT")
	c.Everywhere("SELECT count(*) FROM checked WHERE w >= 10 AND x IS NOT NULL", "31")
	s.Do("DROP TABLE checked, checked_too")
	c.Check()
}
