package cluster

import "testing"

// TestDefinitionsBehindRowsChangedTwice: rows that a function changes more than once are read again at COMMIT, which
// says what they were before a definition of the same function if it changes no table, and nothing changes theirs
// afterwards.
func TestDefinitionsBehindRowsChangedTwice(t *testing.T) {
	c := use(t)
	s := c.Connect(2)
	s.Do("CREATE TABLE etl(id int PRIMARY KEY, v int)", "CREATE TABLE etl_log(id serial PRIMARY KEY, n int DEFAULT 0)",
		"CREATE MATERIALIZED VIEW etl_sums AS SELECT count(*) AS n, sum(v) AS v FROM etl",
		"CREATE UNIQUE INDEX ON etl_sums(n)")
	for _, x := range []struct{ what, body, view, rows, code string }{
		{"statements of many rows", "INSERT INTO etl SELECT g, 1 FROM generate_series(1, 100) g; UPDATE etl SET v = " +
			"v + 1; DELETE FROM etl WHERE id > 90; UPDATE etl SET v = v + 1 WHERE id < 50; REFRESH MATERIALIZED VIEW " +
			"etl_sums;", "90|229", "90|229", ""},
		{"rows one by one", "FOR i IN 1..10 LOOP INSERT INTO etl VALUES (1000 + i, 5) ON CONFLICT (id) DO UPDATE SET " +
			"v = 6; UPDATE etl SET v = 7 WHERE id = 1000 + i; END LOOP; REFRESH MATERIALIZED VIEW CONCURRENTLY " +
			"etl_sums;", "100|299", "100|299", ""},
		{"other tables afterwards", "INSERT INTO etl_log DEFAULT VALUES; UPDATE etl SET v = 1 WHERE id <= 10; UPDATE " +
			"etl SET v = 2 WHERE id <= 10; REFRESH MATERIALIZED VIEW etl_sums; UPDATE etl_log SET n = n + 1; UPDATE " +
			"etl_log SET n = n + 1; REFRESH MATERIALIZED VIEW etl_sums; ", "100|289", "100|289", ""},
		{"another table afterwards", "UPDATE etl SET v = 1 WHERE id <= 10; UPDATE etl SET v = 2 WHERE id <= 10; " +
			"REFRESH MATERIALIZED VIEW etl_sums; INSERT INTO etl_log DEFAULT VALUES; UPDATE etl_log SET n = n + 1; " +
			"UPDATE etl_log SET n = n + 1; CREATE TABLE etl_more (LIKE etl); INSERT INTO etl_more VALUES (1, 1);",
			"100|289", "100|289", ""},
		{"rows that go", "INSERT INTO etl VALUES (5000, 1); DELETE FROM etl WHERE id = 5000; DELETE FROM etl WHERE " +
			"id = 1001; INSERT INTO etl VALUES (1001, 8); UPDATE etl SET v = 9 WHERE id = 1002; DELETE FROM etl " +
			"WHERE id = 1002; REFRESH MATERIALIZED VIEW etl_sums; CREATE ROLE etl_role;", "99|283", "99|283", ""},
		{"the same table afterwards", "UPDATE etl SET v = 1; UPDATE etl SET v = 2; REFRESH MATERIALIZED VIEW " +
			"etl_sums; DELETE FROM etl WHERE id = 3;", "99|283", "99|283", "0A000"},
		{"truncated afterwards", "UPDATE etl SET v = 1; UPDATE etl SET v = 2; REFRESH MATERIALIZED VIEW etl_sums; " +
			"TRUNCATE etl;", "99|283", "99|283", "0A000"},
		{"altered afterwards", "UPDATE etl SET v = 1; UPDATE etl SET v = 2; REFRESH MATERIALIZED VIEW etl_sums; " +
			"ALTER TABLE etl ADD COLUMN w int DEFAULT 5;", "99|283", "99|283", "0A000"},
	} {
		s.Do("CREATE OR REPLACE FUNCTION etl_run() RETURNS void LANGUAGE plpgsql AS $$ BEGIN " + x.body + " END $$")
		if err := s.Try("SELECT etl_run()"); Code(err) != x.code {
			t.Errorf("%s: %v, want %q", x.what, err, x.code)
		}
		c.Everywhere("SELECT n, v FROM etl_sums", x.view)
		c.Everywhere("SELECT count(*), sum(v) FROM etl", x.rows)
	}
	c.Everywhere("SELECT count(*), min(n) FROM etl_log", "2|2")
	c.Everywhere("SELECT count(*) FROM etl_more", "1")
	s.Do("DROP ROLE etl_role")
}

// TestViewsOfNewTables: a materialized view of a table that the same function has made has its rows at all members.
func TestViewsOfNewTables(t *testing.T) {
	c := use(t)
	s := c.Connect(1)
	s.Do("DO $$ BEGIN CREATE TABLE fresh_rows AS SELECT g AS v FROM generate_series(1, 10) g; CREATE TABLE "+
		"fresh_keyed(id int PRIMARY KEY); INSERT INTO fresh_keyed SELECT v FROM fresh_rows; "+
		"CREATE MATERIALIZED VIEW fresh_view AS SELECT sum(v) AS v, count(*) AS n FROM fresh_rows; CREATE "+
		"MATERIALIZED VIEW fresh_sums AS SELECT v + (SELECT sum(id) FROM fresh_keyed) AS v FROM fresh_view; END $$",
		"BEGIN", "DO $$ BEGIN CREATE TABLE fresh_more(v int); INSERT INTO fresh_more VALUES (1); CREATE MATERIALIZED "+
			"VIEW fresh_empty AS SELECT * FROM fresh_more WITH NO DATA; REFRESH MATERIALIZED VIEW fresh_view; END $$",
		"REFRESH MATERIALIZED VIEW fresh_empty", "COMMIT")
	c.Everywhere("SELECT v, n FROM fresh_view", "55|10")
	c.Everywhere("SELECT v FROM fresh_sums", "110")
	c.Everywhere("SELECT v FROM fresh_empty", "1")
	c.Check()
}
