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
