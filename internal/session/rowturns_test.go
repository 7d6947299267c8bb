package session_test

import (
	"strings"
	"testing"

	"github.com/tuttidb/tutti/internal/wire"
)

// TestRowTurns: while rows are contended, a READ COMMITTED block takes its turn at those that a statement names before
// that is run; however they are named, a row has one number.
func TestRowTurns(t *testing.T) {
	s := newStage(t, true)
	const update = "Q UPDATE t SET v = v || 'x' WHERE id = 1"
	for _, c := range []struct {
		name, before, lines string
		rows                []int // of each request that asks for turns
		same                bool  // all are the row that update names
	}{
		{"update", "Q BEGIN", update, []int{1}, true},
		{"with its table's schema and alias", "Q BEGIN", "Q UPDATE public.t AS x SET v = v || 'x' WHERE x.id = 1",
			[]int{1}, true},
		{"delete", "Q BEGIN", "Q DELETE FROM t WHERE 1 = id", []int{1}, true},
		{"row lock", "Q BEGIN", "Q SELECT v FROM t WHERE id = 1 FOR UPDATE", []int{1}, true},
		{"parameters", "P u|UPDATE t SET v = $1 WHERE id = $2\nP l|SELECT * FROM t WHERE id = $1 FOR NO KEY " +
			"UPDATE\nS\nQ BEGIN", "B |u|x|1\nE |0\nS\nB |l|1\nE |0\nS", []int{1, 1}, true},
		{"several in one request", "P u|UPDATE t SET v = $1 WHERE id = $2\nS\nQ BEGIN",
			"B |u|x|1\nE |0\nB |u|y|2\nE |0\nB |u|z|1\nE |0\nS", []int{2}, false},
		{"another row", "Q BEGIN", "Q UPDATE t SET v = v || 'x' WHERE id = 2", []int{1}, false},
		{"another table", "Q BEGIN", "Q SELECT FROM u WHERE id = 1 FOR UPDATE", []int{1}, false},
		{"no row", "Q BEGIN", "Q UPDATE t SET v = v || 'x' WHERE id > 1\nQ UPDATE t SET v = v || 'x'\n" +
			"Q INSERT INTO t VALUES (7, 'x')\nQ SELECT v FROM t WHERE id = 1", nil, false},
		{"outside of blocks", "", update, nil, false},
		{"a snapshot", "Q BEGIN ISOLATION LEVEL REPEATABLE READ", update, nil, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := s.live(t)
			l.do("Q BEGIN\n" + update + "\nQ ROLLBACK")
			if len(l.host.turns) > 0 {
				t.Fatal("turns are taken while nothing is contended")
			}
			l.host.contended = true
			l.do("Q BEGIN\n" + update + "\nQ ROLLBACK")
			row := l.host.turns[0][0]
			l.host.turns = nil
			l.do(c.before)
			if got := l.do(c.lines); strings.Contains(got, "ERROR") {
				t.Fatal(got)
			}
			var rows []int
			for _, turn := range l.host.turns {
				rows = append(rows, len(turn))
				if c.same != (turn[0] == row) && len(turn) == 1 {
					t.Errorf("it takes its turn at %x, and that row is %x", turn[0], row)
				}
			}
			if len(rows) != len(c.rows) || len(rows) > 0 && rows[0] != c.rows[0] {
				t.Errorf("it takes its turn at %d rows, and should at %d", rows, c.rows)
			}
			l.do("Q ROLLBACK")
		})
	}
}

// TestRowTurnsOfWhoLoses: who loses while it waits for its turn is done again, with its turn; who is told that it has
// lost has told the node which rows it had named; and who is cancelled is told that.
func TestRowTurnsOfWhoLoses(t *testing.T) {
	s := newStage(t, true)
	l := s.live(t)
	l.host.contended = true
	const one, two = "Q UPDATE t SET v = v || 'x' WHERE id = 1", "Q UPDATE t SET v = v || 'y' WHERE id = 2"
	l.do("Q BEGIN\n" + one)
	l.host.noTurn = lost()
	l.want(two+"\nQ COMMIT", "CommandComplete COMMIT")
	if n := len(l.host.turns); n != 4 || len(l.host.lostAt) > 0 { // both once more when it is done again
		t.Errorf("turns were taken %d times, and it was told %d times that it has lost", n, len(l.host.lostAt))
	}
	l.do("Q BEGIN\n" + one + "\nQ SELECT v FROM t WHERE id = 2 FOR UPDATE") // cannot be done again
	l.host.kill(lost())
	l.want("Q SELECT 1", "ERROR 40001")
	l.do("Q ROLLBACK")
	if len(l.host.lostAt) != 1 || len(l.host.lostAt[0]) != 2 {
		t.Errorf("the node knows that it has lost by %x", l.host.lostAt)
	}
	l.do("Q BEGIN\n" + one)
	l.host.noTurn = wire.Errorf(wire.CodeQueryCanceled, "cancelled for the test")
	l.want(two, "ERROR 57014")
	l.want("Q SELECT 1", "ERROR 25P02")
	l.want("Q ROLLBACK\n"+two, "UPDATE 1")
	if len(l.host.lostAt) != 1 {
		t.Error("who is cancelled has lost")
	}
	l.host.noTurn = wire.Errorf(wire.CodeQueryCanceled, "cancelled for the test")
	l.want("Q BEGIN\n"+one, "ERROR 57014") // the first one of its block
	l.want("Q SELECT 1", "ERROR 25P02")
	l.want("Q ROLLBACK", "ROLLBACK")
	l.do("Q BEGIN\nQ SELECT v FROM t WHERE id = 2 FOR UPDATE\n" + two)
	l.lose("at COMMIT")
	l.want("Q COMMIT", "ERROR 40001")
	if len(l.host.lostAt) != 2 || len(l.host.lostAt[1]) != 1 {
		t.Errorf("lost at COMMIT, and the node knows that it has lost by %x", l.host.lostAt)
	}
}
