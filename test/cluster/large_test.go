package cluster

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tuttidb/tutti/internal/config"
)

// gap follows the longest time between two commits of a client at a node that writes to a table of its own.
type gap struct {
	stop    chan struct{}
	ended   sync.WaitGroup
	commits atomic.Int64
	longest time.Duration
	failed  error
}

func (c *Cluster) watchGap(k int) *gap {
	s := c.Connect(k)
	s.Do(fmt.Sprintf("CREATE TABLE beside%d(id int PRIMARY KEY, n int)", k),
		fmt.Sprintf("INSERT INTO beside%d VALUES (1, 0)", k))
	g := &gap{stop: make(chan struct{})}
	g.ended.Go(func() {
		last := time.Now()
		for {
			select {
			case <-g.stop:
				return
			case <-time.After(10 * time.Millisecond):
			}
			if err := s.Try(fmt.Sprintf("UPDATE beside%d SET n = n + 1 WHERE id = 1", k)); err != nil {
				g.failed = err
				return
			}
			g.commits.Add(1)
			g.longest = max(g.longest, time.Since(last))
			last = time.Now()
		}
	})
	return g
}

func (g *gap) end() (time.Duration, error) {
	close(g.stop)
	g.ended.Wait()
	return g.longest, g.failed
}

// lines are rows of a table like pgbench_accounts in COPY's text format.
func lines(n int) io.Reader {
	r, w := io.Pipe()
	go func() {
		var b strings.Builder
		for i := 1; i <= n; i++ {
			fmt.Fprintf(&b, "%d\t%d\t0\t%84s\n", i, i/100_000, "")
			if b.Len() > 1<<16 || i == n {
				if _, err := io.WriteString(w, b.String()); err != nil {
					return
				}
				b.Reset()
			}
		}
		_ = w.Close() // a pipe's never fails
	}()
	return r
}

// timed makes, changes and removes n rows, and tells how long that took.
func (c *Cluster) timed(s *Conn, n, try int) time.Duration {
	c.tb.Helper()
	copied, inserted := fmt.Sprintf("c%d_%d", n, try), fmt.Sprintf("i%d_%d", n, try)
	began := time.Now()
	s.Do("CREATE TABLE "+copied+"(aid int PRIMARY KEY, bid int, abalance int, filler char(84))",
		"CREATE TABLE "+inserted+"(aid int PRIMARY KEY, bid int, abalance int, filler char(84))")
	if _, err := s.PgConn().CopyFrom(c.tb.Context(), lines(n), "COPY "+copied+" FROM STDIN"); err != nil {
		c.tb.Fatal(Explain(err))
	}
	s.Do(fmt.Sprintf("INSERT INTO %s SELECT g, g / 100000, 0, '' FROM generate_series(1, %d) g", inserted, n),
		fmt.Sprintf("UPDATE %s SET abalance = aid", inserted),
		fmt.Sprintf("UPDATE %s SET aid = -aid WHERE aid > %d", inserted, n/2),
		fmt.Sprintf("DELETE FROM %s WHERE aid > %d", copied, n/2))
	took := time.Since(began)
	sums := "SELECT count(*), sum(abalance::bigint), sum(aid::bigint) FROM " + inserted
	c.Everywhere(sums, s.Get(sums))
	return took
}

// TestLargeTransactions: what a transaction of many rows costs grows with the rows and not with their square,
// members are equal after it, and others go on at the member it runs at.
func TestLargeTransactions(t *testing.T) {
	small, large := 25_000, 200_000
	if testing.Short() {
		small, large = 5_000, 40_000
	}
	c := Start(t, 3)
	s := c.Connect(1)
	var gaps []*gap
	for k := range c.Size() {
		gaps = append(gaps, c.watchGap(k+1))
	}
	rows, ratio := float64(large/small), 0.0
	for try := range 3 { // what the machine does besides can be more at the one time than at the other
		took := map[int]time.Duration{}
		for _, n := range []int{small, large} {
			took[n] = c.timed(s, n, try)
		}
		ratio = float64(took[large]) / float64(took[small])
		if t.Logf("%v", took); ratio <= 4*rows {
			break
		}
	}
	if ratio > 4*rows {
		t.Errorf("%.0f times as many rows took %.1f times as long", rows, ratio)
	}
	for k, g := range gaps {
		longest, err := g.end()
		if err != nil {
			t.Errorf("a client at node %d, on a table of its own: %v", k+1, Explain(err))
		}
		t.Logf("node %d: the longest time between two commits of another client was %v", k+1, longest)
	}
	c.Check()
}

// TestTooLargeTransaction: a transaction above the limit is told so when the statement ends, and both the
// session and the cluster go on.
func TestTooLargeTransaction(t *testing.T) {
	t.Parallel()
	c := Start(t, 3, func(_ int, c *config.Config) { c.Limits.WritesetBytes = 1 << 20 })
	s := c.Connect(1)
	s.Do("CREATE TABLE t(id int PRIMARY KEY, x text)")
	fill := "INSERT INTO t SELECT g, repeat('x', 100) FROM generate_series(1, %d) g"
	s.Do("BEGIN")
	if err := s.Try(fmt.Sprintf(fill, 20_000)); Code(err) != "54000" {
		t.Fatalf("a statement of more bytes than a transaction may change ends with %v, want 54000", err)
	}
	s.Do("ROLLBACK")
	if err := s.Try(fmt.Sprintf(fill, 20_000)); Code(err) != "54000" {
		t.Fatalf("a statement by itself ends with %v, want 54000", err)
	}
	s.Do("BEGIN", fmt.Sprintf(fill, 6_000), "INSERT INTO t SELECT g, repeat('y', 100) FROM generate_series(10001, "+
		"16000) g")
	if err := s.Try("COMMIT"); Code(err) != "54000" {
		t.Fatalf("two statements that are too large together end with %v, want 54000", err)
	}
	if err := s.Try("INSERT INTO t VALUES (1000000, 'y')"); err != nil {
		t.Fatal(err)
	}
	c.Everywhere("SELECT count(*) FROM t WHERE id = 1000000", "1")
	c.Check()
}
