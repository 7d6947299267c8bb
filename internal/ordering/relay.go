package ordering

import (
	"fmt"
	"slices"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"go.etcd.io/raft/v3/tracker"
	"google.golang.org/protobuf/proto"
)

const (
	// A member that has not answered an append for patienceLeast ticks gets its appends directly for restTicks. The
	// patience is twice as long after each time, up to patienceMost: ways may be long.
	patienceLeast, patienceMost = 4, 20
	restTicks                   = 40
	// It does for twice as long after each time, up to restDoublings times, until it has answered in time.
	restDoublings = 6
)

// relays are through whom a leader sends its appends to members of other sites (O11).
type relays struct {
	groups   [][]uint32        // members that are at one site, of several sites
	via      map[uint32]uint32 // by member: who passes its appends on, itself perhaps; not there: nobody does
	owed     map[uint32]owed   // by member
	rests    map[uint32]uint64 // by member: the tick until which it gets its appends directly
	vain     map[uint32]int    // by member: how often it had to in succession
	patience uint64
	shared   []*pb.Message // of the Ready being made: those of Early that may be for others as well, else nil
}

// owed is the first append through a relay that a member has not answered.
type owed struct{ index, since uint64 }

// Sites says which members are at one site; who is named in no group, or alone, is at a site of its own. Nil has a
// leader send everything itself.
func (o *Order) Sites(groups [][]uint32) { o.relays.groups = groups }

// look decides, once in a tick, who passes what on at which site.
func (r *relays) look(o *Order) {
	if o.node.BasicStatus().RaftState != raft.StateLeader || len(r.groups) == 0 {
		*r = relays{groups: r.groups}
		return
	}
	if r.via == nil {
		*r = relays{groups: r.groups, owed: map[uint32]owed{}, rests: map[uint32]uint64{}, vain: map[uint32]int{},
			patience: patienceLeast}
	}
	var able []uint32
	late := false
	o.node.WithProgress(func(id uint64, _ raft.ProgressType, p tracker.Progress) {
		m := uint32(id)
		if d, owes := r.owed[m]; owes && p.Match >= d.index {
			delete(r.owed, m)
			delete(r.vain, m)
		} else if owes && o.ticks-d.since > r.patience {
			late = true
			r.rest(m, o.ticks)
		}
		if p.State == tracker.StateReplicate && o.ticks >= r.rests[m] {
			able = append(able, m)
		}
	})
	if late {
		r.patience = min(2*r.patience, patienceMost)
	}
	r.via = map[uint32]uint32{}
	for _, g := range r.groups {
		at := slices.DeleteFunc(slices.Clone(g), func(m uint32) bool { return !slices.Contains(able, m) })
		if len(at) < 2 || slices.Contains(g, o.member) {
			continue
		}
		for _, m := range at {
			r.via[m] = slices.Min(at)
		}
	}
}

// rest has a member get its appends directly for a while.
func (r *relays) rest(member uint32, now uint64) {
	delete(r.owed, member)
	delete(r.via, member)
	if r.rests != nil {
		r.rests[member] = now + restTicks<<min(r.vain[member], restDoublings)
		r.vain[member]++
	}
}

// fails notes that nothing can be sent to a member.
func (r *relays) fails(member uint32, now uint64) {
	for m, via := range r.via { // order-free: each for itself
		if via == member {
			r.rest(m, now)
		}
	}
}

// joins adds an append to one that has the same for another member of the same site, if there is one among early.
func (r *relays) joins(m *pb.Message, early []Message, now uint64) bool {
	via, to := r.via[uint32(m.GetTo())], uint32(m.GetTo())
	if via == 0 || m.GetType() != pb.MsgApp {
		return false
	}
	if n := len(m.Entries); n > 0 {
		if _, owes := r.owed[to]; !owes {
			r.owed[to] = owed{m.Entries[n-1].GetIndex(), now}
		}
	}
	for i, s := range slices.Backward(r.shared) {
		switch is := s != nil && early[i].To == via && same(s, m); {
		case s != nil && slices.Contains(early[i].For, to): // nothing overtakes that
			return is
		case is:
			early[i].For = append(early[i].For, to)
			return true
		}
	}
	return false
}

// same reports whether two appends of one leader differ in their receivers at most.
func same(a, b *pb.Message) bool {
	return a.GetTerm() == b.GetTerm() && a.GetIndex() == b.GetIndex() && a.GetLogTerm() == b.GetLogTerm() &&
		a.GetCommit() == b.GetCommit() && len(a.Entries) == len(b.Entries)
}

// early adds a leader's append to those that may leave before it is on disk here.
func (r *relays) early(m *pb.Message, out Message, list []Message) []Message {
	if via := r.via[out.To]; via != 0 && m.GetType() == pb.MsgApp {
		out.For, out.To = []uint32{out.To}, via
		r.shared = append(r.shared, m)
	} else {
		r.shared = append(r.shared, nil)
	}
	return append(list, out)
}

// Relayed takes an append of origin's that another member of this one's site was sent for both: it is as if it had
// come from origin, to this member.
func (o *Order) Relayed(origin uint32, data []byte) error {
	m := &pb.Message{}
	if err := proto.Unmarshal(data, m); err != nil {
		return fmt.Errorf("%w of member %d, passed on: %v", ErrMessage, origin, err)
	}
	if m.GetType() != pb.MsgApp || origin == o.member {
		return fmt.Errorf("%w of member %d, passed on: %s", ErrMessage, origin, m.GetType())
	}
	m.To = proto.Uint64(uint64(o.member))
	return o.step(origin, m)
}
