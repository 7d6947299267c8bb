package cluster

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tuttidb/tutti/internal/config"
)

// smallLimits make a transaction of some hundred rows a large one.
func smallLimits(_ int, c *config.Config) {
	c.Limits.BatchBytes, c.Limits.GroupBytes = 16<<10, 32<<10
}

// said counts how often node k has said something.
func (c *Cluster) said(k int, what string) int {
	b, err := os.ReadFile(c.Node(k).LogFile)
	if err != nil {
		c.tb.Fatal(err)
	}
	return strings.Count(string(b), what)
}

const (
	saidAhead  = "executed a large transaction ahead of its turn"
	saidInTurn = "a large transaction is left to its turn"
	saidPieces = "applied a large transaction in pieces"
	saidAnew   = "a large transaction is begun anew ahead of its turn"
)

// changed runs one statement and returns how many rows it has changed; 0 if it lost.
func (s *Conn) changed(sql string) int64 {
	ctx, cancel := context.WithTimeout(context.Background(), sqlTimeout)
	defer cancel()
	results, err := s.PgConn().Exec(ctx, sql).ReadAll()
	switch Code(err) {
	case "40001", "40P01", "23505":
		return 0
	}
	if err != nil {
		s.c.tb.Errorf("%s: %v", sql, Explain(err))
		return 0
	}
	return results[len(results)-1].CommandTag.RowsAffected()
}

// TestForerunner: large transactions that members execute while they come in, at all nodes at once, amid small ones
// on the same rows, unique values, locks that clients hold, and definitions. The copies are equal.
func TestForerunner(t *testing.T) {
	t.Parallel()
	const rows = 2000
	c := Start(t, 3, smallLimits)
	s := c.Connect(1)
	s.Do("CREATE TABLE counts(id int PRIMARY KEY, n int NOT NULL, u int UNIQUE, filler text)",
		"CREATE TABLE heap(id int PRIMARY KEY, v text)",
		fmt.Sprintf("INSERT INTO counts SELECT g, 0, g, repeat('x', 40) FROM generate_series(1, %d) g", rows))
	c.Everywhere("SELECT count(*) FROM counts", fmt.Sprint(rows))
	var next atomic.Int64
	stop := make(chan struct{})
	var wg sync.WaitGroup
	work := func(k int, f func(s *Conn, r *rand.Rand)) {
		s := c.Connect(k)
		r := rand.New(rand.NewPCG(uint64(k), uint64(next.Add(1))))
		wg.Go(func() {
			for !closed(stop) {
				f(s, r)
			}
		})
	}
	for k := 1; k <= 3; k++ {
		work(k, func(s *Conn, r *rand.Rand) {
			switch at := r.IntN(rows / 2); r.IntN(7) {
			case 0, 1:
				s.changed(fmt.Sprintf("UPDATE counts SET n = n + 1 WHERE id > %d AND id < %d", at, at+1000))
			case 2, 5, 6: // nobody is in their way but definitions
				first := next.Add(2000)
				s.changed(fmt.Sprintf("INSERT INTO heap SELECT g, repeat('y', 40) FROM generate_series(%d, %d) g",
					first, first+1500))
			case 3:
				s.changed(fmt.Sprintf("DELETE FROM heap WHERE id < %d", next.Load()-3000))
			case 4:
				s.changed(fmt.Sprintf("UPDATE counts SET u = u + 100000 WHERE id < %d AND u < 1000000", 700+at))
			}
		})
		work(k, func(s *Conn, r *rand.Rand) {
			s.changed(fmt.Sprintf("UPDATE counts SET n = n + 1 WHERE id = %d", 1+r.IntN(rows)))
			time.Sleep(time.Duration(r.IntN(20)) * time.Millisecond)
		})
	}
	work(2, func(s *Conn, r *rand.Rand) { // holds a lock for longer than a forerunner waits for it; it may lose
		_ = s.Try(fmt.Sprintf("BEGIN; UPDATE counts SET n = n + 1 WHERE id = %d", 1+r.IntN(rows)))
		time.Sleep(time.Duration(r.IntN(900)) * time.Millisecond)
		_ = s.Try("COMMIT")
		time.Sleep(100 * time.Millisecond)
	})
	work(3, func(s *Conn, r *rand.Rand) {
		time.Sleep(700 * time.Millisecond)
		s.changed("ALTER TABLE heap ADD COLUMN IF NOT EXISTS w int DEFAULT 5")
		time.Sleep(700 * time.Millisecond)
		s.changed("ALTER TABLE heap DROP COLUMN IF EXISTS w")
	})
	ahead, inTurn, pieces := 0, 0, 0
	lasts(testSeconds(5), func() bool {
		ahead, inTurn, pieces = 0, 0, 0
		for _, k := range c.All() {
			ahead, inTurn = ahead+c.said(k, saidAhead), inTurn+c.said(k, saidInTurn)
			pieces += c.said(k, saidPieces)
		}
		return ahead >= 5 && inTurn >= 5 && pieces >= 2
	})
	close(stop)
	wg.Wait()
	t.Logf("%d large transactions were executed ahead of their turn, %d were left to it, of which %d were applied in "+
		"pieces", ahead, inTurn, pieces)
	if ahead < 5 || inTurn < 5 || pieces < 2 {
		t.Errorf("all must have happened for this test to say something")
	}
	c.Check()
}

