package cluster

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestMigrationsOnBusyTables: a transaction block that changes a table does not lose to those who write to the table at
// other nodes all the time; they wait, as on one server. Single statements of theirs do not fail, others may have to be
// repeated.
func TestMigrationsOnBusyTables(t *testing.T) {
	c := use(t)
	a := c.Connect(1)
	a.Do("CREATE TABLE hold_parent(id int PRIMARY KEY, v int)",
		"INSERT INTO hold_parent SELECT i, 0 FROM generate_series(1, 50) i",
		"CREATE TABLE hold_child(id bigserial PRIMARY KEY, p int REFERENCES hold_parent, v int)")
	c.Everywhere("SELECT count(*) FROM hold_parent", "50")
	var done atomic.Bool
	var wrote, repeated atomic.Int64
	var wg sync.WaitGroup
	for n := range 6 {
		wg.Go(func() {
			s := c.Connect(1 + n%3)
			for i := n; !done.Load(); i++ {
				err := s.Try(fmt.Sprintf("UPDATE hold_parent SET v = v + 1 WHERE id = %d", 1+i*7%50))
				if err == nil && i%2 == 0 {
					err = s.Try(fmt.Sprintf("INSERT INTO hold_child(p, v) VALUES (%d, 0)", 1+i%50))
				}
				if err == nil && i%5 == 0 {
					err = s.Try(fmt.Sprintf("BEGIN; DELETE FROM hold_child WHERE p = %d; UPDATE hold_parent SET v = "+
						"v - 1 WHERE id = %d; COMMIT", 1+i%50, 1+i%50))
					if code := Code(err); code == "40001" || code == "40P01" {
						repeated.Add(1)
						_ = s.Try("ROLLBACK") // it may be none
						err = nil
					}
				}
				if err != nil {
					t.Error(Explain(err))
					return
				}
				wrote.Add(1)
				time.Sleep(10 * time.Millisecond)
			}
		})
	}
	tries, lost := 0, 0
	for began := time.Now(); tries < 10 || time.Since(began) < seconds(3*time.Second); tries++ {
		for _, block := range []string{
			"BEGIN; ALTER TABLE hold_parent ADD COLUMN x%d int DEFAULT 1; UPDATE hold_parent SET x%[1]d = 2 WHERE id " +
				"<= 10; CREATE INDEX hold_x%[1]d ON hold_parent(x%[1]d); COMMIT",
			"BEGIN; ALTER TABLE hold_child ADD COLUMN m int; CREATE TABLE hold_more%d(id serial PRIMARY KEY, p int " +
				"REFERENCES hold_parent); ALTER TABLE hold_child ADD FOREIGN KEY (m) REFERENCES hold_more%[1]d; COMMIT",
			"BEGIN; ALTER TABLE hold_child DROP COLUMN m; DROP TABLE hold_more%d; DROP INDEX hold_x%[1]d; ALTER " +
				"TABLE hold_parent DROP COLUMN x%[1]d; COMMIT",
		} {
			for {
				err := a.Try(fmt.Sprintf(block, tries))
				if err == nil {
					break
				}
				lost++
				if Code(err) != "40001" {
					t.Fatal(Explain(err))
				}
				a.Do("ROLLBACK")
			}
		}
	}
	done.Store(true)
	wg.Wait()
	t.Logf("%d blocks, %d lost; %d times written, %d repeated", 3*tries, lost, wrote.Load(), repeated.Load())
	// a third of the blocks; without holds each loses many times, and on a slow machine one may be without at times
	if lost > tries {
		t.Errorf("%d of %d blocks with definitions lost", lost, 3*tries+lost)
	}
	if wrote.Load() == 0 {
		t.Error("nobody has written meanwhile")
	}
	c.Settled()
}

// TestHolds: who has written to a table that a block of another node has changed waits at COMMIT, and no longer than
// the block. A cancel ends the wait, and so does the end of the node that the block is at.
func TestHolds(t *testing.T) {
	t.Parallel() // mostly it waits
	c := Start(t, 3)
	a, b := c.Connect(1), c.Connect(2)
	a.Do("CREATE TABLE held(id int PRIMARY KEY, v int)", "CREATE TABLE free(id int PRIMARY KEY)",
		"INSERT INTO held SELECT i, 0 FROM generate_series(1, 9) i")
	c.Settled()
	// waits has node 2's session run sql while node 1's is in a block with a definition, and gives the end of that once
	// it has waited. A hold that takes too long, on a machine that stands still, is gone on without; then all is tried
	// again, twice.
	waits := func(definition, before, sql string) func() error {
		t.Helper()
		for range 3 {
			a.Do("BEGIN", definition)
			if before != "" {
				b.Do("BEGIN", before)
			}
			seen := c.counters(2)["held_back"]
			ended := make(chan error, 1)
			end := b.later(sql)
			go func() { ended <- end() }()
			for {
				select {
				case err := <-ended:
					t.Logf("%s does not wait for %s: %v", sql, definition, Explain(err))
					a.Do("ROLLBACK")
					if before != "" {
						b.Do("ROLLBACK")
					}
				case <-time.After(pollInterval):
					if c.counters(2)["held_back"] == seen {
						continue
					}
					return func() error { return <-ended }
				}
				break
			}
		}
		t.Fatalf("%s: does not wait", sql)
		return nil
	}

	end := waits("ALTER TABLE held ADD COLUMN w int", "", "UPDATE held SET v = 1 WHERE id = 1")
	c.Connect(2).Do("INSERT INTO free VALUES (1)")
	a.Do("ROLLBACK")
	if err := end(); err != nil {
		t.Error("after a ROLLBACK:", Explain(err))
	}

	end = waits("ALTER TABLE held ADD COLUMN w int",
		"SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; UPDATE held SET v = v + 1 WHERE id = 2", "COMMIT")
	a.Do("COMMIT")
	if err := end(); Code(err) != "40001" {
		t.Errorf("a block that has written to the table as it was: %v, want 40001", Explain(err))
	}
	b.Do("ROLLBACK")
	c.Settled()
	b.Do("BEGIN", "UPDATE held SET v = 1, w = 5 WHERE id = 2", "COMMIT")

	c.Settled()
	end = waits("ALTER TABLE held RENAME v TO value; ALTER TABLE held ADD CHECK (value < 100)", "",
		"UPDATE held SET w = 6 WHERE id = 3")
	if err := b.PgConn().CancelRequest(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := end(); Code(err) != "57014" {
		t.Errorf("a cancel: %v, want 57014", Explain(err))
	}
	a.Do("ROLLBACK", "UPDATE held SET w = NULL WHERE id = 3")

	end = waits("ALTER TABLE held ADD COLUMN lost int", "", "UPDATE held SET w = 7 WHERE id = 4")
	c.Kill(1)
	if err := end(); err != nil {
		t.Error("after the end of the node that holds the table:", Explain(err))
	}
	c.Run(1)
	c.WaitReady(1)
	c.Everywhere("SELECT string_agg(concat_ws(',', id, v, w), ' ' ORDER BY id) FROM held WHERE v > 0 OR w > 0",
		"1,1 2,1,5 4,0,7")
	c.Check()
}
