package quorum

import (
	"cmp"
	"slices"
)

const (
	// Copies of a commit that is acknowledged there are at least, unless somebody says otherwise.
	Copies = 2
	// LagMax is how many entries a member may lack that is to vote again, or is waited for.
	LagMax = 1024
	// presentTicks is for how long a member may be silent that is there: some heartbeats.
	presentTicks = 10
	// doublingsMax bounds Q4: sixteen times as long.
	doublingsMax = 4
)

// Role is what the members have decided about one of them.
type Role struct {
	Rank    int  // of those that could vote as well the one of the higher rank does
	Learner bool // it is never to vote
	Witness bool // it has no database
}

// Peer is what the leader knows of a member; ticks are the leader's.
type Peer struct {
	Role
	Member uint32
	Voter  bool
	Silent int    // ticks for which it has not answered
	Lag    uint64 // entries that it lacks
	Leaves bool   // it is no member any more
	Stops  bool   // it has said that it stops
	Pace   Pace

	slow bool
}

// Rule is a leader's, from when it leads until it does no longer.
type Rule struct {
	goneTicks int
	slowTicks int
	copies    int
	seen      map[uint32]*seen
	paces     map[uint32]*pacing
	unsure    bool   // it is not known of everybody whether it has what was delivered
	first     uint32 // who is to vote alone, or may be; zero if nobody is
}

// seen is what the rule remembers of a member.
type seen struct {
	present int // ticks since when it is there without a break
	times   int // that it was gone, as a voter
	keeps   keeps
}

// keeps is whether a member has what was delivered, so that a leader that votes alone has to wait for it (Q7).
type keeps int

const (
	keepsPerhaps keeps = iota // it was not heard of, or just now
	keepsAll
	keepsLess
)

// New makes a rule by which a member is gone that was silent for so many ticks; zero: none is ever. There are to be so
// many copies of what is acknowledged, with one there is; zero means Copies.
func New(goneTicks, copies int) *Rule {
	return &Rule{goneTicks: goneTicks, slowTicks: slowTimes * goneTicks, copies: cmp.Or(copies, Copies),
		seen: map[uint32]*seen{}, paces: map[uint32]*pacing{}}
}

// Reset forgets what was seen: this member leads no longer.
func (r *Rule) Reset() {
	clear(r.seen)
	clear(r.paces)
	r.first = 0
}

// Tick takes how the members are now, the leader among them, in the order of their numbers, and returns who is to vote,
// in that order; nil if it is to stay as it is. If that is one that votes and does not lead, it is to lead before. It
// is to be called at each tick.
func (r *Rule) Tick(leader uint32, peers []Peer) []uint32 {
	r.first, r.unsure = 0, false
	for _, p := range peers {
		r.look(p)
		r.unsure = r.unsure || r.seen[p.Member].keeps == keepsPerhaps
	}
	r.watch(peers)
	spare := r.spare(peers)
	var good []Peer // who can vote
	voters, gone, members := 0, 0, eligible(peers)
	for _, p := range peers {
		p.slow = r.IsSlow(p.Member)
		may := p.may() && !(spare && p.slow)
		is := r.gone(p) || !may
		if p.Voter {
			voters++
		}
		switch {
		case p.Voter && is:
			gone++
		case p.Voter && r.seen[p.Member].present <= presentTicks:
			if r.copies == 1 {
				r.first = leader // as it may be to
			}
			return nil
		case may && r.can(p, peers):
			good = append(good, p)
		}
	}
	return r.wanted(leader, good, members, voters, gone)
}

// may reports whether a member is ever to vote; eligible is of how many that is so.
func (p *Peer) may() bool { return !p.Leaves && !p.Learner }

func eligible(peers []Peer) (n int) {
	for _, p := range peers {
		if p.may() {
			n++
		}
	}
	return n
}

// can reports whether a member that may vote can: it does, or is back for long enough, and a witness is not needed for
// what it does not have.
func (r *Rule) can(p Peer, peers []Peer) bool {
	return p.Voter || r.back(p) && (!p.Witness || r.copied(peers))
}

// copied reports whether what has been decided is on as many members with a database as copies are wanted, or on all of
// fewer: a witness that comes has nothing of it.
func (r *Rule) copied(peers []Peer) bool {
	have, all := 0, 0
	for _, p := range peers {
		if p.Leaves || p.Witness {
			continue
		}
		if all++; p.Lag <= LagMax && r.seen[p.Member].keeps == keepsAll {
			have++
		}
	}
	return have >= min(r.copies, all)
}

