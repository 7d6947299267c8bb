package sim

import (
	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/ordering"
)

// pumping is what a life has on the agenda.
type pumping struct {
	awake     bool  // a pump
	gathering bool  // a release of held proposals
	busy      bool  // it is carrying out a Ready
	last      int64 // when it last began to
}

// wake puts a pump on the agenda.
func (m *member) wake() {
	if m.pumping.awake || m.pumping.busy {
		return
	}
	m.pumping.awake = true
	m.w.after(m.w.rnd.between(5, 40)*m.slowness(m.w.swarm.slowNode), m.in(func() {
		m.pumping.awake = false
		m.pump()
	}))
}

// pump carries out one Ready: early frames, what is committed, the write, then the late
// frames. Meanwhile the engine takes inputs. The member may crash between any two steps.
func (m *member) pump() {
	if m.isLost() || m.pumping.busy {
		return
	}
	if !m.engine.HasReady() {
		m.gather()
		return
	}
	m.pumping.busy = true
	rd := m.engine.Ready()
	if err := engine.Unread(m.engine); err != nil {
		panic(err) // all members are of one build
	}
	m.w.truth.voting.proposes(m.pumping.last, rd.Entries)
	m.pumping.last = m.w.now
	m.w.truth.voting.configured(m, rd.Configured)
	m.w.truth.voting.gives(m, rd.Delivered)
	if m.frames(rd.Early); m.dies() {
		return
	}
	m.w.note(uint64(m.id), uint64(len(rd.Delivered)), m.engine.Ordinal())
	for _, a := range rd.Aborted {
		m.w.stats.Aborted++
		if s := m.submitted[a.Seq]; s != nil {
			s.aborted(a)
		}
	}
	m.locked(rd.Locks)
	if rd.Group != nil {
		m.startGroup(rd.Group)
	}
	m.openGate() // Ready may have passed ordinals without a group
	if m.dies() {
		return
	}
	m.write(rd)
}

// syncMost is what a sync takes at most: one that outlasts the faults must leave most of the time that is then left for
// the cluster to recover.
const syncMost = grace / 5

// write puts a Ready's entries on disk and goes on with it when they are durable.
func (m *member) write(rd engine.Ready) {
	w, s := m.w, &m.w.swarm
	writes := rd.HardState != nil || len(rd.Entries)+len(rd.Configured) > 0
	switch {
	case writes && m.disk.full && w.o.Planted == "full-disk-ignored":
	case writes && m.disk.full:
		w.stats.FullDisks++
		m.logFails("no space left")
		return
	default:
		m.disk.append(rd.HardState, rd.Entries, rd.Configured...)
	}
	switch w.o.Planted {
	case "vote-not-written":
		if n := len(m.disk.journal); n > 0 && writes {
			m.disk.journal[n-1].state = nil
		}
	case "late-is-early":
		m.frames(rd.Late)
		rd.Late = nil
	}
	if m.dies() {
		return
	}
	if !rd.Sync || w.o.Planted == "sync-ignored" {
		m.finish(rd)
		return
	}
	d := w.rnd.between(s.syncMin, s.syncMax) * m.slowness(s.slowDisk)
	if w.faulty && w.rnd.chance(s.slowPerMille) {
		d = min(d*w.rnd.between(2, 100), syncMost)
	}
	n := len(m.disk.journal)
	w.after(d, m.in(func() {
		if w.faulty && w.rnd.chance(s.syncFailPerMille) {
			w.stats.FailedSyncs++
			m.disk.syncFails(n)
			if w.o.Planted != "sync-error-ignored" {
				m.logFails("a sync failed")
				return
			}
		} else {
			m.disk.sync(n)
		}
		m.finish(rd)
	}))
}

// finish ends a Ready whose entries are durable.
func (m *member) finish(rd engine.Ready) {
	if m.dies() {
		return
	}
	m.frames(rd.Late)
	if m.dies() {
		return
	}
	m.engine.Advance()
	m.pumping.busy = false
	m.wake()
	m.gather()
}

// gather lets go, after a while, what the engine keeps back: proposals at a leader, groups at a member that only
// applies.
func (m *member) gather() {
	if m.pumping.gathering || !m.engine.Held() && !m.engine.Kept() {
		return
	}
	m.pumping.gathering = true
	m.w.after(m.w.rnd.between(500, 4000), m.in(func() {
		m.pumping.gathering = false
		if m.engine.Kept() {
			m.w.stats.Kept++
		}
		if m.engine.Held() && !m.pumping.busy {
			m.w.stats.Gathered++
		}
		m.engine.Release()
		m.engine.Issue()
		m.wake()
	}))
}

func (m *member) frames(fs []ordering.Message) {
	for _, f := range fs {
		if k := m.w.truth.voting.witness; k != nil && f.To == k.id {
			k.take(m, f.Data)
			continue
		}
		m.w.net.send(m, m.w.members[f.To-1], f)
	}
}

// logFails ends this life of the node because its log cannot be written.
func (m *member) logFails(why string) {
	m.w.say("%v: %s", m, why)
	m.shake()
	m.stop(false)
	m.startLater(m.w.rnd.between(100, 50_000))
}

// dies says whether the member crashes at this step.
func (m *member) dies() bool {
	if !m.w.faulty || !m.w.rnd.chance(m.w.swarm.stepCrashPerMille) {
		return false
	}
	m.w.stats.StepCrashes++
	m.w.crash(m)
	return !m.up
}
