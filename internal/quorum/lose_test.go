package quorum

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
)

// subsets lists those of a list, in the order of the list.
func subsets(list []uint32) (all [][]uint32) {
	for bits := range 1 << len(list) {
		var s []uint32
		for i, m := range list {
			if bits>>i&1 > 0 {
				s = append(s, m)
			}
		}
		all = append(all, s)
	}
	return all
}

// orders lists a list in each order.
func orders(list []uint32) (all [][]uint32) {
	if len(list) == 0 {
		return [][]uint32{nil}
	}
	for i, m := range list {
		for _, rest := range orders(slices.Concat(list[:i:i], list[i+1:])) {
			all = append(all, append([]uint32{m}, rest...))
		}
	}
	return all
}

// inTurns are losses of one member each; one of nobody if none is lost.
func inTurns(order []uint32) (turn [][]uint32) {
	for _, m := range order {
		turn = append(turn, []uint32{m})
	}
	if len(order) == 0 {
		return [][]uint32{nil}
	}
	return turn
}

// both are those of a that b has, too.
func both(a, b []uint32) (list []uint32) {
	for _, m := range a {
		if slices.Contains(b, m) {
			list = append(list, m)
		}
	}
	return list
}

// most reports whether some members are a majority of those who vote.
func most(some, voters []uint32) bool { return len(both(some, voters)) > len(voters)/2 }

// played is a cluster that is played step by step: a leader whose rule ticks, and changes that need a majority of both
// configurations.
type played struct {
	all     []uint32
	changes bool
	least   int
	roles   map[uint32]Role
	known   map[string][]uint32
}

// settles has a leader lead for long while so many are there, and says who votes then.
func (p *played) settles(leader uint32, voters, there []uint32) []uint32 {
	key := fmt.Sprint(leader, voters, there)
	if v, is := p.known[key]; is {
		return v
	}
	const gone = 20
	r := New(gone, p.least)
	for tick := range 4 * gone {
		if !p.changes {
			break // nobody asks the rule
		}
		var peers []Peer
		for _, m := range p.all {
			peer := Peer{Member: m, Voter: slices.Contains(voters, m), Role: p.roles[m]}
			if !slices.Contains(there, m) {
				peer.Silent = tick
			}
			peers = append(peers, peer)
		}
		// Entering both configurations and leaving the old one needs a majority of each.
		if to := r.Tick(leader, peers); to != nil && most(there, voters) && most(there, to) {
			voters = to
		}
	}
	p.known[key] = voters
	return voters
}

// lose plays one loss after the other, for each leader that may be elected, until all are lost, and calls end with who
// votes and is there then, and how many copies of a commit there were at least.
func (p *played) lose(voters, there []uint32, lost [][]uint32, copies int, end func(voters, there []uint32, on bool,
	copies int)) {
	if len(lost) == 0 {
		end(voters, there, most(there, voters), copies)
		return
	}
	rest := slices.DeleteFunc(slices.Clone(there), func(m uint32) bool { return slices.Contains(lost[0], m) })
	if most(rest, voters) {
		for _, leader := range both(rest, voters) {
			p.lose(p.settles(leader, voters, rest), rest, lost[1:], min(copies, p.fewest(voters, there, rest)), end)
		}
		return
	}
	for _, more := range lost[1:] { // nobody leads any more, and nothing is copied
		rest = slices.DeleteFunc(rest, func(m uint32) bool { return slices.Contains(more, m) })
	}
	end(voters, rest, false, min(copies, p.fewest(voters, there, rest)))
}

// fewest is how many members that are left have a commit, of each majority of voters that may have acknowledged it.
func (p *played) fewest(voters, there, rest []uint32) int {
	if p.changes && p.least == 1 && len(voters) == 1 {
		n := 0 // it waits for all that are there and may vote
		for _, m := range rest {
			if !p.roles[m].Learner || slices.Contains(voters, m) {
				n++
			}
		}
		return n
	}
	least := len(voters)
	for _, who := range subsets(both(voters, there)) {
		if most(who, voters) {
			least = min(least, len(both(who, rest)))
		}
	}
	return least
}

