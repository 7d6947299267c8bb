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
}

// Forgo says for whom a leader that votes alone does not wait (O10). It holds until it is said again, or this member
// has begun to lead anew, or was away itself: then it waits for all.
func (o *Order) Forgo(members []uint32) { o.alone.forgo = members }

// Alone says whether what one voter decides alone waits until others have it as well (Options.Alone).
func (o *Order) Alone(waits bool) { o.alone = alone{waits: waits} }

// votesAlone is who decides, or may have decided what is known to be decided, without anybody else in a configuration;
// zero if nobody does. While two configurations count, the older one is meant: raft decides what it can by that until
// it has taken the change in, and so entries behind the change as well.
func votesAlone(c *ConfState) uint64 {
	v := c.GetVotersOutgoing()
	if len(v) == 0 {
		v = c.GetVoters()
	}
	if len(v) != 1 || planted == "alone-until-others-vote" && len(c.GetVotersOutgoing()) > 0 {
		return 0
	}
	return v[0]
}

// limit is the last entry that may be handed out if it is decided.
func (o *Order) limit() uint64 {
	voter := votesAlone(o.changes.state)
	switch {
	case voter == 0 || planted == "alone-waits-for-nobody" && voter == uint64(o.member) ||
		planted == "alone-hands-out-early" && voter != uint64(o.member):
		return ^uint64(0)
	case voter != uint64(o.member):
		return o.feed.readable // with the one that voted, there are two
	case !o.alone.waits:
		return ^uint64(0)
	case o.node.BasicStatus().RaftState != raft.StateLeader:
		return o.feed.given
	}
	all := ^uint64(0)
	o.node.WithProgress(func(id uint64, _ raft.ProgressType, p tracker.Progress) {
		again := p.Match == 0 && begins(o, uint32(id)) // it has lost what it had
		if id != voter && !slices.Contains(o.alone.forgo, uint32(id)) && !again {
			all = min(all, p.Match)
		}
	})
	return all
}
