package ordering

import (
	"slices"

	"go.etcd.io/raft/v3"
)

// succession is what follows the certain end of a leader: who is left stands for election at once, one after the other,
// so that they do not take each other's votes.
type succession struct {
	rank   int // of this member among those that are left
	rivals int // how many are left; zero: nothing is to be done
	ticks  int // since the leader ended
}

// successionTicks is how long nothing is waited for; then raft's own timeouts count again.
const successionTicks = 10

// Gone says that a member has ended, as far as can be told. If it led, this one forgets it, so that others that have as
// well may be elected with its vote, and stands for election when its turn comes. Those to whom the leader still speaks
// refuse, and if it speaks to this member it leads again: what was wrong does no harm.
func (o *Order) Gone(member uint32) {
	st := o.node.Status()
	if st.RaftState != raft.StateFollower || st.Lead != uint64(member) || o.node.ForgetLeader() != nil {
		return
	}
	s := succession{}
	for v := range st.Config.Voters.IDs() { // order-free: counted
		if v != uint64(member) {
			s.rivals++
		}
		if v != uint64(member) && o.witnesses.before(uint32(v), o.member) {
			s.rank++
		}
	}
	o.next = s
	o.stand()
}

// stand has this member stand for election if it is its turn.
func (o *Order) stand() {
	s, st := &o.next, o.node.BasicStatus()
	if s.rivals == 0 {
		return
	}
	if st.Lead != raft.None || s.ticks >= successionTicks {
		*s = succession{}
		return
	}
	if s.ticks%s.rivals == s.rank && slices.Contains([]raft.StateType{raft.StateFollower, raft.StatePreCandidate},
		st.RaftState) {
		_ = o.node.Campaign() // refused only to who may not vote
	}
	s.ticks++
}
