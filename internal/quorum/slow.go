package quorum

import (
	"cmp"
	"slices"
)

// Pace is how far a member is with carrying out what is ordered, as it has told last.
type Pace struct {
	// Known: it was heard lately, serves clients, and has been near the end of the order since it started.
	Known            bool
	Applied, Ordered uint64 // the ordinals up to which it has applied, and up to which anybody knows the order
	// Load is its lag, per mille of what flow control lets a member lag; zero also where nothing is limited.
	Load int
}

// Slow is a member that is far too slow, and how often it was found to be.
type Slow struct {
	Member uint32
	Times  int
}

const (
	// farLoad is where flow control's delay is at its greatest, nearLoad where it begins.
	farLoad, nearLoad = 5000, 1000
	// slowTimes is how many times as long as to be gone a member is far behind before it is judged.
	slowTimes = 30
	// standsMax is how often it is judged before that is held against it alone.
	standsMax = 12
	// votersLeast are left when somebody stops voting who is there: of fewer, none could be lost.
	votersLeast = 3
)

// pacing is what the rule remembers of a member's pace.
//
//	well --far behind--> far: judged after each window --catches up, or is no longer far behind--> well
//	                     far --falls behind by half in one window, or was judged standsMax times--> slow
//	slow --near for a window, for two after the second time, ...--> well
type pacing struct {
	slow   bool
	times  int // that it was found to be slow
	since  int // ticks of the window; if it is slow, those since when it is near
	judged int // windows that it was far behind, without a break
	began  Pace
	last   uint64 // what it had applied a tick ago
	still  int    // ticks in which it has applied nothing
	stands int    // the most of these in the window
}

// SlowAfter has members be judged that were far behind for so many ticks; zero: slowTimes as long as to be gone.
func (r *Rule) SlowAfter(ticks int) { r.slowTicks = cmp.Or(ticks, slowTimes*r.goneTicks) }

// Inherit takes what the leader before had found, at the beginning.
func (r *Rule) Inherit(list []Slow) {
	for _, s := range list {
		r.paces[s.Member] = &pacing{slow: true, times: s.Times}
	}
}

// Slow lists who is far too slow, in ascending order.
func (r *Rule) Slow() (list []Slow) {
	for m, p := range r.paces { // order-free: they are sorted
		if p.slow {
			list = append(list, Slow{m, p.times})
		}
	}
	slices.SortFunc(list, func(a, b Slow) int { return int(a.Member) - int(b.Member) })
	return list
}

// IsSlow reports whether a member is far too slow.
func (r *Rule) IsSlow(member uint32) bool {
	p := r.paces[member]
	return p != nil && p.slow
}

// watch notes how fast the members are (Q10).
func (r *Rule) watch(peers []Peer) {
	if r.goneTicks <= 0 {
		clear(r.paces)
		return
	}
	most := keepUp(peers)
	for _, p := range peers {
		if p.Leaves || p.Witness {
			delete(r.paces, p.Member)
			continue
		}
		s := r.paces[p.Member]
		if s == nil {
			s = &pacing{}
			r.paces[p.Member] = s
		}
		if s.slow {
			s.recovers(p, r.slowTicks)
		} else {
			s.look(p, r.slowTicks, most)
		}
	}
}

// keepUp reports whether a majority of those that vote is not far behind.
func keepUp(peers []Peer) bool {
	voters, keep := 0, 0
	for _, p := range peers {
		if !p.Voter {
			continue
		}
		voters++
		if p.Pace.Known && p.Pace.Load <= farLoad || p.Witness && p.Silent <= presentTicks {
			keep++
		}
	}
	return 2*keep > voters
}

// look goes on with the window of a member that is far behind while most are not, and judges it at the end.
func (s *pacing) look(p Peer, window int, most bool) {
	if !p.Pace.Known || p.Pace.Load <= farLoad || !most {
		*s = pacing{times: s.times}
		return
	}
	if s.since == 0 {
		s.began, s.last, s.still, s.stands = p.Pace, p.Pace.Applied, 0, 0
	}
	if s.still++; s.last != p.Pace.Applied {
		s.last, s.still = p.Pace.Applied, 0
	}
	s.stands = max(s.stands, s.still)
	if s.since++; s.since < window {
		return
	}
	// Who came back with less has applied very much, so that it begins anew.
	applied, ordered := p.Pace.Applied-s.began.Applied, p.Pace.Ordered-min(s.began.Ordered, p.Pace.Ordered)
	s.since = 0
	s.judged++
	moves := 2*s.stands < window || p.Lag > LagMax // nothing but the log itself holds up the log
	switch {
	case applied > ordered: // it catches up
		s.judged = 0
	case moves && 2*applied < ordered, s.judged >= standsMax:
		*s = pacing{slow: true, times: s.times + 1}
	}
}

// recovers notes since when a member that is slow is near, and takes it for well after a window, and twice as many for
// each time before.
func (s *pacing) recovers(p Peer, window int) {
	if s.since++; !p.Pace.Known || p.Pace.Load > nearLoad {
		s.since = 0
	}
	if s.since >= window<<min(max(s.times-1, 0), doublingsMax) {
		*s = pacing{times: s.times}
	}
}

// spare reports whether so many can vote without those who are slow that these need not (Q11).
func (r *Rule) spare(peers []Peer) bool {
	n := 0
	for _, p := range peers {
		if p.may() && !r.IsSlow(p.Member) && !r.gone(p) && r.can(p, peers) {
			n++
		}
	}
	return n >= fastLeast(r.copies)
}

// fastLeast is how many must be able to vote who are not slow, so that those who are need not.
func fastLeast(copies int) int { return max(votersLeast, 2*copies-1) }
