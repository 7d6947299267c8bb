package forced

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	pb "go.etcd.io/raft/v3/raftpb"

	"go.etcd.io/raft/v3"
)

// TestShared: of random logs that have the beginning in common, and may be compacted, as far as they know it to be
// decided, it is found how long that is.
func TestShared(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 0))
	exact := 0
	for n := range 3000 {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			common, term := r.IntN(30), uint64(1)
			var begin []uint64
			for range common {
				term += uint64(r.IntN(4) / 3)
				begin = append(begin, term)
			}
			mine, other := slices.Clone(begin), slices.Clone(begin)
			for range r.IntN(10) {
				mine = append(mine, term+1+uint64(r.IntN(2)*2))
			}
			for range r.IntN(10) {
				other = append(other, term+2+uint64(r.IntN(2)*2))
			}
			slices.Sort(mine[common:])
			slices.Sort(other[common:])
			known := uint64(r.IntN(common + 1))
			a, b := logOf(t, mine, r.IntN(int(known)+1)), logOf(t, other, r.IntN(common+1))
			x, err := terms(a)
			if err != nil {
				t.Fatal(err)
			}
			y, err := terms(b)
			if err != nil {
				t.Fatal(err)
			}
			got := shared(x, uint64(len(mine)), Log{Last: uint64(len(other)), Terms: y}, known)
			if got > uint64(common) || got < min(known, uint64(common)) {
				t.Errorf("%v and %v: %d, not %d", mine, other, got, common)
			}
			if got == uint64(common) {
				exact++
			}
		})
	}
	if exact < 2900 {
		t.Errorf("exact in %d of 3000 only", exact)
	}
}

// logOf is a log with entries of these terms, the first ones compacted.
func logOf(t *testing.T, terms []uint64, compacted int) *raft.MemoryStorage {
	t.Helper()
	s := raft.NewMemoryStorage()
	for i, term := range terms {
		if err := s.Append([]*pb.Entry{{Index: new(uint64(i) + 1), Term: new(term)}}); err != nil {
			t.Fatal(err)
		}
	}
	if compacted > 0 {
		if err := s.Compact(uint64(compacted)); err != nil {
			t.Fatal(err)
		}
	}
	return s
}
