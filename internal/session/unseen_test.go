package session_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tuttidb/tutti/internal/session"
	"github.com/tuttidb/tutti/internal/wire"
)

// unseeing is a live session whose blocks are carried out unseen, if its node does so.
func unseeing(t *testing.T) (*stage, *live) {
	t.Helper()
	s, l := adding(t)
	for range 4 {
		l.do("Q BEGIN\nB |add|0|1\nE |0\nS\nQ COMMIT\nB |add|0|1\nE |0\nS")
	}
	return s, l
}

// TestUnseenOnce: what was put off is done once, whatever comes in between, or of its first try.
func TestUnseenOnce(t *testing.T) {
	no := session.Decision{}
	again := session.Decision{Retry: true, Err: wire.Errorf(wire.CodeSerializationFailure, "lost for the test")}
	s, l := unseeing(t)
	l.do("Q PREPARE hidden AS SELECT 1")
	asked := 0
	for _, x := range []struct {
		name, between string
		decision      session.Decision
		done          bool
		asked         int
	}{
		{"somebody is in the way", "", no, false, 1},
		{"a row is missing", "", session.Decision{Retry: true}, false, 1},
		{"it loses", "", again, true, 1},
		{"silence", "silence", no, false, 0},
		{"a prepared statement of SQL's", "B |hidden\nE |0\nS", no, false, 0},
		{"a function call", "F 1598", no, false, 0},
		{"a notice of the transaction's end", "Q SAVEPOINT s\nQ ROLLBACK TO s", no, false, 0},
	} {
		// who has lost once does without
		l.do("B |add|0|1\nE |0\nS\nQ BEGIN\nB |add|0|1\nE |0\nS\nQ COMMIT\nQ BEGIN\nB |add|0|1\nE |0\nS\nQ COMMIT")
		asked = 0
		l.host.onBlind = func(session.Submission) (session.Decision, bool) {
			asked++
			return x.decision, x.done
		}
		before := s.counter(t)
		l.want("Q BEGIN\nB |add|5|1\nE |0\nS", "UPDATE 1")
		switch x.between {
		case "":
		case "silence":
			if !s.free() {
				t.Errorf("%s: its row is locked", x.name)
			}
			for end := time.Now().Add(waitMax); s.free(); time.Sleep(time.Millisecond) {
				l.host.poke() // it counts only when the session waits already
				if time.Now().After(end) {
					t.Fatalf("%s: its row is not locked", x.name)
				}
			}
		default:
			l.do(x.between)
		}
		l.want("Q COMMIT", "COMMIT")
		if gain := s.counter(t) - before; gain != 5 || asked != x.asked {
			t.Errorf("%s: it gains %d, want 5, and the node was asked %d times, want %d", x.name, gain, asked, x.asked)
		}
		l.host.onBlind = nil
		l.do("Q BEGIN\nB |add|0|1\nE |0\nS\nQ COMMIT")
	}
}

// TestUnseenHidden: a query that writes, of which its text does not tell, is ordered with its transaction.
func TestUnseenHidden(t *testing.T) {
	s, l := unseeing(t)
	s.define(t, "CREATE FUNCTION public.sneak() RETURNS int LANGUAGE sql VOLATILE AS 'INSERT INTO public.notes "+
		"VALUES (777777) RETURNING 1'")
	s.define(t, "CREATE VIEW public.peep AS SELECT public.sneak() AS x")
	s.define(t, "GRANT SELECT ON public.peep TO app")
	for range 4 {
		l.do("Q BEGIN\nB |add|0|1\nE |0\nS\nQ COMMIT\nB |add|0|1\nE |0\nS")
	}
	var rows []int
	l.host.onSubmit = func(sub session.Submission) *session.Decision {
		rows = append(rows, len(sub.Writeset.Rows))
		return nil
	}
	l.host.onBlind = func(session.Submission) (session.Decision, bool) { return session.Decision{Commit: true}, true }
	before := s.counter(t)
	l.want("Q BEGIN\nQ SELECT x FROM peep\nB |add|5|1\nE |0\nS\nQ COMMIT", "COMMIT")
	if gain := s.counter(t) - before; gain != 5 || len(rows) != 1 || rows[0] != 2 {
		t.Errorf("it gains %d, and transactions of %v rows are ordered; want one of 2", gain, rows)
	}
}

// TestUnseenLarge: rows that are much larger than what was put off do not block the session and its backend.
func TestUnseenLarge(t *testing.T) {
	_, l := unseeing(t)
	l.do("Q CREATE TABLE doc (id int PRIMARY KEY, body text, note text, more text, most text)\nQ INSERT INTO doc " +
		"SELECT i, repeat('x', 300000), '', '', '' FROM generate_series(1, 64) i\n" +
		"P doc|UPDATE doc SET note = $1, more = $2, most = $3 WHERE id = $4\nS")
	for range 4 {
		l.do("B |doc|a|b|c|1\nE |0\nS")
	}
	l.do("Q BEGIN")
	for i := range 14 {
		l.do(fmt.Sprintf("B |doc|%s|||%d\nE |0\nS", strings.Repeat("y", 4200), i+1))
	}
	y := strings.Repeat("y", 62000)
	l.do(fmt.Sprintf("B |doc|%s|%s|%s|60\nE |0\nS", y, y, y))
	l.want("Q COMMIT", "COMMIT") // or it waits for ever
}

// TestUnseenCaught: who is always caught up is not put off any more, so that additions are; and is tried again.
func TestUnseenCaught(t *testing.T) {
	s, l := unseeing(t)
	l.do("Q CREATE TABLE acc (id int PRIMARY KEY, n int)\nQ INSERT INTO acc VALUES (3, 0)\nP acc|UPDATE acc SET n = " +
		"$1 WHERE id = $2\nS\n" +
		"Q CREATE TABLE hist (id int PRIMARY KEY, n int)\nP hist|INSERT INTO hist (id, n) VALUES ($1, $2)\nS")
	for i := range 4 {
		l.do(fmt.Sprintf("B |hist|%d|1\nE |0\nS\nB |acc|0|3\nE |0\nS\nQ BEGIN\n"+addIns+
			"\nB |add|0|1\nE |0\nS\nQ COMMIT", i, 5000+i))
	}
	noted := l.noted(s)
	block := func(i int) string {
		l.do(fmt.Sprintf("Q BEGIN\nB |acc|%d|3\nE |0\nS\nB |add|1|1\nE |0\nS\nB |hist|%d|1\nE |0\nS\nQ COMMIT", i,
			100+i))
		return noted()
	}
	last := ""
	for i := range 20 {
		last = block(i)
	}
	if !strings.HasPrefix(last, "update insert add;") {
		t.Errorf("the last block is %s", last)
	}
	var n int
	if err := s.admin.QueryRow(context.Background(), "SELECT n FROM public.acc WHERE id = 3").Scan(&n); err != nil ||
		n != 19 {
		t.Errorf("the row holds %d, %v", n, err)
	}
	asked := 0
	l.host.onBlind = func(session.Submission) (session.Decision, bool) {
		asked++
		return session.Decision{}, false
	}
	for i := range 70 {
		l.do(fmt.Sprintf("Q BEGIN\nB |acc|%d|3\nE |0\nS\nQ COMMIT", i))
	}
	if asked == 0 {
		t.Error("nothing is put off any more")
	}
}
