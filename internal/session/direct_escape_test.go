package session_test

import (
	"context"
	"strings"
	"testing"

	"github.com/tuttidb/tutti/internal/session"
)

// TestDirectEscapes: whatever else writes beside direct statements, or in them, is submitted too.
func TestDirectEscapes(t *testing.T) {
	const upd = "B |upd|x|1\nE |0\nS"
	for _, c := range []struct {
		name   string
		define []string
		ask    string // of the administrator; its answer replaces ? in lines
		first  string // with ?, too
		lines  string
		want   string // what is submitted; how much was captured
	}{
		{"function call", nil, "SELECT 'put'::regproc::oid::text", "", "Q BEGIN\n" + upd + "\nF ?|50|lost\nQ COMMIT",
			"update insert; 1 captured"},
		// Refused: nothing of the block is submitted.
		{"prepared by a function under the comment", nil, "",
			`Q DO $$ BEGIN EXECUTE '/'\|\|'*tutti direct*/ PREPARE p1(int) AS INSERT INTO t VALUES ($1, ` +
				`''forged'')'; END $$`,
			"Q BEGIN\n" + upd + "\nB |p1|60\nE |0\nS\nQ COMMIT", "; 0 captured"},
		{"prepared by a function that comes in the same batch, and with the setting", nil, "", "",
			"Q BEGIN\n" + upd + "\nP |DO $$ BEGIN EXECUTE '/'\\|\\|'*tutti direct*/ PREPARE p2(int) AS INSERT INTO t " +
				"SELECT $1, set_config(''tutti.tx'', ''quiet_direct'', true)'; END $$\nB |\nE |0\nB |p2|60\nE " +
				"|0\nS\nQ COMMIT", "; 0 captured"},
		{"declared by a function under the comment", nil, "", "",
			"Q BEGIN\n" + upd + "\nQ DO $$ BEGIN EXECUTE '/'\\|\\|'*tutti direct*/ DECLARE c CURSOR FOR SELECT " +
				"set_config(''tutti.tx'', ''quiet_direct'', true), put(53, ''x'')'; END $$\nE c|0\nS\nQ COMMIT",
			"; 0 captured"},
		{"executed by a function under the comment", []string{
			"CREATE FUNCTION under(int) RETURNS void LANGUAGE plpgsql AS $$ BEGIN EXECUTE '/'||'*tutti direct*/ " +
				"INSERT INTO t VALUES ($1, ''x'')' USING $1; END $$"},
			"", "", "Q BEGIN\n" + upd + "\nQ SELECT under(61)\n" + upd + "\nP |SELECT under(62)\nB |\nE |0\nS\n" + upd +
				"\nQ COMMIT", "update insert insert; 4 captured"},
		{"fetched from a cursor under the comment", []string{
			"CREATE FUNCTION below(int) RETURNS void LANGUAGE plpgsql AS $$ BEGIN EXECUTE '/'||'*tutti direct*/ " +
				"INSERT INTO t VALUES ($1, ''x'')' USING $1; END $$"},
			"", "", "Q BEGIN\n" + upd + "\nQ DECLARE c CURSOR FOR SELECT below(63)\nQ FETCH c\n" + upd + "\nQ COMMIT",
			"update insert; 2 captured"},
		{"prepared by a function under the comment and executed in SQL", nil, "",
			`Q DO $$ BEGIN EXECUTE '/'\|\|'*tutti direct*/ PREPARE p3(int) AS INSERT INTO t VALUES ($1, ''x'')'; ` +
				`END $$`,
			"Q BEGIN\n" + upd + "\nQ EXECUTE p3(64)\n" + upd + "\nQ COMMIT", "update insert; 2 captured"},
		{"a parameter's domain", []string{
			"CREATE FUNCTION evil(int) RETURNS bool LANGUAGE plpgsql AS $$ BEGIN IF NOT EXISTS (SELECT FROM t WHERE " +
				"id = 81) THEN INSERT INTO t VALUES (81, 'x'); END IF; RETURN true; END $$",
			"CREATE DOMAIN dom AS int CHECK (evil(VALUE))"}, "SELECT 'dom'::regtype::oid::text",
			"P dom|INSERT INTO t VALUES ($1, 'x')|?\nS", "B |dom|82\nE |0\nS\nB |dom|83\nE |0\nS\nB |dom|84\nE |0\nS",
			"insert insert, insert, insert; 4 captured"},
		{"a function written as a column", []string{
			"CREATE FUNCTION evil(t) RETURNS text LANGUAGE plpgsql AS $$ BEGIN INSERT INTO t VALUES (190 + $1.id, " +
				"'x'); RETURN 'x'; END $$"}, "",
			"P evil|UPDATE t SET v = t.evil WHERE id = $1\nS",
			"B |evil|99\nE |0\nS\nB |evil|99\nE |0\nS\nB |evil|1\nE |0\nS\nB |evil|2\nE |0\nS",
			"insert update, insert update; 4 captured"},
		{"a cast of a whole row", []string{
			"CREATE FUNCTION evil(t) RETURNS text LANGUAGE plpgsql AS $$ BEGIN INSERT INTO t VALUES (190 + $1.id, " +
				"'x'); RETURN 'x'; END $$", "CREATE CAST (t AS text) WITH FUNCTION evil(t) AS ASSIGNMENT"}, "",
			"P evil|UPDATE t SET v = t WHERE id = $1\nS",
			"B |evil|99\nE |0\nS\nB |evil|99\nE |0\nS\nB |evil|1\nE |0\nS\nB |evil|2\nE |0\nS",
			"insert update, insert update; 4 captured"},
		{"a function of a name of PostgreSQL's", []string{
			"CREATE FUNCTION lower(int) RETURNS text LANGUAGE plpgsql AS $$ BEGIN INSERT INTO t VALUES (190 + $1, " +
				"'x'); RETURN 'x'; END $$"}, "",
			"P evil|UPDATE t SET v = lower(id) WHERE id = $1\nS",
			"B |evil|99\nE |0\nS\nB |evil|99\nE |0\nS\nB |evil|1\nE |0\nS\nB |evil|2\nE |0\nS",
			"insert update, insert update; 4 captured"},
		{"an operator over a type of a user's", []string{"CREATE TYPE mood AS ENUM ('ok')",
			"CREATE FUNCTION evil(mood, mood) RETURNS text LANGUAGE plpgsql AS $$ BEGIN INSERT INTO t SELECT " +
				"count(*) + 190, 'x' FROM t; RETURN 'x'; END $$",
			"CREATE OPERATOR @@@@ (FUNCTION = evil, LEFTARG = mood, RIGHTARG = mood)"}, "",
			"P evil|UPDATE t SET v = 'ok' @@@@ 'ok' WHERE id = $1\nS",
			"B |evil|99\nE |0\nS\nB |evil|99\nE |0\nS\nB |evil|1\nE |0\nS\nB |evil|2\nE |0\nS",
			"insert update, insert update; 4 captured"},
		{"written between", nil, "", "", "Q BEGIN\n" + upd + "\nQ SELECT put(51, 'x')\n" + upd + "\nQ COMMIT",
			"update insert; 2 captured"},
		{"deferred by an unlogged table", []string{
			"CREATE UNLOGGED TABLE ul (id int PRIMARY KEY)", "GRANT ALL ON ul TO app",
			"CREATE FUNCTION later() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO t VALUES (NEW.id, " +
				"'later'); RETURN NULL; END $$",
			"CREATE CONSTRAINT TRIGGER later AFTER INSERT ON ul DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE " +
				"FUNCTION later()",
			"CREATE FUNCTION hide() RETURNS void LANGUAGE sql AS 'INSERT INTO ul VALUES (70)'"}, "", "",
			"Q BEGIN\nQ SELECT hide()\n" + upd + "\nQ COMMIT", "update insert; 1 captured"},
		{"row_security off", nil, "", "", "Q SET row_security = off\n" + upd, "update; 0 captured"},
		{"a cursor that a function holds", []string{
			"CREATE FUNCTION hold() RETURNS void LANGUAGE plpgsql AS $$ BEGIN EXECUTE 'DECLARE c CURSOR WITH HOLD " +
				"FOR SELECT coalesce(nullif(current_setting(''tutti.proof'', true), ''''), ''none'')'; END $$"},
			"", "", "Q BEGIN\nQ SELECT hold()\n" + upd + "\nQ COMMIT\nQ FETCH ALL FROM c", "update; 0 captured"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, l := direct(t)
			l.host.deferrable = strings.HasPrefix(c.name, "deferred")
			for _, sql := range c.define {
				if r := l.host.Define(session.Definition{SQL: sql}); r.Err != nil {
					t.Fatal(r.Err)
				}
			}
			answer := ""
			if c.ask != "" {
				if err := s.admin.QueryRow(context.Background(), c.ask).Scan(&answer); err != nil {
					t.Fatal(err)
				}
			}
			if c.first != "" {
				if got := l.do(strings.ReplaceAll(c.first, "?", answer)); strings.Contains(got, "ERROR") {
					t.Fatal(got)
				}
			}
			for range 3 {
				l.do(upd)
			}
			noted := l.noted(s)
			noted()
			got := l.do(strings.ReplaceAll(c.lines, "?", answer))
			if n := noted(); n != c.want || strings.Contains(got,
				"ERROR 42501 the comment") != strings.HasPrefix(c.want, ";") ||
				strings.Count(got, "ERROR") > 0 != strings.HasPrefix(c.want, ";") || l.host.orphans > 0 {
				t.Errorf("submitted %q, want %q; %d orphans; the client got\n%s", n, c.want, l.host.orphans, got)
			}
			if strings.Contains(c.lines, "FETCH ALL") && !strings.Contains(got, "DataRow none") {
				t.Errorf("the proof is left to the client's cursor:\n%s", got)
			}
		})
	}
}

