package cluster

import (
	"testing"
	"time"
)

// TestSilentAfterBegin: a client is silent after BEGIN, or listens, so that its transaction is opened. It waits for
// nobody, though a statement of it is to be prepared anew and somebody has locked its table.
func TestSilentAfterBegin(t *testing.T) {
	c := use(t)
	a, b := c.Connect(1), c.Connect(1)
	a.Do("CREATE TABLE silent(id int PRIMARY KEY)")
	insert := func(id int) {
		t.Helper()
		if _, err := a.Exec(a.ctx(), "INSERT INTO silent VALUES ($1)", id); err != nil {
			t.Fatal(Explain(err))
		}
	}
	a.Do("BEGIN")
	insert(1)
	insert(2) // the second time: from the next transaction on it may be direct
	a.Do("COMMIT")
	b.Do("BEGIN", "LOCK TABLE silent IN SHARE MODE")
	for _, listen := range []bool{false, true} {
		if listen {
			a.Do("LISTEN silent")
		}
		began := time.Now()
		a.Do("BEGIN")
		time.Sleep(300 * time.Millisecond)
		ended := make(chan error, 1)
		go func() { ended <- a.Try("ROLLBACK") }()
		select {
		case err := <-ended:
			if err != nil {
				t.Fatal(Explain(err))
			}
		case <-time.After(5 * time.Second):
			t.Errorf("listening: %t: BEGIN, silence and ROLLBACK wait for a table's lock for %v", listen,
				time.Since(began))
			b.Do("ROLLBACK")
			<-ended
			return
		}
	}
	b.Do("ROLLBACK")
	insert(3)
	c.Everywhere("SELECT count(*) FROM silent", "3")
}
