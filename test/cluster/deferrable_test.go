package cluster

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestDeferrableHoldsNobodyUp: a client that asks for a safe snapshot waits for one only if its transaction can be
// begun again while it does. Else it would wait at the gate, and nothing could be applied at its member while somebody
// writes.
func TestDeferrableHoldsNobodyUp(t *testing.T) {
	c := use(t)
	writer, b := c.Connect(1), c.Connect(2)
	b.Do("CREATE TABLE unhurried(id int PRIMARY KEY, v int)", "INSERT INTO unhurried VALUES (1, 0), (2, 0)")
	c.Everywhere("SELECT count(*) FROM unhurried", "2")
	for i, begin := range [][]string{
		{"SET default_transaction_deferrable = on", "BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY"},
		{"SET default_transaction_deferrable = on; SET default_transaction_isolation = serializable; SET " +
			"default_transaction_read_only = on"},
		{"BEGIN", "SET LOCAL work_mem = '5MB'", "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE READ ONLY DEFERRABLE"},
		{"BEGIN", "SET LOCAL work_mem = '5MB'", "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE READ ONLY",
			"SET transaction_deferrable = on"},
		{"BEGIN; SET LOCAL work_mem = '5MB'; SET TRANSACTION ISOLATION LEVEL SERIALIZABLE READ ONLY, DEFERRABLE"},
		{"LISTEN unhurried", "BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY DEFERRABLE", "SET TRANSACTION DEFERRABLE"},
	} {
		writer.Do("BEGIN ISOLATION LEVEL SERIALIZABLE", "UPDATE unhurried SET v = v + 1 WHERE id = 1")
		r := c.Connect(1)
		r.Do(begin...)
		began := time.Now()
		r.Do("SELECT count(*) FROM unhurried")
		b.Do("UPDATE unhurried SET v = v + 1 WHERE id = 2")
		c.Eventually(1, "SELECT v FROM unhurried WHERE id = 2", string(rune('1'+i)))
		if d := time.Since(began); d > 30*time.Second {
			t.Errorf("%q: held up for %v", begin, d)
		}
		writer.Do("ROLLBACK")
	}
	r := c.Connect(1)
	r.Do("BEGIN", "SET LOCAL work_mem = '5MB'", "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE READ ONLY DEFERRABLE",
		"SAVEPOINT a")
	if err := r.Try("SELECT count(*) FROM unhurried"); Code(err) != "0A000" {
		t.Errorf("behind a savepoint, where PostgreSQL does not take it back: %v", err)
	}
	r.Do("ROLLBACK")
}

// TestSafeSnapshot: a SERIALIZABLE READ ONLY DEFERRABLE transaction waits for those of its member that may write. What
// is ordered meanwhile is applied as ever, and it sees that.
func TestSafeSnapshot(t *testing.T) {
	c := use(t)
	writer, b := c.Connect(1), c.Connect(2)
	b.Do("CREATE TABLE safe_rows(id int PRIMARY KEY, v int)", "INSERT INTO safe_rows VALUES (1, 0), (2, 0)")
	c.Everywhere("SELECT count(*) FROM safe_rows", "2")
	begin := []string{"BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY DEFERRABLE"}
	for i, end := range []string{"COMMIT", "ROLLBACK"} {
		writer.Do("BEGIN ISOLATION LEVEL SERIALIZABLE", "UPDATE safe_rows SET v = v + 1 WHERE id = 1")
		r := c.Connect(1)
		r.Do(begin...)
		seen := make(chan string, 1)
		go func() {
			got, err := r.Ask("SELECT string_agg(v::text, ' ' ORDER BY id) FROM safe_rows")
			seen <- got + fmt.Sprint(err)
		}()
		c.Eventually(1, fmt.Sprintf("SELECT cardinality(pg_safe_snapshot_blocking_pids(%d))", r.PgConn().PID()), "1")
		began := time.Now()
		for k := range 5 {
			b.Do(fmt.Sprintf("UPDATE safe_rows SET v = %d WHERE id = 2", 5*i+k+1))
			c.Eventually(1, "SELECT v FROM safe_rows WHERE id = 2", fmt.Sprint(5*i+k+1))
		}
		if d := time.Since(began); d > 30*time.Second {
			t.Errorf("what was ordered meanwhile took %v", d)
		}
		select {
		case got := <-seen:
			t.Errorf("it did not wait: %s", got)
		default:
		}
		writer.Do(end)
		select {
		case got := <-seen:
			if want := fmt.Sprintf("1 %d<nil>", 5*i+5); got != want {
				t.Errorf("after %s it sees %q, want %q", end, got, want)
			}
		case <-time.After(sqlTimeout):
			t.Fatalf("it waits still, after %s", end)
		}
		r.Do("COMMIT")
	}
}

