package cluster

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// lostTo checks that err is a conflict that names table, key, and the winning transaction and
// node (G6).
func lostTo(t *testing.T, err error, table, key, node string) {
	t.Helper()
	var pg *pgconn.PgError
	if !errors.As(err, &pg) || pg.Code != "40001" {
		t.Errorf("the loser was told %v, want 40001", err)
		return
	}
	txid := regexp.MustCompile(`[Tt]ransaction \d+\.\d+\.\d+ of node ` + node + ` `)
	if !strings.Contains(pg.Detail, table) || !strings.Contains(pg.Detail, key) || !txid.MatchString(pg.Detail) {
		t.Errorf("the DETAIL %q does not name table %s, key %q and a transaction of %s", pg.Detail, table, key, node)
	}
	if pg.Hint == "" {
		t.Error("the error has no HINT")
	}
}

func TestConflictWhileTheLoserIsIdle(t *testing.T) {
	c := use(t)
	a, b := c.Connect(1), c.Connect(2)
	a.Do("CREATE TABLE idle(k int PRIMARY KEY, v int)", "INSERT INTO idle VALUES (7, 0)")
	c.Everywhere("SELECT v FROM idle", "0")
	for i, end := range []string{"COMMIT", "SELECT 1", "UPDATE idle SET v = 9"} {
		b.Do("BEGIN ISOLATION LEVEL REPEATABLE READ", fmt.Sprintf("UPDATE idle SET v = -1 - %d WHERE k = 7", i))
		a.Do(fmt.Sprintf("UPDATE idle SET v = %d WHERE k = 7", i+1))
		// The winner's rows have to get past the loser's lock.
		c.Eventually(2, "SELECT v FROM idle", fmt.Sprint(i+1))
		lostTo(t, b.Try(end), "idle", "(k)=(7)", "node1")
		if end != "COMMIT" {
			if code := Code(b.Try("SELECT 1")); code != "25P02" {
				t.Errorf("after the conflict a statement gives %s, want 25P02", code)
			}
			b.Do("ROLLBACK")
		}
		if got := b.Get("SELECT 1"); got != "1" {
			t.Errorf("the session is not usable: %s", got)
		}
	}
	c.Everywhere("SELECT v FROM idle", "3")
}

// TestConflictAtCommit lets the loser commit while the winner is on its way: both commit at
// once, many times.
func TestConflictAtCommit(t *testing.T) {
	c := use(t)
	a, b := c.Connect(1), c.Connect(2)
	a.Do("CREATE TABLE atcommit(k int PRIMARY KEY, v int NOT NULL)", "INSERT INTO atcommit VALUES (1, 0)")
	c.Everywhere("SELECT v FROM atcommit", "0")
	wins := 0
	for range 40 {
		for _, s := range []*Conn{a, b} {
			// the round before may still arrive
			for s.Try("BEGIN ISOLATION LEVEL REPEATABLE READ; UPDATE atcommit SET v = v + 1 WHERE k = 1") != nil {
				s.Do("ROLLBACK")
			}
		}
		result := make(chan error)
		go func() { result <- a.Try("COMMIT") }()
		errB := b.Try("COMMIT")
		errA := <-result
		switch {
		case errA == nil && errB == nil:
			t.Fatal("both committed")
		case errA == nil:
			lostTo(t, errB, "atcommit", "(k)=(1)", "node1")
		case errB == nil:
			lostTo(t, errA, "atcommit", "(k)=(1)", "node2")
		default:
			// Each may have lost to an earlier round that had not arrived at its node.
			for _, err := range []error{errA, errB} {
				if Code(err) != "40001" {
					t.Fatal(Explain(err))
				}
			}
			continue
		}
		wins++
	}
	if wins == 0 {
		t.Error("nobody ever won")
	}
	c.Everywhere("SELECT v FROM atcommit", fmt.Sprint(wins))
	c.Check()
}

