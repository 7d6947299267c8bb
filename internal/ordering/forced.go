package ordering

import (
	"fmt"
	"slices"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/confchange"
	pb "go.etcd.io/raft/v3/raftpb"
	"go.etcd.io/raft/v3/tracker"
	"google.golang.org/protobuf/proto"
)

// forcedTerms is how much later the term is with which a member begins that goes on alone: who was its majority never
// comes so far, and can tell it nothing.
const forcedTerms = 1 << 20

// forcedRead is how many bytes of entries are looked at at a time.
const forcedRead = 16 << 20

// Forced is what makes a member the only voter of its log.
type Forced struct {
	Last    uint64        // entry of the log, all up to which count as decided
	Term    uint64        // of that
	Known   uint64        // the last entry that this member knew to be decided
	Others  []uint32      // who else gets this log, by it
	Entries []*pb.Entry   // to be appended, with the hard state, and synced
	State   *pb.HardState // nil: it is the only one already, and knows that all of the log is decided
}

// Force says what makes a member the only voter of a log that nobody has open, by changes of the configuration behind
// its last entry, so that whoever gets the log later finds them at the same place. No majority is asked: the caller
// answers for it that no other member goes on with this order.
func Force(log raft.Storage, member uint32) (*Forced, error) {
	c, err := configured(log)
	if err != nil {
		return nil, fmt.Errorf("ordering: %w", err)
	}
	was, _, err := log.InitialState()
	if err != nil {
		return nil, fmt.Errorf("ordering: %w", err)
	}
	last, err := log.LastIndex()
	if err != nil {
		return nil, fmt.Errorf("ordering: %w", err)
	}
	f := &Forced{Last: last, Known: was.GetCommit(), Others: c.others(member)}
	if f.Term, err = log.Term(last); err != nil {
		return nil, fmt.Errorf("ordering: %w", err)
	}
	if !slices.Contains(c.all(), uint64(member)) {
		return nil, fmt.Errorf("ordering: member %d was removed by this log", member)
	}
	term := max(f.Term, was.GetTerm()) + forcedTerms
	for _, change := range c.alone(member) {
		data, err := proto.Marshal(change)
		if err == nil {
			err = c.apply(change)
		}
		if err != nil {
			return nil, fmt.Errorf("ordering: make member %d the only voter: %w", member, err)
		}
		f.Entries = append(f.Entries, &pb.Entry{Type: pb.EntryConfChangeV2.Enum(), Term: &term,
			Index: new(last + uint64(len(f.Entries)) + 1), Data: data})
	}
	if f.Entries != nil || f.Known < last { // what is not known to be decided may be such a change
		f.State = &pb.HardState{Term: &term, Vote: new(uint64(member)), Commit: new(last + uint64(len(f.Entries)))}
	}
	return f, nil
}

// configuration is that behind an entry of a log.
type configuration struct{ confchange.Changer }

// configured is the configuration behind the last entry of a log.
func configured(log raft.Storage) (*configuration, error) {
	at, err := log.Snapshot()
	if err != nil {
		return nil, err
	}
	c := &configuration{confchange.Changer{Tracker: tracker.MakeProgressTracker(1, 0)}}
	base := at.GetMetadata()
	if c.Tracker.Config, c.Tracker.Progress, err = confchange.Restore(c.Changer, base.GetConfState()); err != nil {
		return nil, err
	}
	last, err := log.LastIndex()
	if err != nil {
		return nil, err
	}
	for next := base.GetIndex() + 1; next <= last; {
		entries, err := log.Entries(next, last+1, forcedRead)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			change := &pb.ConfChangeV2{}
			if e.GetType() == pb.EntryNormal {
				continue
			}
			if err := proto.Unmarshal(e.GetData(), change); err != nil {
				return nil, fmt.Errorf("entry %d: %w", e.GetIndex(), err)
			}
			if err := c.apply(change); err != nil {
				return nil, fmt.Errorf("entry %d: %w", e.GetIndex(), err)
			}
		}
		next += uint64(len(entries))
	}
	return c, nil
}

// apply does what raft does with a change.
func (c *configuration) apply(change *pb.ConfChangeV2) (err error) {
	config, progress := c.Tracker.Config, c.Tracker.Progress
	leave, joint := change.EnterJoint()
	switch {
	case change.LeaveJoint():
		config, progress, err = c.LeaveJoint()
	case joint:
		config, progress, err = c.EnterJoint(leave, change.Changes...)
	default:
		config, progress, err = c.Simple(change.Changes...)
	}
	if err == nil {
		c.Tracker.Config, c.Tracker.Progress = config, progress
	}
	return err
}

// all are those that get the log, in the order of their numbers.
func (c *configuration) all() []uint64 {
	s := c.Tracker.ConfState()
	list := slices.Concat(s.GetVoters(), s.GetVotersOutgoing(), s.GetLearners(), s.GetLearnersNext())
	slices.Sort(list)
	return slices.Compact(list)
}

// others are all but one.
func (c *configuration) others(member uint32) (list []uint32) {
	for _, id := range c.all() {
		if id != uint64(member) {
			list = append(list, uint32(id))
		}
	}
	return list
}

// alone are the changes, one voter at a time, that leave one member.
func (c *configuration) alone(member uint32) (list []*pb.ConfChangeV2) {
	state := c.Tracker.ConfState()
	one := func(kind pb.ConfChangeType, id uint64) {
		list = append(list, &pb.ConfChangeV2{Changes: []*pb.ConfChangeSingle{{Type: kind.Enum(), NodeId: &id}}})
	}
	if len(state.GetVotersOutgoing()) > 0 {
		list = append(list, &pb.ConfChangeV2{})
	}
	if !slices.Contains(state.GetVoters(), uint64(member)) {
		one(pb.ConfChangeAddNode, uint64(member))
	}
	rest := slices.Concat(state.GetVoters(), state.GetLearners(), state.GetLearnersNext())
	slices.Sort(rest)
	for _, id := range rest {
		if id != uint64(member) {
			one(pb.ConfChangeRemoveNode, id)
		}
	}
	return list
}
