package cluster

import (
	"bytes"
	"fmt"
	"maps"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// migrations are blocks that change ten tables each, four of which all clients write to, in the clients' order.
func migrations(n int) []string {
	var add, drop strings.Builder
	for _, table := range migrated() {
		fmt.Fprintf(&add, "ALTER TABLE %s ADD COLUMN m%d int; ", table, n)
		fmt.Fprintf(&drop, "ALTER TABLE %s DROP COLUMN m%d; ", table, n)
	}
	return []string{"BEGIN; " + add.String() + "COMMIT", "BEGIN; " + drop.String() + "COMMIT"}
}

func migrated() (tables []string) {
	for i := range 6 {
		tables = append(tables, fmt.Sprintf("migrated%d", i))
	}
	return append(tables, "pgbench_accounts", "pgbench_tellers", "pgbench_branches", "pgbench_history")
}

// failed matches what pgbench tells of a client's transactions with 40001 when it does not try again.
var failed = regexp.MustCompile(`number of serialization failures: (\d+)`)

var (
	shown = regexp.MustCompile(`(?:ERROR|DETAIL): .*`)
	digit = regexp.MustCompile(`\d+`)
)

// reasons are the errors that pgbench has shown, with how often each has come.
func reasons(outputs []bytes.Buffer) (list []string) {
	count := map[string]int{}
	for i := range outputs {
		for _, line := range shown.FindAllString(outputs[i].String(), -1) {
			count[digit.ReplaceAllString(line, "N")]++
		}
	}
	for _, why := range slices.Sorted(maps.Keys(count)) {
		list = append(list, fmt.Sprintf("%d times %s", count[why], why))
	}
	return list
}

// TestMigrationBesideTPCB: a block that changes ten tables, while clients of all nodes write to four of them, commits
// at its first try; and at most one of a hundred of the clients' transactions is told 40001.
func TestMigrationBesideTPCB(t *testing.T) {
	path := pgbench(t)
	c := use(t)
	if out, err := exec.Command(path, "-i", "-q", "-s", "3", c.URL(1)).CombinedOutput(); err != nil {
		t.Fatalf("pgbench -i: %v\n%s", err, out)
	}
	a := c.Connect(1)
	for _, table := range migrated()[:6] {
		a.Do("DROP TABLE IF EXISTS "+table, "CREATE TABLE "+table+"(id int PRIMARY KEY)")
	}
	c.Settled()
	took := seconds(10 * time.Second)
	outputs, wait := runPgbench(c, path, took, "--failures-detailed", "--verbose-errors")
	done := make(chan struct{})
	go func() { wait(); close(done) }()
	var blocks []time.Duration
	for n := 0; ; n++ {
		select {
		case <-done:
		case <-time.After(took / 5):
			for _, block := range migrations(n) {
				began := time.Now()
				if err := a.Try(block); err != nil {
					t.Errorf("migration %d: %v", n, Explain(err))
					_ = a.Try("ROLLBACK")
				}
				blocks = append(blocks, time.Since(began).Round(time.Millisecond))
			}
			continue
		}
		break
	}
	total, lost := 0, 0
	for i := range outputs {
		total += pgbenchSays(t, &outputs[i], processed) + pgbenchSays(t, &outputs[i], failed)
		lost += pgbenchSays(t, &outputs[i], failed)
	}
	t.Logf("%d transactions, %d were told 40001; migrations took %v", total, lost, blocks)
	if len(blocks) == 0 || 100*lost > total {
		t.Errorf("%d of %d transactions were told 40001:", lost, total)
		for _, why := range reasons(outputs) {
			t.Error(why)
		}
	}
	c.Settled()
}
