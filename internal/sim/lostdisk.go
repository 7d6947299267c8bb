package sim

import (
	"fmt"
	"slices"

	"github.com/tuttidb/tutti/internal/bootstrap"
	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/ordering"
)

// In some runs one member loses its disk: its log and its database. It comes back with nothing, and asks the others
// whether it may make a log (package bootstrap). As a rule one of them has heard of it; then it asks with what it may
// begin another.

// lostDiskOneIn is in how many runs a disk is lost.
const lostDiskOneIn = 8

const lostDiskPlanted = "lost-disk-votes"

// lostDiskBugs show only where a disk is lost.
var lostDiskBugs = []string{lostDiskPlanted, "readmitted-at-once", "readmitted-undecided",
	"begun-in-old-incarnation", "begun-without-asking-all"}

// loss is what a member is in that loses its disk, or was away for longer than the log is kept.
type loss struct {
	waits   bool    // it has no log, and has asked the others
	asking  bool    // with what it may begin another log, see asksAgain
	copying int     // counts copies that it has begun, and its starts
	times   *random // how long its copies take
	blow    *member // is cut off before the disk is lost; when there is a log again, whoever leads crashes
}

// loseDisk draws whether, when and whose disk is lost, from a source of its own: other runs stay as they are.
func (w *world) loseDisk(seed uint64) {
	r := newRandom(mix(seed ^ 0xd15c))
	planted := slices.Contains(lostDiskBugs, w.o.Planted)
	if !planted && (!w.apart("") || r.intn(lostDiskOneIn) > 0) || len(w.members) < 3 || w.truth.voting.witness != nil {
		return
	}
	m := w.members[r.intn(len(w.members))]
	at := r.between(w.swarm.safety/10, w.swarm.safety*3/4)
	if r.chance(500) {
		// What is decided from then on is nowhere but there and at whoever leads, until the member asks.
		m.loss.blow = w.members[(int(m.id)+r.intn(len(w.members)-1))%len(w.members)]
		w.after(max(0, at-r.between(1000, 100_000)), func() { w.net.isolate(m.loss.blow, true) })
	}
	w.after(at, func() {
		if w.truth.voting.needs(m) || !w.truth.voting.joins.mayLose(m) { // nobody could go on, but by force
			if m.loss.blow != nil {
				w.net.isolate(m.loss.blow, false)
			}
			return
		}
		w.say("%v: its disk is lost", m)
		w.stats.Members.LostDisks++
		if m.up {
			m.stop(true)
		}
		m.db.die()
		m.db = newDatabase(w, m, w.base(m.id))
		m.disk = newDisk(voters(w))
		m.disk.empty, m.loss.waits = true, false
		m.startLater(r.between(1000, 300_000))
	})
}

// mayBegin reports whether a member has a log, or makes one now.
func (m *member) mayBegin() bool {
	if !m.disk.empty || m.loss.asking {
		return !m.disk.empty
	}
	j := m.w.truth.voting.joins
	facts := func(of *member) *bootstrap.Facts {
		f := &bootstrap.Facts{Member: of.id, Known: of.disk.notes.Members, Contents: &bootstrap.Contents{}}
		j.facts(of, f)
		if !of.disk.empty {
			f.Incarnation = of.incarnation
		}
		return f
	}
	var others []bootstrap.Heard
	for _, o := range j.others(m) {
		if o != m {
			h := bootstrap.Heard{Member: o.id}
			if j.answers(o, m) {
				h.Facts = facts(o)
			}
			others = append(others, h)
		}
	}
	d := bootstrap.Decide(facts(m), others, memberName)
	if m.w.o.Planted == lostDiskPlanted {
		d.Do = bootstrap.Create
	}
	m.loss.waits = true
	m.w.say("%v: has no log: %v %s", m, d.Do, d.Why)
	switch d.Do {
	case bootstrap.Create:
		j.begins(m)
		m.disk.empty = false
		return true
	case bootstrap.Copy:
		j.copies(m)
	case bootstrap.Ask:
		asksAgain(m, m.w.rnd.next())
	default:
		m.startLater(10_000)
	}
	return false
}

