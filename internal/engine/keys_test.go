package engine

import (
	"math/rand/v2"
	"testing"

	"github.com/tuttidb/tutti/internal/writeset"
)

// TestKeys: looking up in Keys says the same as the locks of a writeset that is not large.
func TestKeys(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		w := &writeset.Writeset{Tables: []writeset.Table{{Schema: "s", Name: "t", Key: 3}}}
		for range r.IntN(60) {
			w.Rows = append(w.Rows, writeset.Row{Op: writeset.Op(1 + r.IntN(4)), Identity: 1 + r.Uint64N(40),
				Image: []byte{1}})
		}
		for range r.IntN(20) {
			w.Keys = append(w.Keys, writeset.Key{Hash: r.Uint64N(40), Mode: writeset.Mode(1 + r.IntN(3))})
		}
		plain, large := &ownKeys{counts: map[uint64]lockCount{}}, &ownKeys{counts: map[uint64]lockCount{}}
		one := &own{Submission: Submission{Kind: KindCertified, Writeset: w}}
		two := &own{Submission: Submission{Kind: KindCertified, Writeset: w, Keys: NewKeys(w)}}
		plain.add(one, 1)
		large.add(two, 1)
		for hash := range uint64(45) {
			for m := writeset.Read; m <= writeset.Share; m++ {
				other := &own{Submission: Submission{Kind: KindCertified,
					Writeset: &writeset.Writeset{Keys: []writeset.Key{{Hash: hash, Mode: m}}}}}
				if a, b := plain.clear(other), large.clear(other); a != b {
					t.Fatalf("key %d in mode %d: %v with locks, %v with Keys", hash, m, a, b)
				}
			}
		}
		plain.add(one, -1)
		large.add(two, -1)
		if len(plain.counts) > 0 || len(large.large) > 0 {
			t.Fatal("something is still locked")
		}
	}
}
