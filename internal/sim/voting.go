package sim

import (
	"bytes"
	"cmp"
	"slices"

	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/ordering"
	"github.com/tuttidb/tutti/internal/quorum"
)

// In some runs of four members and more those that are gone stop voting, and vote again when they are back (package
// quorum). There members are down for longer, now and then.

// votingOneIn is in how many runs the configuration changes.
const votingOneIn = 3

// votingBugs show only where the configuration changes.
var votingBugs = []string{"claims-of-old-configuration", "claims-beyond-changes", "claims-of-learners",
	"configured-when-handed-out", "configuration-of-the-base"}

// voting is who votes, as the order has it.
type voting struct {
	goneTicks int
	copies    int // zero: as many as usually
	alone     alone
	rnd       *random
	decided   []ordering.Configured // changes, in their order
	newest    struct{ term, index uint64 }
	begun     int64 // since when that change may have been proposed
	healed    int64 // when a majority was
	removal   removal
	joins     *joins   // nil: nobody comes or goes by the order
	witness   *witness // nil: there is none
	roles     roles
}

func newVoting(w *world) voting {
	k := newWitness(w) // it may change how many members there are
	v := voting{rnd: newRandom(mix(w.seed ^ 0x707e)), alone: newAlone(w), witness: k}
	if v.otherwise(w) {
		return v
	}
	planted := slices.Contains(votingBugs, w.o.Planted) || slices.Contains(removalBugs, w.o.Planted)
	if v.changes(w, planted) {
		v.goneTicks = []int{25, 40, 100}[v.rnd.intn(3)]
		v.removal = newRemoval(w)
	}
	fewer := slices.Contains(aloneBugs, w.o.Planted)
	if rnd := newRandom(mix(w.seed ^ 0x0a10e)); fewer || w.apart("") && !planted && rnd.intn(aloneOneIn) == 0 {
		if v.copies = 1; v.goneTicks == 0 && (fewer || rnd.intn(votingOneIn) == 0) {
			v.goneTicks = []int{25, 40, 100}[rnd.intn(3)]
		}
		if v.goneTicks == 0 {
			v.copies = 0
		}
	}
	if v.goneTicks > 0 {
		v.roles = newRoles(w)
	}
	return v
}

// otherwise draws whether who votes is another matter: there is a witness, or members come and go by the order.
func (v *voting) otherwise(w *world) bool {
	if v.witness != nil {
		return true
	}
	if v.joins = newJoins(w); v.joins == nil {
		return false
	}
	v.goneTicks = []int{15, 25, 40}[v.rnd.intn(3)]
	return true
}

// changes reports whether who votes does: in some runs of four members and more, and where one becomes slow.
func (v *voting) changes(w *world, planted bool) bool {
	drawn := planted || w.apart("") && v.rnd.intn(votingOneIn) == 0
	return slowDown(w) || drawn && w.swarm.members > 3
}

// look has a member's engine go by the list of members as it knows it.
func (v *voting) look(m *member) {
	if v.joins != nil {
		v.joins.look(m)
		return
	}
	engine.VotingOf(m.engine).Of(v.witness.listed(v.roles.known(m, v.removal.list(m))))
}

// begin has members be down for long, one after the other, beside all other faults.
func (v *voting) begin(w *world) {
	if v.goneTicks == 0 {
		return
	}
	gone := int64(v.goneTicks) * w.swarm.tick
	w.after(v.rnd.between(gone/2, 2*gone), func() {
		if !w.faulty {
			return
		}
		if m := w.members[v.rnd.intn(len(w.members))]; m.up {
			w.say("%v: is down for long", m)
			m.stop(true)
			m.startLater(v.rnd.between(gone, 3*gone))
		}
		v.begin(w)
	})
}

// proposes notes since when changes may have been proposed that a member hands out to be written: since it last did so.
// A leader whose disk is slow has what it proposes meanwhile in memory only, and decides it if it leads again.
func (v *voting) proposes(last int64, entries []*ordering.Entry) {
	for _, e := range entries {
		n := &v.newest
		begins := e.GetType() != pb.EntryNormal && len(e.GetData()) > 0
		if begins && (e.GetTerm() > n.term || e.GetTerm() == n.term && e.GetIndex() > n.index) {
			n.term, n.index, v.begun = e.GetTerm(), e.GetIndex(), last
		}
	}
}

// excuses reports whether nothing can be decided because a change was begun before a majority was healed, or just when
// the others were lost, which need not be there to end it. There two things have come together that the rule bounds
// in time: voters that are gone, and others that go just when those were replaced.
func (v *voting) excuses(w *world) bool {
	n := len(v.decided)
	return w.phase == phaseMajority && n > 0 && len(v.decided[n-1].State.GetVotersOutgoing()) > 0 &&
		v.begun < v.healed+lossTicks*w.swarm.tick
}

// lossTicks is for how long a member that is lost seems to be there, by a slow clock.
const lossTicks = 25

