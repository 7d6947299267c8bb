package sim

// faults starts the swarm's faults, each until the safety phase ends.
func (w *world) faults() {
	w.every(w.swarm.partitionEvery, w.net.partition)
	w.every(w.swarm.crashEvery, func() { w.crash(w.members[w.rnd.intn(len(w.members))]) })
	w.every(w.swarm.outageEvery, func() {
		w.stats.Outages++
		for _, m := range w.members {
			w.crashAs(m, crashMachine)
		}
	})
	w.every(w.swarm.killEvery, w.killBackend)
	w.every(w.swarm.fullEvery, func() { w.fillDisk(w.members[w.rnd.intn(len(w.members))]) })
	w.pauses()
	if dead := w.swarm.deadMember; dead != 0 && int(dead) <= len(w.members) {
		w.after(w.rnd.between(0, w.swarm.safety/4), func() {
			m := w.members[dead-1]
			w.crashAs(m, crashMachine)
			m.away = true
		})
	}
}

// every calls f again and again until the safety phase ends, on average after micros.
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

// killBackend ends one session's backend.
func (w *world) killBackend() {
	m := w.members[w.rnd.intn(len(w.members))]
	n := len(m.sessions)
	if m.paused || m.db.paused {
		return
	}
	if w.callers.kill(m); n == 0 {
		return
	}
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

// crash is what ends at once, and what of it is lost.
type crash uint8

const (
	crashNode     crash = iota // the process; the log's file is as it was written
	crashBoth                  // the node's process and its database's
	crashMachine               // both, and what was not synced is lost
	crashDatabase              // the database's processes; the node notices soon
	crashClone                 // both, and the database is replaced by a clone of another's
	crashes
)

func (c crash) String() string {
	return [...]string{"node", "node and database", "machine", "database", "node, database cloned anew"}[c]
}

// crash ends something of a member; it starts again later.
func (w *world) crash(m *member) { w.crashAs(m, crash(w.rnd.intn(int(crashes)))) }

func (w *world) crashAs(m *member, c crash) {
	if !m.up {
		return
	}
	w.stats.Crashes++
	w.say("%v: crash of %v", m, c)
	if c == crashDatabase {
		m.loseDatabase()
		return
	}
	if c == crashNode {
		m.shake()
	}
	m.stop(c == crashMachine)
	donor := w.members[w.rnd.intn(len(w.members))]
	switch {
	case c == crashClone && donor.canDonate(m):
		w.stats.Clones++
		m.db.die()
		m.db = donor.db.clone(m)
	case c != crashNode:
		m.db.die()
	}
	longest := int64(300_000)
	if w.rnd.chance(300) {
		longest = 5000
	}
	m.startLater(w.rnd.between(1000, longest))
}

// shake lets a power failure follow the member's next start now and then: trouble comes in
// series, and the second stroke finds what the first left half done.
func (m *member) shake() { m.shaky = m.w.rnd.chance(300) }

// aftershock is that power failure, if there is to be one.
func (m *member) aftershock() {
	if m.shaky {
		m.shaky = false
		m.w.after(m.w.rnd.between(100, 6000), func() {
			if m.w.faulty {
				m.w.crashAs(m, crashMachine)
			}
		})
	}
}

// loseDatabase is the database's crash under a running node, whose life ends when it
// notices; until then it goes on ordering.
func (m *member) loseDatabase() {
	m.db.die()
	if m.w.o.Planted == "database-loss-unnoticed" {
		m.db = m.db.recover()
		return
	}
	m.w.after(m.w.rnd.between(10, 20_000), m.in(func() {
		m.stop(false)
		m.startLater(m.w.rnd.between(100, 50_000))
	}))
}

// fillDisk leaves a member's disk without space for a while, sometimes the database's too.
func (w *world) fillDisk(m *member) {
	d := w.rnd.between(1000, 500_000)
	w.say("%v: disk full for %d µs", m, d)
	m.disk.full = true
	if m.up && w.rnd.chance(300) {
		m.loseDatabase()
	}
	w.after(d, func() { m.disk.full = false })
}

// startLater starts the member again, unless something else does or it is away.
func (m *member) startLater(micros int64) {
	m.w.after(micros, func() {
		if !m.up && !m.away {
			m.start()
		}
	})
}
