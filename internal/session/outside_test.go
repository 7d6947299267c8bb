package session_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tuttidb/tutti/internal/session"
)

// TestOutsideOnce: what a statement does outside of the database it does once, however its transaction loses, and by
// whatever the statement comes to that; what does nothing of the kind is run again as ever.
func TestOutsideOnce(t *testing.T) {
	s := newStage(t, true)
	// PostgreSQL's user writes there.
	dir, err := os.MkdirTemp("", "outside")
	if err == nil {
		err = os.Chmod(dir, 0o777)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	file := filepath.Join(dir, "told")
	program := "COPY (SELECT 1) TO PROGRAM 'cat >> " + file + "'"
	for _, sql := range []string{
		"CREATE FUNCTION public.tell() RETURNS int LANGUAGE plpgsql VOLATILE SECURITY DEFINER AS $f$ BEGIN " + program +
			"; RETURN 1; END $f$",
		"CREATE FUNCTION public.telling() RETURNS int LANGUAGE plpgsql AS $f$ BEGIN INSERT INTO public.t VALUES (50, " +
			"'x'); RETURN public.tell(); END $f$",
		"CREATE FUNCTION public.silent() RETURNS int LANGUAGE plpgsql AS $f$ BEGIN INSERT INTO public.t VALUES (50, " +
			"'x'); RETURN 1; END $f$",
		"CREATE VIEW public.told AS SELECT public.telling() AS x", "GRANT SELECT ON public.told TO app",
		"CREATE TABLE public.watched (id int PRIMARY KEY)",
		"CREATE FUNCTION public.watch() RETURNS trigger LANGUAGE plpgsql AS $f$ BEGIN PERFORM public.tell(); RETURN " +
			"NULL; END $f$",
		"CREATE TRIGGER watch AFTER INSERT ON public.watched FOR EACH ROW EXECUTE FUNCTION public.watch()",
		"GRANT ALL ON public.watched TO app",
		"CREATE TABLE public.defaulted (id int PRIMARY KEY, x int DEFAULT public.tell())",
		"GRANT ALL ON public.defaulted TO app",
		"CREATE PROCEDURE public.proceed() LANGUAGE plpgsql AS $f$ BEGIN PERFORM public.telling(); COMMIT; END $f$",
	} {
		s.define(t, sql)
	}
	s.exec(t, "GRANT pg_execute_server_program TO app")
	for _, c := range []struct {
		lines string
		again bool // it is run again, and the client hears nothing
	}{
		{"Q SELECT telling()", false}, {"Q SELECT x FROM told", false}, {"Q INSERT INTO watched VALUES (1)", false},
		{"Q INSERT INTO defaulted (id) VALUES (1)", false},
		{"P w|INSERT INTO watched VALUES ($1)\nB |w|1\nE |0\nS", false}, {"P p|SELECT telling()\nB |p\nE |0\nS", false},
		{"Q DO $$ BEGIN PERFORM telling(); END $$", false},
		{"Q DO $$ BEGIN INSERT INTO t VALUES (50, 'x'); " + program + "; END $$", false},
		{"Q INSERT INTO t VALUES (50, 'x'); SELECT tell()", false}, {"Q CALL proceed()", false},
		{"Q SELECT silent(), pg_logical_emit_message(false, 'a', 'b'), tell()", false},
		{"Q COPY (SELECT silent()) TO PROGRAM 'cat >> " + file + "'", false},
		{"Q PREPARE e AS SELECT telling()\nQ EXECUTE e\nQ DEALLOCATE e", false},
		{"Q PREPARE e AS SELECT telling()\nB |e\nE |0\nS\nQ DEALLOCATE e", false},
		{"Q BEGIN\nQ SELECT telling()\nQ COMMIT", false},
		{"Q BEGIN\nQ INSERT INTO watched VALUES (1)\nQ COMMIT", false},
		{"Q BEGIN\nQ INSERT INTO t VALUES (51, 'x')\nQ " + program + "\nQ COMMIT", false},
		{"Q SELECT silent()", true}, {"Q BEGIN\nQ SELECT silent()\nQ COMMIT", true},
		{"Q INSERT INTO t SELECT 50, upper('tells')", true},
	} {
		for _, loses := range []bool{true, false} {
			_ = os.Remove(file)
			l := s.live(t)
			s.exec(t, "SET session_replication_role = replica; TRUNCATE watched, defaulted; RESET "+
				"session_replication_role")
			l.host.onSubmit = func(session.Submission) *session.Decision {
				if loses && l.host.submits == 1 {
					return &session.Decision{Retry: true, Err: lost()}
				}
				return nil
			}
			got := l.do(c.lines)
			content, _ := os.ReadFile(file)
			n, want := strings.Count(string(content), "\n"), 1
			if c.again {
				want = 0
			}
			if lostIt := strings.Contains(got, "ERROR 40001"); n != want || lostIt != (loses && !c.again) ||
				!loses && strings.Contains(got, "ERROR") {
				t.Errorf("%s, loses %v: it has told %d times; the client got\n%s", c.lines, loses, n, got)
			}
		}
	}
}

// TestOutsideNeedsABlock: what acts in a block alone says so outside of one, also where its text has the name of
// something that acts outside of the database.
func TestOutsideNeedsABlock(t *testing.T) {
	s := newStage(t, true)
	s.define(t, "CREATE FUNCTION public.t() RETURNS int LANGUAGE plpgsql AS $f$ BEGIN COPY (SELECT 1) TO PROGRAM "+
		"'true'; RETURN 1; END $f$")
	l := s.live(t)
	l.want("Q SET LOCAL application_name = 't'", "SET LOCAL can only be used in transaction blocks")
	l.want("Q SET CONSTRAINTS t DEFERRED", "SET CONSTRAINTS can only be used in transaction blocks")
	l.want("Q LOCK TABLE t", "LOCK TABLE can only be used in transaction blocks")
	l.want("Q BEGIN\nQ SET LOCAL application_name = 't'\nQ LOCK TABLE t\nQ COMMIT", "COMMIT")
}
