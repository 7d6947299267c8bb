//go:build planted

package intent

import "testing"

// TestPlanted: each bug is found by the checks of TestInvariants.
func TestPlanted(t *testing.T) {
	defer Plant("")
	for _, bug := range []string{
		"intent-granted-early", "intent-waits-for-ever", "intent-circles-unseen", "intent-lost",
		"intent-outlives-owner",
	} {
		Plant(bug)
		found := false
		for seed := uint64(0); seed < 3000 && !found; seed++ {
			_, wrong := play(seed, 60)
			found = wrong != ""
		}
		if !found {
			t.Errorf("%s is not found", bug)
		}
	}
}