// TestSecretsStaySecret: the server's plans are not shown to a client that asks for them.
func TestSecretsStaySecret(t *testing.T) {
	_, l := direct(t)
	got := l.do("Q SET client_min_messages = log\nQ SET debug_print_plan = on\nB |upd|x|1\nE |0\nS\nQ BEGIN\nB " +
		"|upd|x|1\nE |0\nS\nQ COMMIT\nQ INSERT INTO t SELECT 30, 'x'")
	if !strings.Contains(got, "LOG") || strings.Contains(got, "112 114 111 111 102") {
		t.Errorf("the client got\n%.3000s", got)
	}
}

// TestDirectPortal: the unnamed portal of a direct statement cannot be looked at, as that of a
// statement without RETURNING has nothing to show.
func TestDirectPortal(t *testing.T) {
	_, l := direct(t)
	got := l.do("Q BEGIN\nB |upd|x|1\nE |0\nS\nD P \nS")
	if !strings.Contains(got, "ERROR 34000") || strings.Contains(got, "RowDescription") {
		t.Errorf("the client got\n%s", got)
	}
}

// TestStringsReadOtherwise: a text is not read again under other rules than the client's.
func TestStringsReadOtherwise(t *testing.T) {
	_, l := direct(t)
	l.do("P back|UPDATE t SET v = '0\\\\x41' WHERE id = 1\nS\nB |back\nE |0\nS\nQ SET " +
		"standard_conforming_strings = off")
	for range 3 {
		l.want("B |back\nE |0\nS", "UPDATE 1")
	}
	l.want("Q SET standard_conforming_strings = on\nQ SELECT length(v) FROM t WHERE id = 1", "DataRow 6")
	// Nor is a string asked for what was declared.
	const is = "\nQ SELECT strpos(v, 'catalog') > 0 FROM t WHERE id = 1"
	l.want("Q UPDATE t SET v = ', pg_catalog.pg_sequence ' WHERE id = 1"+is, "DataRow t")
	l.do("Q SET standard_conforming_strings = off")
	l.want("Q UPDATE t SET v = '\\', pg_catalog.pg_sequence ' WHERE id = 1"+is, "DataRow t")
	l.want("P |UPDATE t SET v = '\\', pg_catalog.pg_sequence ' WHERE id = 1\nB |\nE |0\nS"+is, "DataRow t")
}
