package quorum

import (
	"cmp"
	"slices"
)

const (
	// VotersMin members vote at least, or all if there are fewer.
	VotersMin = 3
	// LagMax is how many entries a member may lack that is to vote again.
	LagMax = 1024
	// presentTicks is for how long a member may be silent that is there: some heartbeats.
	presentTicks = 10
	// doublingsMax bounds Q4: sixteen times as long.
	doublingsMax = 4
)

// Peer is what the leader knows of a member; ticks are the leader's.
type Peer struct {
	Member uint32
	Voter  bool
	Silent int    // ticks for which nothing was heard of it
	Lag    uint64 // entries that it lacks
	Leaves bool   // it is no member any more
}

// Rule is a leader's, from when it leads until it does no longer.
type Rule struct {
	goneTicks int
	seen      map[uint32]*seen
}

// seen is what the rule remembers of a member.
type seen struct {
	present int // ticks since when it is there without a break
	times   int // that it was gone, as a voter
}

// New makes a rule by which a member is gone that was silent for so many ticks; zero: none is ever.
func New(goneTicks int) *Rule { return &Rule{goneTicks: goneTicks, seen: map[uint32]*seen{}} }

// Reset forgets what was seen: this member leads no longer.
func (r *Rule) Reset() { clear(r.seen) }

// Tick takes how the members are now, the leader among them, in the order of their numbers, and returns who is to vote,
// in that order; nil if it is to stay as it is. It is to be called at each tick.
func (r *Rule) Tick(leader uint32, peers []Peer) []uint32 {
	for _, p := range peers {
		r.look(p)
	}
	var good []Peer // who can vote
	voters, gone, members := 0, 0, 0
	for _, p := range peers {
		there, is := r.back(p), r.gone(p)
		if p.Voter {
			voters++
		}
		if !p.Leaves {
			members++
		}
		switch {
		case p.Voter && is:
			gone++
		case p.Voter && p.Silent > presentTicks:
			return nil
		case !p.Leaves && (p.Voter || there):
			good = append(good, p)
		}
	}
	return wanted(leader, good, members, voters, gone)
}

// gone reports whether a member does not count any more where it votes.
func (r *Rule) gone(p Peer) bool { return p.Leaves || r.goneTicks > 0 && p.Silent >= r.goneTicks }

// wanted are those of good, who can vote, that are to; nil if it is to stay as it is, with so many members, and so many
// voters of which some are gone.
func wanted(leader uint32, good []Peer, members, voters, gone int) []uint32 {
	least := min(VotersMin, members)
	n := max(len(good)-1+len(good)%2, least)
	if n > len(good) || gone == 0 && n <= voters {
		return nil
	}
	return chosen(leader, slices.Clone(good), n)
}

// look notes how a member is.
func (r *Rule) look(p Peer) {
	s := r.seen[p.Member]
	if s == nil {
		s = &seen{}
		r.seen[p.Member] = s
	}
	if p.Voter && r.goneTicks > 0 && p.Silent == r.goneTicks {
		s.times++
	}
	if s.present++; p.Silent > presentTicks {
		s.present = 0
	}
}

// back reports whether a member has been there for long enough to vote (Q4).
func (r *Rule) back(p Peer) bool {
	s := r.seen[p.Member]
	long := max(r.goneTicks, presentTicks)
	return s.present >= long<<min(max(s.times-1, 0), doublingsMax) && p.Lag <= LagMax
}

// chosen are n of those who can vote: the leader, who votes already, and then who has the lowest number.
func chosen(leader uint32, good []Peer, n int) (list []uint32) {
	rank := func(p Peer) int {
		switch {
		case p.Member == leader:
			return 0
		case p.Voter:
			return 1
		}
		return 2
	}
	slices.SortStableFunc(good, func(a, b Peer) int { return cmp.Compare(rank(a), rank(b)) })
	for _, p := range good[:n] {
		list = append(list, p.Member)
	}
	slices.Sort(list)
	return list
}
