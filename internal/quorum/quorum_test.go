package quorum

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
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

// TestNewLeader: who leads just now knows of nobody whether he is there, and wants nothing until he can (Q5), whatever
// the order has said of the members.
func TestNewLeader(t *testing.T) {
	r := New(gone, 0)
	for tick := 1; tick < gone; tick++ {
		list := members([]uint32{1, 2, 3, 4, 5}, nil, map[uint32]int{2: tick}) // it is never heard
		list[4].Learner, list[3].Leaves = true, true
		if got := r.Tick(1, list); got != nil {
			t.Fatalf("one was never heard, and after %d ticks wanted is %v", tick, got)
		}
	}
	r.Reset()
	for tick := 1; tick <= 2*presentTicks; tick++ {
		list := members([]uint32{1, 2, 3, 4, 5}, nil, nil)
		list[4].Learner = true
		if got := r.Tick(1, list); (got != nil) != (tick > presentTicks) {
			t.Fatalf("after %d ticks: wants %v", tick, got)
		}
	}
}

// TestWitnessComes: a witness votes for the first time only while what was decided is on as many members with a
// database as copies are wanted, as it has nothing of it; on all of them, if they are fewer.
func TestWitnessComes(t *testing.T) {
	for _, c := range []struct {
		about  string
		copies int
		voters []uint32
		silent map[uint32]int
		lag    map[uint32]uint64
		want   []uint32
	}{
		{"two have all", 2, []uint32{1, 2}, nil, nil, []uint32{1, 2, 9}},
		{"one lacks much", 2, []uint32{1, 2}, nil, map[uint32]uint64{2: LagMax + 1}, nil},
		{"one lacks much, and one copy is enough", 1, []uint32{1, 2}, nil, map[uint32]uint64{2: LagMax + 1},
			[]uint32{1, 2, 9}},
		{"one of three is gone", 2, []uint32{1, 2, 3}, map[uint32]int{3: gone}, map[uint32]uint64{3: 9 * LagMax},
			[]uint32{1, 2, 9}},
		{"one of three is gone, and one lacks much", 2, []uint32{1, 2, 3}, map[uint32]int{3: gone},
			map[uint32]uint64{2: LagMax + 1, 3: 9 * LagMax}, nil},
	} {
		r, got := New(gone, c.copies), []uint32(nil)
		for range 3 * gone {
			list := members(c.voters, []uint32{9}, c.silent)
			list[len(list)-1].Witness = true
			for i := range list {
				list[i].Lag = c.lag[list[i].Member]
			}
			got = r.Tick(1, list)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: wants %v, not %v", c.about, got, c.want)
		}
	}
}

// ranked are roles of members with these ranks.
func ranked(ranks map[uint32]int) map[uint32]Role {
	roles := map[uint32]Role{}
	for m, rank := range ranks { // order-free: a map
		roles[m] = Role{Rank: rank}
	}
	return roles
}

