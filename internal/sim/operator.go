package sim

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/quorum"
	"github.com/tuttidb/tutti/internal/replacement"
	"github.com/tuttidb/tutti/internal/semantics"
	"github.com/tuttidb/tutti/internal/writeset"
)

// operator has the order change the list of members. He does one job after the other, looks at the cluster through any
// node that has a majority, and rests while only a majority is well. All his jobs end when all are well.
type operator struct {
	j     *joins
	jobs  []job
	under *ordered
	from  int64            // when he begins
	miss  map[uint32]int64 // since when a member that is to be replaced cannot be reached
}

// job is what the operator wants.
type job struct {
	kind jobKind
	replacement.Change
	started bool
	early   bool // the old member was removed first
}

type jobKind uint8

const (
	jobAdd jobKind = iota
	jobReplace
	jobRemove
	jobRank
	jobDemote
	jobPromote
)

// ordered is a change that was handed to the order; it plays its session.
type ordered struct {
	o     *operator
	m     *member
	life  uint64
	at    int64
	seq   uint64
	a     *attempt
	ended bool
}

const (
	// missedLong is for how long a member cannot be reached that is removed before it is replaced.
	missedLong = 300_000
	// changePatience is for how long a change is waited for.
	changePatience = 300_000
)

// newOperator draws what he does.
func newOperator(j *joins) operator {
	o := operator{j: j, from: j.rnd.between(0, j.w.swarm.safety/4), miss: map[uint32]int64{}}
	for range j.spares {
		kind := jobReplace
		if j.rnd.chance(350) {
			kind = jobAdd
		}
		o.jobs = append(o.jobs, job{kind: kind})
		if more := []jobKind{jobRemove, jobRemove, jobRank, jobDemote, jobPromote}; j.rnd.chance(600) {
			o.jobs = append(o.jobs, job{kind: more[j.rnd.intn(len(more))]})
		}
	}
	return o
}

// begin has him begin.
func (j *joins) begin() {
	if j != nil {
		j.w.after(j.operator.from, j.operator.round)
	}
}

// over reports whether he has nothing more to do.
func (o *operator) over() bool { return len(o.jobs) == 0 && o.under == nil }

// round looks at the cluster, and does what comes next.
func (o *operator) round() {
	w := o.j.w
	w.after(o.j.rnd.between(5000, 40_000), o.round)
	if w.phase > phaseMajority {
		o.switchesOff()
	}
	if w.phase == phaseQuiet || w.phase == phaseMajority || len(o.jobs) == 0 && o.under == nil {
		return
	}
	if c := o.under; c != nil {
		if !c.ended && c.m.up && c.m.incarnation == c.life && w.now-c.at < changePatience {
			return
		}
		o.under = nil
	}
	m := o.node()
	if m == nil || len(o.jobs) == 0 {
		return
	}
	v := o.view(m)
	if !v.AtOnce(nil).GoesOn {
		return
	}
	if o.does(m, &o.jobs[0], v) {
		o.jobs = o.jobs[1:]
	}
}

// switchesOff ends the nodes of members that were removed, have not heard of it, and talk to nobody who could tell
// them.
func (o *operator) switchesOff() {
	j := o.j
	for _, m := range j.w.members {
		talks := slices.ContainsFunc(j.w.members, func(o *member) bool { return o != m && o.up && j.talk(m, o) })
		if m.up && !talks && !j.needed(m) && j.lists(m.db.listed, m.id) {
			j.w.say("%v: was removed, has not heard of it, and is switched off", m)
			j.off[m.id] = true
			m.stop(false)
		}
	}
}

// node is one that answers him.
func (o *operator) node() *member {
	for _, i := range o.j.rnd.order(len(o.j.w.members)) {
		if m := o.j.w.members[i]; m.up && m.open && !m.paused && !m.halted && o.j.lists(m.db.listed, m.id) {
			return m
		}
	}
	return nil
}

// view is who votes and who is there, as a node says it.
func (o *operator) view(m *member) quorum.View {
	v := quorum.View{Changes: true, Members: o.j.numbers(m.db.listed), Roles: m.db.listed.roles()}
	for _, n := range v.Members {
		if engine.VotingOf(m.engine).Votes(n) {
			v.Voters = append(v.Voters, n)
		}
		if o.state(m, n) != replacement.Unreachable {
			v.There = append(v.There, n)
		}
	}
	return v
}

// state is how another member is, as a node knows it.
func (o *operator) state(m *member, other uint32) string {
	now := m.w.now
	_, alive := m.peers.table.Of(now, other)
	switch {
	case other == m.id || slices.Contains(m.peers.table.Synced(now), other):
		return replacement.Synced
	case alive:
		return "behind"
	}
	return replacement.Unreachable
}

// situation is what a replacement goes by.
func (o *operator) situation(m *member, x *job, v quorum.View) replacement.Situation {
	s := replacement.Situation{Votes: []replacement.Votes{{Database: "main", View: v, Names: map[uint32]string{}}}}
	for _, n := range v.Members {
		is := replacement.Member{Name: nameOf(n), Address: addressOf(n), Role: replacement.Voter,
			Rank: strconv.Itoa(v.Roles[n].Rank), State: o.state(m, n)}
		if v.Roles[n].Learner {
			is.Role = replacement.Learner
		}
		s.Members = append(s.Members, is)
		s.Votes[0].Names[n] = is.Name
		switch since, missed := o.miss[n]; {
		case is.Name != x.Old:
		case is.State != replacement.Unreachable:
			delete(o.miss, n)
		case !missed:
			o.miss[n] = m.w.now
		default:
			s.Missed = m.w.now-since >= missedLong
		}
	}
	return s
}