// rolesOf are roles of members up to n with which losses are played: of the last one, or of the first one.
func rolesOf(n uint32) []map[uint32]Role {
	if n > 4 {
		return []map[uint32]Role{nil}
	}
	return []map[uint32]Role{nil, {n: {Learner: true}}, {n: {Witness: true}}, {1: {Witness: true}}, {n: {Rank: 1}},
		{1: {Rank: -1}}, {1: {Witness: true, Rank: 1}, n: {Learner: true}}}
}

// made reports whether the rule, or the beginning, has these vote of all.
func made(all, voters []uint32, roles map[uint32]Role, copies int) bool {
	eligible, data := 0, 0
	for _, m := range all {
		switch votes := slices.Contains(voters, m); {
		case roles[m].Learner && votes:
			return false
		case !roles[m].Learner:
			eligible++
		}
		if !roles[m].Witness && slices.Contains(voters, m) {
			data++
		}
	}
	least := min(2*cmp.Or(copies, Copies)-1, eligible)
	return data > 0 && (len(voters) == eligible || len(voters) >= least && len(voters)%2 == 1)
}

// TestLose compares what is said before with what is played then: for each cluster of three, four and five members,
// whoever votes and is there, each set that is lost, at once and in each order; of up to four, whatever role one has.
func TestLose(t *testing.T) {
	cases, goOn := 0, 0
	for n := uint32(2); n <= 5; n++ {
		var all []uint32
		for m := range n {
			all = append(all, m+1)
		}
		for _, how := range []struct {
			changes bool
			copies  int
		}{{true, 0}, {false, 0}, {true, 1}, {true, 3}} {
			for _, roles := range rolesOf(n) {
				for _, voters := range subsets(all) {
					if !made(all, voters, roles, how.copies) {
						continue
					}
					for _, there := range subsets(all) {
						if !most(there, voters) {
							continue // it does not go on before
						}
						v := View{all, voters, there, how.changes, how.copies, roles, nil}
						c, g := playLosses(t, v)
						cases, goOn = cases+c, goOn+g
					}
				}
			}
		}
	}
	t.Logf("%d cases, %d go on", cases, goOn)
}

// playLosses plays all losses of a view, and says how many there are and after how many it goes on.
func playLosses(t *testing.T, v View) (cases, goOn int) {
	t.Helper()
	p := &played{all: v.Members, changes: v.Changes, least: v.MinCopies, roles: v.Roles, known: map[string][]uint32{}}
	for _, lost := range subsets(v.There) {
		once := compare(t, p, v, lost, v.AtOnce(lost), [][][]uint32{{lost}})
		var turns [][][]uint32
		for _, order := range orders(lost) {
			turns = append(turns, inTurns(order))
		}
		turn := compare(t, p, v, lost, v.InTurn(lost), turns)
		if once && !turn && v.MinCopies != 1 { // there others may vote after the first loss
			t.Errorf("%+v goes on without %v at once, and not one after the other", v, lost)
		}
		if cases++; turn {
			goOn++
		}
	}
	return cases, goOn
}

// compare plays losses in each order, and compares with what was said. It returns whether it goes on.
func compare(t *testing.T, p *played, v View, lost []uint32, said Loss, turns [][][]uint32) bool {
	t.Helper()
	is, voters := Loss{GoesOn: true, Another: true, Copies: len(p.all)}, false
	for _, turn := range turns {
		p.lose(v.Voters, v.There, turn, len(p.all), func(now, there []uint32, on bool, copies int) {
			is.GoesOn = is.GoesOn && on
			if len(lost) > 0 {
				is.Copies = min(is.Copies, copies)
			}
			voters = voters || slices.Equal(now, said.Voters)
			for _, m := range there {
				p.lose(now, there, [][]uint32{{m}}, len(p.all), func(_, _ []uint32, on bool, _ int) {
					is.Another = is.Another && on
				})
			}
		})
	}
	is.Another = is.Another && is.GoesOn
	if len(lost) == 0 {
		is.Copies = said.Copies
	}
	if is.Voters = said.Voters; fmt.Sprint(is) != fmt.Sprint(said) || said.GoesOn && !voters {
		t.Errorf("of %+v %v are lost: said %+v, played %+v", v, lost, said, is)
	}
	return is.GoesOn
}