func memberName(member uint32) string { return fmt.Sprint("member ", member) }

// asksAgain has a member that has lost its log ask the others until it may begin another, with a copy of a database.
func asksAgain(m *member, question uint64) {
	if m.loss.asking = !m.away; m.away {
		return // it ends, and asks another question when it is back
	}
	again := 20_000
	if m.loss.blow != nil {
		again = 2000
		m.w.net.isolate(m.loss.blow, false)
	}
	answers, donor := answersTo(m, question)
	members := len(m.w.truth.voting.joins.others(m))
	if m.w.o.Planted == "begun-without-asking-all" {
		members = 1
	}
	begins, why := bootstrap.BeginAgain(members, answers, memberName)
	if begins == nil || donor == nil {
		m.w.say("%v: %s", m, why)
		m.w.after(m.w.rnd.between(100, int64(again)), func() { asksAgain(m, question) })
		return
	}
	m.w.say("%v: begins a log in term %d, and copies from %v", m, begins.Terms[0], donor)
	m.w.stats.Members.BegunAgain++
	if m.incarnation = begins.Incarnation; m.w.o.Planted == "begun-in-old-incarnation" {
		m.incarnation = 0
	}
	m.db.die()
	m.db = donor.db.clone(m)
	m.disk.begin(begins.Terms[0])
	m.loss.asking = false
	m.startLater(m.w.rnd.between(100, 50_000))
	if l := m.w.members[max(1, donor.engine.View().Leader)-1]; m.loss.blow != nil && m.w.faulty {
		m.w.after(m.w.rnd.between(0, 3000), func() { m.w.crashAs(l, crashMachine) })
	}
}

// isolate cuts a member off, or connects it again.
func (n *network) isolate(m *member, cut bool) {
	for i := range n.cut {
		if i != int(m.id)-1 && n.w.faulty {
			n.cut[i][m.id-1], n.cut[m.id-1][i] = cut, cut
		}
	}
}

// answersTo is what the others answer to a member that has lost its log, and one of whom it may copy the database; nil if
// there is none.
func answersTo(m *member, question uint64) (answers []*bootstrap.Answer, donor *member) {
	for _, o := range m.w.members {
		if o == m || !o.up || !o.open || !m.w.truth.voting.joins.answers(o, m) {
			continue
		}
		a := &bootstrap.Answer{Member: o.id, Known: o.disk.notes.Members[m.id], Terms: map[uint64]uint64{0: 0}}
		if term, ok := engine.Readmit(o.engine, m.id, question); ok {
			a.Terms[0] = term
		}
		o.wake()
		answers = append(answers, a)
		if o.canDonate(m) && (donor == nil || m.w.rnd.chance(500)) {
			donor = o
		}
	}
	return answers, donor
}

// reach reports whether two members can talk to each other.
func reach(m, o *member) bool {
	cut := m.w.net.cut
	return !o.paused && !cut[m.id-1][o.id-1] && !cut[o.id-1][m.id-1]
}

// begin makes a log that votes in no older term.
func (d *disk) begin(term uint64) {
	d.empty = false
	d.durable(write{state: &ordering.HardState{Term: &term, Vote: new(uint64), Commit: new(uint64)}})
}

// knows notes that a member hears of another one's log, before any frame of it.
func (d *disk) knows(o *member) {
	d.notes, _ = d.notes.Heard(&bootstrap.Facts{Member: o.id, Incarnation: o.incarnation})
}

// present are the members that have a log, as far as is known of the order.
func (w *world) present() (list []*member) {
	for _, m := range w.members {
		if !m.disk.empty && !w.truth.voting.joins.outside(m) {
			list = append(list, m)
		}
	}
	return list
}

// lacks is 1 for a member that has no log yet, or is none any more.
func (m *member) lacks() int { return m.w.truth.voting.joins.useless(m) }
