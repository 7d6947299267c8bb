package cluster

import (
	"bytes"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"sync"
	"testing"
	"time"
)

func TestLoadOnAllNodes(t *testing.T) {
	c := use(t)
	l := c.NewLoad("plain")
	l.RunFor(8, seconds(3*time.Second), 100)
	counts := l.Counts()
	t.Log(counts)
	for code := range counts {
		if code != "ok" && code != "40001" {
			t.Errorf("%d answers were %s", counts[code], code)
		}
	}
	l.Verify()
}

var (
	processed = regexp.MustCompile(`number of transactions actually processed: (\d+)`)
	failures  = regexp.MustCompile(`number of failed transactions: (\d+)`)
	retries   = regexp.MustCompile(`total number of retries: (\d+)`)
)

// pgbench is PostgreSQL's own client, which only distributions bring. TestLoadOnAllNodes runs the same transactions.
func pgbench(t *testing.T) (path string) {
	t.Helper()
	build, err := findBuild()
	if err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(build.BinDir, "pgbench")
	if _, err := exec.LookPath(path); err != nil {
		t.Skip("pgbench is not installed")
	}
	return path
}

// runPgbench runs it at all nodes at once, with eight clients each, and another way to send statements at each. The
// outputs are whole when wait returns.
func runPgbench(c *Cluster, path string, took time.Duration, options ...string) (outputs []bytes.Buffer, wait func()) {
	outputs = make([]bytes.Buffer, c.Size())
	var all sync.WaitGroup
	for i, k := range c.All() {
		all.Go(func() {
			args := append([]string{"-n", "-c", "8", "-j", "2", "-M", []string{"simple", "extended", "prepared"}[i%3],
				"-T", fmt.Sprint(int(took.Seconds()))}, options...)
			cmd := exec.Command(path, append(args, c.URL(k))...)
			cmd.Stdout, cmd.Stderr = &outputs[i], &outputs[i]
			if err := cmd.Run(); err != nil {
				c.tb.Errorf("pgbench at node %d: %v\n%s", k, err, &outputs[i])
			}
		})
	}
	return outputs, all.Wait
}

// pgbenchSays is a number in pgbench's output.
func pgbenchSays(t *testing.T, output *bytes.Buffer, what *regexp.Regexp) int {
	t.Helper()
	found := what.FindStringSubmatch(output.String())
	if found == nil {
		t.Fatalf("pgbench says nothing of %s:\n%s", what, output)
	}
	n, err := strconv.Atoi(found[1])
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestPgbench(t *testing.T) {
	path := pgbench(t)
	c := use(t)
	if out, err := exec.Command(path, "-i", "-q", "-s", "2", c.URL(2)).CombinedOutput(); err != nil {
		t.Fatalf("pgbench -i: %v\n%s", err, out)
	}
	// the last step
	c.Everywhere("SELECT count(*) FROM pg_index WHERE indisprimary AND indrelid::regclass::text LIKE 'pgbench_%'", "3")
	took := seconds(3 * time.Second)
	outputs, wait := runPgbench(c, path, took, "--max-tries", "100000")
	wait()
	total, tried := 0, 0
	for i := range outputs {
		if pgbenchSays(t, &outputs[i], failures) != 0 {
			t.Fatalf("pgbench at node %d:\n%s", i+1, &outputs[i])
		}
		total += pgbenchSays(t, &outputs[i], processed)
		tried += pgbenchSays(t, &outputs[i], processed) + pgbenchSays(t, &outputs[i], retries)
	}
	t.Logf("%d transactions, tried %d times", total, tried)
	c.Check()
	waited := uint64(0)
	for _, k := range c.All() {
		waited += c.counters(k)["turns_waited"]
	}
	// On a machine that is too slow nothing is decided, or few lose: see flow.Turns.
	if waited == 0 && tried > 3*100*int(took.Seconds()) && 100*(tried-total) > 45*tried {
		t.Error("two branch rows, 24 clients, and no transaction has waited for its turn")
	}
	for _, k := range c.All() {
		got := c.Connect(k).Get(
			`SELECT (SELECT count(*) FROM pgbench_history), (SELECT sum(abalance) FROM pgbench_accounts) = d,
			(SELECT sum(tbalance) FROM pgbench_tellers) = d, (SELECT sum(bbalance) FROM pgbench_branches) = d
			FROM (SELECT sum(delta) AS d FROM pgbench_history) h`)
		if want := fmt.Sprintf("%d|t|t|t", total); got != want {
			t.Errorf("node %d: %s, want %s", k, got, want)
		}
	}
}
