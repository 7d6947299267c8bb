//go:build planted

package sim

import "testing"

// bugs are what the simulator must find, each within so many seeds. The first part is
// built into certify and engine, the second into the member model: what a node could get
// wrong. Three are bugs that the simulator found in the engine: pending-orphan-stays,
// group-not-split and parts-dangle.
var bugs = []struct {
	name  string
	seeds uint64
}{
	{"base-forgotten", 5},
	{"updates-agree", 5},
	{"shared-agrees", 100},
	{"shared-base-ignored", 300},
	{"eviction-is-agreement", 300},
	{"barrier-ignored", 100},
	{"base-is-delivered", 5},
	{"duplicates-accepted", 5},
	{"pending-orphan-stays", 50},
	{"position-one-off", 10},
	{"holes-denied", 100},
	{"group-not-split", 600},
	{"parts-dangle", 50},

	{"gate-removed", 50},
	{"sync-ignored", 20},
	{"progress-not-written", 10},
	{"progress-forgotten", 10},
	{"marks-ignored", 10},
	{"orphan-mark-not-written", 20},
	{"group-reversed", 20},
	{"commit-not-awaited", 10},
	{"acknowledged-early", 10},
	{"no-fence", 300},
	{"backends-survive", 50},
	{"floor-ignored", 20},
	{"clone-taken-for-own", 50},
	{"adopted-in-flight", 100},
}

func TestPlanted(t *testing.T) {
	for _, b := range bugs {
		found := false
		for seed := uint64(1); seed <= b.seeds && !found; seed++ {
			if r := Run(seed, Options{Planted: b.name}); r.Code != OK {
				found = true
				t.Logf("%-24s seed %3d: %v: %.120s", b.name, seed, r.Code, r.Message)
			}
		}
		if !found {
			t.Errorf("%s: not found in %d seeds", b.name, b.seeds)
		}
	}
}

// TestOwnWait shows what the wait for own predecessors (engine E5) is for: without it the
// order stays right, but READ COMMITTED updates that did see their own member's last
// commit are aborted because of it.
func TestOwnWait(t *testing.T) {
	aborts := func(planted string) (n int) {
		for seed := uint64(1); seed <= 40; seed++ {
			r := Run(seed, Options{Planted: planted})
			if r.Code != OK {
				t.Fatalf("%q, seed %d: %v: %s", planted, seed, r.Code, r.Message)
			}
			n += r.Stats.OwnAborts
		}
		return n
	}
	with, without := aborts(""), aborts("own-wait-removed")
	t.Logf("lost to an own predecessor: %d with the wait, %d without", with, without)
	if with != 0 || without == 0 {
		t.Errorf("the wait does not do what it is for: %d with it, %d without", with, without)
	}
}
