package cluster

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tuttidb/tutti/internal/config"
	"github.com/tuttidb/tutti/internal/pgtest"
)

// TestLargeFigures measures what docs/performance/history.md says of large transactions, if TUTTI_LARGE_ROWS says of
// how many rows: each statement at a plain server and at node 1, one after the other, and the longest gaps of small
// clients that write and read at every node meanwhile, and until every node has applied it.
func TestLargeFigures(t *testing.T) {
	rows, err := strconv.Atoi(os.Getenv("TUTTI_LARGE_ROWS"))
	if err != nil {
		t.Skip("TUTTI_LARGE_ROWS is not set")
	}
	settings := func(_ int, c *config.Config) { c.Postgres.Settings = map[string]string{"log_min_messages": "warning"} }
	plain := pgtest.Start(t, pgtest.Durable(), pgtest.Setting("shared_buffers", "128MB"),
		pgtest.Setting("synchronous_commit", "on"))
	p := plain.Connect(t, "postgres")
	c := Start(t, 3, settings)
	s := c.Connect(1)
	ctx := t.Context()
	create := "CREATE TABLE big%d(aid int PRIMARY KEY, bid int, abalance int, filler char(84))"
	for _, n := range []int{1, 2} {
		if _, err := p.Exec(ctx, fmt.Sprintf(create, n)); err != nil {
			t.Fatal(err)
		}
		s.Do(fmt.Sprintf(create, n))
	}
	do := func(conn *pgx.Conn, sql string) error {
		if strings.HasPrefix(sql, "COPY") {
			_, err := conn.PgConn().CopyFrom(ctx, lines(rows), sql)
			return err
		}
		_, err := conn.Exec(ctx, sql)
		return err
	}
	postmaster := plain.Instance().Pid()
	b := c.beside()
	for _, x := range [][2]string{
		{"COPY", "COPY big1 FROM STDIN"}, {"INSERT",
			fmt.Sprintf("INSERT INTO big2 SELECT g, g / 100000, 0, '' FROM generate_series(1, %d) g", rows)},
		{"UPDATE", "UPDATE big2 SET abalance = aid"}, {"DELETE", "DELETE FROM big1 WHERE aid % 2 = 0"},
	} {
		before, began := cpuOf(postmaster), time.Now()
		if err := do(p, x[1]); err != nil {
			t.Fatal(Explain(err))
		}
		alone, cpu := time.Since(began), cpuOf(postmaster)-before
		time.Sleep(time.Second)
		var was [6]float64
		for k := 1; k <= 3; k++ {
			was[k-1], was[k+2] = cpuAlone(c.PID(k)), cpuOf(c.PostgresPID(k))
		}
		b.reset()
		began = time.Now()
		if err := do(s.Conn, x[1]); err != nil {
			t.Fatal(Explain(err))
		}
		tutti := time.Since(began)
		end := c.Connect(1)
		end.Do("UPDATE beside1 SET n = n + 1 WHERE id = 2")
		want := end.Get("SELECT n FROM beside1 WHERE id = 2")
		for k := 1; k <= 3; k++ {
			c.Eventually(k, "SELECT n FROM beside1 WHERE id = 2", want)
		}
		all := time.Since(began)
		time.Sleep(300 * time.Millisecond)
		gaps := b.gaps()
		line := fmt.Sprintf("%s: plain %.2f s, Tutti %.2f s (%.2f), everywhere %.2f s; CPU plain %.1f s", x[0],
			alone.Seconds(), tutti.Seconds(), tutti.Seconds()/alone.Seconds(), all.Seconds(), cpu)
		for k := 1; k <= 3; k++ {
			line += fmt.Sprintf("; node %d %.1f + PostgreSQL %.1f", k, cpuAlone(c.PID(k))-was[k-1],
				cpuOf(c.PostgresPID(k))-was[k+2])
		}
		t.Log(line)
		t.Log(x[0] + ": longest gaps: " + gaps)
		time.Sleep(time.Second)
	}
	b.end()
}

// cpuOf is the CPU time of a process and its children, ended ones too, in seconds.
func cpuOf(pid int) float64 {
	sum := cpuFields(pid, 2) + cpuFields(pid, 0)
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, d := range dirs {
		child, _ := strconv.Atoi(filepath.Base(d))
		if f := statOf(child); len(f) > 15 && f[1] == strconv.Itoa(pid) {
			sum += cpuFields(child, 0)
		}
	}
	return sum
}

func cpuAlone(pid int) float64 { return cpuFields(pid, 0) }

func statOf(pid int) []string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil
	}
	return strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
}

// cpuFields is user and system time, or with shift 2 those of children that were waited for.
func cpuFields(pid, shift int) float64 {
	f := statOf(pid)
	if len(f) < 16 {
		return 0
	}
	u, _ := strconv.Atoi(f[11+shift])
	s, _ := strconv.Atoi(f[12+shift])
	return float64(u+s) / 100
}

// besides are small clients at every node.
type besides struct {
	stop    chan struct{}
	ended   sync.WaitGroup
	longest map[string]*atomic.Int64 // since reset, in microseconds
	order   []string
	begin   atomic.Int64
}

func (c *Cluster) beside() *besides {
	b := &besides{stop: make(chan struct{}), longest: map[string]*atomic.Int64{}}
	for k := 1; k <= c.Size(); k++ {
		w, r, o := c.Connect(k), c.Connect(k), c.Connect(k)
		w.Do(fmt.Sprintf("CREATE TABLE beside%d(id int PRIMARY KEY, n int)", k),
			fmt.Sprintf("INSERT INTO beside%d VALUES (1, 0), (2, 0)", k))
		b.run(fmt.Sprintf("writer %d", k), func(ctx context.Context) error {
			_, err := w.Exec(ctx, fmt.Sprintf("UPDATE beside%d SET n = n + 1 WHERE id = 1", k))
			return err
		})
		b.run(fmt.Sprintf("reader %d", k), func(ctx context.Context) error {
			_, err := r.Exec(ctx, fmt.Sprintf("SELECT n FROM beside%d WHERE id = 1", k))
			return err
		})
		b.run(fmt.Sprintf("snapshot reader %d", k), func(ctx context.Context) error {
			_, err := o.PgConn().Exec(ctx, fmt.Sprintf(
				"BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT n FROM beside%d WHERE id = 1; COMMIT", k)).ReadAll()
			return err
		})
	}
	return b
}

func (b *besides) run(name string, f func(context.Context) error) {
	longest := &atomic.Int64{}
	b.longest[name] = longest
	b.order = append(b.order, name)
	b.ended.Go(func() {
		last := time.Now()
		for {
			select {
			case <-b.stop:
				return
			case <-time.After(5 * time.Millisecond):
			}
			err := f(context.Background())
			if err != nil && Code(err) != "40001" {
				panic(name + ": " + Explain(err))
			}
			if err == nil {
				longest.Store(max(longest.Load(), time.Since(last).Microseconds()))
				last = time.Now()
			}
		}
	})
}

func (b *besides) reset() {
	for _, x := range b.longest {
		x.Store(0)
	}
}

func (b *besides) gaps() string {
	var out []string
	for _, n := range b.order {
		out = append(out, fmt.Sprintf("%s %d ms", n, b.longest[n].Load()/1000))
	}
	return strings.Join(out, ", ")
}

func (b *besides) end() {
	close(b.stop)
	b.ended.Wait()
}
