package cluster

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
)

// Rows of a table without key are known by their contents. Two nodes that take the same away cannot
// both do so.
func TestWithoutPrimaryKeyConflicts(t *testing.T) {
	c := use(t)
	a, b := c.Connect(1), c.Connect(2)
	a.Do("CREATE TABLE equals(x int, y text)", "INSERT INTO equals SELECT g, 'y' FROM generate_series(1, 30) g, "+
		"generate_series(1, 2)")
	c.Everywhere("SELECT count(*) FROM equals", "60")

	b.Do("BEGIN", "DELETE FROM equals WHERE x = 1")
	a.Do("DELETE FROM equals WHERE x = 1")
	lostTo(t, b.Try("COMMIT"), "equals", "", "node1")
	left := 58
	for i := 2; i <= 30; i++ {
		remove := fmt.Sprintf("DELETE FROM equals WHERE x = %d", i)
		if i%2 == 0 { // one of the two, each its own or both the same
			remove = fmt.Sprintf("DELETE FROM equals WHERE ctid = (SELECT %s(ctid) FROM equals WHERE x = %d)",
				[]string{"min", "max"}[i/2%2], i)
		}
		a.Do("BEGIN", remove)
		b.Do("BEGIN", remove)
		errA, errB := race(a, b, "COMMIT", "COMMIT")
		for _, err := range []error{errA, errB} {
			switch {
			case err == nil && i%2 == 0:
				left--
			case err == nil:
				left -= 2
			case Code(err) != "40001":
				t.Errorf("round %d: the loser was told %v", i, err)
			}
		}
		if errA != nil && errB != nil || i%2 == 1 && errA == nil && errB == nil {
			t.Fatalf("round %d: %v and %v", i, errA, errB)
		}
	}
	c.Everywhere("SELECT count(*) FROM equals", fmt.Sprint(left))
	c.Check()
}

// Counters without key, counted up at all nodes at once, count every commit.
func TestWithoutPrimaryKeyCounts(t *testing.T) {
	c := use(t)
	c.Connect(1).Do("CREATE TYPE mood AS ENUM ('sad', 'ok')", "CREATE TABLE hits(k int, m mood, n int)",
		"CREATE TABLE hits_log(k int, node int)",
		"INSERT INTO hits SELECT g, 'ok', 0 FROM generate_series(1, 4) g")
	c.Everywhere("SELECT count(*) FROM hits", "4")
	var wins atomic.Int64
	var wg sync.WaitGroup
	for i := range 6 {
		s := c.Connect(1 + i%3)
		wg.Add(1)
		go func() {
			defer wg.Done()
			for n := range 40 {
				err := s.Try(fmt.Sprintf("BEGIN; INSERT INTO hits_log VALUES (%d, %d); UPDATE hits SET n = n + 1 "+
					"WHERE k = %[1]d; UPDATE hits SET m = m WHERE k = %[1]d; COMMIT", 1+(n+i)%4, 1+i%3))
				switch {
				case err == nil:
					wins.Add(1)
				case Code(err) != "40001":
					t.Errorf("an update failed: %s", Explain(err))
					fallthrough
				default:
					s.Do("ROLLBACK")
				}
			}
		}()
	}
	wg.Wait()
	c.Everywhere("SELECT sum(n), (SELECT count(*) FROM hits_log) FROM hits", fmt.Sprintf("%d|%[1]d", wins.Load()))
	if wins.Load() < 20 {
		t.Errorf("only %d transactions committed", wins.Load())
	}
	c.Check()
}
