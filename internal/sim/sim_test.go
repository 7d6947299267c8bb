package sim

import (
	"bytes"
	"math"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"testing"
)

// TestMain lets the test binary be the children that runPool starts.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "sim" {
		os.Exit(Main(os.Args[2:], os.Stdout))
	}
	os.Exit(m.Run())
}

// TestSeeds runs as many seeds as TUTTI_SIM_SEEDS says (default 300).
func TestSeeds(t *testing.T) {
	n := 300
	if s := os.Getenv("TUTTI_SIM_SEEDS"); s != "" {
		var err error
		if n, err = strconv.Atoi(s); err != nil || n < 1 {
			t.Fatalf("TUTTI_SIM_SEEDS=%q is not a number of seeds", s)
		}
	}
	p, err := runPool(1, uint64(n), Options{SafetyMicros: safetyMicros}, runtime.NumCPU(), false)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range p.failed {
		var b bytes.Buffer
		r.print(&b, p.o)
		t.Error(b.String())
	}
	t.Logf("%d seeds: %+v", p.seeds, p.sum)
	if n := p.sum.OwnAborts; n != 0 {
		t.Errorf("%d transactions have lost to an own predecessor (engine E5)", n)
	}
	// seeds for one to happen; else 100
	enough := map[string]int{"OwnAborts": math.MaxInt, "Early": 2000, "Ended": 10_000,
		"Waits.Circles": 10_000, "Members.Interrupted": 100_000}
	for _, f := range p.sum.fields() {
		if f.value.Int() == 0 && n >= max(100, enough[f.name]) && !t.Failed() {
			t.Errorf("in %d seeds %s is always zero: the simulation tests less than it says", n, f.name)
		}
	}
}

// TestSameSeedSameTrace also runs the seed in a fresh process: no map order, address or
// clock may leak into a run.
func TestSameSeedSameTrace(t *testing.T) {
	if s := os.Getenv("TUTTI_SIM_CHILD"); s != "" {
		seed, _ := strconv.ParseUint(s, 10, 64)
		t.Logf("hash=%x=", Run(seed, Options{}).Hash)
		return
	}
	hashes := map[uint64]bool{}
	for seed := uint64(1); seed <= 10; seed++ {
		a, b := Run(seed, Options{}), Run(seed, Options{})
		if a.Hash != b.Hash || a.Stats != b.Stats {
			t.Errorf("seed %d gave %x and %x", seed, a.Hash, b.Hash)
		}
		hashes[a.Hash] = true
	}
	if len(hashes) != 10 {
		t.Errorf("10 seeds gave %d traces", len(hashes))
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestSameSeedSameTrace$", "-test.v")
	cmd.Env = append(os.Environ(), "TUTTI_SIM_CHILD=7")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatal(err, string(out))
	}
	want := "hash=" + strconv.FormatUint(Run(7, Options{}).Hash, 16) + "="
	if !strings.Contains(string(out), want) {
		t.Errorf("want %s, another process says %s", want, out)
	}
}

func TestMembers(t *testing.T) {
	for _, members := range []int{1, 2, 5} {
		for seed := uint64(1); seed <= 10; seed++ {
			if r := Run(seed, Options{Members: members}); r.Code != OK {
				t.Errorf("%d members, seed %d: %v: %s", members, seed, r.Code, r.Message)
			}
		}
	}
}

func TestCommand(t *testing.T) {
	for _, c := range []struct {
		args string
		code int
		out  string
	}{
		{"-seeds 1..3", 0, "3 seeds, 0 failed"},
		{"-seeds 1..20 -jobs 3 -plant progress-not-written", 1, "replay"},
		{"-seed 5", 0, "seed 5: ok, trace hash"},
		{"-seed 5 -trace -millis 100", 0, "phase: quiet"},
		{"-seeds 3..1", 64, "A..B"},
		{"-members 99", 64, "between 1 and 9"},
		{"-jobs 0", 64, "0 jobs"},
		{"-nonsense", 64, "not defined"},
	} {
		var b bytes.Buffer
		if code := Main(strings.Fields(c.args), &b); code != c.code || !strings.Contains(b.String(), c.out) {
			t.Errorf("tutti sim %s: exit %d, %s", c.args, code, b.String())
		}
	}
}

// TestExitCodes: each kind of failure has its code, the smallest failing seed is the same
// whatever the number of jobs, and the command that is printed replays it.
func TestExitCodes(t *testing.T) {
	for planted, want := range map[string]Code{"progress-not-written": Safety, "start-panics": Crash,
		"ticks-stop": Liveness} {
		var first [2]string
		for i, jobs := range []string{"1", "3"} {
			var b bytes.Buffer
			if code := Main([]string{"--seeds", "1..60", "--plant", planted, "--jobs", jobs}, &b); code != int(want) {
				t.Errorf("%s: exit %d, want %d: %s", planted, code, want, b.String())
			}
			first[i], _, _ = strings.Cut(b.String(), "\n")
			_, command, _ := strings.Cut(b.String(), "tutti sim ")
			command, _, _ = strings.Cut(command, "\n")
			var again bytes.Buffer
			if code := Main(strings.Fields(strings.TrimSuffix(command, " --trace")), &again); code != int(want) ||
				!strings.HasPrefix(again.String(), first[i]) {
				t.Errorf("%s: %s gives %d, %.200s; want %s", planted, command, code, again.String(), first[i])
			}
		}
		if first[0] != first[1] {
			t.Errorf("%s: one job finds %q, three find %q", planted, first[0], first[1])
		}
	}
}

// TestChildDies: the end of a child is a crash of the seed that it ran, and the others go on.
func TestChildDies(t *testing.T) {
	p, err := runPool(1, 6, Options{SafetyMicros: 1000, Planted: "process-dies"}, 2, true)
	if err != nil {
		t.Fatal(err)
	}
	if p.seeds != 6 || len(p.failed) != 2 || p.failed[0].Seed != 3 || p.failed[1].Seed != 6 ||
		p.failed[0].Code != Crash {
		t.Errorf("%d seeds, %+v", p.seeds, p.failed)
	}
}
