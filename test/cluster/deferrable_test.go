package cluster

import (
	"testing"
	"time"
)

// TestDeferrableHoldsNobodyUp: however a client asks for a safe snapshot, its transaction does not wait for one. It would do so
// at the gate, and nothing could be applied at its member while somebody writes.
func TestDeferrableHoldsNobodyUp(t *testing.T) {
	c := use(t)
	writer, b := c.Connect(1), c.Connect(2)
	b.Do("CREATE TABLE unhurried(id int PRIMARY KEY, v int)", "INSERT INTO unhurried VALUES (1, 0), (2, 0)")
	for i, begin := range [][]string{
		{"BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY DEFERRABLE"},
		{"SET default_transaction_deferrable = on", "BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY"},
		{"SET default_transaction_deferrable = on; SET default_transaction_isolation = serializable; SET default_transaction_read_only = on"},
		{"BEGIN", "SET LOCAL work_mem = '5MB'", "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE READ ONLY DEFERRABLE"},
		{"BEGIN", "SET LOCAL work_mem = '5MB'", "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE READ ONLY", "SET transaction_deferrable = on"},
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
	r.Do("BEGIN", "SET LOCAL work_mem = '5MB'", "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE READ ONLY DEFERRABLE", "SAVEPOINT a")
	if err := r.Try("SELECT count(*) FROM unhurried"); Code(err) != "0A000" {
		t.Errorf("behind a savepoint, where PostgreSQL does not take it back: %v", err)
	}
	r.Do("ROLLBACK")
}