// TestLoseShown: some of what people ask for.
func TestLoseShown(t *testing.T) {
	five := []uint32{1, 2, 3, 4, 5}
	for _, c := range []struct {
		name       string
		v          View
		lost       []uint32
		once, turn Loss
	}{
		{"two of five", View{five, five, five, true, 0, nil, nil}, []uint32{1, 2},
			Loss{true, []uint32{3, 4, 5}, 1, true}, Loss{true, []uint32{3, 4, 5}, 1, true}},
		{"three of five", View{five, five, five, true, 0, nil, nil}, []uint32{1, 2, 3},
			Loss{false, five, 0, false}, Loss{true, []uint32{3, 4, 5}, 1, false}},
		{"three of five, whose voters are fixed", View{five, five, five, false, 0, nil, nil}, []uint32{1, 2, 3},
			Loss{false, five, 0, false}, Loss{false, five, 2, false}},
		{"one of three", View{five[:3], five[:3], five[:3], true, 0, nil, nil}, []uint32{1},
			Loss{true, []uint32{1, 2, 3}, 1, false}, Loss{true, []uint32{1, 2, 3}, 1, false}},
		{"two learners", View{five, []uint32{1, 2, 3}, five, true, 0, nil, nil}, []uint32{4, 5},
			Loss{true, []uint32{1, 2, 3}, 2, true}, Loss{true, []uint32{1, 2, 3}, 2, true}},
		{"one of three, and one is enough", View{five[:3], five[:3], five[:3], true, 1, nil, nil}, []uint32{1},
			Loss{true, []uint32{2}, 1, false}, Loss{true, []uint32{2}, 1, false}},
		{"who only keeps a copy", View{five[:2], five[:1], five[:2], true, 1, nil, nil}, []uint32{2},
			Loss{true, []uint32{1}, 1, false}, Loss{true, []uint32{1}, 1, false}},
		{"the only one that votes", View{five[:2], five[:1], five[:2], true, 1, nil, nil}, []uint32{1},
			Loss{false, []uint32{1}, 1, false}, Loss{false, []uint32{1}, 1, false}},
		{"one of five, of three copies", View{five, five, five, true, 3, nil, nil}, []uint32{1},
			Loss{true, five, 2, true}, Loss{true, five, 2, true}},
		{"nobody", View{five, five, five, true, 0, nil, nil}, nil, Loss{true, five, 3, true},
			Loss{true, five, 3, true}},
	} {
		if got := c.v.AtOnce(c.lost); fmt.Sprint(got) != fmt.Sprint(c.once) {
			t.Errorf("%s, at once: %+v, want %+v", c.name, got, c.once)
		}
		if got := c.v.InTurn(c.lost); fmt.Sprint(got) != fmt.Sprint(c.turn) {
			t.Errorf("%s, in turn: %+v, want %+v", c.name, got, c.turn)
		}
	}
}

// TestRemoved: what is said to become of a cluster of which a member is removed, or demoted, is what the rule makes of
// it, whoever leads.
func TestRemoved(t *testing.T) {
	goOn := 0
	for n := uint32(2); n <= 5; n++ {
		var all []uint32
		for m := range n {
			all = append(all, m+1)
		}
		for _, voters := range subsets(all) {
			if len(voters) == 0 {
				continue
			}
			for _, there := range subsets(all) {
				for i, changes := range []bool{true, false, true} {
					for _, m := range all {
						v := View{Members: all, Voters: voters, There: there, Changes: changes, MinCopies: i / 2}
						for demoted, said := range map[bool]Loss{false: v.Removed(m), true: v.Demoted(m)} {
							if said.GoesOn { // order-free: each for itself
								goOn++
							}
							removed(t, v, m, said, demoted)
						}
					}
				}
			}
		}
	}
	t.Logf("%d go on", goOn)
}

