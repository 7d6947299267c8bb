package session_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/tuttidb/tutti/internal/session"
	"github.com/tuttidb/tutti/internal/writeset"

	"github.com/tuttidb/tutti/internal/wire"
)

// direct is a live session that knows t's statements ins, upd and del directly.
func direct(t *testing.T) (*stage, *live) {
	t.Helper()
	s := newStage(t, true)
	l := s.live(t)
	l.do("P ins|INSERT INTO t VALUES ($1, $2)|23,25\nP upd|UPDATE t SET v = $1 WHERE id = $2|25,23\nP del|DELETE " +
		"FROM t WHERE id = $1\nP child|INSERT INTO child VALUES (1, 99)\nS")
	for range 2 {
		l.want("B |upd|x|99\nE |0\nS", "UPDATE 0")
		l.want("B |del|99\nE |0\nS", "DELETE 0")
	}
	l.want("B |ins|90|x\nE |0\nS", "INSERT 0 1")
	l.want("B |ins|91|x\nE |0\nS", "INSERT 0 1")
	return s, l
}

// noted makes the host note what each submission writes, and how much was captured by triggers.
func (l *live) noted(s *stage) func() string {
	var got []string
	captured := func() (n int) {
		const sql = "SELECT coalesce(sum(CASE WHEN op > 40 THEN cardinality(keys) ELSE 1 END), 0) FROM (TABLE " +
			"tutti.capture0 UNION ALL TABLE tutti.capture1 UNION ALL TABLE tutti.capture2 UNION ALL TABLE " +
			"tutti.capture3) c"
		if err := s.admin.QueryRow(context.Background(), sql).Scan(&n); err != nil {
			l.t.Fatal(err)
		}
		return n
	}
	before := captured()
	l.host.onSubmit = func(s session.Submission) *session.Decision {
		var ops []string
		for _, r := range s.Writeset.Rows {
			ops = append(ops, map[writeset.Op]string{writeset.OpInsert: "insert", writeset.OpUpdate: "update",
				writeset.OpDelete: "delete", writeset.OpAdd: "add"}[r.Op])
		}
		got = append(got, strings.Join(ops, " "))
		return nil
	}
	return func() string {
		defer func() { got, before = nil, captured() }()
		return fmt.Sprintf("%s; %d captured", strings.Join(got, ", "), captured()-before)
	}
}

// TestDirect: statements that return what they change are not captured, and what they return is
// what is submitted, once.
func TestDirect(t *testing.T) {
	s, l := direct(t)
	const ins, upd, del = "B |ins|%d|x\nE |0\nS", "B |upd|x|%d\nE |0\nS", "B |del|%d\nE |0\nS"
	noted := l.noted(s)
	for _, c := range []struct{ name, lines, want string }{
		{"alone", fmt.Sprintf(ins, 3), "insert; 0 captured"},
		{"block", "Q BEGIN\n" + fmt.Sprintf(upd, 3) + "\nQ SELECT 1\n" + fmt.Sprintf(ins, 4) + "\nQ COMMIT",
			"update insert; 0 captured"},
		{"batch", "B |ins|20|x\nE |0\nB |upd|y|20\nE |0\nB |ins|21|x\nE |0\nB |del|20\nE |0\nS", "insert; 0 captured"},
		{"net", "Q BEGIN\n" + fmt.Sprintf(ins, 5) + "\n" + fmt.Sprintf(upd, 5) + "\n" + fmt.Sprintf(upd, 3) + "\n" +
			fmt.Sprintf(del, 5) + "\nQ COMMIT", "update; 0 captured"},
		{"read last", "Q BEGIN\n" + fmt.Sprintf(upd, 3) + "\nQ SELECT 1\nQ COMMIT", "update; 0 captured"},
		{"none", "Q BEGIN\n" + fmt.Sprintf(upd, 99) + "\nQ COMMIT", "; 0 captured"},
		{"then captured", "Q BEGIN\n" + fmt.Sprintf(upd, 3) + "\nQ UPDATE t SET v = 'y' WHERE id IN (3, 4)\n" +
			fmt.Sprintf(upd, 4) + "\nQ COMMIT", "update update; 3 captured"},
		{"hidden before", "Q BEGIN\nQ SELECT put(5, 'x')\n" + fmt.Sprintf(upd, 5) + "\n" + fmt.Sprintf(upd, 3) +
			"\nQ COMMIT", "insert update; 3 captured"},
		{"hidden between", "Q BEGIN\n" + fmt.Sprintf(upd, 3) + "\nQ SELECT put(6, 'x')\n" + fmt.Sprintf(upd, 3) + "\n" +
			fmt.Sprintf(del, 3) + "\nQ COMMIT", "delete insert; 3 captured"},
		{"hidden last", "Q BEGIN\n" + fmt.Sprintf(upd, 4) + "\nQ SELECT put(7, 'x')\nQ COMMIT",
			"update insert; 1 captured"},
		{"hidden before nothing", "Q BEGIN\nQ SELECT put(8, 'x')\n" + fmt.Sprintf(upd, 99) + "\nQ COMMIT",
			"insert; 1 captured"},
		{"savepoint", "Q BEGIN\n" + fmt.Sprintf(upd, 4) + "\nQ SAVEPOINT a\n" + fmt.Sprintf(del, 4) +
			"\nQ ROLLBACK TO a\nQ COMMIT", "update; 0 captured"},
		{"held cursor", "Q BEGIN\n" + fmt.Sprintf(upd, 4) + "\nQ DECLARE c CURSOR WITH HOLD FOR SELECT 1\n" +
			fmt.Sprintf(upd, 5) + "\nQ COMMIT", "update update; 1 captured"},
		{"temporary objects", "Q CREATE TEMP TABLE tt (id int)\nQ BEGIN\n" + fmt.Sprintf(upd, 4) +
			"\nQ COMMIT\nQ DISCARD TEMP", "update; 0 captured"},
	} {
		got := l.do(c.lines)
		if n := noted(); n != c.want || strings.Contains(got, "ERROR") {
			t.Errorf("%s: submitted %q, want %q; the client got\n%s", c.name, n, c.want, got)
		}
	}
	if l.host.orphans > 0 {
		t.Errorf("%d transactions could not commit", l.host.orphans)
	}
}

