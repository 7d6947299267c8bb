package cluster

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestValidateBesideWriters: a transaction that validates constraints and those that write to the table do not keep
// each other from committing, at one node or at two, as on one server.
func TestValidateBesideWriters(t *testing.T) {
	c := use(t)
	a, near, far := c.Connect(1), c.Connect(1), c.Connect(2)
	a.Do("CREATE TABLE valid_parent(id int PRIMARY KEY)", "INSERT INTO valid_parent SELECT generate_series(1, 9)",
		"CREATE TABLE valid_child(id int PRIMARY KEY, p int, v int)",
		"INSERT INTO valid_child SELECT i, i, i FROM generate_series(1, 9) i",
		"ALTER TABLE valid_child ADD CONSTRAINT known FOREIGN KEY (p) REFERENCES valid_parent NOT VALID, ADD "+
			"CONSTRAINT small CHECK (v < 100) NOT VALID")
	c.Everywhere("SELECT count(*) FROM pg_constraint WHERE conname IN ('known', 'small')", "2")
	near.Do("BEGIN", "INSERT INTO valid_child VALUES (10, 1, 1)")
	far.Do("BEGIN", "UPDATE valid_child SET v = 5 WHERE id = 2")
	a.Do("BEGIN", "ALTER TABLE valid_child VALIDATE CONSTRAINT known",
		"ALTER TABLE valid_child VALIDATE CONSTRAINT small")
	near.Do("INSERT INTO valid_child VALUES (11, 2, 1)")
	near.Do("COMMIT")
	c.Connect(3).Do("INSERT INTO valid_child VALUES (12, 3, 3)")
	c.Eventually(1, "SELECT count(*) FROM valid_child", "12")
	a.Do("COMMIT")
	far.Do("COMMIT")
	c.Everywhere("SELECT count(*) FROM pg_constraint WHERE conname IN ('known', 'small') AND convalidated", "2")
	c.Everywhere("SELECT count(*), sum(v) FROM valid_child", "12|53")
}

// TestValidateUnderLoad: while everybody writes to a table, and deletes what it refers to, its constraint is made and
// validated again and again. Whatever is valid at one member is so at all: one that finds otherwise ends.
func TestValidateUnderLoad(t *testing.T) {
	c := use(t)
	a := c.Connect(1)
	a.Do("CREATE TABLE busy_parent(id int PRIMARY KEY)", "INSERT INTO busy_parent SELECT generate_series(1, 20)",
		"CREATE TABLE busy_child(id serial PRIMARY KEY, p int, v int)")
	c.Everywhere("SELECT count(*) FROM busy_child", "0")
	var done atomic.Bool
	var wg sync.WaitGroup
	for n := range 6 {
		wg.Go(func() {
			s := c.Connect(1 + n%3)
			for i := n; !done.Load(); i++ {
				for _, sql := range []string{
					// what is not there, or too much, at times
					fmt.Sprintf("INSERT INTO busy_child(p, v) VALUES (%d, %d)", 1+i%25, i%110),
					fmt.Sprintf("UPDATE busy_child SET p = %d WHERE id = (SELECT min(id) FROM busy_child WHERE p = %d)",
						1+(i*7)%25, 1+i%20),
					fmt.Sprintf("DELETE FROM busy_parent WHERE id = %d", 1+i%20),
					fmt.Sprintf("INSERT INTO busy_parent VALUES (%d)", 1+i%20),
				} {
					if err := s.Try(sql); err != nil && Code(err) != "40001" && Code(err) != "23503" &&
						Code(err) != "23505" && Code(err) != "23514" && Code(err) != "40P01" {
						t.Error(Explain(err))
						return
					}
				}
			}
		})
	}
	valid := 0
	for began := time.Now(); time.Since(began) < seconds(3*time.Second) ||
		valid == 0 && time.Since(began) < sqlTimeout; {
		steps := []string{
			"ALTER TABLE busy_child ADD CONSTRAINT busy_known FOREIGN KEY (p) REFERENCES busy_parent NOT VALID, ADD " +
				"CONSTRAINT busy_small CHECK (v < 100) NOT VALID",
			"DELETE FROM busy_child WHERE v >= 100 OR NOT EXISTS (SELECT FROM busy_parent WHERE busy_parent.id = p)",
			"BEGIN; ALTER TABLE busy_child VALIDATE CONSTRAINT busy_known; ALTER TABLE busy_child VALIDATE " +
				"CONSTRAINT busy_small; COMMIT",
		}
		failed := false
		for _, sql := range steps {
			if err := a.Try(sql); err != nil {
				failed = true
				_ = a.Try("ROLLBACK") // it may be none
				if Code(err) != "40001" && Code(err) != "23503" && Code(err) != "23514" && Code(err) != "40P01" {
					t.Error(Explain(err))
				}
			}
		}
		if !failed {
			valid++
		}
		for {
			err := a.Try("ALTER TABLE busy_child DROP CONSTRAINT IF EXISTS busy_known, DROP CONSTRAINT IF EXISTS " +
				"busy_small")
			if err == nil {
				break
			}
			if Code(err) != "40001" && Code(err) != "40P01" {
				t.Fatal(Explain(err))
			}
		}
	}
	done.Store(true)
	wg.Wait()
	t.Logf("validated %d times", valid)
	if valid == 0 {
		t.Error("nothing was ever validated")
	}
	c.Check()
}
