package session_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/tuttidb/tutti/internal/session"
)

const (
	addIns = "B |ins|%d\nE |0\nS"
	addTo  = "B |add|%d|%d\nD P \nE |0\nS"
	addAll = "P ins|INSERT INTO notes VALUES ($1)\nP add|UPDATE counters SET n = n + $1 WHERE id = $2\nP big|UPDATE " +
		"counters SET b = b - 1 WHERE $1 = id\nP put|UPDATE counters SET n = $1 WHERE id = $2\n" +
		"P ret|UPDATE counters SET n = n + $1 WHERE id = $2 RETURNING n\nP two|UPDATE pairs SET n = 1 + n, m = m - " +
		"$3 WHERE a = $1 AND b = $2\nP checked|UPDATE checked SET n = n + $1 WHERE id = $2\nS"
)

// adding is a live session whose node knows the counters 1 to 3.
func adding(t *testing.T) (*stage, *live) {
	t.Helper()
	s := newStage(t, true)
	s.define(t, "CREATE SCHEMA other AUTHORIZATION app")
	l := s.live(t)
	l.do("Q CREATE TABLE counters (id int PRIMARY KEY, n int, b bigint NOT NULL DEFAULT 0)\nQ CREATE TABLE notes (id " +
		"int PRIMARY KEY)\nQ CREATE TABLE pairs (a text, b int, n int NOT NULL, m bigint NOT NULL, PRIMARY KEY " +
		"(a, b))\n" +
		"Q CREATE TABLE checked (id int PRIMARY KEY, n int CHECK (n < 1000))\nQ CREATE INDEX ON counters (n)\nQ " +
		"CREATE TABLE other.counters (LIKE public.counters INCLUDING ALL)\n" +
		"Q INSERT INTO counters VALUES (1, 10), (2, 20), (3, 30), (4, NULL), (5, 2000000000)\nQ INSERT INTO " +
		"other.counters SELECT * FROM counters\nQ INSERT INTO pairs VALUES ('x', 1, 10, 10)\nQ INSERT INTO checked " +
		"VALUES (1, 10)\n" + addAll)
	for i := range 3 {
		n := 1000 + 10*i
		for j, b := range []string{"B |add|0|1", "B |add|0|2", "B |add|0|3", "B |add|0|4", "B |add|0|5", "B |big|1",
			"B |put|10|1", "B |ret|0|1", "B |two|x|1|0", "B |checked|0|1"} {
			l.do(fmt.Sprintf("Q BEGIN\n"+addIns+"\n%s\nE |0\nS\nQ COMMIT", n+j, b))
		}
	}
	return s, l
}

// counter is what counter 1 holds, for everybody.
func (s *stage) counter(t *testing.T) (n int) {
	t.Helper()
	if err := s.admin.QueryRow(context.Background(), "SELECT n FROM public.counters WHERE id = 1").Scan(&n); err !=
		nil {
		t.Fatal(err)
	}
	return n
}

// free reports whether nobody has locked counter 1.
func (s *stage) free() bool {
	_, err := s.admin.Exec(context.Background(),
		"BEGIN; SELECT FROM public.counters WHERE id = 1 FOR UPDATE NOWAIT; COMMIT")
	if err != nil {
		_, _ = s.admin.Exec(context.Background(), "ROLLBACK")
	}
	return err == nil
}

