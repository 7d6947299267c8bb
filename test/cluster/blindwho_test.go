package cluster

import (
	"context"
	"fmt"
	"testing"
)

// TestBlindByRights: what a role may do is seen before its next statement is carried out unseen, also what it may do by
// another role, and in another database than that where it was changed.
func TestBlindByRights(t *testing.T) {
	t.Parallel()     // mostly it waits
	c := Start(t, 2) // others count databases
	admin := c.Connect(1)
	admin.Do("CREATE ROLE blind_writers", "CREATE ROLE blind_alice", "CREATE ROLE blind_bob",
		"GRANT blind_writers TO blind_alice", "CREATE DATABASE blind_rights")
	const sql = "UPDATE rights_of SET n = n + 1 WHERE id = 1"
	for _, of := range []*Cluster{c, c.In("blind_rights")} {
		of.Connect(1).Do("CREATE TABLE rights_of (id int PRIMARY KEY, n int NOT NULL)",
			"INSERT INTO rights_of VALUES (1, 0)", "GRANT SELECT, UPDATE ON rights_of TO blind_writers")
		of.Everywhere("SELECT n FROM rights_of", "0")
		s := of.Connect(2)
		s.Do("SET ROLE blind_alice")
		for _, x := range []struct{ do, undo string }{
			{"REVOKE blind_writers FROM blind_alice", "GRANT blind_writers TO blind_alice"},
			{"DO $$ BEGIN REVOKE blind_writers FROM blind_alice; END $$", "GRANT blind_writers TO blind_alice"},
			{"BEGIN; REVOKE blind_writers FROM blind_alice; COMMIT", "GRANT blind_writers TO blind_alice"},
			{"ALTER ROLE blind_alice RENAME TO blind_carol; ALTER ROLE blind_bob RENAME TO blind_alice",
				"ALTER ROLE blind_alice RENAME TO blind_bob; ALTER ROLE blind_carol RENAME TO blind_alice"},
		} {
			if _, blind, err := of.goesBlind(2, s, sql); err != nil || !blind {
				t.Fatalf("before %s: unseen: %v, %v", x.do, blind, Explain(err))
			}
			count := of.Connect(2).Get("SELECT n FROM rights_of")
			admin.Do(x.do)
			of.Connect(2).Get("SELECT 1") // behind the definition, as its table is
			fresh := of.Connect(2)
			fresh.Do("SET ROLE blind_alice")
			for i, conn := range []*Conn{s, fresh} {
				if i == 0 && len(x.undo) > 60 { // its role has another name
					continue
				}
				if _, err := conn.Exec(context.Background(), sql); Code(err) != "42501" {
					t.Errorf("after %s: %v", x.do, Explain(err))
				}
			}
			if now := of.Connect(2).Get("SELECT n FROM rights_of"); now != count {
				t.Errorf("after %s the row was changed: %s, was %s", x.do, now, count)
			}
			admin.Do(x.undo)
		}
	}
}

// TestBlindOneText: the same text of sessions with other search_paths means other tables, and what is defined of one of
// them does not count for the other one only.
func TestBlindOneText(t *testing.T) {
	c := use(t)
	admin := c.Connect(1)
	admin.Do("CREATE TABLE one_text_ref (id int PRIMARY KEY)", "INSERT INTO one_text_ref VALUES (1)")
	var sessions [2]*Conn
	for i := range sessions {
		schema := fmt.Sprintf("one_text_%d", i)
		admin.Do("CREATE SCHEMA "+schema, "CREATE TABLE "+schema+".one_text (id int PRIMARY KEY, v int)",
			"INSERT INTO "+schema+".one_text VALUES (1, 1), (2, NULL)",
			"CREATE TABLE "+schema+".one_text_log (a int, b int)")
		sessions[i] = c.Connect(1)
		sessions[i].Do("SET search_path = " + schema)
	}
	c.Everywhere("SELECT count(*) FROM one_text_1.one_text", "2")
	for _, x := range []struct{ teach, do, sql, code, see, want string }{
		{"INSERT INTO one_text_log (a) VALUES (1)", "ALTER TABLE one_text_1.one_text_log ALTER b SET DEFAULT 7",
			"INSERT INTO one_text_log (a) VALUES (1)", "",
			"SELECT count(*) FROM one_text_1.one_text_log WHERE b = 7", "1"},
		{"UPDATE one_text SET v = 1 WHERE id = 1",
			"ALTER TABLE one_text_1.one_text ADD FOREIGN KEY (v) REFERENCES one_text_ref",
			"UPDATE one_text SET v = 999 WHERE id = 1", "23503", "SELECT v FROM one_text_1.one_text WHERE id = 1", "1"},
		{"UPDATE one_text SET v = 1 WHERE id = 1", "ALTER TABLE one_text_1.one_text DROP CONSTRAINT one_text_v_fkey; " +
			"CREATE UNIQUE INDEX one_text_v ON one_text_1.one_text (v)",
			"UPDATE one_text SET v = 1 WHERE id = 2", "23505", "SELECT count(v) FROM one_text_1.one_text", "1"},
		{"UPDATE one_text SET v = 1 WHERE id = 1", "DROP TABLE one_text_1.one_text",
			"UPDATE one_text SET v = 1 WHERE id = 1", "42P01", "SELECT count(*) FROM one_text_0.one_text", "2"},
	} {
		for _, s := range sessions { // the one that stays first
			if _, _, err := c.goesBlind(1, s, x.teach); err != nil {
				t.Fatalf("before %s: %v", x.do, Explain(err))
			}
		}
		admin.Do(x.do)
		if _, err := sessions[1].Exec(context.Background(), x.sql); Code(err) != x.code {
			t.Errorf("%s after %s: %v", x.sql, x.do, Explain(err))
		}
		c.Everywhere(x.see, x.want)
	}
	c.Check()
}