// First reports whether a leader is the one that is to vote alone, or does, or may be to: it is to stay the leader.
func (r *Rule) First(member uint32) bool { return r.first == member }

// Released are members that a leader which votes alone does not wait for (Q7), in ascending order.
func (r *Rule) Released() (list []uint32) {
	for m, s := range r.seen { // order-free: they are sorted
		if s.keeps == keepsLess {
			list = append(list, m)
		}
	}
	slices.Sort(list)
	return list
}

// gone reports whether a member does not count any more where it votes.
func (r *Rule) gone(p Peer) bool { return p.Leaves || r.goneTicks > 0 && p.Silent >= r.goneTicks }

// wanted are those of good, who can vote, that are to; nil if it is to stay as it is, with so many members that may
// vote, and so many voters of which some are gone.
func (r *Rule) wanted(leader uint32, good []Peer, members, voters, gone int) []uint32 {
	least := min(2*r.copies-1, members) // of which a majority are so many
	if planted == "copies-forgotten" {
		least = 1
	}
	n := max(len(good)-1+len(good)%2, least)
	switch {
	case n > len(good):
		return nil
	case n == 1 && r.copies == 1:
		return r.alone(leader, good, voters, gone)
	case gone == 0 && n < voters:
		return nil
	}
	to := chosen(leader, good, n)
	lacks := func(is func(Peer) bool) bool { return !slices.ContainsFunc(to, is) }
	if lacks(func(p Peer) bool { return !p.Witness }) {
		return nil
	}
	if gone == 0 && n == voters && lacks(func(p Peer) bool { return !p.Voter }) {
		return nil
	}
	return numbers(to)
}

// alone is who votes of two that can: the first one, so that it is the same one in the order of every database. Nil if
// it does, or if it leads and cannot tell yet who is gone: it would wait for them. If it does not lead yet it is to; if
// it does not vote, both are to before. Who stops is the first one only if both do.
func (r *Rule) alone(leader uint32, good []Peer, voters, gone int) []uint32 {
	data := slices.DeleteFunc(slices.Clone(good), func(p Peer) bool { return p.Witness })
	if len(data) == 0 {
		return nil
	}
	first := slices.MinFunc(data, func(a, b Peer) int {
		return cmp.Or(second(a.Stops, b.Stops), cmp.Compare(b.Rank, a.Rank), cmp.Compare(a.Member, b.Member))
	})
	leaves := slices.ContainsFunc(data, func(p Peer) bool { return p.Stops })
	r.first = first.Member
	switch {
	case !first.Voter:
		return []uint32{min(first.Member, leader), max(first.Member, leader)}
	case gone == 0 && voters == 1 || first.Member == leader && r.unsure && !leaves:
		return nil
	}
	return []uint32{first.Member}
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
	switch {
	case r.gone(p) || p.Learner || p.Stops && p.Silent > presentTicks:
		s.keeps = keepsLess
	case p.Lag <= LagMax && p.Silent <= presentTicks:
		s.keeps = keepsAll
	case s.keeps == keepsPerhaps && s.present > max(r.goneTicks, 2*presentTicks):
		s.keeps = keepsLess
	}
}

// back reports whether a member has been there for long enough to vote (Q4).
func (r *Rule) back(p Peer) bool {
	s := r.seen[p.Member]
	if planted == "voter-without-log" {
		return true
	}
	long := max(r.goneTicks, presentTicks)
	return s.present >= long<<min(max(s.times-1, 0), doublingsMax) && p.Lag <= LagMax
}

// chosen are n of those who can vote: the leader, then who is not slow, who has the higher rank, who has a database,
// who votes already, and who has the lowest number.
func chosen(leader uint32, good []Peer, n int) []Peer {
	good = slices.Clone(good)
	slices.SortFunc(good, func(a, b Peer) int {
		return cmp.Or(second(a.Member != leader, b.Member != leader), second(a.slow, b.slow),
			cmp.Compare(b.Rank, a.Rank), second(a.Witness, b.Witness), second(!a.Voter, !b.Voter),
			cmp.Compare(a.Member, b.Member))
	})
	return good[:n]
}

// second puts a behind b if a is so and b is not.
func second(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// numbers are those of members, in ascending order.
func numbers(members []Peer) (list []uint32) {
	for _, p := range members {
		list = append(list, p.Member)
	}
	slices.Sort(list)
	return list
}
