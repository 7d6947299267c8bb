package cluster

import "testing"

// What triggers of users write when tables are truncated is the same at all members.
func TestTruncateTriggers(t *testing.T) {
	c := use(t)
	s := c.Connect(1)
	s.Do("CREATE TABLE emptied(id serial PRIMARY KEY, v int)", "CREATE TABLE emptied_beside(id int PRIMARY KEY, n int)",
		"CREATE TABLE emptied_audit(id bigserial PRIMARY KEY, at timestamptz)",
		"CREATE FUNCTION emptied_now() RETURNS trigger LANGUAGE plpgsql AS "+
			"'BEGIN INSERT INTO emptied_audit(at) VALUES (clock_timestamp()); RETURN NULL; END'",
		"CREATE TRIGGER audit AFTER TRUNCATE ON emptied EXECUTE FUNCTION emptied_now()")
	for i, sql := range []string{"TRUNCATE emptied RESTART IDENTITY", "TRUNCATE emptied",
		"BEGIN; TRUNCATE emptied RESTART IDENTITY; INSERT INTO emptied(v) VALUES (7); COMMIT",
		"/* ; */ truncate emptied, emptied_beside restart identity"} {
		s.Do("INSERT INTO emptied(v) VALUES (1), (2)", sql)
		if n := s.Get("SELECT count(*) FROM emptied_audit"); n != string(rune('1'+i)) {
			t.Errorf("%s: the trigger has written %s rows", sql, n)
		}
	}
	c.Check()
	s.Do("UPDATE emptied_audit SET at = now()", "DELETE FROM emptied_audit")
	s.Do("CREATE FUNCTION emptied_too() RETURNS trigger LANGUAGE plpgsql AS "+
		"'BEGIN INSERT INTO emptied_beside VALUES (1, 0); RETURN NULL; END'",
		"CREATE TRIGGER beside AFTER TRUNCATE ON emptied EXECUTE FUNCTION emptied_too()",
		"TRUNCATE emptied_beside, emptied")
	if err := s.Try("UPDATE emptied_beside SET n = 1"); err != nil {
		t.Error(err)
	}
	wantCode(t, "rows that the trigger of another table wrote", s.Try("TRUNCATE emptied, emptied_beside"), "0A000")
	s.Do("UPDATE emptied_beside SET n = 2", "TRUNCATE emptied_beside", "TRUNCATE emptied",
		"UPDATE emptied_beside SET n = 3")
	for k := range c.All() {
		c.Eventually(k+1, "SELECT n FROM emptied_beside", "3")
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
