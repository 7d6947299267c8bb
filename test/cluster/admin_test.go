package cluster

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/tuttidb/tutti/internal/config"
)

// adminPorts has every node open an admin port.
func adminPorts(t *testing.T, n int) Option {
	t.Helper()
	ports, err := freePorts(n)
	if err != nil {
		t.Fatal(err)
	}
	return func(k int, c *config.Config) { c.Admin.Listen = fmt.Sprintf("127.0.0.1:%d", ports[k-1]) }
}

// ask asks node k's admin port; zero: it does not answer.
func (c *Cluster) ask(k int, path string) (code int, body string) {
	client := http.Client{Timeout: 5 * time.Second}
	r, err := client.Get("http://" + c.Node(k).Config.Admin.Listen + path)
	if err != nil {
		return 0, err.Error()
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		return 0, err.Error()
	}
	return r.StatusCode, string(b)
}

// becomes waits until node k answers so, for most at most, and gives how long that took.
func (c *Cluster) becomes(k int, path string, code int, words string, most time.Duration) time.Duration {
	c.tb.Helper()
	for began := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		got, body := c.ask(k, path)
		took := time.Since(began)
		switch {
		case got == code && strings.Contains(body, words) && took <= most:
			return took
		case took > most:
			c.tb.Fatalf("node %d: %s is %d %q after %s, want %d %q within %s",
				k, path, got, body, took, code, words, most)
		}
	}
}

// scrape reads node k's metrics by name and labels, and checks them by Prometheus' rules.
func (c *Cluster) scrape(k int) map[string]float64 {
	c.tb.Helper()
	code, text := c.ask(k, "/metrics")
	if code != http.StatusOK {
		c.tb.Fatalf("node %d: /metrics is %d %q", k, code, text)
	}
	problems, err := promlint.New(strings.NewReader(text)).Lint()
	if err != nil || len(problems) > 0 {
		c.tb.Errorf("node %d: %v %v", k, err, problems)
	}
	if tool, err := exec.LookPath("promtool"); err == nil {
		check := exec.Command(tool, "check", "metrics")
		check.Stdin = strings.NewReader(text)
		if out, err := check.CombinedOutput(); err != nil || len(bytes.TrimSpace(out)) > 0 {
			c.tb.Errorf("promtool: %v: %s", err, out)
		}
	}
	values := map[string]float64{}
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		at := strings.LastIndexByte(line, ' ')
		v, err := strconv.ParseFloat(strings.TrimSpace(line[at+1:]), 64)
		if err != nil {
			c.tb.Fatalf("%q: %v", line, err)
		}
		values[line[:at]] = v
	}
	return values
}

// fighting has sessions of two nodes change the same row of a table in snapshots, so that many lose.
func (c *Cluster) fighting(table string) (stop func()) {
	var wg sync.WaitGroup
	over := make(chan struct{})
	for _, k := range []int{1, 2} {
		s := c.Connect(k)
		wg.Go(func() {
			for {
				select {
				case <-over:
					return
				default:
				}
				_ = s.Try("BEGIN ISOLATION LEVEL REPEATABLE READ")
				_ = s.Try("UPDATE " + table + " SET n = n + 1 WHERE id = 1") // who loses is told so
				_ = s.Try("COMMIT")
			}
		})
	}
	return func() { close(over); wg.Wait() }
}

// pgbench runs PostgreSQL's own load at node k, if it is installed.
func (c *Cluster) pgbench(k int) (wait func()) {
	c.tb.Helper()
	build, err := findBuild()
	if err != nil {
		c.tb.Fatal(err)
	}
	path := filepath.Join(build.BinDir, "pgbench")
	if _, err := exec.LookPath(path); err != nil {
		return func() {}
	}
	if out, err := exec.Command(path, "-i", "-q", "-s", "1", c.URL(k)).CombinedOutput(); err != nil {
		c.tb.Fatalf("pgbench -i: %v\n%s", err, out)
	}
	var out bytes.Buffer
	load := exec.Command(path, "-n", "-c", "4", "-M", "prepared", "--max-tries", "1000", "-T", "2", c.URL(k))
	load.Stdout, load.Stderr = &out, &out
	if err := load.Start(); err != nil {
		c.tb.Fatal(err)
	}
	return func() {
		if err := load.Wait(); err != nil {
			c.tb.Errorf("pgbench: %v\n%s", err, &out)
		}
	}
}

