package cluster

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestRowTurns: blocks at all nodes that lock and change the same few rows seldom lose to each other, once some have,
// and no change is lost.
func TestRowTurns(t *testing.T) {
	c := use(t)
	c.Connect(1).Do("CREATE TABLE row_turns(id int PRIMARY KEY, n numeric NOT NULL)",
		"INSERT INTO row_turns SELECT g, 0 FROM generate_series(1, 3) g",
		"CREATE TABLE row_turned(id bigserial PRIMARY KEY)")
	c.Everywhere("SELECT count(*) FROM row_turns", "3")
	c.Settled()
	var all sync.WaitGroup
	var done, lost atomic.Int64
	ctx, cancel := context.WithTimeout(context.Background(), sqlTimeout)
	defer cancel()
	length := seconds(6 * time.Second)
	begun := time.Now()
	for i := range 9 {
		s := c.Connect(i%3 + 1)
		all.Go(func() {
			for n := i; time.Since(begun) < length; n++ {
				counts := time.Since(begun) > length/3 // until then it is found out which rows they are
				id := n%3 + 1
				err := s.Try("BEGIN")
				var was int64
				if err == nil {
					const lock = "SELECT n::bigint FROM row_turns WHERE id = $1 FOR UPDATE"
					err = s.Conn.QueryRow(ctx, lock, id).Scan(&was)
				}
				if err == nil {
					_, err = s.Conn.Exec(ctx, "UPDATE row_turns SET n = $1 WHERE id = $2", fmt.Sprint(was+1), id)
				}
				if err == nil {
					err = s.Try("INSERT INTO row_turned DEFAULT VALUES")
				}
				if err == nil {
					err = s.Try("COMMIT")
				}
				switch {
				case err == nil && counts:
					done.Add(1)
				case err == nil:
				case Code(err) != "40001":
					t.Errorf("a block is told %s", Explain(err))
					return
				case counts:
					lost.Add(1)
				}
				if err != nil {
					_ = s.Try("ROLLBACK")
				}
			}
		})
	}
	all.Wait()
	t.Logf("%d blocks, %d lost", done.Load(), lost.Load())
	if done.Load() == 0 || lost.Load()*20 > done.Load() {
		t.Errorf("%d of %d blocks were told that they have lost", lost.Load(), done.Load()+lost.Load())
	}
	c.Settled()
	c.Everywhere("SELECT sum(n) = (SELECT count(*) FROM row_turned) FROM row_turns", "t")
	c.Check()
}

// TestRowTurnsInCircles: blocks of two nodes that take two contended rows in opposite order do not wait for each other
// for ever: one is told that it has lost.
func TestRowTurnsInCircles(t *testing.T) {
	c := use(t)
	a, b := c.Connect(1), c.Connect(2)
	a.Do("CREATE TABLE row_circles(id int PRIMARY KEY, n int)", "INSERT INTO row_circles VALUES (1, 0), (2, 0)")
	c.Everywhere("SELECT count(*) FROM row_circles", "2")
	lost := 0
	for range 5 {
		c.Settled()
		for i, s := range []*Conn{a, b} {
			s.Do("BEGIN", fmt.Sprintf("SELECT FROM row_circles WHERE id = %d FOR UPDATE", i+1),
				fmt.Sprintf("UPDATE row_circles SET n = n * 2 + 1 WHERE id = %d", i+1))
		}
		began := time.Now()
		second := make(chan error)
		go func() {
			second <- b.Try("UPDATE row_circles SET n = n * 2 + 1 WHERE id = 1; COMMIT")
		}()
		err := a.Try("UPDATE row_circles SET n = n * 2 + 1 WHERE id = 2")
		if err == nil {
			err = a.Try("COMMIT")
		}
		other := <-second
		for _, e := range []error{err, other} {
			if e != nil && Code(e) != "40001" {
				t.Errorf("one is told %s", Explain(e))
			} else if e != nil {
				lost++
			}
		}
		if err != nil && other != nil || time.Since(began) > 10*time.Second {
			t.Errorf("after %s one was told %v, and the other one %v", time.Since(began), err, other)
		}
		_ = a.Try("ROLLBACK")
		_ = b.Try("ROLLBACK")
	}
	if lost == 0 {
		t.Error("nobody has lost")
	}
	c.Check()
}