// race runs two statements at two nodes at once and returns their errors.
func race(a, b *Conn, qa, qb string) (errA, errB error) {
	done := make(chan error)
	go func() { done <- a.Try(qa) }()
	errB = b.Try(qb)
	return <-done, errB
}

func TestUniqueRaces(t *testing.T) {
	c := use(t)
	a, b := c.Connect(2), c.Connect(3)
	a.Do("CREATE TABLE uniq(k int PRIMARY KEY, e text)", "CREATE UNIQUE INDEX ON uniq(lower(e))")
	c.Eventually(3, "SELECT count(*) FROM pg_indexes WHERE tablename = 'uniq'", "2")
	for i := range 30 {
		qa, qb := fmt.Sprintf("INSERT INTO uniq VALUES (%d, 'a%d')", i, i),
			fmt.Sprintf("INSERT INTO uniq VALUES (%d, 'b%d')", i, i)
		if i%2 == 1 { // different primary keys, the same secondary key
			qa, qb = fmt.Sprintf("INSERT INTO uniq VALUES (%d, 'X%d')", i, i),
				fmt.Sprintf("INSERT INTO uniq VALUES (%d, 'x%d')", 1000+i, i)
		}
		errA, errB := race(a, b, qa, qb)
		if (errA == nil) == (errB == nil) {
			t.Fatalf("round %d: %v and %v; exactly one must win", i, errA, errB)
		}
		// An autocommitted statement is run again, and then sees the winner's row.
		if code := Code(errors.Join(errA, errB)); code != "23505" {
			t.Errorf("round %d: the loser was told %v", i, errors.Join(errA, errB))
		}
	}
	c.Everywhere("SELECT count(*), count(DISTINCT lower(e)) FROM uniq", "30|30")
	c.Check()
}

func TestForeignKeyRaces(t *testing.T) {
	c := use(t)
	a, b := c.Connect(1), c.Connect(3)
	a.Do("CREATE TABLE parent(p int PRIMARY KEY)",
		"CREATE TABLE child(i int PRIMARY KEY, p int NOT NULL REFERENCES parent)",
		"INSERT INTO parent SELECT generate_series(1, 40)")
	c.Eventually(3, "SELECT count(*) FROM parent", "40")
	for i := 1; i <= 40; i++ {
		insert, remove := fmt.Sprintf("INSERT INTO child VALUES (%d, %d)", i, i),
			fmt.Sprintf("DELETE FROM parent WHERE p = %d", i)
		if i%2 == 0 {
			insert, remove = "BEGIN;"+insert+";COMMIT", "BEGIN;"+remove+";COMMIT"
		}
		errA, errB := race(a, b, insert, remove)
		if (errA == nil) == (errB == nil) {
			t.Fatalf("round %d: %v and %v; exactly one must win", i, errA, errB)
		}
		if code := Code(errors.Join(errA, errB)); code != "23503" && code != "40001" {
			t.Errorf("round %d: the loser was told %v", i, errors.Join(errA, errB))
		}
		for _, s := range []*Conn{a, b} {
			s.Do("ROLLBACK")
		}
	}
	c.Check()
	for _, k := range c.All() {
		if got := c.Connect(k).Get("SELECT count(*) FROM child LEFT JOIN parent USING (p) WHERE parent.p " +
			"IS NULL"); got != "0" {
			t.Errorf("node %d has %s children without parent", k, got)
		}
	}
}

