package sim

import "fmt"

// faults starts the swarm's faults, each until the safety phase ends.
func (w *world) faults() {
	w.every(w.swarm.partitionEvery, func() {
		w.stats.Partitions++
		w.say("partition: %s", w.net.partition(w.rnd))
		w.after(w.rnd.between(20_000, 500_000), func() {
			w.say("partition ends")
			w.net.heal()
		})
	})
	w.every(w.swarm.crashEvery, func() { w.crash(w.members[w.rnd.intn(len(w.members))]) })
	w.every(w.swarm.killEvery, func() {
		m := w.members[w.rnd.intn(len(w.members))]
		if n := len(m.sessions); n > 0 {
			w.stats.Kills++
			s := m.sessions[w.rnd.intn(n)]
			for _, o := range m.sessions {
				if o.state == sessionCommitting && w.rnd.chance(300) {
					s = o // the worst moment
				}
			}
			w.say("%v: backend of slot %d dies in state %d", m, s.slot, s.state)
			s.kill()
		}
	})
}

func (w *world) every(micros int64, f func()) {
	if micros == 0 {
		return
	}
	w.after(w.rnd.between(1, 2*micros), func() {
		if w.faulty {
			f()
			w.every(micros, f)
		}
	})
}

// crash ends a node, or its database with it, or the whole machine, or loses the database
// so that it becomes a clone of another member's; it starts again later.
func (w *world) crash(m *member) {
	if !m.up {
		return
	}
	w.stats.Crashes++
	kind := w.rnd.intn(4)
	w.say("%v: crash of kind %d", m, kind)
	m.stop(kind == 2)
	donor := w.members[w.rnd.intn(len(w.members))]
	switch {
	case kind == 3 && donor.up:
		w.stats.Clones++
		m.db.dead = true
		m.db = donor.db.clone()
	case kind > 0:
		m.db = m.db.crash()
	}
	w.after(w.rnd.between(1000, 300_000), func() {
		if !m.up {
			m.start()
		}
	})
}

// heal ends the safety phase: no more faults, everybody up.
func (w *world) heal() {
	w.say("faults end")
	w.faulty = false
	w.net.heal()
	for _, m := range w.members {
		if !m.up {
			m.start()
		}
	}
	for i, c := range w.clients {
		if c.s == nil {
			c.home = w.members[i%len(w.members)]
			c.newProcess()
		}
	}
	w.deadline = w.now + grace
	w.supervise()
}

// supervise ends the run once all members have committed again, all clients have their
// answers and all databases are equal.
func (w *world) supervise() {
	switch {
	case !w.stopping:
		w.stopping = w.recovered()
		w.deadline = w.now + grace
		if !w.stopping {
			w.deadline = w.swarm.safety + grace
		}
	case w.converged():
		w.done = true
		return
	}
	w.after(w.swarm.tick, w.supervise)
}

func (w *world) recovered() bool {
	for i, m := range w.members {
		if !w.alive[i] && w.hasClient(m) {
			return false
		}
	}
	return true
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
	first := w.members[0].engine
	for _, m := range w.members {
		e := m.engine
		if e.Applied() != e.Ordinal() || e.Ordinal() != first.Ordinal() || m.group != nil || !m.open || e.Holes() {
			return false
		}
	}
	return true
}

// stuck describes where everybody stands when progress has ended.
func (w *world) stuck() string {
	s := fmt.Sprintf("no progress by %d µs (stopping %v):", w.now, w.stopping)
	for i, m := range w.members {
		e := m.engine
		s += fmt.Sprintf(" [%v up %v open %v view %v ordinal %d applied %d backlog %d group %v busy %v committed %v]",
			m, m.up, m.open, e.View(), e.Ordinal(), e.Applied(), e.Backlog(), m.group != nil, m.busy, w.alive[i])
	}
	for i, c := range w.clients {
		if c.s != nil && !c.idle {
			s += fmt.Sprintf(" [client %d at %d state %d seq %d]", i, c.home.id, c.s.state, c.s.seq)
		}
	}
	return s
}
