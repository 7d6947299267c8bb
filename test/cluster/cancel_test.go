package cluster

import (
	"testing"
	"time"
)

// TestSnapshotIsCancelled: a transaction that must take its snapshot between two groups, of which one takes long, can
// be cancelled while it waits.
func TestSnapshotIsCancelled(t *testing.T) {
	c := use(t)
	a, b := c.Connect(1), c.Connect(2)
	a.Do("CREATE TABLE cancel_long (id int PRIMARY KEY)", "INSERT INTO cancel_long VALUES (1)",
		"CREATE FUNCTION cancel_slowly(int) RETURNS bool LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(4); RETURN "+
			"true; END $$")
	c.Settled()
	for _, begin := range []string{"BEGIN ISOLATION LEVEL REPEATABLE READ",
		"SET default_transaction_isolation = 'repeatable read'"} {
		cancelled := false
		// a slow machine may not have come to the definition, or be through with it
		for try := 0; try < 5 && !cancelled; try++ {
			done := make(chan error, 1)
			go func() { done <- a.Try("ALTER TABLE cancel_long ADD CHECK (cancel_slowly(id))") }()
			time.Sleep(time.Second)
			b.Do(begin)
			result := make(chan error, 1)
			go func() { result <- b.Try("SELECT count(*) FROM pg_class") }()
			time.Sleep(500 * time.Millisecond)
			if err := b.PgConn().CancelRequest(b.ctx()); err != nil {
				t.Fatal(err)
			}
			err := <-result
			if cancelled = Code(err) == "57014"; err != nil && !cancelled {
				t.Fatal(Explain(err))
			}
			b.Do("ROLLBACK", "RESET default_transaction_isolation", "SELECT 1")
			if err := <-done; err != nil {
				t.Fatal(Explain(err))
			}
			c.Settled()
		}
		if !cancelled {
			t.Errorf("%s: its first statement cannot be cancelled", begin)
		}
	}
}

// TestCommitOfDefinitionsIsCancelled: a COMMIT with definitions that waits for another session's definition ends with a
// cancel, and by the client's own limits.
func TestCommitOfDefinitionsIsCancelled(t *testing.T) {
	c := use(t)
	a, b := c.Connect(1), c.Connect(1)
	a.Do("CREATE TABLE turn_long (id int PRIMARY KEY)", "INSERT INTO turn_long VALUES (1)",
		"CREATE FUNCTION turn_slowly(int) RETURNS bool LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(4); RETURN "+
			"true; END $$")
	c.Settled()
	for setting, want := range map[string]string{
		"statement_timeout": "57014", "idle_in_transaction_session_timeout": "57014",
	} {
		got := ""
		// a slow machine may not have come to the definition, or be through with it
		for try := 0; try < 5 && got != want; try++ {
			done := a.later("ALTER TABLE turn_long ADD CHECK (turn_slowly(id))")
			time.Sleep(time.Second)
			b.Do("BEGIN", "CREATE TABLE turn_new(id int)", "SET LOCAL "+setting+" = '900ms'")
			result := b.later("COMMIT")
			if setting == "idle_in_transaction_session_timeout" { // which does not count: the client cancels it
				time.Sleep(500 * time.Millisecond)
				if err := b.PgConn().CancelRequest(b.ctx()); err != nil {
					t.Fatal(err)
				}
			}
			err := result()
			if got = Code(err); err != nil && got != want {
				t.Fatalf("%s: %s, want %s", setting, Explain(err), want)
			}
			if err == nil {
				b.Do("DROP TABLE turn_new")
			}
			if err := done(); err != nil {
				t.Fatal(Explain(err))
			}
			c.Settled()
		}
		if got != want {
			t.Errorf("%s: COMMIT did not wait, or not end: %q, want %s", setting, got, want)
		}
	}
	c.Everywhere("SELECT to_regclass('turn_new') IS NULL", "t")
}

// TestTurnEndsWithItsSession: who ends while it has its turn to define something does not keep it.
func TestTurnEndsWithItsSession(t *testing.T) {
	c := use(t)
	a, b, other := c.Connect(1), c.Connect(1), c.Connect(1)
	a.Do("CREATE TABLE turn_ends (id int PRIMARY KEY)", "INSERT INTO turn_ends VALUES (1)",
		"CREATE FUNCTION turn_ends_slowly(int) RETURNS bool LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(2); "+
			"RETURN true; END $$")
	c.Settled()
	pid := b.Get("SELECT pg_backend_pid()")
	done := a.later("ALTER TABLE turn_ends ADD CHECK (turn_ends_slowly(id))")
	time.Sleep(500 * time.Millisecond)
	b.Do("BEGIN", "CREATE TABLE turn_gone(id int)")
	result := b.later("COMMIT") // it waits for the other definition
	time.Sleep(500 * time.Millisecond)
	other.Do("SELECT pg_terminate_backend(" + pid + ")")
	t.Log("COMMIT:", Explain(result()))
	if err := done(); err != nil {
		t.Fatal(Explain(err))
	}
	began := time.Now()
	other.Do("CREATE TABLE turn_after(id int)", "BEGIN; DROP TABLE turn_after; COMMIT")
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("definitions after that waited for %v", took)
	}
	c.Settled()
}