// TestRoles: the higher rank votes, and who has a database before a witness, but the leader votes whoever it is (Q2);
// who is demoted is followed at once, and votes as little as who is gone; somebody who votes has a database (Q8).
func TestRoles(t *testing.T) {
	learner, witness := Role{Learner: true}, Role{Witness: true}
	for _, c := range []struct {
		about            string
		copies           int
		voters, learners []uint32 // member 1 leads
		silent           map[uint32]int
		roles            map[uint32]Role
		want             []uint32
	}{
		{"a learner ranks higher", 0, []uint32{1, 2, 3}, []uint32{4}, nil, ranked(map[uint32]int{4: 1}),
			[]uint32{1, 2, 4}},
		{"a voter ranks lower", 0, []uint32{1, 2, 3}, []uint32{4}, nil, ranked(map[uint32]int{2: -1}),
			[]uint32{1, 3, 4}},
		{"the leader ranks lower", 0, []uint32{1, 2, 3}, []uint32{4}, nil, ranked(map[uint32]int{1: -1}), nil},
		{"who ranks higher is not there", 0, []uint32{1, 2, 3}, []uint32{4}, map[uint32]int{4: gone},
			ranked(map[uint32]int{4: 1}), nil},
		{"four vote, and none is gone", 0, []uint32{1, 2, 3, 4}, nil, nil, ranked(map[uint32]int{2: -1}), nil},
		{"one of five is gone, and the rest ranks", 0, []uint32{1, 2, 3, 4, 5}, nil, map[uint32]int{3: gone},
			ranked(map[uint32]int{4: 2, 5: 1}), []uint32{1, 4, 5}},
		{"one is demoted, another one follows", 0, []uint32{1, 2, 3}, []uint32{4}, nil,
			map[uint32]Role{3: learner}, []uint32{1, 2, 4}},
		{"one is demoted, two are left", 0, []uint32{1, 2, 3}, nil, nil, map[uint32]Role{3: learner}, []uint32{1, 2}},
		{"one is demoted that is silent", 0, []uint32{1, 2, 3}, nil, map[uint32]int{3: presentTicks + 1},
			map[uint32]Role{3: learner}, []uint32{1, 2}},
		{"the leader is demoted", 0, []uint32{1, 2, 3}, []uint32{4}, nil, map[uint32]Role{1: learner},
			[]uint32{2, 3, 4}},
		{"two are demoted, and one votes", 0, []uint32{1, 2, 3}, nil, nil,
			map[uint32]Role{2: learner, 3: learner}, []uint32{1}},
		{"a demoted one stays one", 0, []uint32{1}, []uint32{2, 3}, nil, map[uint32]Role{2: learner, 3: learner}, nil},
		{"a third one is demoted", 0, []uint32{1, 2}, []uint32{3}, nil, map[uint32]Role{3: learner}, nil},
		{"a witness votes like others", 0, []uint32{1, 2}, []uint32{3}, nil, map[uint32]Role{3: witness},
			[]uint32{1, 2, 3}},
		{"a database before a witness", 0, []uint32{1, 2, 3}, []uint32{4}, nil, map[uint32]Role{2: witness},
			[]uint32{1, 3, 4}},
		{"a witness that ranks higher", 0, []uint32{1, 2, 3}, []uint32{4}, nil,
			map[uint32]Role{3: {Witness: true, Rank: 1}}, nil},
		{"a witness leads, and is not left alone", 0, []uint32{1, 2, 3}, nil, map[uint32]int{2: gone},
			map[uint32]Role{1: witness, 3: witness}, nil},
		{"witnesses only", 0, []uint32{1, 2, 3, 4}, nil, map[uint32]int{2: gone},
			map[uint32]Role{1: witness, 3: witness, 4: witness}, nil},
		{"one copy: the higher rank alone", 1, []uint32{1, 2}, nil, nil, ranked(map[uint32]int{2: 1}), []uint32{2}},
		{"one copy: it votes before", 1, []uint32{1}, []uint32{2}, nil, ranked(map[uint32]int{2: 1}),
			[]uint32{1, 2}},
		{"one copy: no witness alone", 1, []uint32{1, 2, 3}, nil, map[uint32]int{2: gone},
			map[uint32]Role{1: witness}, []uint32{3}},
		{"one copy: not even if there is nobody else", 1, []uint32{1, 2, 3}, nil, map[uint32]int{2: gone, 3: gone},
			map[uint32]Role{1: witness}, nil},
		{"one copy: who is demoted leaves", 1, []uint32{1}, []uint32{2}, nil, map[uint32]Role{1: learner},
			[]uint32{1, 2}},
		{"one copy: who is demoted has left", 1, []uint32{1, 2}, nil, nil, map[uint32]Role{1: learner}, []uint32{2}},
	} {
		r := New(gone, c.copies)
		var got []uint32
		for range 3 * gone {
			list := members(c.voters, c.learners, c.silent)
			for i := range list {
				list[i].Role = c.roles[list[i].Member]
			}
			got = r.Tick(1, list)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: wants %v, not %v", c.about, got, c.want)
		}
	}
}

