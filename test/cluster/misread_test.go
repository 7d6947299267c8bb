package cluster

import (
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"
)

// TestMisread has clients send texts that Tutti's parser reads otherwise than the server, or not at all: nothing is
// committed at one member alone, and the node lives.
func TestMisread(t *testing.T) {
	c := use(t)
	s := c.Connect(1)
	s.Do("CREATE TABLE misread(k int PRIMARY KEY, system_user text)", "INSERT INTO misread VALUES (0, 'a')")
	send := func(sql string) error {
		_, err := s.PgConn().Exec(s.ctx(), sql).ReadAll()
		return err
	}
	// a name that became a key word after PostgreSQL 15
	for _, sql := range []string{"UPDATE misread SET system_user = 'x'; COMMIT",
		"BEGIN; UPDATE misread SET system_user = 'x'; COMMIT"} {
		wantCode(t, sql, send(sql), "0A000")
	}
	if err := send("UPDATE misread SET system_user = 'b'"); err != nil {
		t.Error(err)
	}
	s.Do("BEGIN")
	if err := send("UPDATE misread SET system_user = 'c'"); err != nil {
		t.Error(err)
	}
	s.Do("COMMIT")
	c.Everywhere("SELECT system_user FROM misread", "c")
	wantCode(t, "a mistake", send("SELCT 1; COMMIT"), "42601")
	// the second byte of a letter is a backslash
	s.Do("SET client_encoding = 'SJIS'")
	for _, sql := range []string{"INSERT INTO misread VALUES (1, E'\x95\x5C'); COMMIT; --')",
		"INSERT INTO misread VALUES (2, 'a'); INSERT INTO misread VALUES (3, E'\x95\x5C'); COMMIT; --')"} {
		wantCode(t, sql, send(sql), "0A000")
		s.Do("ROLLBACK")
	}
	s.Do("BEGIN")
	wantCode(t, "a definition in a block", send("CREATE TABLE misread_too(a text DEFAULT E'\x95\x5C'); COMMIT; --')"),
		"0A000")
	s.Do("ROLLBACK", "BEGIN", "INSERT INTO misread VALUES (6, 'a')")
	wantCode(t, "SET TRANSACTION", send("SET TRANSACTION SNAPSHOT E'\x95\x5C'; COMMIT; --'"), "0A000")
	s.Do("ROLLBACK")
	wantCode(t, "a definition", send("CREATE TABLE misread_too(a text DEFAULT E'\x95\x5C'); COMMIT; --')"), "0A000")
	if err := send("CREATE TABLE misread_too(a text DEFAULT '\x95\x5C')"); err != nil {
		t.Error(err)
	}
	_, err := s.PgConn().Prepare(s.ctx(), "misread",
		"CREATE TABLE misread_3(a text DEFAULT E'\x95\x5C'); COMMIT; --')", nil)
	if err == nil {
		s.Do("BEGIN")
		_, err = s.PgConn().ExecPrepared(s.ctx(), "misread", nil, nil, nil).Close()
		s.Do("ROLLBACK")
	}
	wantCode(t, "a definition that is prepared", err, "0A000")
	err = send("INSERT INTO misread VALUES (4, '\x95\x5C'); INSERT INTO misread VALUES (5, '\x95\x5C')")
	if err != nil {
		t.Error(err)
	}
	s.Do("SET client_encoding = 'LATIN1'", "COMMENT ON TABLE misread IS 'caf\xe9'", "SET client_encoding = 'UTF8'")
	c.Everywhere("SELECT obj_description('misread'::regclass)", "café")
	s.Do("CREATE ROLE misread_role", "SET client_encoding = 'LATIN1'")
	for _, sql := range []string{"CREATE ROLE \"misread_m\xfcller\"", "COMMENT ON ROLE misread_role IS 'f\xfcr'",
		"ALTER ROLE misread_role PASSWORD 'f\xfcr'", "DROP DATABASE \"misread_m\xfcller\""} {
		wantCode(t, sql, send(sql), "0A000")
		s.Do("BEGIN")
		wantCode(t, sql+" in a block", send(sql), map[bool]string{true: "25001", false: "0A000"}[sql[0] == 'D'])
		s.Do("ROLLBACK")
	}
	s.Do("CREATE SCHEMA \"misread_\xe9\"", "SET search_path = \"misread_\xe9\", public",
		"CREATE TABLE misread_4(k int PRIMARY KEY)", "CREATE SEQUENCE \"g\xe9\"", "SELECT setval('\"g\xe9\"', 1000000)",
		"CREATE TABLE \"t\xe9\"(k int PRIMARY KEY)", "INSERT INTO \"t\xe9\" VALUES (1)")
	c.Everywhere(`SELECT nextval('"misread_é"."gé"') > 1000000, (SELECT count(*) FROM "misread_é"."té"), `+
		`to_regclass('"misread_é".misread_4') IS NULL`, "t|1|f")
	s.Do("BEGIN", "SELECT setval('\"g\xe9\"', 2000000)", "TRUNCATE \"t\xe9\" RESTART IDENTITY", "COMMIT")
	c.Everywhere(`SELECT nextval('"misread_é"."gé"') > 2000000, (SELECT count(*) FROM "misread_é"."té")`, "t|0")
	_, err = s.PgConn().ExecParams(s.ctx(), "SELECT setval('\"g\xe9\"', 3000000)", nil, nil, nil, nil).Close()
	wantCode(t, "setval that is prepared", err, "0A000")
	s.Do("SET client_encoding = 'UTF8'", "INSERT INTO misread_too DEFAULT VALUES")
	c.Everywhere("SELECT a FROM misread_too", "表")
	c.Everywhere("SELECT string_agg(k || system_user, ' ' ORDER BY k) FROM misread", "0c 4表 5表")
	wantCode(t, "a very deep text", send("EXPLAIN SELECT 1"+strings.Repeat("+1", 500_000)), "54001")
	c.Check()
}

