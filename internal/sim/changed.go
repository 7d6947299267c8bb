package sim

import (
	"slices"

	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/tuttidb/tutti/internal/ordering"
	"github.com/tuttidb/tutti/internal/quorum"
)

// changed is what is expected of a run in which members come and go (S20).
type changed struct {
	begun   map[uint32]bool  // new members that have made a log
	voted   map[uint32]bool  // that have come to vote
	awaits  map[uint32]bool  // that serve, and have no client yet
	served  map[uint32]bool  // that have served once
	dropped map[uint32]int64 // when the order was first known to go on without a member
	early   bool             // a member was removed before its successor votes, because it could not be reached

	acknowledged uint64            // the greatest ordinal that a client was told of
	known        map[uint32]uint64 // what that was when a member's life began
	votes        map[ballot]uint64 // for whom
}

// ballot is what a number has one vote in.
type ballot struct {
	member uint32
	term   uint64
}

func newChanged() changed {
	return changed{begun: map[uint32]bool{}, voted: map[uint32]bool{}, awaits: map[uint32]bool{},
		served: map[uint32]bool{}, dropped: map[uint32]int64{}, known: map[uint32]uint64{},
		votes: map[ballot]uint64{}}
}

// told notes that a client was told that its transaction has committed.
func (j *joins) told(a *attempt) {
	if j != nil && a.outcome == outcomeOK {
		j.changed.acknowledged = max(j.changed.acknowledged, j.w.truth.seqs[a.tag])
	}
}

// starts notes that a life of a member begins.
func (j *joins) starts(m *member) {
	if j != nil {
		j.changed.known[m.id] = j.changed.acknowledged
		j.refused[m.id] = j.w.now
	}
}

// serves judges that a member which begins to serve has all that any client was told of before its life began.
func (j *joins) serves(m *member, ordinal uint64) {
	if j == nil {
		return
	}
	c := &j.changed
	if c.known[m.id] > ordinal {
		j.w.violation("%v: serves at ordinal %d, and ordinal %d was acknowledged before it started", m, ordinal,
			c.known[m.id])
	}
	if int(m.id) > j.w.swarm.members && !c.served[m.id] {
		c.served[m.id], c.awaits[m.id] = true, true
		j.w.stats.Members.Joined++
	}
}

// sends judges that a number has one vote in a term, whatever log is behind it.
func (j *joins) sends(from *member, data []byte) {
	if j == nil {
		return
	}
	said := &pb.Message{}
	must(proto.Unmarshal(data, said))
	vote := uint64(0)
	switch {
	case said.GetType() == pb.MsgVoteResp && !said.GetReject():
		vote = said.GetTo()
	case said.GetType() == pb.MsgVote:
		vote = uint64(from.id)
	default:
		return
	}
	b := ballot{from.id, said.GetTerm()}
	if was := j.changed.votes[b]; was != 0 && was != vote {
		j.w.violation("%v: has voted for member %d in term %d, and votes for member %d", from, was, b.term, vote)
	}
	j.changed.votes[b] = vote
}

// configured judges a configuration that is known for the first time, behind another one.
func (j *joins) configured(before, after *ordering.ConfState, index uint64) {
	if j == nil {
		return
	}
	w := j.w
	if !intersect(before, after) {
		w.violation("entry %d: a majority of %v decides without one of %v", index, after, before)
	}
	for _, m := range w.members {
		switch {
		case votesIn(after, m.id) && !votesIn(before, m.id) && int(m.id) > w.swarm.members && !j.changed.voted[m.id]:
			if j.changed.voted[m.id] = true; !j.changed.begun[m.id] {
				w.violation("entry %d: %v votes, and has never had a log", index, m)
			}
			w.stats.Members.Seated++
		case !ordering.In(after, m.id) && ordering.In(before, m.id):
			j.changed.dropped[m.id] = w.now
			w.stats.Members.Dropped++
		}
	}
	keepsCopies(j, after, index)
}

// keepsCopies judges that a majority is as many copies as are wanted, where as many may vote; who is replaced while it
// is there is not to make them fewer.
func keepsCopies(j *joins, after *ordering.ConfState, index uint64) {
	if j.changed.early {
		return
	}
	may := machinesMax
	for _, l := range append([]tableAt{{}}, j.tables...) {
		n, roles := 0, l.members.roles()
		for _, m := range j.numbers(l.members) {
			if !roles[m].Learner {
				n++
			}
		}
		may = min(may, n)
	}
	if least := min(2*quorum.Copies-1, may); len(after.GetVoters()) < least {
		j.w.violation("entry %d: %v vote, and %d are to", index, after.GetVoters(), least)
	}
}

// judgeRemoval judges that a member that is replaced while it is there does not vote any more when it is removed.
func judgeRemoval(j *joins, l *listed) {
	if len(j.operator.jobs) == 0 {
		return
	}
	x := &j.operator.jobs[0]
	old := numberOf(x.Old)
	if x.kind == jobReplace && !x.early && j.lists(j.newest(), old) && !j.lists(l, old) &&
		votesIn(j.configuration(), old) {
		j.w.violation("%s is removed, and votes: nobody has taken its place", x.Old)
	}
}

// judgeChanged judges at the end that nobody who was removed has acknowledged, or had ordered, what was begun
// afterwards.
func judgeChanged(w *world) {
	j := w.truth.voting.joins
	if j == nil {
		return
	}
	for _, a := range w.history {
		since, dropped := j.changed.dropped[a.home]
		_, ordered := w.truth.seqs[a.tag]
		changes := len(a.changes) > 0 || a.define != nil
		if dropped && a.start > since && changes && (ordered || a.outcome == outcomeOK) {
			w.violation("the transaction with tag %d began at member %d when the order went on without that, and was "+
				"ordered", a.tag, a.home)
		}
	}
}

// intersect reports whether each two majorities, of one configuration and the other, have a member in common.
func intersect(a, b *ordering.ConfState) bool {
	for _, p := range halves(a) {
		for _, q := range halves(b) {
			if overlap(p, q) {
				return true
			}
		}
	}
	return false
}

// halves are the sets of which a decision needs a majority each.
func halves(c *ordering.ConfState) [][]uint64 {
	if len(c.GetVotersOutgoing()) > 0 {
		return [][]uint64{c.GetVoters(), c.GetVotersOutgoing()}
	}
	return [][]uint64{c.GetVoters()}
}

// overlap reports whether each majority of one set has a member in common with each of another one.
func overlap(a, b []uint64) bool {
	both := 0
	for _, m := range a {
		if slices.Contains(b, m) {
			both++
		}
	}
	needs := func(set []uint64) int { return max(0, len(set)/2+1-(len(set)-both)) } // of those in both
	return needs(a)+needs(b) > both
}
