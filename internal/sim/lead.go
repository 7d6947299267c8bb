package sim

import "github.com/tuttidb/tutti/internal/lead"

// gossipMicros is how often a member asks whether another should lead.
const gossipMicros = 30_000

// leads has a life of a member ask again and again whether another one should lead; the model's gossip knows everything
// at once. Now and then a faulty member hands over to anybody.
func (m *member) leads() {
	rule := lead.New(lead.Options{WroteMin: 3})
	var round func()
	round = m.in(func() {
		m.w.after(gossipMicros, round)
		self := m.id
		in := lead.Input{Self: self, Leads: m.engine.View().Leader == self, Halted: m.halted}
		for _, o := range m.w.members {
			in.Members = append(in.Members, lead.Member{ID: o.id, Links: o.links(), Fit: m.linked(o) && o.open,
				Wrote: m.engine.Wrote(o.id)})
		}
		to, why := rule.Next(in)
		if r := m.w.rnd; m.w.faulty && in.Leads && r.chance(m.w.swarm.abdicatePerMille) {
			to = m.w.members[r.intn(len(m.w.members))].id
		}
		if to != 0 {
			m.w.stats.HandOvers++
			m.w.say("%v: hands over to member %d: %v", m, to, why)
			m.engine.HandOver(to)
			m.wake()
		}
	})
	m.w.after(m.w.rnd.between(1, gossipMicros), round)
}

// missed has the members that m was linked with find out soon that it has ended, if it still has by then. A faulty one
// takes somebody for ended now and then who has not.
func (m *member) missed() {
	for _, o := range m.w.members {
		if !m.linked(o) || m.w.rnd.chance(300) {
			continue
		}
		m.w.after(m.w.rnd.between(100, 30_000), o.in(func() {
			if !m.up || m.w.faulty && m.w.rnd.chance(m.w.swarm.abdicatePerMille) {
				m.w.stats.Missed++
				o.engine.Gone(m.id)
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

func (m *member) links() (n int) {
	for _, o := range m.w.members {
		if m.linked(o) {
			n++
		}
	}
	return n
}
