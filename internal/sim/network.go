package sim

import (
	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/ordering"
)

// network delays, loses, duplicates and reorders frames, and cuts links.
type network struct {
	w      *world
	cut    links
	raft   lane
	gossip lane
	told   []uint64 // by member: the greatest applied ordinal that it has told
	sites  [][]uint32
	epoch  int // of partitions: a newer one ends an older one
}

// lane is one of the streams between two members. Each has chance of its own, so that what goes along one does not
// change what happens to the other.
type lane struct {
	rnd  *random
	last [][]int64 // when the newest frame arrives
}

func newLane(rnd *random, members int) lane {
	l := lane{rnd: rnd}
	for range members {
		l.last = append(l.last, make([]int64, members))
	}
	return l
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
	return &network{w: w, cut: newLinks(len(w.members)), raft: newLane(w.rnd, len(w.members)),
		gossip: newLane(newRandom(mix(w.seed^0x6055)), len(w.members)), told: make([]uint64, len(w.members)),
		sites: sitesOf(w)}
}

// sitesOf has members be at one site with another one in a third of the runs, if there are more sites than that.
func sitesOf(w *world) [][]uint32 {
	last := uint32(len(w.members))
	switch draw := mix(w.seed ^ 0x517e5); {
	case last < 3 || w.o.Planted != "" || draw%3 > 0:
		return nil
	case last > 4 && draw%2 == 0:
		return [][]uint32{{1, 2}, {last, last - 1, last - 2}}
	default:
		return [][]uint32{{last - 1, last}}
	}
}

// send carries a frame of raft to member `to`, perhaps.
func (n *network) send(from, to *member, f ordering.Message) {
	n.w.truth.voting.joins.sends(from, f.Data)
	arrives := func() { n.steps(to, from, f.Data, to.engine.Step) }
	if f.For != nil {
		arrives = func() { n.passOn(from, to, f) }
	}
	if !n.carry(&n.raft, from, to, arrives) && n.w.rnd.chance(500) {
		from.engine.Unreachable(to.id)
	}
}

// steps has a member take a frame of origin's.
func (n *network) steps(to, origin *member, data []byte, step func(from uint32, data []byte) error) {
	n.w.stats.Net.Frames++
	must(step(origin.id, data))
	n.w.truth.voting.hears(to, origin, data)
	to.wake()
}

// passOn has a member take a frame that is for several of its site, and carry it to the others.
func (n *network) passOn(origin, at *member, f ordering.Message) {
	for _, id := range f.For {
		to := n.w.members[id-1]
		arrives := func() {
			n.w.stats.Net.Relayed++
			n.steps(to, origin, f.Data, func(from uint32, data []byte) error {
				return engine.Relayed(to.engine, from, data)
			})
		}
		if to == at {
			arrives()
		} else {
			n.carry(&n.raft, at, to, arrives)
		}
	}
}

// carry has member `to` take something, perhaps, or several times. False if it is known at once that it does not.
func (n *network) carry(l *lane, from, to *member, take func()) bool {
	w, s := n.w, &n.w.swarm
	if n.cut[from.id-1][to.id-1] || !to.up || !w.truth.voting.joins.talk(from, to) {
		w.stats.Net.Lost++
		return false
	}
	to.disk.knows(from)
	copies := 1
	if w.faulty && l.rnd.chance(s.lossPerMille) {
		w.stats.Net.Lost++
		copies = 0
	}
	if w.faulty && l.rnd.chance(s.duplicatePerMille) {
		copies++
	}
	for range copies {
		delay := l.rnd.between(s.delayMin, s.delayMax) * max(from.slowness(s.slowNetwork), to.slowness(s.slowNetwork))
		if w.faulty && l.rnd.chance(s.slowPerMille) {
			delay *= l.rnd.between(2, 100)
		}
		at, last := w.now+delay, &l.last[from.id-1][to.id-1]
		if !w.faulty || !l.rnd.chance(s.reorderPerMille) {
			at = max(at, *last)
			*last = at
		}
		w.agenda.push(at, func() { n.arrive(l, from, to, take) })
	}
	return true
}

// arrive has a member take something; what reaches a paused one waits in its socket's
// buffers, or is lost when those are full.
func (n *network) arrive(l *lane, from, to *member, take func()) {
	if !to.up || n.cut[from.id-1][to.id-1] {
		return
	}
	if to.paused {
		if l.rnd.chance(n.w.swarm.pauseLossPerMille) {
			n.w.stats.Net.Lost++
			return
		}
		to.held = append(to.held, to.in(take))
		return
	}
	take()
}
