//go:build linux

package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// peak is how much memory node k's process has had, in KiB, since fresh.
func (c *Cluster) peak(k int, fresh bool) (kib int) {
	c.tb.Helper()
	proc := filepath.Join("/proc", strconv.Itoa(c.PID(k)))
	if fresh {
		if err := os.WriteFile(filepath.Join(proc, "clear_refs"), []byte("5"), 0o600); err != nil {
			c.tb.Skipf("it cannot be told here how much memory a process has had: %v", err)
		}
	}
	status, err := os.ReadFile(filepath.Join(proc, "status"))
	if err != nil {
		c.tb.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if n, err := fmt.Sscanf(line, "VmHWM: %d kB", &kib); n == 1 && err == nil {
			return kib
		}
	}
	c.tb.Fatalf("the status of node %d does not tell its peak", k)
	return 0
}

// spills reports whether node k has a large transaction in a file.
func (c *Cluster) spills(k int) bool {
	maps, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(c.PID(k)), "maps"))
	return err == nil && strings.Contains(string(maps), "/spill.")
}

// TestLargeMemory: what a transaction changes lies in files. It takes memory for its rows, and for what is on its way,
// but not the eight bytes and more for each that it would take if it was kept, neither at its member nor elsewhere.
// When its member is killed in the middle, nothing of it is anywhere, and no file.
func TestLargeMemory(t *testing.T) {
	const mib, row = 1 << 20, 1000
	c := Start(t, 3)
	s := c.Connect(1)
	s.Do("CREATE TABLE t(id int, v text)", "CREATE TABLE k(id int PRIMARY KEY, v text)")
	fill := func(table string, n int) string {
		return fmt.Sprintf("INSERT INTO %s SELECT g, repeat('x', %d) FROM generate_series(1, %d) g", table, row,
			n*mib/row)
	}
	for _, table := range []string{"t", "k"} {
		var peaks [2][3]int
		for i, size := range []int{16, 80} {
			for k := range c.Size() {
				c.peak(k+1, true)
			}
			s.Do("BEGIN", "TRUNCATE "+table, fill(table, size), "COMMIT")
			c.Everywhere("SELECT count(*) FROM "+table, fmt.Sprint(size*mib/row))
			for k := range c.Size() {
				peaks[i][k] = c.peak(k+1, false) >> 10
			}
		}
		t.Logf("table %s: nodes have had %v MiB for 16 MiB, and %v for 80", table, peaks[0], peaks[1])
		for k := range c.Size() {
			if more := peaks[1][k] - peaks[0][k]; more > 4*64 {
				t.Errorf("table %s: 64 MiB more of rows take %d MiB more of memory at node %d", table, more, k+1)
			}
		}
	}
	s.Do("TRUNCATE t, k")
	go func() { _, _ = s.PgConn().Exec(t.Context(), fill("t", 64)).ReadAll() }()
	for end := time.Now().Add(time.Minute); !c.spills(2); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("nothing of a large transaction has come to another member")
		}
	}
	c.Kill(1)
	c.Run(1)
	c.WaitReady(1)
	c.Everywhere("SELECT count(*) FROM t", "0")
	for k := range c.Size() {
		for end := time.Now().Add(20 * time.Second); c.spills(k + 1); time.Sleep(50 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("node %d still has a large transaction in a file that nobody will end", k+1)
			}
		}
	}
	left, err := filepath.Glob(filepath.Join(c.Dir, "*", "spill.*"))
	if err != nil || len(left) > 0 {
		t.Errorf("files are left: %v, %v", left, err)
	}
	c.Check()
}
