package session_test

import (
	"context"
	"strings"
	"testing"

	"github.com/tuttidb/tutti/internal/wire"
)

// TestResume: a READ COMMITTED transaction that loses while a statement runs is done again if its client would be told
// the same, and what it has been told of that statement is not told twice.
func TestResume(t *testing.T) {
	s := newStage(t, true)
	s.define(t, `CREATE FUNCTION halt() RETURNS int LANGUAGE plpgsql AS $$ BEGIN PERFORM `+
		`pg_advisory_xact_lock_shared(7); RETURN 1; END $$`)
	s.define(t, `CREATE FUNCTION says_and_halts() RETURNS int LANGUAGE plpgsql AS $$ BEGIN
		RAISE NOTICE 'it is %', (SELECT v FROM t WHERE id = 1); PERFORM pg_advisory_xact_lock_shared(7); RAISE NOTICE 'woken'; RETURN 1; END $$`)
	s.define(t, `CREATE FUNCTION locks_and_halts() RETURNS int LANGUAGE plpgsql AS $$ BEGIN
		RAISE NOTICE USING MESSAGE = 'took 1 1 0 1 1', ERRCODE = '`+wire.CodeTuttiLock+`'; RETURN halt(); END $$`)
	holder := s.server.Connect(t, s.db)
	hold := func(sql string) {
		t.Helper()
		if _, err := holder.Exec(context.Background(), sql); err != nil {
			t.Fatal(err)
		}
	}
	const put = "Q BEGIN\nQ INSERT INTO t VALUES (3, 'x')\n"
	const change = "UPDATE t SET v = 'changed' WHERE id = 1"
	for _, c := range []struct {
		name, before, runs string
		between            string   // run by another before the loss
		ends               string   // what it is told in the end, nothing if it goes on
		halts              bool     // again, after it has lost
		told               []string // once
	}{
		{"nothing told", put, "Q SELECT halt()", change, "", true, []string{"DataRow 1", "SELECT 1"}},
		{"the first one", "Q BEGIN", "Q INSERT INTO t VALUES (3, halt())", "", "", true, []string{"INSERT 0 1"}},
		{"a notice", put, "Q SELECT says_and_halts()", "", "", true, []string{"it is one", "woken", "DataRow 1"}},
		{"another notice", put, "Q SELECT says_and_halts()", change, "40001", true, []string{"it is one"}},
		{"rows", put, "Q SELECT v FROM t WHERE id = 1; SELECT halt()", "", "", true,
			[]string{"DataRow one", "DataRow 1"}},
		{"other rows", put, "Q SELECT v FROM t WHERE id = 1; SELECT halt()", change, "40001", true,
			[]string{"DataRow one"}},
		{"fewer rows", put, "Q SELECT v FROM t WHERE id = 1; SELECT halt()", "DELETE FROM t WHERE id = 1", "40001",
			true, []string{"DataRow one"}},
		{"an error instead", put, "Q SELECT 1 / (2 - count(*)) FROM t WHERE v = 'two'; SELECT halt()",
			"UPDATE t SET v = 'two' WHERE id = 1", "40001", false, []string{"DataRow 1"}},
		{"an error afterwards", put, "Q SELECT 1 / (halt() - count(*)) FROM t WHERE v = 'one'", "", "22012", true,
			[]string{"22012"}},
		{"another answer before", put + "Q SELECT v FROM t WHERE id = 1", "Q SELECT halt()", change, "40001", false,
			nil},
		{"unnamed", put, "P |UPDATE t SET v = v \\|\\| halt() WHERE id = $1|23\nB ||2\nE |0\nS", "", "", true,
			[]string{"ParseComplete", "BindComplete", "UPDATE 1"}},
		{"several", put, "P |SELECT v FROM t WHERE id = 1\nB |\nE |0\nP |UPDATE t SET v = v \\|\\| halt() WHERE id = " +
			"$1|23\nB ||2\nE |0\nP |SELECT 4\nB |\nE |0\nS", "", "", true,
			[]string{"DataRow one", "UPDATE 1", "DataRow 4"}},
		{"direct", "P upd|UPDATE t SET v = $1 WHERE id = 2\nS\nB |upd|a\nE |0\nS\nB |upd|b\nE |0\nS\n" + put,
			"B |upd|c\nE |0\nS", "", "", true, []string{"BindComplete", "UPDATE 1"}},
		{"direct, returning", "P upd|UPDATE t SET v = $1 WHERE id = 2 RETURNING v\nS\nB |upd|a\nE |0\nS\nB |upd|b\nE " +
			"|0\nS\n" + put, "B |upd|c\nD P \nE |0\nS", "", "", true,
			[]string{"BindComplete", "RowDescription", "DataRow c", "UPDATE 1"}},
		{"direct, literals", "Q UPDATE t SET v = 'a' WHERE id = 2 RETURNING v\nQ UPDATE t SET v = 'b' WHERE id = 2 " +
			"RETURNING v\n" + put, "Q UPDATE t SET v = 'c' WHERE id = 2 RETURNING v", "", "", true,
			[]string{"RowDescription", "DataRow c", "UPDATE 1"}},
		{"another unnamed one before", put + "P |SELECT v FROM t WHERE id = 1\nB |\nE |0\nS",
			"P |SELECT halt()\nB |\nE |0\nS", change, "40001", false, []string{"ParseComplete"}},
		{"advisory lock", put, "Q SELECT locks_and_halts()", "", "40001", false, nil},
		{"savepoint", put + "Q SAVEPOINT a", "Q SELECT halt()", "", "40001", false, nil},
		{"REPEATABLE READ", "Q BEGIN ISOLATION LEVEL REPEATABLE READ\nQ INSERT INTO t VALUES (3, 'x')",
			"Q SELECT halt()", "", "40001", false, nil},
	} {
		for _, times := range []int{1, 3} {
			t.Run(c.name, func(t *testing.T) {
				l := s.live(t)
				l.do(strings.TrimSpace(c.before))
				hold("BEGIN; SELECT pg_advisory_xact_lock(7); SELECT FROM t WHERE id = 2 FOR UPDATE")
				l.trace = nil
				for _, line := range strings.Split(c.runs, "\n") {
					word, rest, _ := strings.Cut(line, " ")
					l.out.Append(message(t, word, rest))
				}
				if err := l.out.Flush(); err != nil {
					t.Fatal(err)
				}
				s.until(t, halted)
				if c.between != "" {
					s.exec(t, "SET backtrace_functions = 'tutti_applies'; SET session_replication_role = replica; "+
						c.between+"; RESET session_replication_role")
				}
				for i := 0; i == 0 || i < times && c.halts; i++ {
					s.strike(t, l, c.halts)
				}
				hold("ROLLBACK")
				l.until(wire.TypeReadyForQuery)
				got := strings.Join(l.trace, "\n")
				for _, w := range c.told {
					if strings.Count(got, w) != 1 {
						t.Errorf("%q is told %d times:\n%s", w, strings.Count(got, w), got)
					}
				}
				if strings.Contains(got, "ERROR") != (c.ends != "") || !strings.Contains(got, c.ends) {
					t.Errorf("it is told\n%s", got)
				}
				if c.name == "another unnamed one before" {
					l.do("Q ROLLBACK")
					l.want("B |\nE |0\nS", "ERROR 26000")
				}
				l.do("Q COMMIT")
				l.want("Q SELECT count(*) FROM t WHERE id = 3",
					map[bool]string{false: "DataRow 0", true: "DataRow 1"}[c.ends == ""])
				l.want("Q INSERT INTO t VALUES (4, 'y')", "INSERT 0 1")
			})
		}
	}
}

