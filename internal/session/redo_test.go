package session_test

import (
	"strings"
	"testing"

	"github.com/tuttidb/tutti/internal/session"
	"github.com/tuttidb/tutti/internal/wire"
)

// TestRedo: a READ COMMITTED transaction that has lost is done again if its client would be told the same, and only
// then.
func TestRedo(t *testing.T) {
	s := newStage(t, true)
	s.exec(t, `SET backtrace_functions = 'tutti_on'; CREATE SEQUENCE redo; GRANT ALL ON redo TO app;
		CREATE FUNCTION redo_says() RETURNS int LANGUAGE plpgsql AS $$ BEGIN RAISE NOTICE 'it is %', (SELECT v FROM t WHERE id = 1); RETURN 1; END $$;
		CREATE FUNCTION redo_locks() RETURNS int LANGUAGE plpgsql AS $$ BEGIN RAISE NOTICE USING MESSAGE = 'took 1 1 0 1 1', ERRCODE = '`+wire.CodeTuttiLock+`'; RETURN 1; END $$; RESET backtrace_functions`)
	const put = "Q INSERT INTO t VALUES (3, 'x')"
	for _, c := range []struct {
		name, lines string
		between     string // run by another before the loss; it changes what is told
		again       bool
	}{
		{"write", "Q BEGIN\n" + put, "", true},
		{"reads and writes", "Q BEGIN\nQ SELECT v FROM t WHERE id = 1\n" + put +
			"\nQ UPDATE t SET v = v || 'y' WHERE id = 3 RETURNING v", "", true},
		{"what others wrote beside", "Q BEGIN\nQ SELECT v FROM t WHERE id = 1\n" + put,
			"UPDATE t SET v = 'changed' WHERE id = 2", true},
		{"another answer", "Q BEGIN\nQ SELECT v FROM t WHERE id = 1\n" + put, "UPDATE t SET v = 'changed' WHERE id = 1",
			false},
		{"another count", "Q BEGIN\n" + put + "\nQ UPDATE t SET v = 'y' WHERE v = 'two'",
			"UPDATE t SET v = 'two' WHERE id = 1", false},
		{"another notice", "Q BEGIN\n" + put + "\nQ SELECT redo_says()", "UPDATE t SET v = 'changed' WHERE id = 1",
			false},
		{"the same notice", "Q BEGIN\n" + put + "\nQ SELECT redo_says()", "", true},
		{"an error", "Q BEGIN\n" + put + "\nQ SELECT 1 / (2 - count(*)) FROM t WHERE v = 'two'",
			"UPDATE t SET v = 'two' WHERE id = 1", false},
		{"unnamed", "Q BEGIN\nP |INSERT INTO t VALUES ($1, 'x')|23\nB ||3\nE |0\nS\nP |SELECT v FROM t WHERE id = " +
			"$1|23\nB ||3\nE |0\nS", "", true},
		{"unnamed, parsed before", "P |INSERT INTO t VALUES ($1, 'x')|23\nS\nP b|BEGIN\nB |b\nE |0\nS\nB ||3\nE " +
			"|0\nS\nP |INSERT INTO t VALUES ($1, 'y')|23\nB ||5\nE |0\nS", "", false},
		{"closed and made anew", "P i|INSERT INTO t VALUES ($1, 'x')|23\nS\nQ BEGIN\nB |i|3\nE |0\nS\nC S i\nP " +
			"i|INSERT INTO u VALUES ($1, $1)|23\nS\nB |i|5\nE |0\nS", "", false},
		{"closed and made anew, executed", "P i|INSERT INTO t VALUES ($1, 'x')|23\nS\nQ BEGIN\nB |i|3\nE |0\nS\nC S " +
			"i\nP i|INSERT INTO u VALUES ($1, $1)|23\nB |i|5\nE |0\nS", "", false},
		{"what Tutti says", "Q BEGIN\n" + put + "\nP s|SHOW tutti.applied\nB |s\nE |0\nS", "", false},
		{"after what Tutti says", "Q SHOW tutti.applied\nQ BEGIN\n" + put, "", true},
		{"copied to the client", "Q BEGIN\n" + put + "\nQ COPY t TO STDOUT", "", true},
		{"unnamed, parsed apart", "Q BEGIN\nP |INSERT INTO t VALUES ($1, 'x')|23\nS\nB ||3\nE |0\nS\nP |INSERT INTO " +
			"t VALUES ($1, 'y')|23\nS", "", false},
		{"named", "P ins|INSERT INTO t VALUES ($1, 'x')|23\nS\nQ BEGIN\nB |ins|3\nE |0\nS", "", true},
		{"named, parsed apart", "Q BEGIN\nP ins|INSERT INTO t VALUES ($1, 'x')|23\nS\nB |ins|3\nE |0\nS", "", true},
		{"named, parsed inside", "Q BEGIN\nP ins|INSERT INTO t VALUES ($1, 'x')|23\nB |ins|3\nE |0\nS", "", false},
		{"direct", "P upd|UPDATE t SET v = $1 WHERE id = 1\nP ins|INSERT INTO t VALUES ($1, $2)|23,25\nS\nB " +
			"|upd|one\nE |0\nS\nB |upd|one\nE |0\nS\nB |ins|8|x\nE |0\nS\nB |ins|9|x\nE |0\nS\nQ BEGIN\nB " +
			"|ins|3|x\nE |0\nS\nQ SELECT 1\nB |upd|one\nE |0\nS", "", true},
		{"direct, another count", "P upd|UPDATE t SET v = $1 WHERE v = 'two'\nS\nB |upd|two\nE |0\nS\nB |upd|two\nE " +
			"|0\nS\nQ BEGIN\n" + put + "\nB |upd|two\nE |0\nS", "UPDATE t SET v = 'two' WHERE id = 1", false},
		{"direct, literals", "Q INSERT INTO t VALUES (8, 'x')\nQ INSERT INTO t VALUES (9, 'x')\nQ BEGIN\n" + put +
			"\nQ SELECT 1\nQ INSERT INTO t VALUES (10, 'it is another')", "", true},
		{"direct, where rights are others now", "Q INSERT INTO u VALUES (8, 8)\nQ INSERT INTO u VALUES (9, 9)\n" +
			"Q BEGIN\nQ INSERT INTO u VALUES (3, 3)\n" + put, "REVOKE SELECT ON u FROM app", true},
		{"direct, returning", "P ins|INSERT INTO t VALUES ($1, $2) RETURNING id, v\nP upd|UPDATE t SET v = $1 WHERE " +
			"id = 1 RETURNING v\nS\nB |ins|8|x\nD P \nE |0\nS\nB |ins|9|x\nE |0\nB |upd|one\nE |0\nS\nB |upd|one\nE " +
			"|0\nS\n" +
			"Q BEGIN\nB |ins|3|x\nD P \nE |0\nS\nQ SELECT 1\nB |upd|it is one, and longer\nD P \nE |0\nS", "", true},
		{"named portal", "P ins|INSERT INTO t VALUES ($1, 'x')|23\nS\nQ BEGIN\nB p|ins|3\nE p|0\nS", "", false},
		{"portal in pieces", "Q BEGIN\n" + put + "\nP |SELECT generate_series(1, 3)\nB |\nE |1\nS\nE |1\nS", "", false},
		{"savepoint", "Q BEGIN\nQ SAVEPOINT a\n" + put, "", false},
		{"cursor", "Q BEGIN\n" + put + "\nQ DECLARE c CURSOR FOR SELECT 1\nQ FETCH c", "", false},
		{"setting", "Q BEGIN\nQ SET LOCAL work_mem = 1000\n" + put, "", false},
		{"row lock", "Q BEGIN\nQ SELECT v FROM t WHERE id = 1 FOR UPDATE\n" + put, "", false},
		{"table lock", "Q BEGIN\nQ LOCK TABLE u\n" + put, "", false},
		{"advisory lock", "Q BEGIN\nQ SELECT redo_locks()\n" + put, "", false},
		{"definition", "Q BEGIN\nQ CREATE TABLE redo_made ()\n" + put, "", false},
		{"temporary table", "Q BEGIN\nQ CREATE TEMP TABLE redo_made ()\n" + put, "", false},
		{"sequence", "Q BEGIN\nQ SELECT nextval('redo')\n" + put, "", false},
		{"time", "Q BEGIN\nQ SELECT now()\n" + put, "", false},
		{"LISTEN", "Q BEGIN\nQ LISTEN a\n" + put, "", false},
		{"REPEATABLE READ", "Q BEGIN ISOLATION LEVEL REPEATABLE READ\n" + put, "", false},
		{"SERIALIZABLE", "Q BEGIN ISOLATION LEVEL SERIALIZABLE\n" + put, "", false},
		{"with what went before BEGIN", put + "; BEGIN", "", false},
		{"chained", "Q BEGIN\nQ SELECT now()\nQ COMMIT AND CHAIN\n" + put, "", true},
	} {
		for _, how := range []string{"at COMMIT", "before COMMIT", "before a statement", "twice"} {
			t.Run(c.name+"/"+how, func(t *testing.T) {
				l := s.live(t)
				got := l.do(c.lines)
				if strings.Contains(got, "ERROR") || !strings.HasSuffix(got, "ReadyForQuery T") {
					t.Fatalf("before it lost:\n%s", got)
				}
				if c.between != "" {
					s.exec(t, "SET backtrace_functions = 'tutti_applies'; SET session_replication_role = replica; "+
						c.between+"; RESET session_replication_role")
				}
				l.lose(how)
				more := ""
				if how == "before a statement" {
					more = "Q SELECT 1\n"
				}
				got = l.do(more + "Q COMMIT")
				if again := strings.Contains(got, "CommandComplete COMMIT") &&
					!strings.Contains(got, "ERROR"); again != c.again {
					t.Errorf("done again: %v\n%s", again, got)
				} else if !again && !strings.Contains(got, "ERROR 40001") {
					t.Errorf("it is told\n%s", got)
				}
				l.host.onSubmit = nil
				l.do("Q ROLLBACK")
				want := map[bool]string{false: "DataRow 0", true: "DataRow 1"}[c.again]
				l.want("Q SELECT count(*) FROM t WHERE id = 3", want)
				l.want("Q INSERT INTO t VALUES (4, 'y')", "INSERT 0 1")
			})
		}
	}
}

// lose has the transaction lose.
func (l *live) lose(how string) {
	times := 1
	switch how {
	case "before COMMIT", "before a statement":
		l.host.kill(lost())
		return
	case "twice":
		times = 2
	}
	l.host.mu.Lock()
	defer l.host.mu.Unlock()
	l.host.onSubmit = func(session.Submission) *session.Decision {
		if times--; times < 0 {
			return nil
		}
		return &session.Decision{Retry: true, Err: wire.Errorf(wire.CodeSerializationFailure, "lost for the test")}
	}
}