// TestAdminPort: under load what a node tells is clean and moves, and who is to send clients to it is told no in time.
func TestAdminPort(t *testing.T) {
	c := Start(t, 3, adminPorts(t, 3), func(_ int, n *config.Config) { n.DrainTimeout = "10s" })
	s := c.Connect(1)
	s.Do("CREATE TABLE adminhot(id int PRIMARY KEY, n int)", "CREATE TABLE admincold(id int PRIMARY KEY, n int)",
		"INSERT INTO adminhot VALUES (1, 0)", "INSERT INTO admincold VALUES (1, 0)")
	c.Everywhere("SELECT count(*) FROM adminhot, admincold", "1")
	for _, k := range c.All() {
		c.becomes(k, "/ready", 200, "ready", 10*time.Second)
		c.becomes(k, "/ready?for=reads&lag=5s", 200, "ready", 10*time.Second)
	}
	before := c.scrape(1)
	stop := c.fighting("adminhot")
	loaded := c.pgbench(3)
	s.Do("UPDATE admincold SET n = 1")
	hot := `tutti_conflicts_total{cause="row",database="postgres",schema="public",table="adminhot"}`
	c.soon(func() bool { return c.scrape(1)[hot]+c.scrape(2)[hot] >= 5 }, func() string { return "nobody loses" })
	c.scrape(3)
	stop()
	loaded()
	c.moved(before, c.scrape(1))
	c.hottest("adminhot")
	if code, body := c.ask(2, "/status"); code != 200 || strings.Count(body, `"state": "synced"`) != 3 {
		t.Errorf("/status is %d %s", code, body)
	}
	c.withoutMajority()
	c.drains()
}

// hottest checks that the views of all nodes together name the table with the most conflicts, and that a view is
// joined.
func (c *Cluster) hottest(table string) {
	c.tb.Helper()
	const most = "(SELECT relname FROM tutti.conflicts ORDER BY transactions DESC LIMIT 1)"
	c.soon(func() bool {
		for k := 1; k <= 2; k++ {
			if c.Connect(k).Get("SELECT coalesce("+most+", '')") == table {
				return true
			}
		}
		return false
	}, func() string { return "tutti.conflicts does not name " + table })
	s := c.Connect(1)
	ordinal := s.Get(
		`SELECT count(*) FROM tutti.metrics m JOIN pg_class c ON m.name = 'tutti_order_ordinal' AND m.value > 0
		WHERE c.relname = 'adminhot'`)
	if ordinal != "1" {
		c.tb.Errorf("tutti.metrics has %s places in the order", ordinal)
	}
}

// moved checks that what was done between two readings of node 1 was counted.
func (c *Cluster) moved(before, now map[string]float64) {
	c.tb.Helper()
	moves := "log_syncs_total log_entries_total transactions_committed_total groups_total order_ordinal"
	for _, name := range strings.Fields(moves) {
		if series := "tutti_" + name + `{database="postgres"}`; now[series] <= before[series] {
			c.tb.Errorf("%s was %v, and is %v", series, before[series], now[series])
		}
	}
	sum := map[string]float64{}
	for _, phase := range []string{"run", "collect", "admit", "order", "commit", "slowed", "whole"} {
		count := `tutti_commit_phase_duration_seconds_count{database="postgres",phase="` + phase + `"}`
		total := strings.Replace(count, "count", "sum", 1)
		if now[count] <= before[count] {
			c.tb.Errorf("no transaction went through %s", phase)
		}
		sum[phase] = now[total] - before[total]
	}
	parts := sum["collect"] + sum["admit"] + sum["order"] + sum["commit"] + sum["slowed"]
	if d := parts - sum["whole"]; d > 0.001 || d < -0.001 {
		c.tb.Errorf("the phases of COMMIT are %v s, all of it %v s", parts, sum["whole"])
	}
	order := `{database="postgres",wait="order"}`
	waits, waiting := now["tutti_wait_duration_seconds_count"+order], now["tutti_waiting"+order]
	if waits == 0 || waiting > 1 {
		c.tb.Errorf("%v waits for the order, %v wait", waits, waiting)
	}
}

