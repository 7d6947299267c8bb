package sim

import (
	"slices"

	"github.com/tuttidb/tutti/internal/bootstrap"
	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/ordering"
)

// A machine without a log hears of the list from the others, takes a copy of a database, and makes its log when all
// others have said that they know of none of its (package bootstrap).

// others are the members that one without a log asks: those of the newest list that somebody who knows it has.
func (j *joins) others(m *member) (list []*member) {
	if j == nil {
		return m.w.members
	}
	l := j.heard(m)
	for _, o := range m.w.members {
		if j.lists(l, o.id) {
			list = append(list, o)
		}
	}
	return list
}

// heard is the list by which a machine goes that has no log.
func (j *joins) heard(m *member) *listed {
	l := m.db.listed
	for _, o := range m.w.members {
		x := o.db.listed
		if o.up && j.answers(o, m) && x != nil && (l == nil || x.roster.Ordinal > l.roster.Ordinal) {
			l = x
		}
	}
	return l
}

// answers reports whether a member talks to one that has no log; so does another one that has none yet.
func (j *joins) answers(o, m *member) bool {
	switch {
	case o == m || !reach(m, o):
		return false
	case o.up:
		return j == nil || j.knows(o, m.id)
	}
	return j != nil && o.disk.empty && o.loss.waits && !o.away && !j.stays(o) && j.lists(j.heard(o), m.id)
}

// facts adds to what a member says of itself whom the order has added, as far as it knows, and of one without a log
// whose database it has.
func (j *joins) facts(m *member, f *bootstrap.Facts) {
	if j == nil {
		return
	}
	if l := m.db.listed; l != nil {
		f.Later = slices.Clone(l.roster.Later)
	}
	if m.disk.empty && m.db.member != m.id {
		f.Contents.CopyOf = m.db.member
	}
}

// lends reports whether a member lends its database to another one: they know each other as members.
func (j *joins) lends(m, to *member) bool {
	return j == nil || j.lists(m.db.listed, m.id) && j.lists(m.db.listed, to.id)
}

// copies has a machine that has nothing take a copy of a database of whoever lends one. It may be killed meanwhile, and
// its donor may end.
func (j *joins) copies(m *member) {
	r := m.loss.times
	var donor *member
	for _, o := range j.others(m) {
		if j.answers(o, m) && o.open && o.canDonate(m) && (donor == nil || r.chance(500)) {
			donor = o
		}
	}
	if donor == nil {
		m.startLater(10_000)
		return
	}
	m.w.say("%v: begins to copy the database of %v", m, donor)
	m.loss.copying++
	mine, life := m.loss.copying, donor.incarnation
	m.w.after(r.between(1000, 60_000), func() {
		switch {
		case mine != m.loss.copying || !m.disk.empty || m.up:
		case donor.incarnation != life || !donor.canDonate(m):
			m.w.stats.Members.BrokenOff++
			m.start()
		default:
			m.w.stats.Clones++
			m.db.die()
			m.db = donor.db.clone(m)
			m.startLater(r.between(100, 20_000))
		}
	})
}

// begins makes the log of a machine that has a copy. It begins with those as voters with whom the cluster began, unless
// the copy's checkpoint says others.
func (j *joins) begins(m *member) {
	if j == nil {
		return
	}
	m.w.say("%v: begins its log with a copy of the database of member %d, up to ordinal %d", m, m.db.member,
		m.db.progress)
	voters := j.w.swarm.members
	if l := m.db.listed; l != nil {
		voters = len(l.roster.First)
	}
	notes := m.disk.notes
	m.disk = newDisk(voters)
	m.disk.notes = notes
	if m.w.o.Planted == "begun-with-todays-list" {
		m.disk.voters = nil
		for _, n := range j.numbers(m.db.listed) {
			m.disk.voters = append(m.disk.voters, uint64(n))
		}
		m.disk.reload()
	}
	j.changed.begun[m.id] = true
}

// behind is the configuration behind a checkpoint at which a member's log begins anew.
func behind(j *joins, m *member, c *engine.Checkpoint) *ordering.ConfState {
	if j == nil || m.w.o.Planted != "configuration-of-the-list" {
		return c.Conf()
	}
	conf := &ordering.ConfState{}
	for _, n := range j.numbers(m.db.listed) {
		conf.Voters = append(conf.Voters, uint64(n))
	}
	return conf
}

// votesIn reports whether a configuration has a member as voter.
func votesIn(c *ordering.ConfState, member uint32) bool {
	return slices.Contains(c.GetVoters(), uint64(member)) || slices.Contains(c.GetVotersOutgoing(), uint64(member))
}
