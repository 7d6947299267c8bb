package sim

import (
	"cmp"
	"fmt"
	"slices"
)

// grace is how long after healing every member must have committed, and again how long
// after the last transaction all must be equal.
const grace = 10_000_000

// phase is where a run stands.
type phase uint8

const (
	phaseSafety   phase = iota // any fault
	phaseMajority              // a majority is well: its members must commit
	phaseAll                   // everybody is well: all must commit
	phaseQuiet                 // no more transactions: all must become equal
)

func (p phase) String() string {
	return [...]string{"safety", "majority healed", "all healed", "quiet"}[p]
}

// advance begins the next phase.
func (w *world) advance() {
	w.phase++
	w.say("phase: %v", w.phase)
	w.deadline = w.now + w.definers.grace() + w.truth.voting.joins.grace()
	clear(w.alive)
	switch w.phase {
	case phaseMajority:
		w.faulty = false
		w.healMajority()
	case phaseAll:
		w.core = w.present()
		w.truth.voting.witness.well()
		w.net.heal()
		for _, m := range w.members {
			w.mend(m)
		}
	}
	w.settleClients()
}

// healMajority heals just as many members as commits need, and the links between them. The
// others stay away, or disturb.
func (w *world) healMajority() {
	n := len(w.members)
	order := w.rnd.order(n)
	w.truth.voting.healed = w.now
	enough := w.truth.voting.enough(w, order)
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(w.members[a].lacks(), w.members[b].lacks()) })
	k := w.truth.voting.witness
	if k != nil {
		enough = k.heal(order)
	}
	w.core = nil
	for _, i := range order[:enough] {
		if m := w.members[i]; w.truth.voting.joins == nil || !m.disk.empty && !w.truth.voting.joins.outside(m) {
			w.core = append(w.core, m)
		}
	}
	k.cutOff(order[enough:])
	cut := newLinks(n)
	var flapping []int
	for _, i := range order[enough:] {
		m, kind := w.members[i], w.rnd.intn(w.truth.voting.disturbances())
		w.say("%v: not healed, kind %d", m, kind)
		switch kind {
		case 0: // down, with what it lost
			w.crashAs(m, crashMachine)
			m.away = true
			continue
		case 1:
			m.pause(2 * grace)
			continue
		case 2: // cut off
			cut.between(func(a, b int) bool { return a == i || b == i })
		case 3: // deaf
			cut.between(func(_, b int) bool { return b == i })
		case 4: // mute
			cut.between(func(a, _ int) bool { return a == i })
		default:
			flapping = append(flapping, i)
		}
		w.mend(m)
	}
	w.net.heal()
	w.net.rewire(cut)
	if len(flapping) > 0 {
		w.flap(cut, flapping)
	}
	for _, m := range w.core {
		w.mend(m)
	}
}

// flap cuts some members off and lets them in again, in turn, until all are healed.
func (w *world) flap(cut links, who []int) {
	l := newLinks(len(cut))
	in := members(len(cut), who)
	on := w.rnd.chance(500)
	l.between(func(a, b int) bool { return cut[a][b] || on && (in[a] || in[b]) })
	w.net.rewire(l)
	w.after(w.rnd.between(500, 300_000), func() {
		if w.phase == phaseMajority {
			w.flap(cut, who)
		}
	})
}

// mend ends every fault of a member.
func (w *world) mend(m *member) {
	m.away, m.disk.full = false, false
	m.db.resume()
	m.resume()
	m.unhalt()
	if !m.up {
		m.start()
	}
}

// settleClients gives every member of the core clients, as far as those without a session
// go round.
func (w *world) settleClients() {
	for i, c := range w.callers.list {
		if c.s == nil {
			c.home = w.core[i%len(w.core)]
		}
	}
	for i, c := range w.clients {
		if c.s == nil {
			c.home = w.core[i%len(w.core)]
			c.newProcess()
		}
	}
}

// supervise goes on to the next phase whenever one's aim is reached, and ends the run
// after the last.
func (w *world) supervise() {
	switch w.phase {
	case phaseMajority, phaseAll:
		if w.recovered() {
			w.advance()
		}
	case phaseQuiet:
		if w.converged() {
			w.done = true
			return
		}
	}
	w.after(w.swarm.tick, w.supervise)
}

// recovered says whether every member that should be well has committed since it should.
func (w *world) recovered() bool {
	for _, m := range w.core {
		if !w.alive[m.id-1] && w.hasClient(m) && !w.truth.voting.joins.outside(m) {
			return false
		}
	}
	return w.phase == phaseMajority || w.truth.voting.joins.settled()
}

func (w *world) hasClient(m *member) bool {
	for _, c := range w.clients {
		if c.home == m {
			return true
		}
	}
	return false
}

func (w *world) converged() bool {
	for _, c := range w.clients {
		if !c.idle {
			return false
		}
	}
	for _, c := range w.callers.list {
		if !c.idle {
			return false
		}
	}
	j := w.truth.voting.joins
	if slices.ContainsFunc(w.members, func(m *member) bool { return m.disk.empty && !j.outside(m) }) {
		return false
	}
	list := w.present()
	for _, m := range list {
		if !m.up || !m.open || m.group != nil || w.truth.voting.witness.leads(m) {
			return false
		}
		e := m.engine
		if e.Applied() != e.Ordinal() || e.Ordinal() != list[0].engine.Ordinal() || e.Holes() ||
			len(e.Advisory().Locks()) > 0 {
			return false
		}
	}
	return w.definers.quiet(list)
}

// stuck describes where everybody stands when progress has ended.
func (w *world) stuck() string {
	s := fmt.Sprintf("no progress by %d µs, phase %v:", w.now, w.phase)
	for i, m := range w.members {
		e := m.engine
		if e == nil {
			continue
		}
		s += fmt.Sprintf(" [%v up %v paused %v open %v view %v ordinal %d applied %d backlog %d group %v busy %v "+
			"committed %v]",
			m, m.up, m.paused, m.open, e.View(), e.Ordinal(), e.Applied(), e.Figures().Backlog, m.group != nil,
			m.pumping.busy, w.alive[i])
	}
	for i, c := range w.clients {
		if c.s != nil && !c.idle {
			s += fmt.Sprintf(" [client %d at %d state %d seq %d waits %t]", i, c.home.id, c.s.state, c.s.seq,
				c.s.thread != nil)
		}
	}
	return s
}
