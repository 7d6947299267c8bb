//go:build planted

package sim

import (
	"runtime"
	"strings"
	"testing"
)

// bugs are what the simulator must find, each within so many seeds. The first part is
// built into certify and engine, the second into the member model: what a node could get
// wrong. Three are bugs that the simulator found in the engine: locks-trusted,
// group-not-split and parts-dangle.
var bugs = []struct {
	name  string
	seeds uint64
}{
	{"base-forgotten", 50},
	{"updates-agree", 50},
	{"shared-agrees", 600},
	{"shared-base-ignored", 300},
	{"eviction-is-agreement", 300},
	{"barrier-ignored", 600},
	{"base-is-delivered", 50},
	{"duplicates-accepted", 50},
	{"locks-trusted", 300},
	{"position-one-off", 100},
	{"holes-denied", 600},
	{"applied-is-issued", 10000},
	{"withdrawn-in-flight", 10000},
	{"gaps-accepted", 10000},
	{"group-not-split", 3000},
	{"parts-dangle", 300},

	{"gate-removed", 300},
	{"sync-ignored", 100},
	{"progress-not-written", 100},
	{"progress-forgotten", 100},
	{"marks-ignored", 100},
	{"orphan-mark-not-written", 100},
	{"group-reversed", 100},
	{"commit-not-awaited", 100},
	{"orphan-not-told", 300},
	{"acknowledged-early", 100},
	{"given-up-is-failed", 10000},
	{"key-skipped", 10000},
	{"cancel-arrives-late", 10000},
	{"base-read-late", 10000},
	{"incarnation-reused", 10000},
	{"gate-times-out", 10000},
	{"vote-not-written", 10000},
	{"late-is-early", 10000},
	{"database-loss-unnoticed", 10000},
	{"clone-keeps-marks", 10000},
	{"no-fence", 300},
	{"backends-survive", 300},
	{"open-does-not-sync", 10000},
	{"open-trusts-the-cache", 10000},
	{"sync-error-ignored", 10000},
	{"full-disk-ignored", 10000},
	{"floor-ignored", 100},
	{"clone-taken-for-own", 300},
	{"adopted-in-flight", 600},
	{"queue-blocked-by-its-own", 600},
}

func TestPlanted(t *testing.T) {
	for _, b := range bugs {
		p, err := runPool(1, b.seeds, Options{SafetyMicros: safetyMicros, Planted: b.name}, runtime.NumCPU(), false)
		if err != nil {
			t.Fatal(err)
		}
		if len(p.failed) == 0 {
			t.Errorf("%s: not found in %d seeds", b.name, b.seeds)
			continue
		}
		r := p.failed[0]
		t.Logf("%-24s seed %3d: %v: %.120s", b.name, r.Seed, r.Code, r.Message)
	}
}

// TestBlackBoxAlone: the judge that knows only what clients saw finds the missing gate, too,
// as long forks. They need two readers inside one group, so about one seed in 160 shows
// one; the range begins shortly before the first.
func TestBlackBoxAlone(t *testing.T) {
	for seed := uint64(280); seed <= 900; seed++ {
		if r := Run(seed, Options{Planted: "gate-removed", blackBoxOnly: true}); r.Code != OK {
			t.Logf("seed %d: %s", seed, r.Message)
			if !strings.HasPrefix(r.Message, "list-append: G-nonadjacent") {
				t.Error("that is no long fork")
			}
			return
		}
	}
	t.Error("list-append does not notice that snapshots are taken inside groups")
}

// TestOwnWait shows what the wait for own predecessors (engine E5) is for: without it the
// order stays right, but READ COMMITTED updates that did see their own member's last
// commit are aborted because of it, at a member that lags for ever.
func TestOwnWait(t *testing.T) {
	aborts := func(planted string) int {
		p, err := runPool(1, 250, Options{SafetyMicros: safetyMicros, Planted: planted}, runtime.NumCPU(), false)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range p.failed {
			if planted == "" || r.Code != Liveness {
				t.Fatalf("%q: seed %d: %v: %s", planted, r.Seed, r.Code, r.Message)
			}
		}
		return p.sum.OwnAborts
	}
	with, without := aborts(""), aborts("own-wait-removed")
	t.Logf("lost to an own predecessor: %d with the wait, %d without", with, without)
	if with != 0 || without == 0 {
		t.Errorf("the wait does not do what it is for: %d with it, %d without", with, without)
	}
}
