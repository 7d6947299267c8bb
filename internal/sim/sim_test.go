package sim

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
)

// TestSeeds runs as many seeds as TUTTI_SIM_SEEDS says (default 200).
func TestSeeds(t *testing.T) {
	n := 200
	if s := os.Getenv("TUTTI_SIM_SEEDS"); s != "" {
		var err error
		if n, err = strconv.Atoi(s); err != nil || n < 1 {
			t.Fatalf("TUTTI_SIM_SEEDS=%q is not a number of seeds", s)
		}
	}
	var sum Stats
	for seed := uint64(1); seed <= uint64(n); seed++ {
		r := Run(seed, Options{})
		if r.Code != OK {
			var b bytes.Buffer
			r.print(&b)
			t.Fatal(b.String())
		}
		sum.add(r.Stats)
	}
	t.Logf("%d seeds: %+v", n, sum)
	for what, count := range map[string]int{
		"acknowledged": sum.OK, "failed": sum.Fail, "unknown": sum.Unknown, "ordered": sum.Committed, "aborted by the log": sum.Aborted,
		"lost frames": sum.Lost, "applier blocked": sum.Blocked, "victims": sum.Victims, "withdrawn": sum.Withdrawn, "early": sum.Early,
		"deadlocks": sum.Deadlocks, "refused": sum.Refused, "crashes": sum.Crashes, "clones": sum.Clones, "partitions": sum.Partitions,
		"backends killed": sum.Kills, "database commits lost": sum.LostCommits,
	} {
		if count == 0 && n >= 100 {
			t.Errorf("in %d seeds nothing was ever %s: the simulation tests less than it says", n, what)
		}
	}
}

func (s *Stats) add(o Stats) {
	for i, p := range s.fields() {
		*p += *o.fields()[i]
	}
}

func (s *Stats) fields() []*int {
	return []*int{&s.OK, &s.Fail, &s.Unknown, &s.Committed, &s.Aborted, &s.Frames, &s.Lost, &s.Blocked, &s.Victims, &s.Withdrawn,
		&s.Early, &s.Deadlocks, &s.Refused, &s.Crashes, &s.Clones, &s.Partitions, &s.Kills, &s.LostCommits}
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
		{"-seed 5", 0, "seed 5: ok, trace hash"},
		{"-seed 5 -trace -millis 100", 0, "faults end"},
		{"-seeds 3..1", 64, "A..B"},
		{"-members 99", 64, "between 1 and 9"},
		{"-nonsense", 64, "not defined"},
	} {
		var b bytes.Buffer
		if code := Main(strings.Fields(c.args), &b); code != c.code || !strings.Contains(b.String(), c.out) {
			t.Errorf("tutti sim %s: exit %d, %s", c.args, code, b.String())
		}
	}
}

func TestExitCodes(t *testing.T) {
	for planted, want := range map[string]Code{"progress-not-written": Safety, "sync-ignored": Crash, "ticks-stop": Liveness} {
		if code := runSeeds(1, 20, Options{Planted: planted}, false, io.Discard); code != int(want) {
			t.Errorf("%s: exit %d, want %d", planted, code, want)
		}
	}
}