// TestAdditions: what is put off to COMMIT, and what is not; either way the row holds what it must, and the client is
// told the same.
func TestAdditions(t *testing.T) {
	s, l := adding(t)
	noted := l.noted(s)
	n := 1
	ins := func() string { n++; return fmt.Sprintf(addIns, n) }
	add := func(by, id int) string { return fmt.Sprintf(addTo, by, id) }
	for _, c := range []struct {
		name, lines string
		free        bool // the row is, before COMMIT
		gain        int
		want        string // what is submitted
	}{
		{"last", ins() + "\n" + add(5, 1), true, 5, "insert add"},
		{"then an INSERT", ins() + "\n" + add(-5, 1) + "\n" + ins(), true, -5, "insert insert add"},
		{"two rows", ins() + "\n" + add(5, 1) + "\n" + add(7, 2), true, 5, "insert add add"},
		// its form is new
		{"a Query", ins() + "\nQ UPDATE counters SET n = n + 4 WHERE id = 1", false, 4, "insert update"},
		{"two kinds of a row", ins() + "\n" + add(5, 1) + "\nB |big|1\nE |0\nS", false, 5, "insert update"},
		{"the row twice", ins() + "\n" + add(5, 1) + "\n" + add(6, 1), false, 11, "insert update"},
		{"after a write to its table", ins() + "\nB |put|0|3\nE |0\nS\n" + add(5, 1), false, 5, "insert update update"},
		{"then a write to its table", ins() + "\n" + add(5, 1) + "\nB |put|0|3\nE |0\nS", false, 5,
			"insert update update"},
		{"then a read", ins() + "\n" + add(5, 1) + "\nQ SELECT 1", false, 5, "insert update"},
		// it is not certain any more that the session may
		{"a read before", ins() + "\nQ SELECT 1\n" + add(5, 1), true, 5, "insert update"},
		{"a read before, and an INSERT", ins() + "\nQ SELECT 1\n" + add(5, 1) + "\n" + ins(), true, 5,
			"insert insert add"},
		{"returning", ins() + "\nB |ret|5|1\nD P \nE |0\nS", false, 5, "insert update"},
		{"first", add(5, 1) + "\n" + ins(), false, 5, "update insert"},
		{"savepoint after", ins() + "\n" + add(5, 1) + "\nQ SAVEPOINT a", false, 5, "insert update"},
		{"savepoint before", ins() + "\nQ SAVEPOINT a\n" + add(5, 1), false, 5, "insert update"},
		{"more than is allowed", ins() + "\n" + add(20000, 1), false, 20000, "insert update"},
		{"too large a value", ins() + "\n" + add(5, 5), true, 0, "insert update"},
		{"NULL", ins() + "\n" + add(5, 4), true, 0, "insert update"},
		{"no row", ins() + "\nB |add|5|99\nE |0\nS", true, 0, "insert"},
		{"a table with a CHECK", ins() + "\nB |checked|5|1\nE |0\nS", true, 0, "insert update"},
		{"two columns, a key of two", ins() + "\nB |two|x|1|3\nE |0\nS", true, 0, "insert add"},
		{"in pieces", ins() + "\nB |add|5|1\nE |0\nH\nS", true, 5, "insert add"},
		{"several at once", ins() + "\nB |add|5|1\nE |0\nB |add|5|2\nE |0\nS", false, 5, "insert update update"},
		{"LOCK TABLE", ins() + "\nQ LOCK TABLE t IN SHARE MODE\n" + add(5, 1), false, 5, "insert update "},
		{"a row lock", ins() + "\nQ SELECT FROM t WHERE id = 1 FOR UPDATE\n" + add(5, 1), false, 5, "insert update "},
	} {
		before := s.counter(t)
		got := l.do("Q BEGIN\n" + c.lines)
		free := s.free()
		if now := s.counter(t); now != before {
			t.Errorf("%s: others see %d before COMMIT, and %d before that", c.name, now, before)
		}
		got += "\n" + l.do("Q COMMIT")
		if n := noted(); !strings.HasPrefix(n, c.want+";") || strings.Contains(got, "ERROR") || free != c.free {
			t.Errorf("%s: submitted %q, want %q; free: %v; the client got\n%s", c.name, n, c.want, free, got)
		}
		if gain := s.counter(t) - before; gain != c.gain {
			t.Errorf("%s: added %d", c.name, gain)
		}
	}
	for _, isolation := range []string{"REPEATABLE READ", "SERIALIZABLE"} {
		l.do("Q BEGIN ISOLATION LEVEL " + isolation + "\n" + ins() + "\n" + add(5, 1))
		if s.free() {
			t.Errorf("%s: it was put off", isolation)
		}
		l.want("Q COMMIT", "COMMIT")
	}
	before := s.counter(t)
	l.want("Q BEGIN\n"+ins()+"\n"+add(5, 1)+"\nQ ROLLBACK\nQ SELECT n FROM counters WHERE id = 1",
		fmt.Sprint("DataRow ", before))
	l.want("Q BEGIN\n"+ins()+"\n"+add(5, 1)+"\nQ SELECT n FROM counters WHERE id = 1", fmt.Sprint("DataRow ", before+5))
	l.want("Q COMMIT", "COMMIT")
	noted()
	l.do("Q BEGIN\n" + ins() + "\n" + add(5, 1))
	l.host.locks = true // somebody else has locked rows since
	if l.want("Q COMMIT", "COMMIT"); !strings.HasPrefix(noted(), "insert update;") {
		t.Error("it was put off although somebody has locked rows")
	}
	if l.host.orphans > 0 {
		t.Errorf("%d transactions could not commit", l.host.orphans)
	}
}

// TestAdditionsTold: the client is told what PostgreSQL says, frame by frame.
func TestAdditionsTold(t *testing.T) {
	_, l := adding(t)
	for _, put := range []bool{false, true} {
		first := fmt.Sprintf(addIns, 2)
		if !put {
			first = "Q SAVEPOINT a" // behind which nothing is
		}
		l.do("Q BEGIN\n" + first)
		got := l.do(fmt.Sprintf(addTo, 1, 1))
		if want := "BindComplete\nNoData\nCommandComplete UPDATE 1\nReadyForQuery T"; got != want {
			t.Errorf("put off %v: %q, want %q", put, got, want)
		}
		l.do("Q ROLLBACK")
	}
}

