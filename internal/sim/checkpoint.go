package sim

import (
	"github.com/tuttidb/tutti/internal/engine"
)

// saved is a checkpoint as a database holds it: everything up to its ordinal is in there too.
type saved struct {
	index, ordinal uint64
	data           []byte
}

// checkpoints takes a checkpoint of this life now and then.
func (m *member) checkpoints() {
	if every := m.w.swarm.checkpointEvery; every > 0 {
		m.w.after(m.w.rnd.between(1, 2*every), m.in(func() {
			m.checkpoint()
			m.checkpoints()
		}))
	}
}

// checkpoint takes one if it can be had now and the last one is on disk.
func (m *member) checkpoint() {
	if !m.open || m.saving {
		return
	}
	if c, ok := m.engine.Checkpoint(); ok && (m.db.saved == nil || c.Index > m.db.saved.index) {
		m.saving = true
		m.save(&saved{c.Index, c.Ordinal, c.Append(nil)})
	}
}

// save stores a checkpoint in the database once everything it stands for is there (N9), and when it
// is durable compacts the log (N10).
func (m *member) save(s *saved) {
	w, planted := m.w, m.w.o.Planted
	if m.engine.Applied() < s.ordinal && planted != "checkpoint-before-applied" {
		w.after(w.rnd.between(100, 2000), m.in(func() { m.save(s) }))
		return
	}
	if planted == "compact-before-checkpoint" {
		m.compact(s)
	}
	w.after(w.rnd.between(5, 100), m.inDatabase(func() {
		t := m.db.begin(nil, false)
		t.saved = s
		t.commit(m.in(func() {
			if planted != "checkpoint-not-flushed" {
				m.db.durable = len(m.db.log)
			}
			m.saving = false
			w.stats.Checkpoints++
			if !m.dies() {
				w.after(w.rnd.between(1, 3000), m.in(func() { m.compact(s) }))
			}
		}))
	}))
}

// compact forgets what lies before the checkpoint, but for the entries that are kept for others. It
// is one of the things that make trouble, so it ends with the faults.
func (m *member) compact(s *saved) {
	last, err := m.disk.view.LastIndex()
	must(err)
	to := min(s.index, last-min(last, m.w.swarm.keepEntries))
	if m.w.o.Planted == "compact-beyond-checkpoint" {
		c, ok := m.engine.Checkpoint()
		if !ok {
			return
		}
		to = c.Index
	}
	if !m.w.faulty || to <= m.disk.base {
		return
	}
	if m.disk.full {
		m.logFails("no space left")
		return
	}
	m.w.say("%v: compacts its log up to entry %d, checkpoint of entry %d and ordinal %d", m, to, s.index, s.ordinal)
	m.disk.compact(to)
	m.w.stats.Compactions++
	m.dies()
}

// checkpointToStart returns the checkpoint to start from, after the log was made to fit it; nil for the beginning.
// False if the database is a clone that does not go with this log.
func (m *member) checkpointToStart() (*engine.Checkpoint, bool) {
	var c *engine.Checkpoint
	if s := m.db.saved; s != nil {
		var err error
		c, err = engine.DecodeCheckpoint(s.data)
		must(err)
	}
	foreign := m.db.member != m.id
	restart, err := c.Fit(m.disk.view, foreign)
	if err != nil && foreign {
		m.w.say("%v: %v", m, err)
		return nil, false
	}
	must(err)
	if restart && m.w.o.Planted != "clone-keeps-log" {
		m.w.stats.LogRestarts++
		m.w.say("%v: restarts its log at entry %d", m, c.Index)
		m.disk.restart(c)
	}
	return c, true
}

// isLost ends the life of a member that needs entries nobody keeps, and lets the operator have it
// cloned anew.
func (m *member) isLost() bool {
	l := m.engine.Lost()
	if l == nil || m.w.o.Planted == "lost-unnoticed" {
		return false
	}
	m.w.stats.LostMembers++
	m.w.say("%v: has entry %d, member %d keeps those from %d on", m, l.Have, l.Leader, l.First)
	m.stop(false)
	m.reclone()
	return true
}

// reclone replaces the database of a member that is down by a clone of that with the newest checkpoint,
// and starts the member with the log it has.
func (m *member) reclone() {
	if m.up {
		return
	}
	var donor *member
	for _, o := range m.w.members {
		if o.db.saved != nil && o.canDonate(m) && (donor == nil || o.db.saved.index > donor.db.saved.index) {
			donor = o
		}
	}
	if donor == nil {
		m.w.callBack(m)
		m.w.after(10_000, m.reclone)
		return
	}
	m.w.stats.Clones++
	m.w.say("%v: cloned anew from %v, checkpoint of entry %d", m, donor, donor.db.saved.index)
	m.db.die()
	m.db = donor.db.clone(m)
	m.startLater(m.w.rnd.between(1000, 50_000))
}

// callBack has the operator start the members again that stay away, once one that must be well cannot be cloned without
// them: what they keep of the log fits their own checkpoints alone.
func (w *world) callBack(lost *member) {
	if w.phase != phaseMajority {
		return
	}
	for _, m := range w.members {
		if m != lost && m.away {
			w.say("%v: called back", m)
			w.mend(m)
		}
	}
}

// canDonate says whether a clone of m's database goes with the log of member to.
func (m *member) canDonate(to *member) bool {
	if m == to || !m.up || m.db.dead {
		return false
	}
	return to.disk.base == 0 && m.disk.base == 0 || m.db.saved != nil && m.db.saved.index >= to.disk.base
}
