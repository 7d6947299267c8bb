package cluster

import (
	"fmt"
	"net/url"
	"os/exec"
	"regexp"
	"strconv"
	"sync"
	"testing"
)

// sysbenchDone is how many transactions sysbench says it has made.
var sysbenchDone = regexp.MustCompile(`transactions:\s+(\d+)`)

// TestSysbench: all of sysbench's OLTP loads at three nodes at once, on the same tables, leave equal copies. Its
// driver repeats what ends with 40001, 40P01 or 23505; anything else ends it. Tables are filled through
// Tutti, with serial numbers.
func TestSysbench(t *testing.T) {
	program, err := exec.LookPath("sysbench")
	if err != nil {
		t.Skip("sysbench is not installed")
	}
	c := use(t)
	run := func(k int, test string, args ...string) (string, error) {
		u, err := url.Parse(c.URL(k))
		if err != nil {
			return "", err
		}
		out, err := exec.Command(program, append([]string{test, "--db-driver=pgsql", "--pgsql-host=" + u.Hostname(),
			"--pgsql-port=" + u.Port(), "--pgsql-user=postgres",
			"--pgsql-db=postgres", "--tables=2", "--table_size=1000"}, args...)...).CombinedOutput()
		return string(out), err
	}
	if out, err := run(1, "oltp_read_write", "prepare"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	c.Settled()
	for _, test := range []string{"oltp_read_only", "oltp_read_write", "oltp_write_only", "oltp_update_index",
		"oltp_update_non_index", "oltp_insert", "oltp_delete"} {
		var wg sync.WaitGroup
		for k := 1; k <= 3; k++ {
			wg.Go(func() {
				for _, seconds := range []int{2, 10, 40} { // until a slow machine has come to something
					out, err := run(k, test, "--threads=2", fmt.Sprintf("--time=%d", seconds),
						"--rand-seed="+strconv.Itoa(k), "run")
					done := sysbenchDone.FindStringSubmatch(out)
					if err == nil && done != nil && done[1] != "0" {
						return
					}
					if err != nil || done == nil || seconds == 40 {
						t.Errorf("node %d: %s: %v\n%s", k, test, err, out)
						return
					}
				}
			})
		}
		wg.Wait()
	}
	c.Check()
	c.Connect(1).Do("DROP TABLE sbtest1, sbtest2")
}
