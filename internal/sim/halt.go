package sim

import (
	"github.com/tuttidb/tutti/internal/engine"
)

// In one run of refusingRuns a member cannot carry out one in refusedItems of the others' items, as long as there are
// faults: its database differs, or refuses a value. What internal/node does then: a life that serves sessions ends; the
// next one comes to the item before it does, and halts. Once what stood in the way is gone it is started again.
const (
	refusingRuns = 4
	refusedItems = 200
)

// haltPlanted is the bug that is about this.
const haltPlanted = "halted-moves-on"

// apart reports whether a run has faults that are drawn apart from the others: not if it is to find a planted bug that
// is not about them, so that the seeds which find the rare ones stay what they were.
func (w *world) apart(about string) bool { return w.o.Planted == "" || w.o.Planted == about }

// refuses reports whether the member cannot carry out a task. That is no draw, so that the other runs are as they were.
func (m *member) refuses(t *engine.Task) bool {
	if !m.w.apart(haltPlanted) || !m.w.faulty || t.Own || t.Item.Kind != engine.KindCertified ||
		mix(m.w.seed)%refusingRuns != 0 {
		return false
	}
	id := t.Item.ID
	return mix(mix(mix(m.w.seed^uint64(m.id)<<32)^uint64(id.Member)<<48^id.Incarnation)^id.Seq)%refusedItems == 0
}

// halt is called with an item that cannot be carried out. Its group is never done.
func (m *member) halt(t *engine.Task) {
	m.w.say("%v: cannot carry out %v at %d, open %t", m, t.Item.ID, t.Ordinal, m.open)
	if !m.open {
		m.halted = true
		m.w.stats.Halts++
		return
	}
	m.w.after(1, m.in(func() {
		m.stop(false)
		m.startLater(m.w.rnd.between(1000, 50_000))
	}))
}

// unhalt starts a member again that is halted, once the reason is gone.
func (m *member) unhalt() {
	if m.up && m.halted {
		m.stop(false)
		m.start()
	}
}
