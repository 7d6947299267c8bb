package sim

import (
	"slices"

	"github.com/tuttidb/tutti/internal/admission"
	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/lead"
	"github.com/tuttidb/tutti/internal/replica"
)

// Times are shorter than a node's, as everything here; in the same proportion.
const (
	gossipMicros = 30_000
	deafMicros   = 100_000
	silentMicros = 300_000
	// nearItems is by how much who has caught up is behind.
	nearItems = 50
	// gainMicros is by how much less time commits must take for the lead to be moved for that.
	gainMicros = 200
)

// peers is what a life of a member knows of the others: production's table, fed over the network, and beside it what
// the run expects of that (S10).
type peers struct {
	m     *member
	table *replica.Table
	// of the member's clients, see newThrottle
	throttle *admission.Throttle
	rule     *lead.Rule
	words    replica.Contact

	all       []uint32
	witnessed int64     // when something came of the witness
	arrived   []arrival // by the member's number
}

// arrival is what came of a member last.
type arrival struct {
	at          int64
	incarnation uint64 // the greatest
	ordinal     uint64 // that it told last
}

func newPeers(m *member) *peers {
	m.w.truth.voting.joins.starts(m)
	o := replica.Options{Self: m.id, Deaf: deafMicros, Silent: silentMicros, NearItems: nearItems, NearBytes: 1 << 30}
	for _, other := range m.w.members {
		if j := m.w.truth.voting.joins; j == nil || j.lists(m.db.listed, other.id) {
			o.Members = append(o.Members, other.id)
		}
	}
	p := &peers{m: m, all: o.Members, table: replica.NewTable(o),
		rule:  lead.New(lead.Options{WroteMin: 3, GainMin: gainMicros}),
		words: replica.NewContact(uint32(max(voters(m.w), machines(m.w))))}
	p.throttle = newThrottle(m)
	p.witnessed = -silentMicros
	p.arrived = make([]arrival, len(m.w.members))
	for i := range p.arrived {
		p.arrived[i].at = -silentMicros // never
	}
	return p
}

// own is what the member knows of itself.
func (p *peers) own() replica.Own {
	e := p.m.engine
	f := e.Figures()
	return replica.Own{Serves: p.m.open, Halted: p.m.halted, Incarnation: p.m.incarnation, Leader: e.View().Leader,
		Ordinal: e.Ordinal(), Applied: e.Applied(), Volume: f.Ordered, VolumeApplied: f.Applied}
}

// gossip has a life of a member tell the others what it is, again and again, and ask whether another one should lead.
// Now and then a faulty member hands over to anybody.
func (p *peers) gossip() {
	m, w := p.m, p.m.w
	var round func()
	round = m.in(func() {
		w.after(gossipMicros, round)
		s, leads := p.table.Tell(w.now, p.own()), m.engine.View().Leader == m.id
		w.net.told[m.id-1] = max(w.net.told[m.id-1], s.Applied)
		p.check()
		p.regulate()
		p.pace(s)
		p.stands(&s)
		to, why := p.rule.Next(p.table.Lead(w.now, s, leads, engine.VotingOf(m.engine).Votes, m.engine.Wrote))
		if engine.VotingOf(m.engine).First() {
			to = 0
		}
		if w.faulty && leads && w.rnd.chance(w.swarm.abdicatePerMille) {
			to = w.members[w.rnd.intn(len(w.members))].id
		}
		if to != 0 {
			w.stats.HandOvers++
			w.say("%v: hands over to member %d: %v", m, to, why)
			m.engine.HandOver(to)
			m.wake()
		}
		for _, o := range w.members {
			if o != m {
				w.net.carry(&w.net.gossip, m, o, func() { o.peers.hear(m, s) })
			}
		}
	})
	w.after(w.rnd.between(1, gossipMicros), round)
}

