package session_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
)

// TestMarks: which statements are captured as a whole, which row by row, and which are direct.
func TestMarks(t *testing.T) {
	s, l := direct(t)
	l.do("Q INSERT INTO t SELECT g, 'x' || g % 10 FROM generate_series(10, 29) g")
	counts := func() (whole, rows int) {
		const sql = "SELECT count(*) FILTER (WHERE op > 40), count(*) FILTER (WHERE op < 40) FROM (TABLE " +
			"tutti.capture0 UNION ALL TABLE tutti.capture1 UNION ALL TABLE tutti.capture2 UNION ALL TABLE " +
			"tutti.capture3) c"
		if err := s.admin.QueryRow(context.Background(), sql).Scan(&whole, &rows); err != nil {
			t.Fatal(err)
		}
		return whole, rows
	}
	const some = "B |some|y|x1\nE |0\nS"
	for _, c := range []struct{ lines, want string }{
		{"Q UPDATE t SET v = 'a' WHERE id IN (10, 11)", "0 whole, 2 rows"},
		{"Q UPDATE t SET v = 'a' WHERE public.t.id = 10", "0 whole, 1 rows"},
		{"Q UPDATE public.t SET v = 'b' WHERE v = 'x5'", "1 whole, 0 rows"},
		{"Q DELETE FROM t WHERE id % 20 = 19 -- id = 19", "1 whole, 0 rows"},
		{"Q UPDATE u SET n = n + 10 WHERE n = 1", "0 whole, 1 rows"},
		{"Q UPDATE t SET v = 'c' WHERE lower(v) = 'x6'\nQ UPDATE t SET v = 'd' WHERE id = 12", "1 whole, 1 rows"},
		{"Q BEGIN\nQ UPDATE t SET v = 'e' WHERE v = 'x7'\nQ UPDATE t SET v = 'f' WHERE id = 13\nQ DELETE FROM t " +
			"WHERE v = 'x8'\nQ COMMIT", "2 whole, 1 rows"},
		{"P some|UPDATE t SET v = $1 WHERE v = $2|25,25\nS", "0 whole, 0 rows"},
		{some, "1 whole, 0 rows"},
		{"Q UPDATE t SET v = E'x1' WHERE id = 10\n" + some, "0 whole, 1 rows"}, // the second time, directly
		{"Q BEGIN\nQ UPDATE t SET v = E'x1' WHERE id = 10\n" + some + "\nQ COMMIT", "1 whole, 1 rows"},
		{"Q UPDATE t SET v = E'x1' WHERE id = 10\nB |some|z|x1\nE |0\nB |upd|x1|10\nE |0\nS\n" + some,
			"0 whole, 1 rows"},
		{"P |UPDATE t SET v = $1 WHERE v = $2|25,25\nB ||z|y\nE |0\nS", "0 whole, 0 rows"},
		{"Q BEGIN\nB |upd|x1|10\nE |0\nS\n" + some + "\nQ COMMIT", "0 whole, 0 rows"},
	} {
		whole, rows := counts()
		got := l.do(c.lines)
		wholeNow, rowsNow := counts()
		if n := fmt.Sprintf("%d whole, %d rows", wholeNow-whole, rowsNow-rows); n != c.want ||
			strings.Contains(got, "ERROR") || strings.Contains(got, "UPDATE 0") {
			t.Errorf("%s: %s, want %s; the client got\n%s", c.lines, n, c.want, got)
		}
	}
}