// TestCommitFailsAfterTheDecision: what a held cursor would write at COMMIT makes the backend's COMMIT
// fail when the log has decided. The rows come from the log, and the session goes on.
func TestCommitFailsAfterTheDecision(t *testing.T) {
	c := use(t)
	a := c.Connect(1)
	a.Do("CREATE TABLE late(k int PRIMARY KEY)",
		"CREATE FUNCTION late(int) RETURNS int LANGUAGE sql AS 'INSERT INTO late VALUES ($1) RETURNING k'")
	const slow = 900 * time.Millisecond // the node waits a second for a backend that says nothing
	quickest, rows := time.Hour, ""
	for i := 0; i < 4 || quickest > slow && i < 30; i++ {
		rows += fmt.Sprint(i, " ")
		a.Do("BEGIN", fmt.Sprintf("INSERT INTO late VALUES (%d)", i),
			fmt.Sprintf("DECLARE c CURSOR WITH HOLD FOR SELECT late(%d)", 100+i))
		began := time.Now()
		a.Do("COMMIT")
		quickest = min(quickest, time.Since(began))
		if got := a.Get("SELECT max(k) FROM late"); got != fmt.Sprint(i) {
			t.Errorf("after COMMIT the newest row is %s, want %d", got, i)
		}
	}
	if quickest > slow {
		t.Errorf("COMMIT took %v", quickest)
	}
	c.Everywhere("SELECT string_agg(k::text || ' ', '' ORDER BY k) FROM late", rows)
}

// TestDoneAgain: a READ COMMITTED transaction that loses is done again if its client would be told the same, on the
// rows as they are then, be it idle or at COMMIT when it loses.
func TestDoneAgain(t *testing.T) {
	c := use(t)
	a, b := c.Connect(1), c.Connect(2)
	a.Do("CREATE TABLE doneagain(k int PRIMARY KEY, v int NOT NULL)", "INSERT INTO doneagain VALUES (1, 0)")
	c.Everywhere("SELECT v FROM doneagain", "0")
	for i := range 40 {
		b.Do("BEGIN", "UPDATE doneagain SET v = v + 1 WHERE k = 1")
		won := make(chan error)
		go func() { won <- a.Try("UPDATE doneagain SET v = v + 100 WHERE k = 1") }()
		if i%2 == 0 {
			if err := <-won; err != nil {
				t.Fatal(Explain(err))
			}
			c.Eventually(2, "SELECT v FROM doneagain", fmt.Sprint(100*(i+1)+i))
		}
		b.Do("COMMIT")
		if i%2 != 0 {
			if err := <-won; err != nil {
				t.Fatal(Explain(err))
			}
		}
		c.Everywhere("SELECT v FROM doneagain", fmt.Sprint(101*(i+1)))
	}
	for i := range 5 { // it loses while a statement runs
		b.Do("BEGIN", "UPDATE doneagain SET v = v + 1 WHERE k = 1")
		won := make(chan error)
		go func() { won <- a.Try("UPDATE doneagain SET v = v + 100 WHERE k = 1") }()
		b.Do("SELECT pg_sleep(0.3)", "COMMIT")
		if err := <-won; err != nil {
			t.Fatal(Explain(err))
		}
		c.Everywhere("SELECT v FROM doneagain", fmt.Sprint(101*(41+i)))
	}
	b.Do("BEGIN", "UPDATE doneagain SET v = v + 1 WHERE k = 1")
	won := make(chan error)
	go func() { won <- a.Try("UPDATE doneagain SET v = v + 100 WHERE k = 1") }()
	// rows are captured before the definition
	b.Do("UPDATE doneagain SET v = v + 1 FROM pg_sleep(0.3) WHERE k = 1", "ALTER TABLE doneagain ADD COLUMN w int",
		"COMMIT")
	if err := <-won; err != nil {
		t.Fatal(Explain(err))
	}
	c.Everywhere("SELECT v FROM doneagain", "4647")
	b.Do("BEGIN")
	seen := b.Get("SELECT v FROM doneagain WHERE k = 1")
	b.Do("UPDATE doneagain SET v = " + seen + " + 1 WHERE k = 1")
	a.Do("UPDATE doneagain SET v = v + 100 WHERE k = 1")
	lostTo(t, b.Try("COMMIT"), "doneagain", "(k)=(1)", "node1")
	c.Everywhere("SELECT v FROM doneagain", "4747")
}