// TestStops: the one that votes alone gives its vote to another one before it stops, which is left alone at once,
// whoever else may be there (Q9); nobody does so if both stop, or if the other one lacks something.
func TestStops(t *testing.T) {
	for _, c := range []struct {
		about            string
		leader           uint32
		voters, learners []uint32
		stops            []uint32
		silent           map[uint32]int
		lag              uint64 // of member 2
		ticks            int
		want             []uint32
	}{
		{"the first one stops", 1, []uint32{1}, []uint32{2}, []uint32{1}, nil, 0, gone, []uint32{1, 2}},
		{"the other one votes", 1, []uint32{1, 2}, nil, []uint32{1}, nil, 0, gone, []uint32{2}},
		{"it leads", 2, []uint32{1, 2}, nil, []uint32{1}, nil, 0, presentTicks + 1, []uint32{2}},
		{"it leads just now", 2, []uint32{1, 2}, nil, []uint32{1}, nil, 0, presentTicks, nil},
		{"a third one may be there", 2, []uint32{1, 2}, []uint32{3}, []uint32{1}, map[uint32]int{3: gone - 1}, 0,
			presentTicks + 1, []uint32{2}},
		{"it votes alone", 2, []uint32{2}, []uint32{1}, []uint32{1}, nil, 0, 2 * gone, nil},
		{"the other one stops", 1, []uint32{1}, []uint32{2}, []uint32{2}, nil, 0, 2 * gone, nil},
		{"both stop", 1, []uint32{1}, []uint32{2}, []uint32{1, 2}, nil, 0, 2 * gone, nil},
		{"the other one lacks something", 1, []uint32{1}, []uint32{2}, []uint32{1}, nil, LagMax + 1, 2 * gone, nil},
		{"the other one is not there", 1, []uint32{1}, []uint32{2}, []uint32{1}, map[uint32]int{2: presentTicks + 1}, 0,
			2 * gone, nil},
		{"three are there", 1, []uint32{1, 2, 3}, nil, []uint32{1}, nil, 0, 2 * gone, nil},
	} {
		r := New(gone, 1)
		var got []uint32
		for range c.ticks {
			list := members(c.voters, c.learners, c.silent)
			for i := range list {
				p := &list[i]
				if p.Stops = slices.Contains(c.stops, p.Member); p.Member == 2 {
					p.Lag = c.lag
				}
			}
			got = r.Tick(c.leader, list)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: wants %v, not %v", c.about, got, c.want)
		}
	}
}

// TestOrderOfList: what is wanted does not depend on the order in which members are given, has an odd number of voters,
// or all that may, and a database; and is wanted no more once it is so.
func TestOrderOfList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 7).Draw(t, "members")
		copies := rapid.IntRange(1, 3).Draw(t, "copies")
		var good []Peer
		voters, eligible := 0, n
		for m := range n {
			p := Peer{Member: uint32(m + 1), Voter: m == 0 || rapid.Bool().Draw(t, "votes")}
			p.Rank, p.Witness = rapid.IntRange(-1, 1).Draw(t, "rank"), m > 0 && rapid.Bool().Draw(t, "witness")
			if p.Voter {
				voters++
			}
			good = append(good, p)
		}
		gone := rapid.IntRange(0, 2).Draw(t, "gone")
		to := New(0, copies).wanted(1, good, eligible+gone, voters+gone, gone)
		if other := New(0, copies).wanted(1, rapid.Permutation(good).Draw(t, "order"), eligible+gone, voters+gone,
			gone); !slices.Equal(to, other) {
			t.Fatalf("wants %v, and in another order %v", to, other)
		}
		if to == nil {
			return
		}
		data := false
		for i := range good {
			good[i].Voter = slices.Contains(to, good[i].Member)
			data = data || good[i].Voter && !good[i].Witness
		}
		if !data || len(to)%2 == 0 && len(to) != eligible && len(to) != min(2*copies-1, eligible+gone) && len(to) > 2 {
			t.Fatalf("wants %v", to)
		}
		leader := uint32(1)
		if !slices.Contains(to, leader) {
			leader = to[0]
		}
		again := New(0, copies).wanted(leader, good, eligible+gone, len(to), 0)
		if len(to) != 2 && again != nil && copies > 1 {
			t.Fatalf("wants %v, and then %v", to, again)
		}
	})
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
	p = Peer{Member: 2, Stops: true}
	tick(3*gone, true, "it stops, and is there")
	p.Silent = presentTicks + 1
	tick(1, false, "it has stopped")
	p.Silent, p.Stops, p.Lag = 0, false, LagMax+1
	tick(1, false, "it has come back, and lacks much")
	p.Lag = 0
	tick(1, true, "it lacks nothing any more")
	p.Learner = true
	tick(1, false, "it never votes")
	p.Learner = false
	tick(1, true, "it may vote again")
	r.Reset()
	p = Peer{Member: 2, Lag: LagMax + 1}
	tick(gone, true, "heard of, and it may have what was delivered")
	tick(1, false, "heard of for long, and it lacks much")
}
