package cluster

import "testing"

// What triggers of users write when tables are truncated is the same at all members.
func TestTruncateTriggers(t *testing.T) {
	c := use(t)
	s := c.Connect(1)
	s.Do("CREATE TABLE cut_down(id serial PRIMARY KEY, v int)",
		"CREATE TABLE cut_down_beside(id int PRIMARY KEY, n int)",
		"CREATE TABLE cut_down_audit(id bigserial PRIMARY KEY, at timestamptz)",
		"CREATE FUNCTION cut_down_now() RETURNS trigger LANGUAGE plpgsql AS "+
			"'BEGIN INSERT INTO cut_down_audit(at) VALUES (clock_timestamp()); RETURN NULL; END'",
		"CREATE TRIGGER audit AFTER TRUNCATE ON cut_down EXECUTE FUNCTION cut_down_now()")
	for i, sql := range []string{"TRUNCATE cut_down RESTART IDENTITY", "TRUNCATE cut_down",
		"BEGIN; TRUNCATE cut_down RESTART IDENTITY; INSERT INTO cut_down(v) VALUES (7); COMMIT",
		"/* ; */ truncate cut_down, cut_down_beside restart identity"} {
		s.Do("INSERT INTO cut_down(v) VALUES (1), (2)", sql)
		if n := s.Get("SELECT count(*) FROM cut_down_audit"); n != string(rune('1'+i)) {
			t.Errorf("%s: the trigger has written %s rows", sql, n)
		}
	}
	c.Check()
	s.Do("UPDATE cut_down_audit SET at = now()", "DELETE FROM cut_down_audit")
	s.Do("CREATE FUNCTION cut_down_too() RETURNS trigger LANGUAGE plpgsql AS "+
		"'BEGIN INSERT INTO cut_down_beside VALUES (1, 0); RETURN NULL; END'",
		"CREATE TRIGGER beside AFTER TRUNCATE ON cut_down EXECUTE FUNCTION cut_down_too()",
		"TRUNCATE cut_down_beside, cut_down")
	if err := s.Try("UPDATE cut_down_beside SET n = 1"); err != nil {
		t.Error(err)
	}
	wantCode(t, "rows that the trigger of another table wrote", s.Try("TRUNCATE cut_down, cut_down_beside"), "0A000")
	s.Do("UPDATE cut_down_beside SET n = 2", "TRUNCATE cut_down_beside", "TRUNCATE cut_down",
		"UPDATE cut_down_beside SET n = 3")
	for k := range c.All() {
		c.Eventually(k+1, "SELECT n FROM cut_down_beside", "3")
	}
	c.Check()
}

// TestPublished has a table whose rows may be deleted and inserted, but not updated, because a publication has updates
// of it and it has no replica identity.
func TestPublished(t *testing.T) {
	c := use(t)
	s := c.Connect(1)
	s.Do("CREATE TABLE published(id int NOT NULL UNIQUE, v int)", "INSERT INTO published VALUES (1, 1), (5, 5)",
		"CREATE PUBLICATION published FOR TABLE published WITH (publish = 'insert, update')")
	wantCode(t, "an update", s.Try("UPDATE published SET v = 2"), "55000")
	s.Do("BEGIN", "DELETE FROM published WHERE id = 1", "INSERT INTO published VALUES (2, 2)", "COMMIT",
		"BEGIN; DELETE FROM published WHERE id = 5; INSERT INTO published VALUES (5, 6); COMMIT")
	for k := range c.All() {
		c.Eventually(k+1, "SELECT string_agg(id || ':' || v, ' ' ORDER BY id) FROM published", "2:2 5:6")
	}
	s.Do("DROP PUBLICATION published")
	c.Check()
}

// TestDefinerSettings: a definition computes the same at all members with settings of its session that change what
// functions give.
func TestDefinerSettings(t *testing.T) {
	c := use(t)
	s := c.Connect(2)
	s.Do("CREATE TABLE computed(id int PRIMARY KEY, body text, price text)",
		"INSERT INTO computed VALUES (1, 'Die Häuser und Gärten', '1.5')", "SET default_text_search_config = 'german'",
		"BEGIN", "ALTER TABLE computed ALTER body TYPE tsvector USING to_tsvector(body)",
		"ALTER TABLE computed ALTER price TYPE text USING to_char(price::numeric, '0D0')", "COMMIT")
	want := s.Get("SELECT body::text || price FROM computed")
	for k := range c.All() {
		c.Eventually(k+1, "SELECT body::text || price FROM computed", want)
	}
	if want != "'gart':4 'haus':2 1.5" {
		t.Errorf("the words are %s", want)
	}
	c.Check()
}
