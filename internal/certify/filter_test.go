package certify

import (
	"math/rand/v2"
	"testing"
)

// TestFilter: it never denies a key that is there, and mostly denies those that are not, however many come and go.
func TestFilter(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	var f filter
	keys := map[uint64]holder{}
	if !f.lacks(1) {
		t.Error("an empty filter has a key")
	}
	for _, n := range []int{10, 5_000, 100, 60_000} {
		clear(keys)
		for range n {
			k := r.Uint64() >> (r.Uint64() % 40)
			keys[k] = holder{}
			f.add(k, keys)
		}
		for k := range keys { // order-free: each for itself
			if f.lacks(k) {
				t.Fatalf("of %d keys one is denied", n)
			}
		}
		wrong := 0
		for range 10_000 {
			if k := r.Uint64(); !f.lacks(k) {
				wrong++
			}
		}
		if wrong > 4_000 {
			t.Errorf("after %d keys %d of 10000 that are not there pass", n, wrong)
		}
	}
}
