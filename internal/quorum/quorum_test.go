package quorum

import (
	"slices"
	"testing"
)

const gone = 100

// members are voters and learners that are there, with those given in silent silent for so many ticks.
func members(voters, learners []uint32, silent map[uint32]int) (list []Peer) {
	for _, m := range voters {
		list = append(list, Peer{Member: m, Voter: true, Silent: silent[m]})
	}
	for _, m := range learners {
		list = append(list, Peer{Member: m, Silent: silent[m]})
	}
	slices.SortFunc(list, func(a, b Peer) int { return int(a.Member) - int(b.Member) })
	return list
}

// TestWanted: who is to vote, when all has been as it is for long.
func TestWanted(t *testing.T) {
	for _, c := range []struct {
		about            string
		leader           uint32
		voters, learners []uint32
		silent           map[uint32]int
		want             []uint32
	}{
		{"all there", 1, []uint32{1, 2, 3, 4, 5}, nil, nil, nil},
		{"an even number that began so", 1, []uint32{1, 2, 3, 4}, nil, nil, nil},
		{"one of three", 1, []uint32{1, 2, 3}, nil, map[uint32]int{3: gone}, nil},
		{"one of four", 1, []uint32{1, 2, 3, 4}, nil, map[uint32]int{3: gone}, []uint32{1, 2, 4}},
		{"one of five: the leader and two more", 5, []uint32{1, 2, 3, 4, 5}, nil, map[uint32]int{3: gone},
			[]uint32{1, 2, 5}},
		{"two of five", 2, []uint32{1, 2, 3, 4, 5}, nil, map[uint32]int{1: gone, 4: 9 * gone}, []uint32{2, 3, 5}},
		{"silent, and not gone yet", 1, []uint32{1, 2, 3, 4, 5}, nil, map[uint32]int{3: gone - 1}, nil},
		{"another is on its way out", 1, []uint32{1, 2, 3, 4, 5}, nil,
			map[uint32]int{3: gone, 4: presentTicks + 1}, nil},
		{"a learner takes the place", 1, []uint32{1, 2, 3}, []uint32{4}, map[uint32]int{2: gone}, []uint32{1, 3, 4}},
		{"but for one that is silent", 1, []uint32{1, 2, 3}, []uint32{4},
			map[uint32]int{2: gone, 4: presentTicks + 1}, nil},
		{"a learner alone makes no odd number", 1, []uint32{1, 2, 3}, []uint32{4}, nil, nil},
		{"two that are back", 1, []uint32{1, 2, 3}, []uint32{4, 5}, nil, []uint32{1, 2, 3, 4, 5}},
		{"two of seven are back, two are not", 1, []uint32{1, 2, 3}, []uint32{4, 5, 6, 7},
			map[uint32]int{6: gone, 7: gone}, []uint32{1, 2, 3, 4, 5}},
		{"two are all there ever were", 1, []uint32{1, 2}, nil, map[uint32]int{2: gone}, nil},
	} {
		r := New(gone, 0)
		var got []uint32
		for range 3 * gone {
			got = r.Tick(c.leader, members(c.voters, c.learners, c.silent))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: wants %v, not %v", c.about, got, c.want)
		}
	}
	for _, c := range []struct {
		about            string
		voters, learners []uint32
		leaves           []uint32
		silent           map[uint32]int
		want             []uint32
	}{
		{"a learner leaves", []uint32{1, 2, 3}, []uint32{4}, []uint32{4}, nil, nil},
		{"one of three leaves", []uint32{1, 2, 3}, nil, []uint32{3}, nil, []uint32{1, 2}},
		{"two of three leave", []uint32{1, 2, 3}, nil, []uint32{2, 3}, nil, []uint32{1}},
		{"one of two leaves", []uint32{1, 2}, nil, []uint32{2}, nil, []uint32{1}},
		{"one of three leaves, another is away", []uint32{1, 2, 3}, nil, []uint32{3}, map[uint32]int{2: gone}, nil},
		{"one of three leaves that is away", []uint32{1, 2, 3}, nil, []uint32{3}, map[uint32]int{3: gone},
			[]uint32{1, 2}},
		{"one of five leaves", []uint32{1, 2, 3, 4, 5}, nil, []uint32{5}, nil, []uint32{1, 2, 3}},
		{"one leaves, a learner takes its place", []uint32{1, 2, 3}, []uint32{4}, []uint32{3}, nil, []uint32{1, 2, 4}},
		{"the leader leaves, who follows", []uint32{1}, []uint32{2}, []uint32{1}, nil, []uint32{2}},
		{"all leave, others follow", []uint32{1, 2, 3}, []uint32{4, 5, 6}, []uint32{1, 2, 3}, nil, []uint32{4, 5, 6}},
		{"all leave, nobody follows", []uint32{1, 2, 3}, []uint32{4}, []uint32{1, 2, 3}, map[uint32]int{4: gone}, nil},
		{"a second one comes", []uint32{1}, []uint32{2}, nil, nil, []uint32{1, 2}},
		{"a third one comes", []uint32{1, 2}, []uint32{3}, nil, nil, []uint32{1, 2, 3}},
		{"a second one is not there yet", []uint32{1}, []uint32{2}, nil, map[uint32]int{2: gone}, nil},
	} {
		for _, after := range []int{gone, 0} {
			r := New(after, 0)
			var got []uint32
			for range 3 * gone {
				list := members(c.voters, c.learners, c.silent)
				for i := range list {
					list[i].Leaves = slices.Contains(c.leaves, list[i].Member)
				}
				got = r.Tick(1, list)
			}
			if want := c.want; !slices.Equal(got, want) && (after > 0 || len(c.silent) == 0) {
				t.Errorf("%s, gone after %d: wants %v, not %v", c.about, after, got, want)
			}
		}
	}
	never := New(0, 0)
	if got := never.Tick(1, members([]uint32{1, 2, 3, 4}, nil, map[uint32]int{3: gone})); got != nil {
		t.Errorf("wants %v, and is to want nothing", got)
	}
}

