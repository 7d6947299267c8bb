package sim

// network delays, loses, duplicates and reorders frames, and cuts links.
type network struct {
	w     *world
	cut   links
	last  [][]int64 // when the newest frame arrives: links are streams
	epoch int       // of partitions: a newer one ends an older one
}

// links says which directions do not work: from, to; numbered from zero.
type links [][]bool

func newLinks(members int) links {
	l := make(links, members)
	for i := range l {
		l[i] = make([]bool, members)
	}
	return l
}

func newNetwork(w *world) *network {
	n := &network{w: w, cut: newLinks(len(w.members))}
	for range w.members {
		n.last = append(n.last, make([]int64, len(w.members)))
	}
	return n
}

// send carries data to member `to`, perhaps.
func (n *network) send(from, to *member, data []byte) {
	w, s := n.w, &n.w.swarm
	if n.cut[from.id-1][to.id-1] || !to.up {
		w.stats.Net.Lost++
		if w.rnd.chance(500) {
			from.engine.Unreachable(to.id)
		}
		return
	}
	to.disk.knows(from)
	copies := 1
	if w.faulty && w.rnd.chance(s.lossPerMille) {
		w.stats.Net.Lost++
		copies = 0
	}
	if w.faulty && w.rnd.chance(s.duplicatePerMille) {
		copies++
	}
	for range copies {
		delay := w.rnd.between(s.delayMin, s.delayMax) * max(from.slowness(s.slowNetwork), to.slowness(s.slowNetwork))
		if w.faulty && w.rnd.chance(s.slowPerMille) {
			delay *= w.rnd.between(2, 100)
		}
		at, last := w.now+delay, &n.last[from.id-1][to.id-1]
		if !w.faulty || !w.rnd.chance(s.reorderPerMille) {
			at = max(at, *last)
			*last = at
		}
		w.agenda.push(at, func() { n.arrive(from, to, data) })
	}
}

// arrive hands a frame to a member; what reaches a paused one waits in its socket's
// buffers, or is lost when those are full.
func (n *network) arrive(from, to *member, data []byte) {
	if !to.up || n.cut[from.id-1][to.id-1] {
		return
	}
	if to.paused {
		if n.w.rnd.chance(n.w.swarm.pauseLossPerMille) {
			n.w.stats.Net.Lost++
			return
		}
		to.held = append(to.held, to.in(func() { n.take(from, to, data) }))
		return
	}
	n.take(from, to, data)
}

func (n *network) take(from, to *member, data []byte) {
	n.w.stats.Net.Frames++
	must(to.engine.Step(from.id, data))
	to.wake()
}