// TestForerunnerCounts: no increment is lost or made twice, and a member that goes away in the middle of a large
// transaction harms nobody.
func TestForerunnerCounts(t *testing.T) {
	t.Parallel()
	const rows = 1500
	c := Start(t, 3, smallLimits)
	s := c.Connect(1)
	s.Do("CREATE TABLE counts(id int PRIMARY KEY, n int NOT NULL, filler text)",
		fmt.Sprintf("INSERT INTO counts SELECT g, 0, repeat('x', 40) FROM generate_series(1, %d) g", rows))
	c.Everywhere("SELECT count(*) FROM counts", fmt.Sprint(rows))
	var increments atomic.Int64
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for k := 1; k <= 3; k++ {
		for j := range 2 {
			s, r := c.Connect(k), rand.New(rand.NewPCG(uint64(k), uint64(j)))
			wg.Go(func() {
				for !closed(stop) {
					if j == 0 {
						at := r.IntN(rows / 2)
						increments.Add(s.changed(fmt.Sprintf("UPDATE counts SET n = n + 1 WHERE id > %d AND id < %d",
							at, at+rows/2)))
						continue
					}
					increments.Add(s.changed(fmt.Sprintf("UPDATE counts SET n = n + 1 WHERE id = %d", 1+r.IntN(rows))))
					time.Sleep(time.Duration(r.IntN(20)) * time.Millisecond)
				}
			})
		}
	}
	ahead := 0
	lasts(testSeconds(4), func() bool {
		ahead = 0
		for _, k := range c.All() {
			ahead += c.said(k, saidAhead)
		}
		return ahead >= 2
	})
	close(stop)
	wg.Wait()
	c.Everywhere("SELECT sum(n) FROM counts", fmt.Sprint(increments.Load()))
	// most lose to smaller ones
	if t.Logf("%d increments, %d large transactions executed ahead of their turn", increments.Load(),
		ahead); ahead < 2 {
		t.Error("too few for this test to say something")
	}

	// A member that goes away in the middle of a large transaction holds nobody up, and what became of it is
	// the same everywhere.
	for i := range 3 {
		gone, conn := make(chan struct{}), c.Connect(1)
		go func() {
			defer close(gone)
			_ = conn.Try("UPDATE counts SET n = n + 1 WHERE id > 0") // it is killed
		}()
		time.Sleep(time.Duration(15*(i+1)) * time.Millisecond)
		c.Kill(1)
		<-gone
		c.Connect(2).Do("UPDATE counts SET filler = 'y' WHERE id = 7",
			"UPDATE counts SET filler = 'z' WHERE id > 5 AND id < 20")
		c.Run(1)
		c.WaitReady(1)
	}
	c.Check()
}

