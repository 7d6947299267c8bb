package sim

import "testing"

func TestSeeds(t *testing.T) {
	for seed := uint64(1); seed <= 600; seed++ {
		r := Run(seed, Options{})
		if r.Code != OK {
			t.Errorf("seed %d: %v: %s\n%+v\n%s\n%s", seed, r.Code, r.Message, r.Stats, r.Swarm, r.Stack)
		}
	}
}
