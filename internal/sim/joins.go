package sim

import (
	"fmt"
	"reflect"
	"slices"

	"github.com/tuttidb/tutti/internal/config"
	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/membership"
	"github.com/tuttidb/tutti/internal/ordering"
	"github.com/tuttidb/tutti/internal/quorum"
	"github.com/tuttidb/tutti/internal/session"
)

// In some runs there are spare machines beside the members. An operator has the order add them, replace members by
// them, remove others, and rank or demote them (operator.go). The list of members is production's table (package
// membership), which each member has in its database: so a copy has it, and a crash may lose what is newer. Everybody
// goes by it as a node does: who talks to whom, who gets the log and who votes. Who begins anew is in newcomer.go; what
// is judged of it in changed.go.

// joinsOneIn is in how many runs there are spares; not where there is a witness, or definers.
const joinsOneIn = 6

// joinBugs show only there.
var joinBugs = []string{"voter-without-log", "replaced-before-it-votes", "begun-with-todays-list", "removed-goes-on",
	"removed-keep-each-other", "copies-forgotten",
	"configuration-of-the-list"}

// machinesMax is how many members and spares there are at most.
const machinesMax = 9

// joins are the members of a run in which they come and go; nil: they do not.
type joins struct {
	w        *world
	rnd      *random
	spares   int
	tables   []tableAt // behind each ordinal that has changed the list, as the first to apply it has shown
	on, off  map[uint32]bool
	refused  map[uint32]int64 // since when nobody talks to a member that was removed
	operator operator
	changed  changed
}

// tableAt is the list of members behind an ordinal.
type tableAt struct {
	ordinal uint64
	members *listed
}

// listed is the list of members as a database has it; nil: nothing was ever changed.
type listed struct {
	table  *membership.Table
	roster *config.Roster
}

// newJoins draws whether there are any.
func newJoins(w *world) *joins {
	rnd := newRandom(mix(w.seed ^ 0x9e37a))
	planted := slices.Contains(joinBugs, w.o.Planted)
	if !planted && (!w.apart("") || rnd.intn(joinsOneIn) > 0) {
		return nil
	}
	if few := rnd.intn(2 * w.swarm.members); few < 2 && w.o.Members == 0 {
		w.swarm.members = 1 + few
	}
	j := &joins{w: w, rnd: rnd, spares: 1 + rnd.intn(2), on: map[uint32]bool{}, off: map[uint32]bool{},
		refused: map[uint32]int64{}}
	if j.spares = min(j.spares, machinesMax-w.swarm.members); j.spares == 0 {
		return nil
	}
	w.swarm.clockRate = w.swarm.clockRate[:w.swarm.members+j.spares]
	j.operator, j.changed = newOperator(j), newChanged()
	w.stats.Members.Spared++
	return j
}

// machines are how many members and spares a run begins with.
func machines(w *world) int {
	if j := w.truth.voting.joins; j != nil {
		return w.swarm.members + j.spares
	}
	return w.swarm.members
}

// nameOf is a member's name on the list; its address is made of it.
func nameOf(member uint32) string { return fmt.Sprint("m", member) }

func addressOf(member uint32) string { return nameOf(member) + ":1" }

// beginning is the list of the configuration.
func (j *joins) beginning() *membership.Table {
	var first []session.FirstMember
	for i := range j.w.swarm.members {
		n := uint32(i + 1)
		first = append(first, session.FirstMember{Number: n, Name: nameOf(n), Address: addressOf(n)})
	}
	return membership.Begun(first)
}

// next is the list behind a change of it; l itself if that is refused.
func (j *joins) next(l *listed, d *definition) *listed {
	table := j.beginning()
	if l != nil {
		table = l.table
	}
	next, refused := table.Next(d.member, d.ordinal, machines(j.w))
	if refused != nil {
		j.w.say("ordinal %d: a change of the list is refused: %v", d.ordinal, refused)
		return l
	}
	return &listed{next, next.Roster()}
}

// numbers are those of the members on a list.
func (j *joins) numbers(l *listed) (list []uint32) {
	if l == nil {
		for i := range j.w.swarm.members {
			list = append(list, uint32(i+1))
		}
		return list
	}
	for _, m := range l.roster.Members {
		list = append(list, m.Member)
	}
	return list
}

// lists reports whether a member is on a list.
func (j *joins) lists(l *listed, member uint32) bool {
	if l == nil {
		return int(member) <= j.w.swarm.members
	}
	return slices.ContainsFunc(l.roster.Members, func(m config.Member) bool { return m.Member == member })
}

