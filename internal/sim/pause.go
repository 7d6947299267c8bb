package sim

// pauses starts the faults in which time passes beside a member: its process stands still
// (SIGSTOP, a machine that swaps or migrates), or its clock jumps.
func (w *world) pauses() {
	w.every(w.swarm.pauseEvery, func() {
		m, d := w.members[w.rnd.intn(len(w.members))], w.rnd.between(500, 50_000)
		if w.rnd.chance(200) {
			d = w.rnd.between(50_000, w.swarm.pauseMax)
		}
		switch kind := w.rnd.intn(3); kind {
		case 0:
			m.pause(d)
		case 1:
			m.db.pause(d)
		default:
			m.pause(d)
			m.db.pause(d)
		}
	})
	w.every(w.swarm.clockEvery, func() {
		m := w.members[w.rnd.intn(len(w.members))]
		w.stats.ClockJumps++
		if w.rnd.chance(500) {
			d := w.rnd.between(10_000, w.swarm.pauseMax)
			w.say("%v: its clock stands still for %d µs", m, d)
			m.still = w.now + d
			return
		}
		n := 2 + w.rnd.intn(60)
		w.say("%v: its clock jumps %d ticks ahead", m, n)
		m.in(func() {
			for range n {
				m.engine.Tick()
				m.w.truth.voting.ticked(m)
			}
			m.wake()
		})()
	})
}

// pause stops the node's process for a while. The database and the network go on.
func (m *member) pause(micros int64) {
	if !m.up || m.paused {
		return
	}
	m.w.stats.Pauses++
	m.w.say("%v: paused for %d µs", m, micros)
	m.paused = true
	life := m.incarnation
	m.w.after(micros, func() {
		if m.incarnation == life && m.w.faulty {
			m.resume()
		}
	})
}

// resume lets everything happen at once that came meanwhile.
func (m *member) resume() {
	if !m.paused {
		return
	}
	m.w.say("%v: goes on with %d events that waited", m, len(m.held))
	held := m.held
	m.paused, m.held = false, nil
	for _, f := range held {
		f()
	}
}

// pause stops all processes of the database for a while.
func (d *database) pause(micros int64) {
	if d.dead || d.paused {
		return
	}
	d.w.stats.DatabasePauses++
	d.w.say("%v: database paused for %d µs", d.host, micros)
	d.paused = true
	d.w.after(micros, d.resume)
}

// resume is pause's end.
func (d *database) resume() {
	held := d.held
	d.paused, d.held = false, nil
	for _, f := range held {
		f()
	}
}

// in returns f guarded to this life of the database: it waits while the database is paused.
func (d *database) in(f func()) func() {
	var guarded func()
	guarded = func() { d.run(f, guarded) }
	return guarded
}

// run calls f, or again when the database goes on, or never.
func (d *database) run(f, again func()) {
	switch {
	case d.dead:
	case d.paused:
		d.held = append(d.held, again)
	default:
		f()
	}
}

// in returns f guarded to this life of the node: it waits while the node is paused.
func (m *member) in(f func()) func() {
	life := m.incarnation
	var guarded func()
	guarded = func() {
		switch {
		case !m.up || m.incarnation != life:
		case m.paused:
			m.held = append(m.held, guarded)
		default:
			f()
		}
	}
	return guarded
}

// inDatabase returns f guarded to this life of the node and of its database.
func (m *member) inDatabase(f func()) func() {
	d := m.db
	var guarded func()
	guarded = m.in(func() { d.run(f, guarded) })
	return guarded
}
