package ordering

import (
	"fmt"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
)

// Lost says that this member needs entries which the leader no longer keeps.
type Lost struct {
	Leader uint32
	Have   uint64 // last entry committed here
	First  uint64 // first entry the leader still has
}

// Lost is not nil once the leader has told that the order cannot be continued here: then the
// owner must get the state from elsewhere and start anew, with a later Options.Start.
func (o *Order) Lost() *Lost { return o.lost }

// lacks takes the notice that the leader has compacted its log to behind this member's end, and
// reports whether that is so. Raft would take it for a snapshot and go on without what it lacks.
func lacks(o *Order, m *pb.Message) bool {
	at := m.GetSnapshot().GetMetadata()
	commit := o.node.BasicStatus().HardState.GetCommit()
	if at.GetIndex() <= commit {
		return false
	}
	if term, err := o.storage.Term(at.GetIndex()); err == nil && term == at.GetTerm() {
		return false // it is there, only not known to be committed
	}
	o.lost = &Lost{Leader: uint32(m.GetFrom()), Have: commit, First: at.GetIndex() + 1}
	return true
}

// startAt settles where delivery starts, and makes Storage say that what lies before is
// committed: the commit index on disk may be older.
func startAt(o *Options) (uint64, error) {
	first, err := o.Storage.FirstIndex()
	if err != nil {
		return 0, fmt.Errorf("ordering: %w", err)
	}
	last, err := o.Storage.LastIndex()
	if err != nil {
		return 0, fmt.Errorf("ordering: %w", err)
	}
	switch {
	case o.Start == 0:
		return first - 1, nil
	case o.Start < first-1 || o.Start > last:
		return 0, fmt.Errorf("ordering: cannot start behind entry %d: the log holds entries %d to %d", o.Start, first,
			last)
	}
	o.Storage = started{o.Storage, o.Start, o.Conf}
	return o.Start, nil
}

// started is a storage whose entries up to at are known to be committed.
type started struct {
	raft.Storage
	at   uint64
	conf *ConfState // behind entry at; nil: as the storage says
}

func (s started) InitialState() (*pb.HardState, *pb.ConfState, error) {
	hs, cs, err := s.Storage.InitialState()
	if err != nil {
		return hs, cs, err
	}
	term, err := s.Term(s.at)
	if err != nil {
		return nil, nil, err
	}
	out := &pb.HardState{Term: new(max(hs.GetTerm(), term)), Vote: new(hs.GetVote()),
		Commit: new(max(hs.GetCommit(), s.at))}
	if hs.GetTerm() < term {
		*out.Vote = 0
	}
	if s.conf != nil && planted != "configuration-of-the-base" && planted != "configuration-of-the-list" {
		cs = s.conf
	}
	return out, cs, nil
}
