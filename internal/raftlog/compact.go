package raftlog

import (
	"fmt"
	"sort"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// SetConfState records the configuration state that holds after entry index was applied:
// what RawNode.ApplyConfChange returned, or the unchanged state when the change was refused.
// Compact needs it for every configuration change it passes, or for a later entry up to where it goes. It is durable
// when it returns: whoever starts from a later entry is not given the change again.
func (l *Log) SetConfState(index uint64, cs *pb.ConfState) error {
	l.turn.Lock()
	defer l.turn.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failed != nil {
		return l.failed
	}
	if index <= l.base.index || index > l.last {
		return fmt.Errorf("raftlog: configuration state for entry %d: the log holds %d to %d", index, l.base.index+1,
			l.last)
	}
	c := confAt{index: index, conf: proto.Clone(pb.EnsureConfState(cs)).(*pb.ConfState)}
	if err := l.writeOne(recordConf, appendConfAt(nil, c)); err != nil {
		return err
	}
	l.putConf(c)
	return l.syncCurrent()
}

// Continue says that the owner of a log goes on behind entry index, at which conf holds, without being given anything
// up to it; nil: what holds at the compaction position. That is recorded if there are changes of which the owner has
// not said what came of them. It is durable when it returns.
func Continue(l *Log, index uint64, conf *pb.ConfState) error {
	l.mu.Lock()
	missing := l.confMissing(index) != 0
	if conf == nil {
		conf = l.base.conf
	}
	l.mu.Unlock()
	if !missing {
		return nil
	}
	return l.SetConfState(index, conf)
}

// Compact forgets entries up to index, durably, and removes segments that hold nothing else.
// The term of index and the configuration state there are kept. It returns raft.ErrCompacted
// when index is compacted already, and an error that leaves the log usable when index
// is after the last entry or a configuration change up to it has no SetConfState. The caller must
// not compact past what it has applied.
func (l *Log) Compact(index uint64) error {
	l.turn.Lock()
	defer l.turn.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failed != nil {
		return l.failed
	}
	if index <= l.base.index {
		return raft.ErrCompacted
	}
	if index > l.last {
		return fmt.Errorf("raftlog: compact to entry %d: the last one is %d", index, l.last)
	}
	if at := l.confMissing(index); at != 0 {
		return fmt.Errorf("raftlog: compact to entry %d: the configuration after the change in entry %d is unknown; "+
			"call SetConfState(%d, …) first", index, at, at)
	}
	return l.rebase(base{index: index, term: l.at(index).term, conf: l.confAtOrBefore(index)}, false)
}

// ApplySnapshot restarts the log at a snapshot's position, durably: all entries go, the next one
// to append is the one after it. The hard state follows if it is behind. It returns
// raft.ErrSnapOutOfDate when the log is compacted up to that position or further. Only
// metadata is kept; the caller has installed the snapshot's content before.
func (l *Log) ApplySnapshot(s *pb.Snapshot) error {
	l.turn.Lock()
	defer l.turn.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failed != nil {
		return l.failed
	}
	m := s.GetMetadata()
	if m.GetIndex() <= l.base.index {
		return raft.ErrSnapOutOfDate
	}
	conf := proto.Clone(pb.EnsureConfState(m.GetConfState())).(*pb.ConfState)
	l.cache.reset()
	return l.rebase(base{index: m.GetIndex(), term: m.GetTerm(), conf: conf}, true)
}

// Restart is ApplySnapshot at an entry behind which conf holds; nil: what holds at the compaction position.
func (l *Log) Restart(index, term uint64, conf *pb.ConfState) error {
	at, err := l.Snapshot()
	if err != nil {
		return err
	}
	at.Metadata.Index, at.Metadata.Term = &index, &term
	if conf != nil {
		at.Metadata.ConfState = conf
	}
	return l.ApplySnapshot(at)
}

func (l *Log) rebase(b base, restart bool) error {
	if err := l.writeOne(recordBase, appendBase(nil, b, restart)); err != nil {
		return err
	}
	l.putBase(b, restart)
	l.cache.forget(b.index)
	if err := l.syncCurrent(); err != nil {
		return err
	}
	return l.removeObsolete()
}

// removeObsolete removes the segments before the one with the first live entry, oldest first
// and each durably, so that a crash leaves no gap in the numbers.
func (l *Log) removeObsolete() error {
	needed := l.current().seq
	if len(l.locs) > 0 {
		needed = l.locs[0].seq
	}
	for l.segs[0].seq < needed {
		s := l.segs[0]
		err := s.Close()
		if err == nil {
			err = l.disk.remove(s.path)
		}
		if err == nil {
			err = l.disk.syncDir(l.o.Dir)
		}
		if err != nil {
			return l.poison("removing", s.path, err)
		}
		l.segs = l.segs[1:]
	}
	return nil
}

// Surplus returns the last entry before the segments that hold the newest keepBytes of records:
// Compact up to it frees whole segments. If there is none it returns the compaction position.
func (l *Log) Surplus(keepBytes int64) uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	needed := len(l.segs) - 1
	for n := l.segs[needed].used; needed > 0 && n < keepBytes; n += l.segs[needed].used {
		needed--
	}
	seq := l.segs[needed].seq
	return l.base.index + uint64(sort.Search(len(l.locs), func(i int) bool { return l.locs[i].seq >= seq }))
}

// BytesAfter returns how many bytes of records were written since entry index, as far as they are
// kept.
func (l *Log) BytesAfter(index uint64) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if index = max(index, l.base.index); index >= l.last {
		return 0
	}
	next := l.at(index + 1)
	var n int64
	for _, s := range l.segs {
		if s.seq >= next.seq {
			n += s.used
		}
	}
	return n - next.off
}
