package cluster

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestNoLongForks has one writer at each of two nodes and REPEATABLE READ readers at all:
// each counter only grows, so any two snapshots must be comparable.
func TestNoLongForks(t *testing.T) {
	c := use(t)
	c.Connect(1).Do("CREATE TABLE forks(k int PRIMARY KEY, v int)", "INSERT INTO forks VALUES (1, 0), (2, 0)")
	c.Everywhere("SELECT count(*) FROM forks", "2")
	stop := make(chan struct{})
	var writers, readers sync.WaitGroup
	for k := 1; k <= 2; k++ {
		s := c.Connect(k)
		writers.Go(func() {
			for !closed(stop) {
				if err := s.Try(fmt.Sprintf("UPDATE forks SET v = v + 1 WHERE k = %d", k)); err != nil {
					t.Errorf("writer %d: %v", k, Explain(err))
					return
				}
			}
		})
	}
	type snapshot struct{ x, y int }
	var mu sync.Mutex
	seen := map[snapshot]bool{}
	for i := range 6 {
		s := c.Connect(1 + i%3)
		readers.Go(func() {
			for !closed(stop) {
				if err := s.Try("BEGIN ISOLATION LEVEL REPEATABLE READ"); err != nil {
					t.Error(err)
					return
				}
				var n snapshot
				if _, err := fmt.Sscanf(s.Get("SELECT v FROM forks WHERE k = 1")+" "+
					s.Get("SELECT v FROM forks WHERE k = 2"), "%d %d", &n.x, &n.y); err != nil {
					t.Error(err)
					return
				}
				if err := s.Try("COMMIT"); err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				seen[n] = true
				mu.Unlock()
			}
		})
	}
	time.Sleep(seconds(3 * time.Second))
	different := func() int { mu.Lock(); defer mu.Unlock(); return len(seen) }
	for end := time.Now().Add(sqlTimeout); different() < 20 && time.Now().Before(end); {
		time.Sleep(pollInterval)
	}
	close(stop)
	writers.Wait()
	readers.Wait()
	least := map[int]int{} // x → smallest and largest y seen with it
	most := map[int]int{}
	top := 0
	for s := range seen {
		if _, ok := least[s.x]; !ok {
			least[s.x], most[s.x] = s.y, s.y
		}
		least[s.x], most[s.x] = min(least[s.x], s.y), max(most[s.x], s.y)
		top = max(top, s.x)
	}
	last := 0
	for x := range top + 1 {
		if _, ok := least[x]; !ok {
			continue
		}
		if least[x] < last {
			t.Fatalf("two readers disagree: one saw the first counter below %d with the second at %d, another at %d "+
				"with %d", x, last, x, least[x])
		}
		last = most[x]
	}
	t.Logf("%d different snapshots", len(seen))
	if len(seen) < 20 {
		t.Errorf("only %d different snapshots were seen", len(seen))
	}
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// TestNoLostUpdates has a client per node read a counter, then write it plus one.
func TestNoLostUpdates(t *testing.T) {
	c := use(t)
	for i, level := range []string{"READ COMMITTED", "REPEATABLE READ"} {
		table := fmt.Sprintf("lostupdate%d", i)
		c.Connect(1).Do("CREATE TABLE "+table+"(k int PRIMARY KEY, v int)", "INSERT INTO "+table+" VALUES (1, 0)")
		c.Everywhere("SELECT count(*) FROM "+table, "1")
		var wg sync.WaitGroup
		var mu sync.Mutex
		told := 0
		until := time.Now().Add(seconds(2 * time.Second))
		for _, k := range c.All() {
			s := c.Connect(k)
			wg.Go(func() {
				for time.Now().Before(until) {
					err := increment(s, level, table)
					switch code := Code(err); {
					case err == nil:
						mu.Lock()
						told++
						mu.Unlock()
					case code == "40001":
						if err := s.Try("ROLLBACK"); err != nil {
							t.Error(err)
							return
						}
					default:
						t.Errorf("%s: %s", level, Explain(err))
						return
					}
				}
			})
		}
		wg.Wait()
		t.Logf("%s: %d", level, told)
		if told == 0 {
			t.Errorf("%s: nobody ever won", level)
		}
		c.Everywhere("SELECT v FROM "+table, fmt.Sprint(told))
	}
}

// increment reads and writes in two statements. At READ COMMITTED the client locks what it
// read, as it must on one PostgreSQL.
func increment(s *Conn, level, table string) error {
	if err := s.Try("BEGIN ISOLATION LEVEL " + level); err != nil {
		return err
	}
	lock := ""
	if level == "READ COMMITTED" {
		lock = " FOR UPDATE"
	}
	results, err := s.PgConn().Exec(s.ctx(), "SELECT v FROM "+table+" WHERE k = 1"+lock).ReadAll()
	if err != nil {
		return err
	}
	var v int
	if _, err := fmt.Sscan(format(results[0]), &v); err != nil {
		return err
	}
	if err := s.Try(fmt.Sprintf("UPDATE %s SET v = %d WHERE k = 1", table, v+1)); err != nil {
		return err
	}
	return s.Try("COMMIT")
}

func TestOwnWritesAreRead(t *testing.T) {
	c := use(t)
	s := c.Connect(3)
	s.Do("CREATE TABLE own(k int PRIMARY KEY, v int)", "INSERT INTO own VALUES (1, 0)")
	for i := 1; i <= 50; i++ {
		level := []string{"READ COMMITTED", "REPEATABLE READ"}[i%2]
		s.Do(fmt.Sprintf("UPDATE own SET v = %d", i), "BEGIN ISOLATION LEVEL "+level)
		if got := s.Get("SELECT v FROM own"); got != fmt.Sprint(i) {
			t.Fatalf("%s: wrote %d, then read %s", level, i, got)
		}
		s.Do("COMMIT")
	}
}

// TestSerializableByEveryName has a client ask for it in every way there is; in each of them write skew
// between two nodes is prevented.
func TestSerializableByEveryName(t *testing.T) {
	c := use(t)
	c.Connect(1).Do("CREATE TABLE skew(k int PRIMARY KEY, on_call bool)",
		"INSERT INTO skew VALUES (1, true), (2, true)")
	c.Everywhere("SELECT count(*) FROM skew", "2")
	for _, q := range []string{
		"BEGIN ISOLATION LEVEL SERIALIZABLE", "START TRANSACTION ISOLATION LEVEL SERIALIZABLE, DEFERRABLE",
		"BEGIN; SET TRANSACTION ISOLATION LEVEL SERIALIZABLE",
		"SET default_transaction_isolation = 'serializable'; BEGIN",
		"SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL SERIALIZABLE; BEGIN",
		"BEGIN; SET transaction_isolation = 'serializable'",
		"DO 'BEGIN SET default_transaction_isolation = serializable;END'; BEGIN",
		"SELECT set_config('default_transaction_isolation', 'serializable', false); BEGIN",
		"SELECT set_config('Default_' || 'transaction_isolation', 'serializable', false); BEGIN",
	} {
		a, b := c.Connect(1), c.Connect(2)
		for k, s := range []*Conn{a, b} {
			s.Do(strings.Split(q, "; ")...)
			if got := s.Get("SELECT count(*) FROM skew WHERE on_call"); got != "2" {
				t.Fatalf("%s are on call", got)
			}
			s.Do(fmt.Sprintf("UPDATE skew SET on_call = false WHERE k = %d", k+1))
		}
		a.Do("COMMIT")
		if err := b.Try("COMMIT"); Code(err) != "40001" {
			t.Errorf("%s: %v, want 40001", q, err)
		}
		a.Do("UPDATE skew SET on_call = true")
		c.Settled()
	}
	if err := c.Connect(1).Try("SELECT set_config('transaction_isolation', 'serializable', true)"); Code(err) !=
		"0A000" {
		t.Errorf("set_config: %v, want 0A000", err)
	}
	c.Connect(1).Do("DROP TABLE skew")
	c.Check()
}