// TestAdditionsRights: what a session may do, and to which table, is what PostgreSQL says when it is done.
func TestAdditionsRights(t *testing.T) {
	first, to := fmt.Sprintf(addIns, 2), fmt.Sprintf(addTo, 5, 1)
	for _, c := range []struct{ name, before, lines, want string }{
		// at the next try 42501
		{"another role", "Q SET ROLE weak\nQ BEGIN\n" + first, to, "ERROR 40001"},
		// as above
		{"another role set by a function", "Q BEGIN\n" + first + "\nQ SELECT set_config('role', 'weak', false)",
			to + "\nQ COMMIT", "ERROR 40001"},
		{"another role set by a function, then an INSERT",
			"Q BEGIN\n" + first + "\nQ SELECT set_config('role', 'weak', false)",
			to + "\n" + fmt.Sprintf(addIns, 3) + "\nQ COMMIT", "ERROR 40001"},
		{"another search_path", "Q SET search_path = other, public\nQ BEGIN\n" + first,
			to + "\nQ COMMIT\nQ SELECT n FROM other.counters WHERE id = 1", "DataRow 15"},
		{"another search_path set by a function", "Q BEGIN\n" + first +
			"\nQ SELECT set_config('search_path', 'other, public', false)", to + "\n" + fmt.Sprintf(addIns, 3) +
			"\nQ COMMIT\nQ SELECT n FROM other.counters WHERE id = 1", "DataRow 15"},
		{"READ ONLY", "Q BEGIN READ ONLY", to, "ERROR 25006"},
		{"READ ONLY set by a function", "Q BEGIN\n" + first +
			"\nQ SELECT set_config('transaction_read_only', 'on', true)", to + "\nQ COMMIT", "ERROR 25006"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, l := adding(t)
			s.exec(t, "SET backtrace_functions = 'tutti_on'; DROP ROLE IF EXISTS weak; CREATE ROLE weak; GRANT weak "+
				"TO app; GRANT INSERT, SELECT ON notes TO weak; GRANT SELECT ON counters TO weak; RESET "+
				"backtrace_functions")
			before := s.counter(t)
			l.do(c.before)
			l.want(c.lines, c.want)
			l.do("Q ROLLBACK")
			if now := s.counter(t); now != before {
				t.Errorf("counter 1 has become %d, was %d", now, before)
			}
			if l.host.orphans > 0 {
				t.Error("it was decided, and could not be done")
			}
		})
	}
}

// TestAdditionsRedoBehind: whenever a transaction loses before a statement that must find its additions carried out,
// that finds them.
func TestAdditionsRedoBehind(t *testing.T) {
	s, l := adding(t)
	for _, line := range []string{"Q SELECT n FROM counters WHERE id = 1",
		"Q SELECT sum(n) FROM counters WHERE id = 1", "P |SELECT n FROM counters WHERE id = $1|23\nB ||1\nE |0\nS"} {
		for at := 1; ; at++ {
			before, phases := s.counter(t), 0
			l.do("Q BEGIN\n" + fmt.Sprintf(addIns, 2) + "\n" + fmt.Sprintf(addTo, 5, 1))
			if !s.free() {
				t.Fatal("the addition was not put off")
			}
			l.host.onPhase = func(p session.Phase) {
				if p != session.PhaseRunning {
					return
				}
				if phases++; phases == at {
					l.host.mu.Lock()
					l.host.doom = lost()
					l.host.mu.Unlock()
				}
			}
			l.want(line, fmt.Sprint("DataRow ", before+5))
			l.host.onPhase = nil
			if l.want("Q COMMIT", "CommandComplete COMMIT"); s.counter(t) != before+5 {
				t.Errorf("%s: loses at %d: added %d", line, at, s.counter(t)-before)
			}
			s.exec(t, "SET backtrace_functions = 'tutti_applies'; SET session_replication_role = replica; "+
				"DELETE FROM notes WHERE id = 2; RESET session_replication_role")
			l.do(fmt.Sprintf("Q BEGIN\n"+addIns+"\n%s\nQ COMMIT", 100+at, fmt.Sprintf(addTo, 0, 1)))
			if phases < at {
				if at < 3 {
					t.Errorf("%s: loses at %d moments only", line, at-1)
				}
				break
			}
		}
	}
}

// TestAdditionsRedo: a transaction that is done again adds once, and if its row is gone the client is told.
func TestAdditionsRedo(t *testing.T) {
	for _, how := range []string{"at COMMIT", "before COMMIT", "before a statement", "twice"} {
		t.Run(how, func(t *testing.T) {
			s, l := adding(t)
			before := s.counter(t)
			l.do("Q BEGIN\n" + fmt.Sprintf(addIns, 2) + "\n" + fmt.Sprintf(addTo, 5, 1))
			l.lose(how)
			l.want(fmt.Sprintf(addIns, 3)+"\nQ COMMIT", "CommandComplete COMMIT")
			if gain := s.counter(t) - before; gain != 5 {
				t.Errorf("added %d", gain)
			}
		})
	}
	s, l := adding(t)
	l.do("Q BEGIN\n" + fmt.Sprintf(addIns, 2) + "\n" + fmt.Sprintf(addTo, 5, 1))
	s.exec(t, "SET backtrace_functions = 'tutti_applies'; SET session_replication_role = replica; DELETE FROM "+
		"counters WHERE id = 1; RESET session_replication_role")
	l.want("Q SELECT 1", "ERROR 40001")
	l.want("Q ROLLBACK", "ROLLBACK")
	l.host.onSubmit = func(session.Submission) *session.Decision { t.Error("it was submitted"); return nil }
}
