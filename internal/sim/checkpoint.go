package sim

import (
	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/ordering"
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

// checkpoint takes one if it is wanted and can be had now, and lets the log before the last one go.
func (m *member) checkpoint() {
	if m.compact(); !m.up || !m.open || !m.keeps.Wants(m.disk, m.w.swarm.kept()) {
		return
	}
	if c, ok := m.engine.Checkpoint(); ok && (m.db.saved == nil || c.Index > m.db.saved.index) {
		m.w.truth.voting.judge(m, c)
		m.keeps.Took(c.Index, c.Ordinal)
		m.save(&saved{c.Index, c.Ordinal, c.Append(nil)})
	}
}

// save stores a checkpoint in the database once everything it stands for is there (N9), and when it
// is durable compacts the log (N10).
func (m *member) save(s *saved) {
	w := m.w
	if m.compact(); !m.up {
		return
	}
	if !m.keeps.Storable(m.engine.Applied()) {
		w.after(w.rnd.between(100, 2000), m.in(func() { m.save(s) }))
		return
	}
	w.after(w.rnd.between(5, 100), m.inDatabase(func() {
		t := m.db.begin(nil, false)
		t.saved = s
		t.commit(m.in(func() {
			m.keeps.Stored()
			w.stats.Checkpoints++
			if !m.dies() {
				w.after(w.rnd.between(1, 3000), m.in(m.compact))
			}
		}))
	}))
}

// compact forgets the log as far as it may go. It is one of the things that make trouble, so it ends with the faults.
func (m *member) compact() {
	to := m.keeps.Compact(m.disk, m.w.swarm.kept())
	if !m.w.faulty || to <= m.disk.base {
		return
	}
	if m.disk.full {
		m.logFails("no space left")
		return
	}
	m.w.say("%v: compacts its log up to entry %d", m, to)
	m.disk.compact(to)
	m.w.stats.Compactions++
	m.dies()
}

// An entry counts as entrySize bytes: so few make up what the rule wants to have between two checkpoints.
const entrySize = 100

// kept is how many bytes of the log are kept for others.
func (s *swarm) kept() int64 { return int64(s.keepEntries) * entrySize }

// BytesAfter and Surplus are what production's retention asks of the log.
func (d *disk) BytesAfter(index uint64) int64 {
	last, err := d.view.LastIndex()
	must(err)
	return int64(last-min(last, index)) * entrySize
}

func (d *disk) Surplus(keepBytes int64) uint64 {
	last, err := d.view.LastIndex()
	must(err)
	return last - min(last, uint64(keepBytes/entrySize))
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
		m.disk.restart(c, behind(m.w.truth.voting.joins, m, c))
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
	disk := diskOf(m.w, l.Leader)
	lostToo := disk.most == 0 // the disk of who has said it
	if !lostToo && l.Have >= disk.begins && l.Have+m.w.swarm.keepEntries >= disk.most {
		m.w.violation("%v: is lost at entry %d, and member %d, which had %d entries, keeps %d", m, l.Have, l.Leader,
			disk.most, m.w.swarm.keepEntries)
	}
	m.w.say("%v: has entry %d, member %d keeps those from %d on", m, l.Have, l.Leader, l.First)
	m.stop(false)
	m.reclone()
	return true
}

// reclone has a member that is down copy the database of that with the newest checkpoint, and start with the log it
// has. In half of the runs that takes a while: the donor may end in the middle of it, or the member, which then has its
// old database.
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
	if mix(m.w.seed^0xc763)%2 > 0 { // copies take no time
		copied(m, donor)
		return
	}
	r, life := m.loss.times, donor.incarnation
	m.loss.copying++
	mine := m.loss.copying
	m.w.say("%v: begins to copy the database of %v", m, donor)
	if m.w.o.Planted == "restarted-before-copied" {
		c, err := engine.DecodeCheckpoint(donor.db.saved.data)
		must(err)
		m.disk.restart(c, c.Conf())
	}
	if m.w.faulty && r.chance(300) {
		m.startLater(r.between(100, 20_000)) // it is killed, and begins anew
	}
	m.w.after(r.between(1000, 30_000), func() {
		switch {
		case mine != m.loss.copying:
		case donor.incarnation != life || !donor.canDonate(m):
			m.w.stats.Members.BrokenOff++
			m.reclone()
		default:
			copied(m, donor)
		}
	})
}

// copied gives a member the copy that it has taken.
func copied(m, donor *member) {
	m.w.stats.Clones++
	m.w.say("%v: cloned anew from %v, checkpoint of entry %d", m, donor, donor.db.saved.index)
	m.db.die()
	m.db = donor.db.clone(m)
	switch m.w.o.Planted {
	case "copied-without-log":
		m.disk = newDisk(voters(m.w))
	case "copied-without-votes":
		m.disk.durable(write{state: &ordering.HardState{Term: new(uint64), Vote: new(uint64), Commit: new(uint64)}})
	}
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
	if m == to || !m.up || m.db.dead || !m.w.truth.voting.joins.lends(m, to) {
		return false
	}
	return to.disk.base == 0 && m.disk.base == 0 || m.db.saved != nil && m.db.saved.index >= to.disk.base
}
