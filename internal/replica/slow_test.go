package replica

import (
	"slices"
	"testing"

	"github.com/tuttidb/tutti/internal/flow"
	"github.com/tuttidb/tutti/internal/quorum"
)

// TestSlow: who is far too slow is what the leader says, since when it does; a member that leads says it itself, and
// goes on from what the leader before has said.
func TestSlow(t *testing.T) {
	x := table3()
	x.Tell(1, Own{Serves: true, Leader: 2})
	x.Hear(10, 2, Status{State: Synced, Leader: 2, Slow: []Slow{{3, 2, 7}}}, 0, 0)
	want := func(now int64, list ...Slow) {
		t.Helper()
		if got := x.Slow(now); !slices.Equal(got, list) {
			t.Errorf("slow are %v, want %v", got, list)
		}
	}
	want(12, Slow{3, 2, 9})
	x.Hear(12, 3, Status{State: Synced, Leader: 3, Slow: []Slow{{1, 1, 1}}}, 0, 0) // it led before
	want(12, Slow{3, 2, 9})
	x.Hear(12, 2, Status{State: Synced, Leader: 3}, 0, 0) // it leads no longer
	want(12, Slow{3, 2, 9})
	if s := x.Tell(12, Own{Serves: true, Leader: 2}); s.Slow != nil {
		t.Errorf("tells %v, and does not lead", s.Slow)
	}
	if got := x.Synced(12); !slices.Equal(got, []uint32{2}) {
		t.Errorf("synced are %v, and one of them is slow", got)
	}
	own := x.Tell(20, Own{Serves: true, Leader: 1, Ordinal: 30, Applied: 30})
	if !slices.Equal(own.Slow, []Slow{{3, 2, 17}}) {
		t.Errorf("leads now, and tells %v", own.Slow)
	}
	x.Found(21, []quorum.Slow{{Member: 2, Times: 1}, {Member: 3, Times: 3}})
	want(22, Slow{2, 1, 1}, Slow{3, 3, 19})
	if f := x.Flow(22, own, nil); f.Synced[0].Slow || !f.Synced[2].Slow {
		t.Errorf("%+v", f)
	}
	x.Found(22, nil)
	want(23)
}

// TestPaces: what the rule about who votes is told of the members.
func TestPaces(t *testing.T) {
	x := table3()
	x.Hear(1, 2, Status{State: Synced, Ordinal: 9, Applied: 4}, 20, 0)
	x.Hear(1, 3, Status{State: CatchingUp, Applied: 3}, 20, 0)
	x.Found(1, []quorum.Slow{{Member: 3, Times: 1}})
	own := x.Tell(2, Own{Serves: true, Leader: 1, Ordinal: 20, Applied: 20})
	paces, told := x.Paces(2, own, flow.Options{Lag: 8})
	for m, want := range map[uint32]quorum.Pace{ // order-free: each for itself
		1: {Known: true, Applied: 20, Ordered: 20}, 2: {Known: true, Applied: 4, Ordered: 20, Load: 2000},
		3: {Applied: 3, Ordered: 20, Load: 2125},
	} {
		if paces[m] != want {
			t.Errorf("of member %d it is told %+v, want %+v", m, paces[m], want)
		}
	}
	if !slices.Equal(told, []quorum.Slow{{Member: 3, Times: 1}}) {
		t.Errorf("slow are %v", told)
	}
	if paces, _ = x.Paces(100, own, flow.Options{Lag: 8}); paces[2].Known {
		t.Error("who is silent is known")
	}
}
