package cluster

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// roller is a client that has all nodes' addresses, and writes without a pause. When it loses its session it connects
// to the first node that takes it.
type roller struct {
	id    int
	hosts string
	block bool // its transactions are blocks

	done   int64          // transactions that it was told are committed
	codes  map[string]int // errors by SQLSTATE
	others []string       // that should not have come
	last   time.Time      // of a commit
	gap    time.Duration  // the longest between two
	gapAt  time.Time      // when that ended
}

func (r *roller) run(stop *atomic.Bool) {
	ctx, cancel := context.WithTimeout(context.Background(), sqlTimeout)
	defer cancel()
	var pg *pgconn.PgConn
	r.last = time.Now()
	for !stop.Load() {
		first := pg == nil
		if first {
			var err error
			if pg, err = pgconn.Connect(ctx, fmt.Sprintf("postgresql://postgres@%s/postgres?sslmode=disable&target_session_attrs=read-write&connect_timeout=5", r.hosts)); err != nil {
				r.others = append(r.others, "connect: "+Explain(err))
				return
			}
		}
		err := r.transaction(ctx, pg)
		if err == nil {
			now := time.Now()
			if d := now.Sub(r.last); d > r.gap {
				r.gap, r.gapAt = d, now
			}
			r.last = now
			r.done++
			continue
		}
		code := Code(err)
		// what it reads at one node just after it has written at another may be from before, and it is told so
		stale := first && r.block && code == "40001"
		if r.codes[code]++; code != "57P01" && !stale {
			r.others = append(r.others, Explain(err))
		}
		_ = pg.Close(ctx) // the node has
		pg = nil
	}
	if pg != nil {
		_ = pg.Close(ctx) // of no further use
	}
}

// transaction counts one up in the client's own row. A session that is ended before the answer to COMMIT has not
// committed: 57P01 says so.
func (r *roller) transaction(ctx context.Context, pg *pgconn.PgConn) error {
	statements := []string{fmt.Sprintf("UPDATE rolls SET n = n + 1 WHERE id = %d", r.id)}
	if r.block {
		statements = []string{"BEGIN", fmt.Sprintf("SELECT n FROM rolls WHERE id = %d", r.id), statements[0], "COMMIT"}
	}
	for _, sql := range statements {
		if _, err := pg.Exec(ctx, sql).ReadAll(); err != nil {
			return err
		}
	}
	return nil
}