// TestBindFormats has a client ask for as many formats as a Bind can hold, of a statement that is given one column
// more.
func TestBindFormats(t *testing.T) {
	c := use(t)
	s := c.Connect(1)
	s.Do("CREATE TABLE formats(k int PRIMARY KEY)")
	fe := s.PgConn().Frontend()
	fe.Send(&pgproto3.Parse{Query: "SELECT 1 FROM formats FOR UPDATE"})
	fe.Send(&pgproto3.Bind{ResultFormatCodes: make([]int16, 65535)})
	fe.Send(&pgproto3.Sync{})
	if err := fe.Flush(); err != nil {
		t.Fatal(err)
	}
	if got := s.hearsUntil("Z"); got != "08P01 Z" {
		t.Errorf("the client was told %s", got)
	}
	s.Do("INSERT INTO formats VALUES (1)")
}

// TestPipelineSettings: what precedes a SET in a pipeline, or follows it, is one transaction up to the Sync.
func TestPipelineSettings(t *testing.T) {
	c := use(t)
	c.Connect(1).Do("CREATE TABLE set_between(k int PRIMARY KEY)")
	for _, first := range []string{"SET statement_timeout = '50s'", "NOTIFY set_between", "LISTEN set_between"} {
		s := c.Connect(1)
		fe := s.PgConn().Frontend()
		say := func(texts ...string) {
			for _, sql := range texts {
				fe.Send(&pgproto3.Parse{Query: sql})
				fe.Send(&pgproto3.Bind{})
				fe.Send(&pgproto3.Execute{})
			}
		}
		say(first, "INSERT INTO set_between VALUES (1)")
		fe.Send(&pgproto3.Flush{})
		if err := fe.Flush(); err != nil {
			t.Fatal(err)
		}
		s.hearsUntil("INSERT 0 1")
		say("INSERT INTO set_between VALUES (1)")
		fe.Send(&pgproto3.Sync{})
		if err := fe.Flush(); err != nil {
			t.Fatal(err)
		}
		if got := s.hearsUntil("Z"); got != "23505 Z" {
			t.Errorf("%s: the client was told %s", first, got)
		}
		s.want("SELECT count(*) FROM set_between", "0")
	}
	c.Check()
}

// hearsUntil reads what the backend says, tags and codes of errors and Z for that it is ready, until it says last.
func (s *Conn) hearsUntil(last string) (said string) {
	s.c.tb.Helper()
	if err := s.PgConn().Conn().SetReadDeadline(time.Now().Add(sqlTimeout)); err != nil {
		s.c.tb.Fatal(err)
	}
	for !strings.HasSuffix(said, last) {
		m, err := s.PgConn().Frontend().Receive()
		if err != nil {
			s.c.tb.Fatalf("after %q: %v", said, err)
		}
		switch m := m.(type) {
		case *pgproto3.CommandComplete:
			said += " " + string(m.CommandTag)
		case *pgproto3.ErrorResponse:
			said += " " + m.Code
		case *pgproto3.ReadyForQuery:
			said += " Z"
		}
	}
	if err := s.PgConn().Conn().SetReadDeadline(time.Time{}); err != nil {
		s.c.tb.Fatal(err)
	}
	return strings.TrimPrefix(said, " ")
}
