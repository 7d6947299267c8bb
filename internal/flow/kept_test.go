package flow

import "testing"

// TestKept: what is kept back at a member is no lag for others, whatever the limit.
func TestKept(t *testing.T) {
	for limit, want := range map[int]int{-1: 0, 0: 0, 1: 1, 3: 1, 20: 5, 5000: 1250} {
		if got := Kept(limit); got != want {
			t.Errorf("of a limit of %d, %d may be kept back, want %d", limit, got, want)
		}
	}
}