// TestDirectOutdated: what changed since a statement was made direct costs at most a 40001.
func TestDirectOutdated(t *testing.T) {
	s, l := direct(t)
	noted := l.noted(s)
	admin := func(sql string) {
		t.Helper()
		if r := l.host.Define(session.Definition{SQL: sql}); r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	admin("ALTER TABLE t ADD w int UNIQUE")
	l.want("B |upd|x|1\nE |0\nS", "CommandComplete UPDATE 1\nReadyForQuery I")
	if n := noted(); n != "update; 1 captured" {
		t.Errorf("after a column was added: %s", n)
	}
	l.want("B |upd|x|1\nE |0\nS\nB |upd|x|1\nE |0\nS", "CommandComplete UPDATE 1\nReadyForQuery I")
	noted()
	l.want("B |upd|x|1\nE |0\nS", "CommandComplete UPDATE 1\nReadyForQuery I")
	if n := noted(); n != "update; 0 captured" {
		t.Errorf("made direct again: %s", n)
	}
	admin("ALTER TABLE t DROP w")
	l.want("Q BEGIN ISOLATION LEVEL REPEATABLE READ\nB |upd|x|1\nE |0\nS", "ERROR 40001")
	l.want("Q ROLLBACK\nQ BEGIN\nB |upd|x|1\nE |0\nS\nQ COMMIT", "UPDATE 1\nReadyForQuery T\nCommandComplete COMMIT")
	for range 3 {
		l.want("B |upd|x|1\nE |0\nS", "UPDATE 1")
	}
	noted()
	admin("CREATE SCHEMA s; CREATE TABLE s.t (id int PRIMARY KEY, v text); GRANT ALL ON SCHEMA s TO app; GRANT ALL " +
		"ON s.t TO app")
	l.want("Q INSERT INTO s.t VALUES (1, 'other')", "INSERT 0 1")
	noted()
	l.want("Q SET search_path = s, public\nB |upd|x|1\nE |0\nS\nB |upd|x|1\nE |0\nS",
		"CommandComplete UPDATE 1\nReadyForQuery I\nBindComplete\nCommandComplete UPDATE 1\nReadyForQuery I")
	if n := noted(); n != "update, update; 2 captured" {
		t.Errorf("with another table of the same name: %s", n)
	}
	l.want("Q SELECT v FROM s.t", "DataRow x")
	admin("DROP SCHEMA s CASCADE")
	admin("REVOKE SELECT ON t FROM app; REVOKE ALL ON t FROM PUBLIC")
	l2 := s.live(t)
	l2.do("P ins|INSERT INTO t VALUES ($1, $2)|23,25\nS")
	for i := range 4 {
		l2.want(fmt.Sprintf("B |ins|%d|x\nE |0\nS", 50+i), "INSERT 0 1")
	}
	admin("GRANT SELECT ON t TO app")
}

// TestDirectElsewhere: a direct statement that has come to mean another table, whose triggers write elsewhere, is not
// taken for one that has changed nothing.
func TestDirectElsewhere(t *testing.T) {
	s, l := direct(t)
	s.define(t, `CREATE SCHEMA b; CREATE TABLE b.t (id int PRIMARY KEY, v text);
		CREATE TABLE b.kept (n serial PRIMARY KEY); CREATE FUNCTION b.keep() RETURNS trigger LANGUAGE plpgsql AS $$
			BEGIN INSERT INTO b.kept DEFAULT VALUES; RETURN NULL; END $$;
		CREATE TRIGGER a BEFORE INSERT ON b.t FOR EACH ROW EXECUTE FUNCTION b.keep();
		CREATE TRIGGER b AFTER UPDATE ON b.t FOR EACH STATEMENT EXECUTE FUNCTION b.keep();
		GRANT ALL ON SCHEMA b TO app; GRANT ALL ON ALL TABLES IN SCHEMA b TO app;
		GRANT ALL ON ALL SEQUENCES IN SCHEMA b TO app`)
	noted := l.noted(s)
	const ins, upd, there = "B |ins|%d|x\nE |0\nS", "B |upd|x|999\nE |0\nS", "Q SET search_path = b, public"
	for i, c := range []struct{ lines, answer, want string }{
		{there + "\n" + fmt.Sprintf(ins, 9), "INSERT 0 0", "insert; 1 captured"},
		{there + "\n" + upd, "UPDATE 0", "insert; 1 captured"},
		{"Q BEGIN\nQ SELECT set_config('search_path', 'b, public', true)\n" + upd + "\nQ COMMIT", "UPDATE 0",
			"insert; 1 captured"},
		{upd, "UPDATE 0", "; 0 captured"},
	} {
		l.do("Q SET search_path = public")
		for range 3 {
			l.want(upd, "UPDATE 0")
			l.want(fmt.Sprintf(ins, 200+i)+"\n"+fmt.Sprintf("B |del|%d\nE |0\nS", 200+i), "DELETE 1")
		}
		noted()
		l.want(c.lines, c.answer)
		if n := noted(); n != c.want {
			t.Errorf("%s: %s, want %s", c.lines, n, c.want)
		}
	}
}

// TestDirectDooms: a transaction of direct statements is rolled back under its client, loses, or
// loses its backend.
func TestDirectDooms(t *testing.T) {
	_, l := direct(t)
	l.do("Q BEGIN ISOLATION LEVEL REPEATABLE READ\nB |upd|x|1\nE |0\nS")
	l.host.kill(lost())
	l.want("B |upd|x|1\nE |0\nS", "ERROR 40001 doomed for the test\nReadyForQuery E")
	l.want("Q ROLLBACK\nQ SELECT v FROM t WHERE id = 1", "DataRow one")
	l.host.lose = true
	l.want("B |upd|x|1\nE |0\nS", "BindComplete\nCommandComplete UPDATE 1\nReadyForQuery I")
	l.want("Q SELECT v FROM t WHERE id = 1", "DataRow x")
	l.want("Q BEGIN ISOLATION LEVEL REPEATABLE READ\nB |upd|x|1\nE |0\nS\nQ COMMIT",
		"ERROR 40001 lost for the test\nReadyForQuery I")
	l.host.lose = false
	l.want("Q SELECT v FROM t WHERE id = 1", "DataRow x")
	for _, sql := range []string{"Q /*tutti direct*/ SELECT 1", "Q SELECT 1; /*tutti direct*/ UPDATE t SET v = 'x'",
		"P |/*tutti direct*/ SELECT 1\nS",
		// which keeps the trigger still
		"Q /*tutti other*/ INSERT INTO t SELECT 90, set_config('tutti.tx', 'quiet_direct', true)"} {

		l.want(sql, "ERROR 42501 the comment")
	}
}

// TestCollectsTooMuch: of what triggers have captured not more is read than a transaction may change, and it fails.
func TestCollectsTooMuch(t *testing.T) {
	s := newStage(t, true)
	s.returnedMax = 100_000
	l := s.live(t)
	l.do("Q DELETE FROM t")
	const insert = "INSERT INTO t SELECT g, repeat('x', 1000) FROM generate_series(1, %d) g"
	much, little := fmt.Sprintf(insert, 300), fmt.Sprintf(insert, 90)
	l.do("Q CREATE PROCEDURE fills(n int) LANGUAGE plpgsql AS $$ BEGIN INSERT INTO t SELECT g, repeat('x', 1000) " +
		"FROM generate_series(1, n) g; COMMIT; END $$")
	before := l.host.submits
	for _, what := range []string{"Q BEGIN\nQ " + much + "\nQ COMMIT",
		"Q BEGIN\nQ " + little + "\nQ SELECT 1\nQ UPDATE t SET v = v || 'x'\nQ UPDATE t SET v = v || 'y'\nQ COMMIT",
		"Q " + much, "Q CALL fills(300)"} {
		l.want(what, "ERROR 54000 the transaction changes more than 100000 bytes")
		l.do("Q ROLLBACK")
		l.want("Q SELECT count(*) FROM t", "DataRow 0")
	}
	if l.host.submits != before {
		t.Errorf("%d transactions were submitted", l.host.submits-before)
	}
	l.want("Q "+little, "INSERT 0 90")
	l.want("Q DELETE FROM t", "DELETE 90")
	l.want("Q CALL fills(90)", "CALL")
}

// TestLargeTransactions: who gathers more than largeBytes asks its node once, and fails with what that says.
func TestLargeTransactions(t *testing.T) {
	s := newStage(t, true)
	l := s.live(t)
	l.do("Q DELETE FROM t")
	const insert = "INSERT INTO t SELECT g, repeat('x', 1000) FROM generate_series(%d, %d) g"
	much, little := fmt.Sprintf(insert, 1, 20_000), fmt.Sprintf(insert, 1, 1000)
	l.do("Q CREATE PROCEDURE fills(n int) LANGUAGE plpgsql AS $$ BEGIN INSERT INTO t SELECT g, repeat('x', 1000) " +
		"FROM generate_series(1, n) g; COMMIT; END $$")
	l.do("P ins|INSERT INTO t VALUES ($1, $2)|23,25\nS\nB |ins|3|x\nE |0\nS\nB |ins|4|x\nE |0\nS\nQ DELETE FROM t")
	big := strings.Repeat("x", 9<<20)
	direct := "Q BEGIN\nB |ins|5|" + big + "\nE |0\nS\nB |ins|6|" + big + "\nE |0\nS\nQ COMMIT"
	l.want("Q "+little, "INSERT 0 1000")
	l.want("Q DELETE FROM t", "DELETE 1000")
	if l.host.larges != 0 {
		t.Errorf("a small transaction passed for a large one")
	}
	for _, what := range []string{"Q BEGIN\nQ " + much + "\nQ COMMIT", "Q " + much, "Q CALL fills(20000)", direct} {
		for _, noRoom := range []*wire.SQLError{wire.Errorf(wire.CodeConfigurationLimit, "no room"), nil} {
			l.host.larges, l.host.noRoom = 0, noRoom
			before := l.host.submits
			if noRoom != nil {
				l.want(what, "ERROR 53400 no room")
				l.do("Q ROLLBACK")
				l.want("Q SELECT count(*) FROM t", "DataRow 0")
			} else {
				l.do(what)
			}
			if submits := l.host.submits - before; l.host.larges != 1 || (submits == 1) != (noRoom == nil) {
				t.Errorf("%.60s: asked %d times, %d submitted, no room: %v", what, l.host.larges, submits, noRoom)
			}
		}
		l.host.larges = 0
		l.do("Q DELETE FROM t WHERE id IN (5, 6)\nQ TRUNCATE t")
	}
}

// TestDirectReturnsTooMuch: what direct statements return is kept up to a limit, and refused above it
// before anything is committed.
func TestDirectReturnsTooMuch(t *testing.T) {
	s := newStage(t, true)
	s.returnedMax = 10_000
	l := s.live(t)
	l.do("P ins|INSERT INTO t VALUES ($1, $2)|23,25\nS\nB |ins|3|x\nE |0\nS\nB |ins|4|x\nE |0\nS")
	before := l.host.submits
	big := strings.Repeat("x", 6000)
	for _, commit := range []string{"Q COMMIT", "Q SELECT 1\nQ COMMIT"} {
		l.do("Q BEGIN\nB |ins|5|" + big + "\nE |0\nS\nB |ins|6|" + big + "\nE |0\nS")
		l.want(commit, "ERROR 54000 the transaction changes more than 10000 bytes")
	}
	if l.host.submits != before {
		t.Errorf("%d transactions were submitted", l.host.submits-before)
	}
	l.want("B |ins|5|"+big+"\nE |0\nS", "INSERT 0 1")
	l.want("Q SELECT count(*) FROM t", "DataRow 5")
}