// withoutMajority: of three members two are frozen, and the third tells load balancers so within a second; clients that
// read may come. Once they go on, it takes writes again.
func (c *Cluster) withoutMajority() {
	c.tb.Helper()
	freeze := func(sig syscall.Signal) {
		for _, k := range []int{2, 3} {
			if err := syscall.Kill(c.PID(k), sig); err != nil {
				c.tb.Fatal(err)
			}
		}
	}
	freeze(syscall.SIGSTOP)
	took := c.becomes(1, "/ready", 503, "", time.Second)
	c.becomes(1, "/ready?for=reads", 200, "ready", time.Second)
	c.becomes(1, "/ready?for=reads&lag=2s", 503, "old", 5*time.Second)
	c.becomes(1, "/live", 200, "live", time.Second)
	freeze(syscall.SIGCONT)
	c.becomes(1, "/ready", 200, "ready", 20*time.Second)
	c.becomes(1, "/ready?for=reads&lag=2s", 200, "ready", 20*time.Second)
	c.Kill(2)
	c.Kill(3)
	killed := c.becomes(1, "/ready", 503, "", time.Second)
	c.tb.Logf("no majority: told after %s if they are frozen, %s if they are killed", took, killed)
	c.Run(2)
	c.Run(3)
	c.WaitReady(2, 3)
	for _, k := range c.All() {
		c.becomes(k, "/ready", 200, "ready", 20*time.Second)
	}
}

// drains: a node that was told to stop says so while it waits for a transaction, and its port is there until the end.
func (c *Cluster) drains() {
	c.tb.Helper()
	s := c.Connect(2)
	s.Do("BEGIN", "INSERT INTO admincold VALUES (2, 0)")
	c.Node(2).proc.Signal(syscall.SIGTERM)
	took := c.becomes(2, "/ready", 503, "stops", time.Second)
	c.becomes(2, "/ready?for=reads", 503, "stops", time.Second)
	if code, _ := c.ask(2, "/live"); code != 200 || !c.Running(2) {
		c.tb.Errorf("/live is %d while it drains", code)
	}
	c.tb.Logf("told to stop: told after %s", took)
	s.Do("COMMIT")
	if err := c.Node(2).proc.Wait(stopTimeout); err != nil {
		c.tb.Fatal(err)
	}
	if code, _ := c.ask(2, "/live"); code != 0 {
		c.tb.Errorf("it has ended, and answers %d", code)
	}
	c.Run(2)
	c.becomes(2, "/live", 200, "live", 20*time.Second)
	c.becomes(2, "/ready", 200, "ready", readyTimeout)
	c.Everywhere("SELECT count(*) FROM admincold", "2")
}

// TestAdminPortTaken: a port that cannot be opened is a mistake of the configuration; a node that runs stays as it was
// when the port is changed, and says that it waits for the next start.
func TestAdminPortTaken(t *testing.T) {
	t.Parallel() // mostly it waits
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	c := Start(t, 1, adminPorts(t, 1))
	n := c.Node(1)
	old := n.Config.Admin.Listen
	n.Config.Admin.Listen = taken.Addr().String()
	c.reload(1)
	c.logs(1, 0, "some of the configuration is used from the next start on", "admin.listen")
	n.Config.Admin.Listen = old
	c.becomes(1, "/ready", 200, "ready", time.Second)
	c.Stop(1)
	n.Config.Admin.Listen = taken.Addr().String()
	c.refused(1, "admin port "+taken.Addr().String(), 0, 20*time.Second)
}