// TestResumeCancelled: a client that cancels what is done again is told so.
func TestResumeCancelled(t *testing.T) {
	s := newStage(t, true)
	s.define(t, `CREATE FUNCTION halt() RETURNS int LANGUAGE plpgsql AS $$ BEGIN PERFORM `+
		`pg_advisory_xact_lock_shared(7); RETURN 1; END $$`)
	for _, when := range []string{"with the loss", "after it"} {
		l := s.live(t)
		l.do("Q BEGIN\nQ INSERT INTO t VALUES (3, 'x')")
		s.exec(t, "SELECT pg_advisory_lock(7)")
		l.out.Append(message(t, "Q", "SELECT halt()"))
		if err := l.out.Flush(); err != nil {
			t.Fatal(err)
		}
		s.until(t, halted)
		l.host.mu.Lock()
		l.host.cancelled, l.host.cancels = when == "with the loss", when == "after it"
		l.host.mu.Unlock()
		s.strike(t, l, false)
		want := map[bool]string{true: "ERROR 57014", false: "ERROR 40001"}[when == "after it"]
		if got := l.next(wire.TypeReadyForQuery); !strings.Contains(got, want) || strings.Count(got, "ERROR") != 1 {
			t.Errorf("cancelled %s it is told\n%s", when, got)
		}
		s.exec(t, "SELECT pg_advisory_unlock(7)")
		l.host.mu.Lock()
		l.host.cancelled = false
		l.host.mu.Unlock()
		l.do("Q ROLLBACK")
		l.want("Q INSERT INTO t VALUES (4, 'y')", "INSERT 0 1")
	}
}

const halted = "SELECT EXISTS (SELECT FROM pg_locks WHERE locktype IN ('advisory', 'transactionid') AND NOT granted " +
	"AND waitstart IS NOT NULL)"

// strike has the transaction lose whose statement is halted, and waits until it is halted again, if it will be.
func (s *stage) strike(t *testing.T, l *live, again bool) {
	t.Helper()
	since := ""
	if err := s.admin.QueryRow(context.Background(),
		"SELECT coalesce(max(waitstart)::text, '') FROM pg_locks WHERE locktype IN ('advisory', 'transactionid') AND "+
			"NOT granted").Scan(&since); err != nil {
		t.Fatal(err)
	}
	l.host.kill(lost())
	s.exec(t, "SELECT pg_cancel_backend(pid) FROM pg_locks WHERE locktype IN ('advisory', 'transactionid') AND NOT "+
		"granted")
	if again {
		s.until(t, "SELECT EXISTS (SELECT FROM pg_locks WHERE locktype IN ('advisory', 'transactionid') AND NOT "+
			"granted AND waitstart::text <> '"+since+"')")
	} else {
		s.until(t, "SELECT NOT ("+halted[len("SELECT "):]+")")
	}
}