// roles are those of the members on a list.
func (l *listed) roles() map[uint32]quorum.Role {
	roles := map[uint32]quorum.Role{}
	if l != nil {
		for _, m := range membership.ListedOf(l.roster, l.roster.Members).Members {
			roles[m.Member] = m.Role
		}
	}
	return roles
}

// newest is the list behind all that is known of the order.
func (j *joins) newest() *listed { return j.at(1<<64 - 1) }

// at is the list behind an ordinal.
func (j *joins) at(ordinal uint64) (l *listed) {
	for _, t := range j.tables {
		if t.ordinal <= ordinal {
			l = t.members
		}
	}
	return l
}

// extends notes what the list is behind an ordinal.
func (j *joins) extends(ordinal uint64, l *listed) {
	if l != j.newest() {
		judgeRemoval(j, l)
		j.tables = append(j.tables, tableAt{ordinal, l})
		j.w.say("ordinal %d: the members are %v", ordinal, j.numbers(l))
	}
}

// check judges that a member which has applied the order up to an ordinal has the list behind that.
func (j *joins) check(m *member) {
	if j == nil {
		return
	}
	is, want := m.db.listed, j.at(m.engine.Applied())
	if (is == nil) != (want == nil) || is != nil && !reflect.DeepEqual(is.roster, want.roster) {
		j.w.violation("%v: at ordinal %d it takes %v for the members, and they are %v", m, m.engine.Applied(),
			j.numbers(is), j.numbers(want))
	}
}

// look has a member's engine and what it knows of others go by its list, and ends a removed one once the order goes on
// without it, or nobody has talked to it for long.
func (j *joins) look(m *member) {
	l := m.db.listed
	if l == nil {
		engine.VotingOf(m.engine).Of(engine.List{})
		return
	}
	engine.VotingOf(m.engine).Of(membership.ListedOf(l.roster, l.roster.Members))
	m.peers.all = j.numbers(l)
	m.peers.table.Become(m.peers.all)
	if j.lists(l, m.id) {
		return
	}
	gets := slices.Contains(engine.VotingOf(m.engine).Readers(), m.id)
	seen := seenBy(j, m)
	if !seen.LeftOut() || seen.Connected > 0 && j.w.o.Planted == "removed-keep-each-other" {
		j.refused[m.id] = j.w.now
	}
	if !gets || j.w.now-j.refused[m.id] > silentMicros {
		j.leaves(m)
	}
}

// seenBy counts the members that refuse a removed one, and those that it is connected with (transport.Known).
func seenBy(j *joins, m *member) (s membership.Seen) {
	for _, o := range j.w.members {
		switch counts := j.lists(m.db.listed, o.id) || j.w.o.Planted == "removed-keep-each-other"; {
		case o == m || !o.up || !counts || !reach(m, o):
		case j.talk(m, o):
			s.Connected++
		default:
			s.Refuse++
		}
	}
	return s
}

// leaves ends the node of a member that was removed, for good.
func (j *joins) leaves(m *member) {
	j.w.say("%v: was removed, and ends", m)
	j.w.stats.Members.Left++
	j.off[m.id] = true
	j.w.after(0, func() {
		if m.up {
			m.stop(false)
		}
	})
}

// stays reports whether a member's node does not run: it has yet to come, or has gone for good.
func (j *joins) stays(m *member) bool {
	return j != nil && (j.off[m.id] || int(m.id) > j.w.swarm.members && !j.on[m.id])
}

// knows reports whether a member talks to another one: it is on its list, or gets the log yet.
func (j *joins) knows(m *member, other uint32) bool {
	if j.lists(m.db.listed, other) {
		return true
	}
	return m.up && m.db.listed != nil && slices.Contains(engine.VotingOf(m.engine).Readers(), other)
}

// talk reports whether two members are connected as far as both know each other.
func (j *joins) talk(a, b *member) bool { return j == nil || j.knows(a, b.id) && j.knows(b, a.id) }

// outside reports whether a machine is no member, as far as is known of the order.
func (j *joins) outside(m *member) bool { return j != nil && !j.lists(j.newest(), m.id) }

// useless is 1 for a machine that no decision needs: it has no log, or nobody goes by it any more.
func (j *joins) useless(m *member) int {
	if m.disk.empty || j != nil && !j.needed(m) {
		return 1
	}
	return 0
}

