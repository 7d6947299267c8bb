package sim

import (
	"fmt"

	"github.com/tuttidb/tutti/internal/bootstrap"
)

// In some runs one member loses its disk: its log and its database. It comes back with nothing, and asks the others
// whether it may make a log (package bootstrap). As a rule one of them has heard of it, and it stays out from then on.

// lostDiskOneIn is in how many runs a disk is lost.
const lostDiskOneIn = 8

const lostDiskPlanted = "lost-disk-votes"

// loseDisk draws whether, when and whose disk is lost, from a source of its own: other runs stay as they are.
func (w *world) loseDisk(seed uint64) {
	r := newRandom(mix(seed ^ 0xd15c))
	if !w.apart(lostDiskPlanted) || len(w.members) < 3 || r.intn(lostDiskOneIn) > 0 && w.o.Planted != lostDiskPlanted {
		return
	}
	m := w.members[r.intn(len(w.members))]
	w.after(r.between(w.swarm.safety/10, w.swarm.safety*3/4), func() {
		w.say("%v: its disk is lost", m)
		w.stats.LostDisks++
		if m.up {
			m.stop(true)
		}
		m.db.die()
		m.db = newDatabase(w, m, w.base(m.id))
		m.disk = newDisk(len(w.members))
		m.disk.empty = true
		m.startLater(r.between(1000, 300_000))
	})
}

// mayBegin reports whether a member has a log, or makes one now.
func (m *member) mayBegin() bool {
	if !m.disk.empty {
		return true
	}
	facts := func(of *member) *bootstrap.Facts {
		f := &bootstrap.Facts{Member: of.id, Known: of.disk.notes.Members, Contents: &bootstrap.Contents{}}
		if !of.disk.empty {
			f.Incarnation = of.incarnation
		}
		return f
	}
	var others []bootstrap.Heard
	for _, o := range m.w.members {
		if o != m {
			h := bootstrap.Heard{Member: o.id}
			if cut := m.w.net.cut; o.up && !o.paused && !cut[m.id-1][o.id-1] && !cut[o.id-1][m.id-1] {
				h.Facts = facts(o)
			}
			others = append(others, h)
		}
	}
	d := bootstrap.Decide(facts(m), others, func(member uint32) string { return fmt.Sprint("member ", member) })
	if m.w.o.Planted == lostDiskPlanted {
		d.Do = bootstrap.Create
	}
	m.w.say("%v: has no log: %v %s", m, d.Do, d.Why)
	switch d.Do {
	case bootstrap.Create:
		m.disk.empty = false
		return true
	case bootstrap.Refuse:
		m.out = true
		m.w.stats.StayedOut++
	default:
		m.startLater(10_000)
	}
	return false
}

// knows notes that a member hears of another one's log, before any frame of it.
func (d *disk) knows(o *member) {
	d.notes, _ = d.notes.Heard(&bootstrap.Facts{Member: o.id, Incarnation: o.incarnation})
}

// present are the members that have not left for good.
func (w *world) present() (list []*member) {
	for _, m := range w.members {
		if !m.out && !m.disk.empty {
			list = append(list, m)
		}
	}
	return list
}

// lacks is 1 for a member that has left, or has no log yet.
func (m *member) lacks() int {
	if m.out || m.disk.empty {
		return 1
	}
	return 0
}