// TestRollingRestart restarts all nodes, one after the other, under clients that know all of them. Nobody sees
// anything else than 57P01, or 40001 for the first block at another node, nothing that was told is lost, nothing is
// done twice, and nobody waits for longer than half a second.
func TestRollingRestart(t *testing.T) {
	c := Start(t, 3) // not beside other clusters: it is about time
	const clients = 6
	s := c.Connect(1) // closed by the restart of node 1
	s.Do("CREATE TABLE rolls(id int PRIMARY KEY, n int NOT NULL)",
		fmt.Sprintf("INSERT INTO rolls SELECT g, 0 FROM generate_series(1, %d) g", clients))
	c.Everywhere("SELECT count(*) FROM rolls", fmt.Sprint(clients))
	var stop atomic.Bool
	var wg sync.WaitGroup
	rollers := make([]*roller, clients)
	for i := range rollers {
		var hosts []string
		for k := range c.Size() {
			hosts = append(hosts, c.Node(1+(i+k)%c.Size()).Config.Listen)
		}
		r := &roller{id: i + 1, hosts: strings.Join(hosts, ","), block: i >= clients/2, codes: map[string]int{}}
		rollers[i] = r
		wg.Go(func() { r.run(&stop) })
	}
	var stood atomic.Int64
	wg.Go(func() {
		for last := time.Now(); !stop.Load(); last = time.Now() {
			time.Sleep(time.Millisecond)
			stood.Store(max(stood.Load(), int64(time.Since(last)-time.Millisecond)))
		}
	})
	began := time.Now()
	for _, k := range c.All() {
		s, holder, waiter := c.Connect(k%c.Size()+1), c.Connect(k), c.Connect(k%c.Size()+1)
		holder.Do("SELECT pg_advisory_lock(65)", "BEGIN", fmt.Sprintf("NOTIFY rolling, '%d'", k))
		s.Do("LISTEN rolling")
		granted := make(chan time.Time, 1)
		go func() {
			if err := waiter.Try("SELECT pg_advisory_lock(65)"); err != nil {
				t.Errorf("a lock of a session that ended with node %d: %v", k, Explain(err))
			}
			granted <- time.Now()
		}()
		time.Sleep(300 * time.Millisecond)
		c.Node(k).proc.Signal(syscall.SIGTERM)
		time.Sleep(100 * time.Millisecond)
		stopped := time.Now()
		holder.Do("COMMIT") // the others are gone: it is the last thing that the node does for a client
		c.Stop(k)
		ended := time.Now()
		if heard, err := s.WaitForNotification(s.ctx()); err != nil || heard.Payload != fmt.Sprint(k) ||
			time.Since(ended) > time.Second {
			t.Errorf("of what was notified at node %d before it ended, %v came after %s: %v", k, heard,
				time.Since(ended), err)
		}
		locked, listening := (<-granted).Sub(stopped), time.Now()
		s.Do("LISTEN rolls")
		listened := time.Since(listening)
		t.Logf("%s: node %d has stopped in %s; its lock was given after %s, LISTEN took %s",
			ended.Sub(began).Round(time.Millisecond),
			k, ended.Sub(stopped).Round(time.Millisecond), locked.Round(time.Millisecond),
			listened.Round(time.Millisecond))
		if locked > time.Second || listened > time.Second {
			t.Errorf("the others waited for node %d, which had ended", k)
		}
		c.Run(k)
		c.WaitReady(k)
		c.soon(func() bool { return c.status(s, k).state == "synced" }, func() string { return "it does not catch up" })
		for _, used := range []*Conn{s, waiter} {
			_ = used.Close(used.ctx()) // its node may be the next
		}
	}
	time.Sleep(300 * time.Millisecond)
	stop.Store(true)
	wg.Wait()
	most := 500*time.Millisecond + time.Duration(stood.Load()) // when the machine stands still, so do clients
	if raceEnabled {
		most *= 4
	}
	t.Logf("the machine stood still for %s at most", time.Duration(stood.Load()))
	for _, r := range rollers {
		t.Logf("client %d: %d transactions, %v, longest gap %s, at %s", r.id, r.done, r.codes,
			r.gap.Round(time.Millisecond), r.gapAt.Sub(began).Round(time.Millisecond))
		for _, o := range r.others[:min(3, len(r.others))] {
			t.Errorf("client %d was told %s", r.id, o)
		}
		if r.gap > most {
			t.Errorf("client %d waited for %s", r.id, r.gap)
		}
	}
	var counted []string
	for _, r := range rollers {
		counted = append(counted, fmt.Sprint(r.done))
	}
	c.Everywhere("SELECT string_agg(n::text, ' ' ORDER BY id) FROM rolls", strings.Join(counted, " "))
	c.Check()
	c.stopUndecided()
}

// stopUndecided stops a node whose session waits for a majority that is not there: it is told that nobody knows.
func (c *Cluster) stopUndecided() {
	c.tb.Helper()
	s := c.Connect(1)
	c.KillBoth(2, 3)
	result := make(chan error, 1)
	go func() { result <- s.Try("INSERT INTO rolls VALUES (65, 0)") }()
	time.Sleep(300 * time.Millisecond)
	c.Node(1).proc.Signal(syscall.SIGINT)
	if err := c.Node(1).proc.Wait(stopTimeout); err != nil || c.Node(1).proc.Err() != nil {
		c.tb.Fatal(err, c.Node(1).proc.Err())
	}
	select {
	case err := <-result:
		var pg *pgconn.PgError
		if !errors.As(err, &pg) || pg.Code != "40003" || pg.Severity != "FATAL" {
			c.tb.Errorf("a COMMIT that the log has not decided on: %v", Explain(err))
		}
	case <-time.After(time.Second):
		c.tb.Error("a COMMIT that the log has not decided on is not answered though its node has ended")
	}
	for _, k := range c.All() {
		c.Run(k)
	}
	c.WaitReady()
	c.Check()
}