// needed reports whether who decides may need a machine: it is a member, or gets the log yet.
func (j *joins) needed(m *member) bool {
	return j == nil || !j.outside(m) || ordering.In(j.configuration(), m.id)
}

// configuration is the newest one that is known to be decided.
func (j *joins) configuration() *ordering.ConfState { return j.newestOf(j.w.truth.voting.decided) }

// newestOf is the newest one of those that are decided; that of the beginning if there is none.
func (j *joins) newestOf(list []ordering.Configured) *ordering.ConfState {
	if j == nil {
		return nil
	}
	if len(list) > 0 {
		return list[len(list)-1].State
	}
	c := &ordering.ConfState{}
	for i := range j.w.swarm.members {
		c.Voters = append(c.Voters, uint64(i+1))
	}
	return c
}

// home is where a client goes on: where it is, or if it is free, without a session, and that is no member that could
// serve it, at another one. Who has just come gets a client.
func (j *joins) home(at *member, free bool) *member {
	if j == nil || !free {
		return at
	}
	if i := slices.IndexFunc(j.w.members, func(m *member) bool { return j.changed.awaits[m.id] }); i >= 0 {
		delete(j.changed.awaits, j.w.members[i].id)
		return j.w.members[i]
	}
	good := func(m *member) bool { return m.peers != nil && !j.stays(m) && !j.outside(m) && !m.disk.empty }
	if good(at) {
		return at
	}
	for _, i := range j.rnd.order(len(j.w.members)) {
		if m := j.w.members[i]; good(m) {
			return m
		}
	}
	return at
}

// mayLose reports whether the cluster can go on if a member loses its disk, until it has another log: the others must
// have what it takes to readmit it.
func (j *joins) mayLose(m *member) bool {
	if j == nil {
		return true
	}
	c := j.configuration()
	return !j.stays(m) && !j.outside(m) && len(c.GetVoters()) > 2 && len(c.GetVotersOutgoing()) == 0 &&
		len(j.numbers(j.newest())) > 2
}

// enough sorts machines, given as indexes, so that the first ones can decide, and returns how many that takes, as
// voting.enough does: all that may be needed while who votes, or who the members are, may be about to change.
func (j *joins) enough(order []int) int {
	w, v := j.w, &j.w.truth.voting
	rank := func(i int) int { return v.behind(j.decided(), w.members[i]) }
	slices.SortStableFunc(order, func(a, b int) int {
		switch x, y := w.members[a], w.members[b]; {
		case j.useless(x) != j.useless(y):
			return j.useless(x) - j.useless(y)
		case rank(a) != rank(b):
			return rank(a) - rank(b)
		}
		return v.silent(j.decided(), a) - v.silent(j.decided(), b)
	})
	insiders := 0
	view := quorum.View{Changes: true, Roles: j.newest().roles(), Members: j.numbers(j.newest())}
	for i, m := range w.members {
		if j.useless(m) == 0 {
			insiders++
		}
		if v.silent(j.decided(), i) == 0 {
			view.Voters = append(view.Voters, m.id)
		}
		if j.useless(m) == 0 && rank(i) == 0 {
			view.There = append(view.There, m.id)
		}
	}
	if len(j.configuration().GetVotersOutgoing()) > 0 || changing(w, j.decided().Index) || j.pending() {
		return insiders
	}
	var lost []uint32
	for k := insiders - 1; k > 0; k-- {
		if lost = append(lost, w.members[order[k]].id); !view.AtOnce(lost).GoesOn {
			return k + 1
		}
	}
	return 1
}

// decided is the newest configuration, with its entry.
func (j *joins) decided() ordering.Configured {
	d := ordering.Configured{State: j.configuration()}
	if list := j.w.truth.voting.decided; len(list) > 0 {
		d.Index = list[len(list)-1].Index
	}
	return d
}

// pending reports whether the configuration does not follow the list yet, or a change of the list is under way.
func (j *joins) pending() bool {
	newest, c := j.newest(), j.configuration()
	for _, m := range j.w.members {
		votes := slices.Contains(c.GetVoters(), uint64(m.id))
		if j.lists(newest, m.id) != ordering.In(c, m.id) || votes && newest.roles()[m.id].Learner {
			return true
		}
	}
	return j.operator.under != nil
}

// settled reports whether nothing is to be changed any more.
func (j *joins) settled() bool { return j == nil || j.operator.over() && !j.pending() }

// grace is for how much longer than others a run may take to end what is under way.
func (j *joins) grace() int64 {
	if j == nil {
		return 0
	}
	return 2 * grace
}
