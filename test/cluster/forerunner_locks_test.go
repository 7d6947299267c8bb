package cluster

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"
)

// TestForerunnerLocks: a large transaction that has locked its tables is executed ahead like others, though sessions
// that it keeps out wait with locks of theirs; they give way when it has its turn.
func TestForerunnerLocks(t *testing.T) {
	t.Parallel()
	c := Start(t, 3, smallLimits)
	s := c.Connect(1)
	s.Do("CREATE TABLE bulk(id int PRIMARY KEY, v text)", "CREATE TABLE bulk_steps(id int)")
	c.Settled()
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for k := 1; k <= 3; k++ {
		w := c.Connect(k)
		wg.Go(func() {
			for n := 0; !closed(stop); n++ {
				if w.changed(fmt.Sprintf("INSERT INTO bulk VALUES (%d)", -(3*n+k))) != 1 {
					t.Errorf("a writer at node %d lost", k)
				}
				time.Sleep(2 * time.Millisecond)
			}
		})
	}
	time.Sleep(3 * time.Second) // before the members have heard of each other a hold may be gone on without
	for i := range 8 {
		fill := fmt.Sprintf("BEGIN; LOCK TABLE bulk IN %s MODE; ",
			[]string{"SHARE ROW EXCLUSIVE", "ACCESS EXCLUSIVE"}[i%2])
		if i >= 4 {
			fill += fmt.Sprintf("ALTER TABLE bulk_steps ADD COLUMN c%d int; ", i)
		}
		fill += fmt.Sprintf("INSERT INTO bulk SELECT g, repeat('x', 40) FROM generate_series(%d, %d) g; COMMIT", i*2000,
			i*2000+1999)
		for err := errors.New("not tried"); err != nil; {
			if err = s.Try(fill); err != nil && Code(err) != "40001" {
				t.Fatal(Explain(err))
			}
			if err != nil {
				s.Do("ROLLBACK")
			}
		}
	}
	close(stop)
	wg.Wait()
	c.Settled()
	b := c.Connect(2) // has a lock that nothing needs but the table's
	b.Do("BEGIN", "SELECT * FROM bulk WHERE id = 7 FOR UPDATE")
	s.Do("BEGIN", "LOCK TABLE bulk", "INSERT INTO bulk SELECT g, repeat('x', 40) FROM generate_series(100000, "+
		"101999) g", "COMMIT")
	c.Eventually(2, "SELECT count(*) FROM bulk WHERE id >= 100000", "2000")
	if err := errors.Join(b.Try("INSERT INTO bulk_steps VALUES (1)"), b.Try("COMMIT")); Code(err) != "40001" {
		t.Errorf("who has a lock that is in the way goes on: %v", Explain(err))
	}
	for _, k := range []int{2, 3} {
		c.Eventually(k, "SELECT count(*) FROM bulk WHERE id >= 100000", "2000")
		c.soon(func() bool { return c.said(k, saidAhead)+c.said(k, saidInTurn) >= 9 },
			func() string { return fmt.Sprintf("node %d does not say how it came to have all", k) })
		if ahead, inTurn := c.said(k, saidAhead), c.said(k, saidInTurn); ahead < 9 || inTurn > 0 {
			t.Errorf("node %d executed %d ahead, and left %d to their turn", k, ahead, inTurn)
		}
	}
	c.Check()
}
