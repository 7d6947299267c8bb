package sim

// network delays, loses, duplicates and reorders frames, and cuts links.
type network struct {
	w    *world
	cut  [][]bool  // from, to; numbered from zero
	last [][]int64 // when the newest frame arrives: links are streams
}

func newNetwork(w *world) *network {
	n := &network{w: w}
	for range w.o.Members {
		n.cut = append(n.cut, make([]bool, w.o.Members))
		n.last = append(n.last, make([]int64, w.o.Members))
	}
	return n
}

// send carries data to member `to`, perhaps.
func (n *network) send(from, to *member, data []byte) {
	w, s := n.w, &n.w.swarm
	if n.cut[from.id-1][to.id-1] || !to.up {
		w.stats.Lost++
		if w.rnd.chance(500) {
			from.engine.Unreachable(to.id)
		}
		return
	}
	copies := 1
	if w.faulty && w.rnd.chance(s.lossPerMille) {
		w.stats.Lost++
		copies = 0
	}
	if w.faulty && w.rnd.chance(s.duplicatePerMille) {
		copies++
	}
	for range copies {
		delay := w.rnd.between(s.delayMin, s.delayMax)
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

func (n *network) arrive(from, to *member, data []byte) {
	if !to.up || n.cut[from.id-1][to.id-1] {
		return
	}
	n.w.stats.Frames++
	must(to.engine.Step(from.id, data))
	to.wake()
}

// heal mends every link.
func (n *network) heal() {
	for i := range n.cut {
		clear(n.cut[i])
	}
}

// partition cuts links in one of the shapes that have broken databases.
func (n *network) partition(r *random) string {
	m := len(n.cut)
	if m == 1 {
		return "nothing to cut"
	}
	a := r.intn(m)
	b := (a + 1 + r.intn(m-1)) % m
	switch r.intn(4) {
	case 0: // one member alone
		for i := range m {
			n.cut[a][i], n.cut[i][a] = i != a, i != a
		}
		return "isolate"
	case 1: // one link, both directions (a ring or a bridge remains)
		n.cut[a][b], n.cut[b][a] = true, true
		return "link"
	case 2: // one direction only
		n.cut[a][b] = true
		return "one way"
	default: // a member that can send but not receive
		for i := range m {
			n.cut[i][a] = i != a
		}
		return "deaf"
	}
}