// configured judges that all members have the same configuration behind an entry (S18).
func (v *voting) configured(m *member, list []ordering.Configured) {
	for _, c := range list {
		m.w.say("%v: behind entry %d votes %v", m, c.Index, c.State)
		i, known := slices.BinarySearchFunc(v.decided, c.Index, func(d ordering.Configured, at uint64) int {
			return cmp.Compare(d.Index, at)
		})
		switch {
		case !known && i < len(v.decided):
			m.w.violation("%v: entry %d changes who votes, and did so at nobody else", m, c.Index)
		case !known:
			v.joins.configured(v.joins.newestOf(v.decided), c.State, c.Index)
			m.peers.demotes(v.voted(m), c.State)
			v.decided = append(v.decided, c)
			m.w.stats.Members.Configured++
		case !sameConfiguration(v.decided[i].State, c.State):
			m.w.violation("%v: behind entry %d votes %v, at others %v", m, c.Index, c.State, v.decided[i].State)
		}
	}
}

// judge compares the configuration in a checkpoint with that behind its entry (S18).
func (v *voting) judge(m *member, c *engine.Checkpoint) {
	var is *ordering.ConfState
	for _, d := range v.decided {
		if d.Index <= c.Index {
			is = d.State
		}
	}
	if (is == nil) != (c.Conf() == nil) || is != nil && !sameConfiguration(is, c.Conf()) {
		m.w.violation("%v: its checkpoint of entry %d says that %v vote, and it is %v", m, c.Index, c.Conf(), is)
	}
}

func sameConfiguration(a, b *ordering.ConfState) bool {
	return bytes.Equal(ordering.AppendConfState(nil, a), ordering.AppendConfState(nil, b))
}

// enough sorts members, given as indexes, so that the first ones can decide, and returns how many that takes: as few as
// go on without the others, as package quorum says.
func (v *voting) enough(w *world, order []int) int {
	if v.goneTicks == 0 {
		return len(order)/2 + 1
	}
	if v.joins != nil {
		return v.joins.enough(order)
	}
	now := ordering.Configured{}
	if n := len(v.decided); n > 0 {
		now = v.decided[n-1]
	}
	if len(now.State.GetVotersOutgoing()) > 0 || changing(w, now.Index) {
		return len(order) // nobody can say who it will take
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(v.behind(now, w.members[a]), v.behind(now, w.members[b])),
			cmp.Compare(v.silent(now, a), v.silent(now, b)))
	})
	view := quorum.View{Changes: true, MinCopies: v.copies, Roles: v.roles.of}
	for i, m := range w.members {
		view.Members = append(view.Members, m.id)
		if v.silent(now, i) == 0 {
			view.Voters = append(view.Voters, m.id)
		}
		if v.behind(now, m) == 0 {
			view.There = append(view.There, m.id)
		}
	}
	var lost []uint32
	for k := len(order) - 1; k > 0; k-- {
		if lost = append(lost, w.members[order[k]].id); !view.AtOnce(lost).GoesOn {
			return k + 1
		}
	}
	return 1
}

// behind is 1 for a member that lacks something, or does not know yet who votes: it goes by what it knows.
func (v *voting) behind(now ordering.Configured, m *member) int {
	if now.State != nil {
		if knows := m.disk.conf(1<<64 - 1); knows == nil || !sameConfiguration(knows, now.State) {
			return 1
		}
	}
	return m.lacks()
}

// silent is 1 for a member that does not vote.
func (v *voting) silent(now ordering.Configured, i int) int {
	if now.State == nil {
		return 0
	}
	if slices.Contains(now.State.GetVoters(), uint64(i+1)) {
		return 0
	}
	return 1
}

// changing reports whether a log has a change of the configuration behind an entry, which may be decided yet.
func changing(w *world, behind uint64) bool {
	for _, m := range w.members {
		first, err := m.disk.view.FirstIndex()
		must(err)
		last, err := m.disk.view.LastIndex()
		must(err)
		if first = max(first, behind+1); first > last {
			continue
		}
		entries, err := m.disk.view.Entries(first, last+1, 1<<40)
		must(err)
		if slices.ContainsFunc(entries, func(e *pb.Entry) bool { return e.GetType() != pb.EntryNormal }) {
			return true
		}
	}
	return false
}

// conf is the configuration behind an entry, nil for that of the beginning.
func (d *disk) conf(index uint64) *ordering.ConfState {
	for i := len(d.confs) - 1; i >= 0; i-- {
		if d.confs[i].Index <= index {
			return d.confs[i].State
		}
	}
	return nil
}

// at is what raft calls the metadata of a snapshot.
func (d *disk) at(index, term uint64, conf *ordering.ConfState) *pb.SnapshotMetadata {
	if conf == nil {
		conf = &pb.ConfState{Voters: d.voters}
	}
	return &pb.SnapshotMetadata{ConfState: conf, Index: &index, Term: &term}
}

// disturbances are how many ways there are to stay away when a majority is healed. Members that come and go would vote
// when they are there, even lead, and so be needed.
func (v *voting) disturbances() int {
	if v.goneTicks > 0 {
		return 5
	}
	return 6
}
