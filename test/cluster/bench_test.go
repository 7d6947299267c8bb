package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tuttidb/tutti/internal/database/instance"
	"github.com/tuttidb/tutti/internal/process"
)

// benchReport is what this test needs of a report.
type benchReport struct {
	Machine  struct{ Cores int }
	Versions map[string]string
	Settings map[string]map[string]string
	Missing  []string
	Runs     []struct {
		Load, Server, Error string
		Clients             int
		Transactions        int64
		TPS                 float64
		Mean                float64 `json:"mean_ms"`
		P95                 float64 `json:"p95_ms"`
		Fsyncs              float64
		CPU                 *struct{ Database, Middleware, Client float64 } `json:"cpu_us"`
		Members             []struct{ Name string }
	}
	Ratios []struct {
		Load, Of, To     string
		Median, Min, Max float64
	}
}

// TestBenchCompare runs the smallest comparison and looks whether its figures can be true. A pause of the machine
// spoils a run of one second: then it is done again, and longer.
func TestBenchCompare(t *testing.T) {
	t.Parallel() // mostly it waits
	build, err := findBuild()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(build.Program("pgbench")); err != nil {
		if _, err := exec.LookPath("pgbench"); err != nil {
			t.Skip("pgbench is not installed")
		}
	}
	for _, seconds := range []int{1, 5, 10} {
		wrong := compare(t, seconds).wrong()
		if len(wrong) == 0 || t.Failed() {
			return
		}
		t.Logf("runs of %d s: %s", seconds, strings.Join(wrong, "\n"))
	}
	t.Error("the figures cannot be true")
}

// compare runs "tutti bench compare" and reads its report.
func compare(t *testing.T, seconds int) *benchReport {
	t.Helper()
	exe, err := Binary()
	if err != nil {
		t.Fatal(err)
	}
	port, err := freeRun(5)
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "tb")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) }) // should be empty, see below
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	file, profiles := filepath.Join(t.TempDir(), "report.json"), t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, exe, "bench", "compare", "--quick", "--seconds", strconv.Itoa(seconds),
		"--dir", dir, "--base-port", strconv.Itoa(port), "--json", file, "--profiles", profiles).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("files are left: %v (%v)", left, err)
	}
	for pid, line := range process.Leftover(dir) {
		t.Errorf("process %d is left: %s", pid, line)
	}
	for k := 1; k <= 3; k++ {
		// gzip
		if p, err := os.ReadFile(filepath.Join(profiles, fmt.Sprintf("node%d.pprof", k))); err != nil ||
			!strings.HasPrefix(string(p), "\x1f\x8b") {
			t.Errorf("the profile of node %d: %d bytes, %v", k, len(p), err)
		}
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var r benchReport
	if err := json.Unmarshal(b, &r); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(out), "tutti ÷") {
		t.Errorf("no ratios in the output:\n%s", out)
	}
	for _, x := range r.Runs {
		if x.Error != "" {
			t.Errorf("%s on %s: %s", x.Load, x.Server, x.Error)
		}
	}
	if servers := r.servers(); servers == 2 && len(r.Missing) == 0 {
		t.Error("PgBouncer is missing, and the report does not say so")
	}
	return &r
}

func (r *benchReport) servers() int {
	if _, err := exec.LookPath("pgbouncer"); err == nil {
		return 3
	}
	return 2
}

// wrong lists what cannot be true.
func (r *benchReport) wrong() (wrong []string) {
	errorf := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	servers := r.servers()
	if len(r.Runs) != 2*servers {
		errorf("%d runs of 2 loads on %d servers", len(r.Runs), servers)
	}
	if r.Machine.Cores < 1 || r.Versions["postgresql"] == "" || len(r.Settings) != 5 ||
		r.Settings["node3"]["shared_buffers"] != r.Settings["plain"]["shared_buffers"] {
		errorf("machine, versions or settings: %+v %v %v", r.Machine, r.Versions, r.Settings)
	}
	if want := instance.BaseSettings()["shared_buffers"]; r.Settings["plain"]["shared_buffers"] != want ||
		r.Settings["plain"]["synchronous_commit"] != "on" {
		errorf("plain runs with %v", r.Settings["plain"])
	}
	_, noCPU := os.Stat("/proc/self/stat")
	for _, x := range r.Runs {
		what := x.Load + " on " + x.Server
		if x.Clients != 8 || x.Transactions < 20 || x.TPS < 10 || x.TPS > 1e6 || x.Mean <= 0 || x.P95 <= 0 ||
			x.P95 > 20000 {
			errorf("%s: %+v", what, x)
		}
		// 8 clients that wait for each answer: their latencies and their throughput are one thing.
		if busy := x.TPS * x.Mean / 1000; busy < 3 || busy > 10 {
			errorf("%s: %.1f of 8 clients are waiting at any time", what, busy)
		}
		if write := x.Load == "-N"; write != (x.Fsyncs > 0.02) || x.Fsyncs > 5 {
			errorf("%s: %.3f fsyncs per transaction", what, x.Fsyncs)
		}
		if members := len(x.Members); x.Server == "tutti" && members != 3 || x.Server != "tutti" && members != 1 {
			errorf("%s: %d members", what, members)
		}
		if noCPU != nil {
			continue
		}
		if x.CPU == nil || x.CPU.Database <= 0 || x.CPU.Client <= 0 || (x.CPU.Middleware > 0) != (x.Server != "plain") {
			errorf("%s: CPU %+v", what, x.CPU)
		} else if used := (x.CPU.Database + x.CPU.Middleware + x.CPU.Client) * x.TPS / 1e6; used >
			1.5*float64(r.Machine.Cores) {
			errorf("%s: %.1f cores busy of %d", what, used, r.Machine.Cores)
		}
	}
	for _, x := range r.Ratios {
		if x.Min > x.Median || x.Median > x.Max || x.Of == "tutti" && (x.Median < 0.005 || x.Median > 3) {
			errorf("ratio %+v", x)
		}
	}
	return wrong
}