// does what comes next of a job at a node, and reports whether it has ended.
func (o *operator) does(m *member, x *job, v quorum.View) (ended bool) {
	j := o.j
	if !x.started {
		x.started = true
		if !o.starts(m, x, v) {
			return true
		}
		j.w.say("%v: the operator begins %v", m, *x)
	}
	is := numberOf(x.Name)
	switch x.kind {
	case jobAdd:
		if !slices.Contains(v.Members, is) {
			o.orders(m, semantics.Membership{Does: semantics.AddsMember, Name: x.Name, Address: x.Address})
			return false
		}
		return o.state(m, is) == replacement.Synced && v.Settled()
	case jobReplace:
		return o.replaces(m, x, v)
	case jobRemove:
		if !slices.Contains(v.Members, is) {
			return true
		}
		if v.Removed(is).GoesOn {
			o.orders(m, semantics.Membership{Does: semantics.RemovesMember, Name: x.Name})
		}
	case jobRank:
		rank := int32(j.rnd.intn(3) - 1)
		o.orders(m, semantics.Membership{Does: semantics.RanksMember, Name: x.Name, Rank: rank})
		return true
	case jobDemote:
		if v.Demoted(is).GoesOn {
			o.orders(m, semantics.Membership{Does: semantics.DemotesMember, Name: x.Name})
		}
		return true
	case jobPromote:
		o.orders(m, semantics.Membership{Does: semantics.PromotesMember, Name: x.Name})
		return true
	}
	return false
}

// starts draws whom a job is about, and reports whether there is anybody.
func (o *operator) starts(m *member, x *job, v quorum.View) bool {
	j := o.j
	some := v.Members[j.rnd.intn(len(v.Members))]
	switch x.kind {
	case jobAdd, jobReplace:
		next := uint32(j.w.swarm.members + 1)
		for j.on[next] {
			next++
		}
		j.on[next] = true
		x.Name, x.Address = nameOf(next), addressOf(next)
		if x.kind == jobReplace {
			x.Old = nameOf(some)
		}
		j.w.after(j.rnd.between(0, 100_000), j.w.members[next-1].start)
	default:
		x.Name = nameOf(some)
		if x.kind == jobRemove {
			return len(v.Members) > 2
		}
	}
	return true
}

// replaces does what comes next of a replacement, and reports whether it has ended.
func (o *operator) replaces(m *member, x *job, v quorum.View) bool {
	s := o.situation(m, x, v)
	next := x.Next(s)
	switch {
	case next.Refused != nil:
		if m.db.listed == o.j.newest() {
			o.j.w.violation("%v: %v cannot go on: %v", m, *x, next.Refused)
		}
		return false // it has yet to hear of the list
	case next.Procedure == "":
		if next.Waits == "" {
			o.j.w.stats.Members.Replaced++
		}
		return next.Waits == ""
	}
	c := semantics.Membership{Name: next.Takes[0]}
	for does := semantics.AddsMember; does.Valid(); does++ {
		if does.Procedure() == next.Procedure {
			c.Does = does
		}
	}
	switch c.Does {
	case semantics.AddsMember:
		c.Address = next.Takes[1]
	case semantics.RanksMember:
		rank, err := strconv.Atoi(next.Takes[1])
		must(err)
		c.Rank = int32(rank)
	case semantics.RemovesMember:
		if x.early = s.Missed; x.early {
			o.j.changed.early = true
		}
	}
	o.orders(m, c)
	return false
}

// numberOf is that of a member of a name; zero of none.
func numberOf(name string) (n uint32) {
	_, _ = fmt.Sscanf(name, "m%d", &n)
	return n
}

// orders hands a change to the order.
func (o *operator) orders(m *member, c semantics.Membership) {
	w := o.j.w
	w.tags++
	d := &definition{tag: w.tags, member: c}
	m.slots++
	m.seq++
	a := &attempt{tag: d.tag, home: m.id, define: d, start: w.now, base: m.engine.Applied(),
		id: writeset.TxID{Member: m.id, Incarnation: m.incarnation, Seq: m.seq}}
	w.processes++
	a.process = w.processes
	ws := d.writeset(m.db.at(catalogKey, m.db.visible))
	if !m.engine.Submit(engine.Submission{Kind: engine.KindStatement, Seq: m.seq, Slot: m.slots, Base: a.base,
		Held: a.base, Payload: ws.Append(nil)}) {
		return
	}
	w.say("%v: is asked: %v %s", m, c.Does.Procedure(), c.Name)
	w.history = append(w.history, a)
	w.truth.attempts[a.id] = a
	o.under = &ordered{o: o, m: m, life: m.incarnation, at: w.now, seq: m.seq, a: a}
	m.submitted[m.seq] = o.under
	m.wake()
}

func (c *ordered) aborted(engine.Aborted) {
	c.a.outcome = outcomeFail
	c.ends()
}

func (c *ordered) decided(engine.Task) { panic("sim: a change of the list is no transaction") }

func (c *ordered) wasApplied(bool) {
	c.a.outcome = outcomeOK
	c.ends()
}

func (c *ordered) ends() {
	c.ended, c.a.end = true, c.m.w.now
	delete(c.m.submitted, c.seq)
}
