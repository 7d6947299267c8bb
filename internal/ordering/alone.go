package ordering

import (
	"slices"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/tracker"
)

// alone is what members wait for before they hand out what one voter has decided alone (O10).
type alone struct {
	waits bool
	forgo []uint32 // for whom a leader does not wait
	voter uint64   // who decided alone last, up to
	until uint64   // this entry, from where on others vote as well; zero: nothing is known of that
}

// Forgo says for whom a leader that votes alone does not wait (O10). It holds until it is said again, or this member
// has begun to lead anew: then it waits for all.
func (o *Order) Forgo(members []uint32) { o.alone.forgo = members }

// votesAlone is who decides without anybody else in a configuration, zero if nobody does.
func votesAlone(c *ConfState) uint64 {
	if v := c.GetVoters(); len(v) == 1 && len(c.GetVotersOutgoing()) == 0 {
		return v[0]
	}
	return 0
}

// leave notes that another configuration holds behind an entry.
func (a *alone) leave(from, to *ConfState, index uint64) {
	if voter := votesAlone(from); voter != 0 && votesAlone(to) != voter {
		a.voter, a.until = voter, index
	}
}

// limit is the last entry that may be handed out if it is decided.
func (o *Order) limit() uint64 {
	a := &o.alone
	if !a.waits {
		return ^uint64(0)
	}
	voter := votesAlone(o.changes.state)
	if voter == 0 && a.until >= o.feed.known && planted != "alone-until-others-vote" {
		voter = a.voter // others have it only once they have decided something behind it
	}
	switch {
	case voter == 0 || planted == "alone-waits-for-nobody" && voter == uint64(o.member) ||
		planted == "alone-hands-out-early" && voter != uint64(o.member):
		return ^uint64(0)
	case voter != uint64(o.member):
		return o.feed.readable // with the one that voted, there are two
	case o.node.BasicStatus().RaftState != raft.StateLeader:
		return o.feed.given
	}
	all := ^uint64(0)
	o.node.WithProgress(func(id uint64, _ raft.ProgressType, p tracker.Progress) {
		if id != voter && !slices.Contains(a.forgo, uint32(id)) {
			all = min(all, p.Match)
		}
	})
	return all
}