// removed plays what was said.
func removed(t *testing.T, v View, member uint32, said Loss, demoted bool) {
	t.Helper()
	rest := slices.DeleteFunc(slices.Clone(v.There), func(m uint32) bool { return m == member })
	leaders, goes, another, copies := both(rest, v.Voters), most(v.There, v.Voters), true, len(v.Members)
	left := rest // those that are there
	if demoted {
		if left = v.There; len(leaders) == 0 {
			leaders = both(left, []uint32{member})
		}
	}
	for _, leader := range leaders {
		voters := without(v, member, leader, demoted)
		has := len(voters)/2 + 1
		if v.MinCopies == 1 && len(voters) == 1 {
			if has = len(rest); voters[0] == member {
				has++
			}
		}
		goes, copies = goes && most(left, voters), min(copies, has)
		for _, m := range left {
			fewer := slices.DeleteFunc(slices.Clone(left), func(x uint32) bool { return x == m })
			another = another && most(fewer, voters)
		}
	}
	if goes = goes && len(leaders) > 0; said.GoesOn != goes ||
		goes && (said.Copies != copies || said.Another && !another) {
		t.Errorf("%+v without %d (demoted %v) goes on %v with %d copies and another lost %v, but said is %+v", v,
			member, demoted, goes, copies, another, said)
	}
}

// without is who votes in the end, under a leader, once a member is removed or demoted.
func without(v View, member, leader uint32, demoted bool) []uint32 {
	const gone = 20
	r, voters := New(0, v.MinCopies), v.Voters
	if v.Changes {
		r = New(gone, v.MinCopies)
	}
	for tick := range 4 * gone {
		var peers []Peer
		for _, m := range v.Members {
			p := Peer{Member: m, Voter: slices.Contains(voters, m)}
			p.Leaves, p.Learner = m == member && !demoted, m == member && demoted
			if !slices.Contains(v.There, m) {
				p.Silent = 1000 + tick
			}
			if !p.Leaves || p.Voter {
				peers = append(peers, p)
			}
		}
		if to := r.Tick(leader, peers); to != nil {
			voters = to
		}
	}
	return voters
}

// TestSettled: who votes stays as it is, or somebody who is there is to vote, or to do so no longer.
func TestSettled(t *testing.T) {
	five := []uint32{1, 2, 3, 4, 5}
	demoted := map[uint32]Role{3: {Learner: true}}
	for _, c := range []struct {
		name string
		v    View
		want bool
	}{
		{"all vote", View{five, five, five, true, 0, nil, nil}, true},
		{"four, one more than is needed", View{five[:4], five[:3], five[:4], true, 0, nil, nil}, true},
		{"one is to follow who is demoted", View{five[:4], five[:3], five[:4], true, 0, demoted, nil}, false},
		{"it does", View{five[:4], []uint32{1, 2, 4}, five[:4], true, 0, demoted, nil}, true},
		{"nobody is ever gone, and one is to follow", View{five[:4], five[:3], five[:4], false, 0, demoted, nil},
			false},
		{"nobody is ever gone", View{five[:4], five[:3], five[:4], false, 0, nil, nil}, true},
		{"nobody is ever gone, and one is away", View{five[:3], five[:3], five[1:3], false, 0, nil, nil}, false},
		{"there is no majority", View{five[:3], five[:3], five[:1], true, 0, nil, nil}, false},
		{"one of five is far too slow, and does not vote", View{five, []uint32{1, 2, 4}, five, true, 0, nil,
			[]uint32{3}}, true},
		{"one of five is, and votes", View{five, five, five, true, 0, nil, []uint32{3}}, false},
		{"one of three is, and votes", View{five[:3], five[:3], five[:3], true, 0, nil, []uint32{3}}, true},
		{"who leads ranks lower than another one", View{five[:4], []uint32{2, 3, 4}, five[:4], true, 0,
			ranked(map[uint32]int{4: -1}), nil}, true},
		{"who does not vote ranks higher", View{five[:4], []uint32{2, 3, 4}, five[:4], true, 0,
			ranked(map[uint32]int{1: 1}), nil}, false},
		{"the first one is to vote alone", View{five[:2], five[:2], five[:2], true, 1, nil, nil}, false},
		{"it does alone", View{five[:2], five[:1], five[:2], true, 1, nil, nil}, true},
		{"the other one ranks higher", View{five[:2], five[:1], five[:2], true, 1, ranked(map[uint32]int{2: 1}), nil},
			false},
	} {
		if got := c.v.Settled(); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}