// hear takes what a member tells.
func (p *peers) hear(from *member, s replica.Status) {
	m := p.m
	p.table.Hear(m.w.now, from.id, s, m.engine.Ordinal(), m.engine.Figures().Ordered)
	a := &p.arrived[from.id-1]
	p.words.Heard(m.w.now, from.id)
	a.at, a.incarnation = m.w.now, max(a.incarnation, s.Incarnation)
	if s.Incarnation == a.incarnation {
		a.ordinal = s.Ordinal
	}
	p.regulate()
	told, _ := p.table.Of(m.w.now, from.id)
	if from.up && a.incarnation == from.incarnation && told.Applied > from.engine.Applied() {
		m.w.violation("%v: takes %v to have applied %d, which has applied %d", m, from, told.Applied,
			from.engine.Applied())
	}
}

// freshMicros is how long nothing may have come of a member that counts as heard by those who send clients.
const freshMicros = 80_000

// readLag is how far behind may be who is told to be good for reads.
const readLag = 10

// stands is what those are told who send clients here (S13).
func (p *peers) stands(s *replica.Status) {
	m := p.m
	is := replica.Standing{Serves: m.open, Halted: m.halted, Lag: s.Lag.Items,
		Reach: p.words.Reach(m.w.now, freshMicros, m.id, s.Leader, engine.VotingOf(m.engine).Voters())}
	heard, behind, voters := 0, uint64(0), engine.VotingOf(m.engine).Voters()
	for i, a := range p.arrived {
		if slices.Contains(voters, uint32(i+1)) && (i+1 == int(m.id) || m.w.now-a.at < freshMicros) {
			heard++
		}
		if m.w.now-a.at < silentMicros && m.w.members[i] != m && slices.Contains(p.all, uint32(i+1)) {
			behind = max(behind, a.ordinal-min(a.ordinal, m.engine.Applied()))
		}
	}
	if m.w.truth.voting.witness != nil && m.w.now-p.witnessed < freshMicros {
		heard++
	}
	if is.Refuses(replica.Want{}) == replica.Ready && 2*heard <= len(voters) {
		m.w.violation("%v: is good for writes, and hears %d of %d members that vote", m, heard, len(voters))
	}
	lag := uint64(readLag)
	if is.Refuses(replica.Want{Reads: true, LagMax: &lag}) == replica.Ready && behind > lag {
		m.w.violation("%v: is good for reads that are %d behind, and has heard that it is %d behind", m, lag, behind)
	}
}

// check compares who is alive in the table with what has come, and what all have applied with what each has told.
func (p *peers) check() {
	all := p.table.AllApplied(p.m.engine.Applied())
	for i, told := range p.m.w.net.told {
		if all > told && slices.Contains(p.all, uint32(i+1)) {
			p.m.w.violation("%v: takes all to have applied %d, and member %d has told %d at most", p.m, all, i+1, told)
		}
	}
	for i, a := range p.arrived {
		if _, alive := p.table.Of(p.m.w.now, uint32(i+1)); alive && p.m.w.now-a.at >= silentMicros {
			p.m.w.violation("%v: takes member %d to be alive, of which nothing has come for %d µs", p.m, i+1,
				p.m.w.now-a.at)
		}
	}
}

// missed has the members that m was linked with find out soon that it has ended, if it still has by then. A faulty one
// takes somebody for ended now and then who has not.
func (m *member) missed() {
	m.w.truth.voting.witness.misses(m)
	for _, o := range m.w.members {
		if !m.linked(o) || m.w.rnd.chance(300) {
			continue
		}
		m.w.after(m.w.rnd.between(100, 30_000), o.in(func() {
			if !m.up || m.w.faulty && m.w.rnd.chance(m.w.swarm.abdicatePerMille) {
				m.w.stats.Missed++
				o.engine.Gone(m.id)
				o.peers.table.Forget(m.id)
				o.peers.words.Lost(m.id)
				o.wake()
			}
		}))
	}
}

// linked reports whether two members hear each other.
func (m *member) linked(o *member) bool {
	a, b, cut := m.id-1, o.id-1, m.w.net.cut
	return m != o && m.up && o.up && !m.paused && !o.paused && !cut[a][b] && !cut[b][a]
}