// TestForerunnerGivesWay: a definition that is carried out, and a client that holds a lock, come before what a member
// executes ahead of its turn. Nobody waits for long, and the copies are equal.
func TestForerunnerGivesWay(t *testing.T) {
	t.Parallel()
	const rows = 60_000
	c := Start(t, 3, smallLimits)
	s := c.Connect(1)
	s.Do("CREATE TABLE way(id int PRIMARY KEY, n int NOT NULL, filler text)",
		"CREATE TABLE other(id int PRIMARY KEY, n int)",
		fmt.Sprintf("INSERT INTO way SELECT g, 0, repeat('x', 40) FROM generate_series(1, %d) g", rows))
	c.Everywhere("SELECT count(*) FROM way", fmt.Sprint(rows))
	runs := 0
	large := func() (ended chan struct{}) {
		ended = make(chan struct{})
		runs++
		s := c.Connect(1)
		go func() {
			defer close(ended)
			if err := s.Try("UPDATE way SET n = n + 1 WHERE id > 0"); err != nil {
				t.Errorf("the large transaction: %v", Explain(err))
			}
		}()
		return ended
	}
	watch := c.Connect(2)
	underWay := func() (ended chan struct{}) { // again, if it was over before anybody has looked
		for range 10 {
			for ended = large(); !closed(ended); time.Sleep(pollInterval / 4) {
				if watch.Get("SELECT count(*) FROM pg_stat_activity "+
					"WHERE application_name = 'tutti streaming apply' AND xact_start IS NOT NULL") == "1" {
					return ended
				}
			}
		}
		t.Fatal("no forerunner was seen at work")
		return nil
	}

	givenWay := func() int {
		return c.said(2, saidAnew) + c.said(3, saidAnew) + c.said(2, saidInTurn) + c.said(3, saidInTurn)
	}
	for late := true; late; {
		if runs > 20 {
			t.Fatal("no definition was carried out while a large transaction came in")
		}
		before, definer, ended := givenWay(), c.Connect(3), underWay()
		definer.Do(fmt.Sprintf("ALTER TABLE other ADD COLUMN w%d int", runs))
		late = closed(ended) // the machine had a pause: that shows nothing
		<-ended
		c.Everywhere("SELECT sum(n) FROM way", fmt.Sprint(rows*runs))
		if !late && givenWay() == before {
			t.Error("a definition was carried out beside what the forerunners had read before it")
		}
	}

	gaveWay := c.said(2, saidAnew) + c.said(2, saidInTurn)
	holder := c.Connect(2)
	holder.Do("BEGIN ISOLATION LEVEL REPEATABLE READ", fmt.Sprintf("UPDATE way SET n = n + 100 WHERE id = %d", rows/2))
	<-large()
	c.Eventually(2, "SELECT sum(n) FROM way", fmt.Sprint(rows*runs)) // although the client is silent
	if err := holder.Try("COMMIT"); Code(err) != "40001" {
		t.Errorf("a client that holds a lock on a row that another transaction has changed commits: %v", err)
	}
	c.Everywhere("SELECT sum(n) FROM way", fmt.Sprint(rows*runs))
	if c.said(2, saidAnew)+c.said(2, saidInTurn) == gaveWay {
		t.Error("no forerunner has given way to a client")
	}

	// A member that goes away does not hold up the others' transactions.
	ended := underWay()
	c.Kill(3)
	<-ended
	c.Run(3)
	c.WaitReady(3)
	c.Everywhere("SELECT sum(n) FROM way", fmt.Sprint(rows*runs))
	c.Check()
}

// lasts waits for a time, and for as long as it takes on a slow machine until there was enough.
func lasts(d time.Duration, enough func() bool) {
	time.Sleep(d)
	for end := time.Now().Add(sqlTimeout); !enough() && time.Now().Before(end); {
		time.Sleep(5 * pollInterval)
	}
}

// testSeconds is how long a load runs.
func testSeconds(n int) time.Duration {
	if testing.Short() {
		n /= 2
	}
	return time.Duration(n) * time.Second
}