// back is after how many ticks without a break members 4 and 5, which have been away, vote again.
func back(t *testing.T, r *Rule) int {
	t.Helper()
	for n := 1; n < 100*gone; n++ {
		if got := r.Tick(1, members([]uint32{1, 2, 3}, []uint32{4, 5}, nil)); got != nil {
			return n
		}
	}
	t.Fatal("nobody votes again")
	return 0
}

// TestBack: who was away votes again when it has been there for long, and has what was decided; the longer the oftener
// it was away, but not for ever (Q4).
func TestBack(t *testing.T) {
	r := New(gone, 0)
	for times, want := range []int{gone, 2 * gone, 4 * gone, 8 * gone, 16 * gone, 16 * gone, 16 * gone} {
		for n := range gone + 1 {
			r.Tick(1, members([]uint32{1, 2, 3, 4, 5}, nil, map[uint32]int{4: n, 5: n}))
		}
		if got := back(t, r); got != want {
			t.Errorf("away for the %d. time, they vote again after %d ticks, not %d", times+1, got, want)
		}
	}
	r.Reset()
	if got := back(t, r); got != gone {
		t.Errorf("another leader has them vote again after %d ticks, not %d", got, gone)
	}

	list := members([]uint32{1, 2, 3}, []uint32{4, 5}, nil)
	list[4].Lag = LagMax + 1
	for range 3 * gone {
		if got := r.Tick(1, list); got != nil {
			t.Fatalf("wants %v: one of them lacks much of the log", got)
		}
	}
	list[4].Lag, list[4].Silent = 0, presentTicks+1 // a break
	r.Tick(1, list)
	list[4].Silent = 0
	for range gone - 1 {
		if got := r.Tick(1, list); got != nil {
			t.Fatalf("wants %v: one of them was silent just now", got)
		}
	}
	if r.Tick(1, list) == nil {
		t.Error("wants nothing, and all have been there for long")
	}
}