// TestSafeSnapshotInVain: who waits for a safe snapshot may be cancelled, by the client or by statement_timeout, and
// does not wait for ever where groups come all the time.
func TestSafeSnapshotInVain(t *testing.T) {
	c := use(t)
	writer, b := c.Connect(1), c.Connect(2)
	b.Do("CREATE TABLE unsafe(id int PRIMARY KEY, v int)", "INSERT INTO unsafe VALUES (1, 0), (2, 0)")
	c.Everywhere("SELECT count(*) FROM unsafe", "2")
	writer.Do("BEGIN ISOLATION LEVEL SERIALIZABLE", "UPDATE unsafe SET v = v + 1 WHERE id = 1")
	r := c.Connect(1)
	for range 10 {
		r.Do("BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY DEFERRABLE")
		got := background(r, "SELECT count(*) FROM unsafe")
		c.Eventually(1, fmt.Sprintf("SELECT cardinality(pg_safe_snapshot_blocking_pids(%d))", r.PgConn().PID()), "1")
		b.Do("UPDATE unsafe SET v = v + 1 WHERE id = 2") // it may be between two tries, too
		if err := r.PgConn().CancelRequest(context.Background()); err != nil {
			t.Fatal(err)
		}
		select {
		case err := <-got:
			if Code(err) != "57014" {
				t.Errorf("cancelled: %v", err)
			}
		case <-time.After(sqlTimeout):
			t.Fatal("it was cancelled, and waits")
		}
		if err := r.Try("SELECT 1"); Code(err) != "25P02" {
			t.Errorf("after the cancel: %v", err)
		}
		r.Do("ROLLBACK", "SELECT count(*) FROM unsafe")
	}
	r.Do("SET statement_timeout = '1s'", "BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY DEFERRABLE")
	if err := r.Try("SELECT count(*) FROM unsafe"); Code(err) != "57014" {
		t.Errorf("statement_timeout: %v", err)
	}
	r.Do("ROLLBACK", "RESET statement_timeout", "BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY DEFERRABLE")
	got := background(r, "SELECT count(*) FROM unsafe")
	for deadline := time.Now().Add(sqlTimeout); ; b.Do("UPDATE unsafe SET v = v + 1 WHERE id = 2") {
		select {
		case err := <-got:
			if err != nil {
				t.Errorf("while groups come all the time: %v", err)
			}
			r.Do("COMMIT")
			writer.Do("COMMIT")
			return
		default:
		}
		if time.Now().After(deadline) {
			t.Fatal("it waits for ever")
		}
	}
}

// TestSavepointsOutside: a savepoint outside of a block is refused, also where the statement would run in a transaction
// of its own because constraints of the database may fire at its end.
func TestSavepointsOutside(t *testing.T) {
	c := use(t)
	a := c.Connect(1)
	a.Do("CREATE TABLE later_to(id int PRIMARY KEY)",
		"CREATE TABLE later(id int PRIMARY KEY REFERENCES later_to DEFERRABLE INITIALLY DEFERRED)")
	for _, sql := range []string{"SAVEPOINT one", "ROLLBACK TO SAVEPOINT one", "RELEASE SAVEPOINT one"} {
		name, _, _ := strings.Cut(sql, " one")
		if err := a.Try(sql); Code(err) != "25P01" || !strings.Contains(err.Error(), name+" can only be used") {
			t.Errorf("%s: %v", sql, err)
		}
	}
	a.Do("INSERT INTO later_to VALUES (1)")
}
