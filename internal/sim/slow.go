package sim

import (
	"slices"

	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/flow"
	"github.com/tuttidb/tutti/internal/ordering"
	"github.com/tuttidb/tutti/internal/replica"
)

// Where who votes changes, members that are far too slow stop voting (package quorum), and nobody is slowed because of
// them. Runs are short, so it takes less to be that here than at a node.

// slowTicks is for how long a member must be far behind to be judged.
const slowTicks = 4

// slowBugs are about that.
var slowBugs = []string{"slow-waited-for"}

// paceLimits are those that members must be far beyond of.
var paceLimits = flow.Options{Lag: 1}

// In one of so many runs a member's database becomes far slower than the others': of three members and of more, where
// it can stop voting.
const slowOneInThree, slowOneIn = 8, 3

// slowDown has that happen, and reports whether it does. Most of these runs are calm otherwise, as who starts again is
// not known to be slow.
func slowDown(w *world) bool {
	rnd, s, oneIn := newRandom(mix(w.seed^0x510e)), &w.swarm, slowOneIn
	if s.members == 3 {
		oneIn = slowOneInThree
	}
	if w.o.Planted != slowBugs[0] && (!w.apart("") || rnd.intn(oneIn) > 0) {
		return false
	}
	who := uint32(1 + rnd.intn(s.members))
	s.slowMember, s.slowDatabase = 0, []int64{10, 30, 100}[rnd.intn(3)]
	w.after(rnd.between(s.safety/8, s.safety/3), func() { s.slowMember = who })
	if rnd.intn(4) > 0 {
		s.crashEvery, s.outageEvery, s.partitionEvery, s.pauseEvery = 0, 0, 0, 0
		s.stepCrashPerMille, s.syncFailPerMille, s.fullEvery, s.deadMember = 0, 0, 0, 0
	}
	return true
}

// pace has the rule look at how fast the members are, and judges whom it finds (S20).
func (p *peers) pace(own replica.Status) {
	m, w := p.m, p.m.w
	if w.truth.voting.goneTicks == 0 {
		return
	}
	v := engine.VotingOf(m.engine)
	was := p.table.Slow(w.now)
	if found, decides := v.Slow(); decides {
		p.table.Found(w.now, found)
	}
	now := p.table.Slow(w.now)
	for _, s := range now {
		if slices.ContainsFunc(was, func(x replica.Slow) bool { return x.Member == s.Member }) || s.For > 0 {
			continue
		}
		w.stats.Members.Slow++
		w.say("%v: finds member %d far too slow", m, s.Member)
	}
	for _, s := range was {
		if !slices.ContainsFunc(now, func(x replica.Slow) bool { return x.Member == s.Member }) {
			w.stats.Members.Recovered++
		}
	}
	v.Paces(p.table.Paces(w.now, own, paceLimits))
}

// waitsForSlow reports whether writers are slowed because of a member that is far too slow, although a majority of
// those who vote is within the limit.
func (p *peers) waitsForSlow(because uint32, own *replica.Status, limit uint64) bool {
	slow := slices.ContainsFunc(p.table.Slow(p.m.w.now), func(s replica.Slow) bool { return s.Member == because })
	return slow && p.majorityLags(own) <= limit
}

// voted lists who votes by the last change, of any member.
func (v *voting) voted(m *member) []uint64 {
	if n := len(v.decided); n > 0 {
		return v.decided[n-1].State.GetVoters()
	}
	return m.disk.voters
}

// demotes counts the members that stop voting while they are far too slow, as far as this one knows.
func (p *peers) demotes(voted []uint64, now *ordering.ConfState) {
	for _, s := range p.table.Slow(p.m.w.now) {
		if slices.Contains(voted, uint64(s.Member)) && !slices.Contains(now.GetVoters(), uint64(s.Member)) {
			p.m.w.stats.Members.SlowDemoted++
		}
	}
}
