package ordering

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"go.etcd.io/raft/v3/tracker"
	"google.golang.org/protobuf/proto"
)

// ConfState is a configuration: who votes, and who only gets the log. It is opaque to everybody but this package.
type ConfState = pb.ConfState

// Configured says which configuration holds behind an entry of the log.
type Configured struct {
	Index uint64
	State *ConfState
}

// AppendConfState encodes a configuration: the same one alike.
func AppendConfState(dst []byte, c *ConfState) []byte {
	dst, err := proto.MarshalOptions{Deterministic: true}.MarshalAppend(dst, c)
	if err != nil {
		panic("ordering: marshal a configuration: " + err.Error())
	}
	return dst
}

// ReadConfState is the inverse of AppendConfState. It refuses a configuration without voters.
func ReadConfState(data []byte) (*ConfState, error) {
	c := &ConfState{}
	if err := (proto.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(data, c); err != nil {
		return nil, fmt.Errorf("ordering: a configuration: %w", err)
	}
	if len(c.Voters) == 0 || !bytes.Equal(AppendConfState(nil, c), data) {
		return nil, fmt.Errorf("ordering: %d bytes are no configuration", len(data))
	}
	return c, nil
}

// changes are the changes of the configuration that are in this member's log.
type changes struct {
	state   *ConfState   // that of raft: behind the last entry that is decided
	decided []Configured // behind entries that are not handed out yet: the feed may be far behind raft
	open    []uint64     // entries of changes that are not known to be decided
	unread  uint64       // what lies in the log up to here at the start may be changes as well
	unknown error        // see Unread
}

var errUnknownChange = errors.New("it cannot be told what holds behind it")

// Unread is not nil once something is decided that this build does not understand: its owner must end.
func (o *Order) Unread() error { return o.changes.unknown }

// reconfigure tells raft of the changes among the entries that are decided by now, at once, whatever is handed out. It
// returns what holds behind each.
func (o *Order) reconfigure(appended, committed []*pb.Entry) (done []Configured) {
	c := &o.changes
	if len(appended) > 0 {
		first := appended[0].GetIndex()
		c.open = slices.DeleteFunc(c.open, func(i uint64) bool { return i >= first })
	}
	for _, e := range appended {
		if e.GetType() != pb.EntryNormal {
			c.open = append(c.open, e.GetIndex())
		}
	}
	for _, e := range committed {
		if e.GetType() == pb.EntryNormal {
			continue
		}
		change := &pb.ConfChangeV2{}
		if err := proto.Unmarshal(e.GetData(), change); err != nil || e.GetType() != pb.EntryConfChangeV2 {
			c.unknown = fmt.Errorf("entry %d of the log, of type %d, is no change of who votes that is understood "+
				"here: %w", e.GetIndex(), e.GetType(), errors.Join(err, errUnknownChange))
			return done
		}
		c.state = o.node.ApplyConfChange(change)
		c.open = slices.DeleteFunc(c.open, func(i uint64) bool { return i <= e.GetIndex() })
		done = append(done, Configured{e.GetIndex(), c.state})
		o.claims.count(c.state)
	}
	if planted != "configured-when-handed-out" {
		c.decided = append(c.decided, done...)
	}
	return done
}

// behind returns the configuration behind an entry that is handed out and changes it.
func (c *changes) behind(index uint64) *ConfState {
	i := slices.IndexFunc(c.decided, func(d Configured) bool { return d.Index == index })
	if i < 0 {
		return c.state
	}
	state := c.decided[i].State
	c.decided = c.decided[i+1:]
	return state
}

// bound is the last entry up to which the configuration is known, when entries up to known are decided.
func (c *changes) bound(known uint64) uint64 {
	switch {
	case planted == "claims-beyond-changes":
	case known < c.unread:
		return known
	case len(c.open) > 0:
		return c.open[0] - 1
	}
	return ^uint64(0)
}

// Voter reports whether a member votes, as far as this one knows.
func (o *Order) Voter(member uint32) bool { return slices.Contains(o.Voters(), member) }

// VotersOf lists who votes in a configuration when no change is under way any more, in ascending order; nil if it is
// not given.
func VotersOf(c *ConfState) (list []uint32) {
	for _, v := range c.GetVoters() {
		list = append(list, uint32(v))
	}
	slices.Sort(list)
	return list
}

// Voters returns who votes, as far as this member knows, in ascending order; with those who did before a change that is
// under way.
func (o *Order) Voters() (list []uint32) {
	for _, v := range slices.Concat(o.changes.state.GetVoters(), o.changes.state.GetVotersOutgoing()) {
		list = append(list, uint32(v))
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// Peer is what a leader knows of a member.
type Peer struct {
	Member uint32
	Voter  bool
	Silent int    // ticks since it answered, or since this member leads: who hears nothing may be heard
	Lag    uint64 // entries of the leader's log that are not known to be on its disk
}

// Peers returns who gets the log, in the order of their numbers; nil at a member that does not lead. Settled is whether
// no change of the configuration is under way, so that one can be.
func (o *Order) Peers() (list []Peer, settled bool) {
	st := o.node.BasicStatus()
	if st.RaftState != raft.StateLeader {
		return nil, false
	}
	last, err := o.storage.LastIndex()
	if err != nil {
		return nil, false // the owner's next write fails, too
	}
	o.node.WithProgress(func(id uint64, kind raft.ProgressType, p tracker.Progress) {
		m := Peer{Member: uint32(id), Voter: kind == raft.ProgressTypePeer}
		if m.Member != o.member {
			m.Silent = int(o.ticks - max(o.heard[m.Member], o.leads))
			m.Lag = last - min(last, p.Match)
		}
		list = append(list, m)
	})
	slices.SortFunc(list, func(a, b Peer) int { return int(a.Member) - int(b.Member) })
	joint := len(o.changes.state.GetVotersOutgoing()) > 0
	return list, !joint && len(o.changes.open) == 0 && o.feed.known >= o.changes.unread
}

// Vote has a leader propose that these members vote, that others only get the log, those included that do already, and
// that some who do not vote get it no longer. It promises nothing: whether it comes to that is told by
// Ready.Configured. What is proposed while a change is under way is dropped.
func (o *Order) Vote(voters, others, gone []uint32) {
	var change pb.ConfChangeV2
	if o.alone.waits && votesAlone(o.changes.state) != 0 { // what that one decides must be told from what all do
		change.Transition = pb.ConfChangeTransition_ConfChangeTransitionJointImplicit.Enum()
	}
	add := func(kind pb.ConfChangeType, member uint32) {
		change.Changes = append(change.Changes,
			&pb.ConfChangeSingle{Type: kind.Enum(), NodeId: proto.Uint64(uint64(member))})
	}
	peers, settled := o.Peers()
	if !settled {
		return
	}
	for _, p := range peers {
		votes := slices.Contains(voters, p.Member)
		switch {
		case !votes && slices.Contains(gone, p.Member):
			add(pb.ConfChangeRemoveNode, p.Member)
		case votes && !p.Voter:
			add(pb.ConfChangeAddNode, p.Member)
		case !votes && p.Voter:
			add(pb.ConfChangeAddLearnerNode, p.Member)
		}
	}
	for _, m := range others {
		if !slices.Contains(voters, m) && !slices.ContainsFunc(peers, func(p Peer) bool { return p.Member == m }) {
			add(pb.ConfChangeAddLearnerNode, m)
		}
	}
	if len(change.Changes) > 0 {
		_ = o.node.ProposeConfChange(&change) // dropped: it is proposed again
	}
}

// In reports whether a member gets the log by a configuration; all do by none.
func In(c *ConfState, member uint32) bool {
	return c == nil || slices.Contains(readers(c), uint64(member))
}

func readers(c *ConfState) []uint64 {
	return slices.Concat(c.GetVoters(), c.GetVotersOutgoing(), c.GetLearners(), c.GetLearnersNext())
}

// Readers lists who gets the log, as far as this member knows, in ascending order.
func (o *Order) Readers() (list []uint32) {
	for _, m := range readers(o.changes.state) {
		list = append(list, uint32(m))
	}
	slices.Sort(list)
	return slices.Compact(list)
}