// TestOneCopy: where one copy is enough, of two that are there the first one votes alone.
func TestOneCopy(t *testing.T) {
	for _, c := range []struct {
		about            string
		leader           uint32
		voters, learners []uint32
		silent           map[uint32]int
		want             []uint32
		stays            bool // who leads is the one, or may be to be
	}{
		{"one of three is gone", 2, []uint32{1, 2, 3}, nil, map[uint32]int{3: gone}, []uint32{1}, false},
		{"the first of three is gone", 3, []uint32{1, 2, 3}, nil, map[uint32]int{1: gone}, []uint32{2}, false},
		{"one of three, and another is on its way out", 2, []uint32{1, 2, 3}, nil,
			map[uint32]int{3: gone, 1: presentTicks + 1}, nil, true},
		{"two that are there", 2, []uint32{1, 2}, nil, nil, []uint32{1}, false},
		{"one, and another one", 1, []uint32{1}, []uint32{2}, nil, nil, true},
		{"one, and the first one is back", 2, []uint32{2}, []uint32{1}, nil, []uint32{1, 2}, false},
		{"both, and the first one leads", 1, []uint32{1, 2}, nil, nil, []uint32{1}, true},
		{"both, and another one was gone before", 1, []uint32{1, 2}, []uint32{3},
			map[uint32]int{3: gone}, []uint32{1}, true},
		{"both, and another one may be there", 1, []uint32{1, 2}, []uint32{3}, map[uint32]int{3: presentTicks + 1},
			nil, true},
		{"one, and the first one is not", 2, []uint32{2}, []uint32{1}, map[uint32]int{1: gone}, nil, true},
		{"a third one is back", 1, []uint32{1}, []uint32{2, 3}, nil, []uint32{1, 2, 3}, false},
		{"three that are there", 1, []uint32{1, 2, 3}, nil, nil, nil, false},
	} {
		r := New(gone, 1)
		var got []uint32
		for range 3 * gone {
			got = r.Tick(c.leader, members(c.voters, c.learners, c.silent))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: wants %v, not %v", c.about, got, c.want)
		}
		if r.First(c.leader) != c.stays {
			t.Errorf("%s: its leader is to stay: %v", c.about, !c.stays)
		}
	}
}

// TestReleased: a leader that votes alone waits for who has what was delivered, until it is gone, and for who may have
// it (Q7).
func TestReleased(t *testing.T) {
	r := New(gone, 1)
	p := Peer{Member: 2}
	tick := func(n int, waits bool, about string) {
		t.Helper()
		for range n {
			r.Tick(1, []Peer{{Member: 1, Voter: true}, p})
		}
		if got := r.Released(); slices.Contains(got, 2) == waits {
			t.Errorf("%s: it does not wait for %v", about, got)
		}
	}
	for p.Silent = range gone {
		tick(1, true, "not heard of since it leads")
	}
	p.Silent = gone
	tick(1, false, "gone")
	p.Silent, p.Lag = 0, LagMax+1
	tick(3*gone, false, "back, and it lacks much")
	p.Lag = LagMax
	tick(1, true, "it has nearly caught up")
	p.Lag = 2 * LagMax
	tick(3*gone, true, "it is slow")
	for p.Silent = range gone {
		tick(1, true, "it is silent")
	}
	p.Silent = gone
	tick(1, false, "it is gone again")
	p.Silent, p.Lag = 0, 0
	tick(3*gone, true, "it is back, and lacks nothing")
	p.Leaves = true
	tick(1, false, "it is no member any more")
	if r.Reset(); len(r.Released()) > 0 {
		t.Errorf("another leader does not wait for %v", r.Released())
	}
	p = Peer{Member: 2, Lag: LagMax + 1}
	tick(gone, true, "heard of, and it may have what was delivered")
	tick(1, false, "heard of for long, and it lacks much")
}
