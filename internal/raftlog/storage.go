package raftlog

import (
	"fmt"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// readSpanBytes bounds one read from disk, unless a single entry is longer.
const readSpanBytes = 1 << 20

// InitialState returns the newest hard state, nil if there never was one, and the configuration
// state at FirstIndex()-1. So raft.Config.Applied must be zero (or FirstIndex()-1): raft then
// delivers later configuration changes again.
func (l *Log) InitialState() (*pb.HardState, *pb.ConfState, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failed != nil {
		return nil, nil, l.failed
	}
	conf := proto.Clone(l.base.conf).(*pb.ConfState)
	if l.hs == (hardState{}) {
		return nil, conf, nil
	}
	return &pb.HardState{Term: new(l.hs.term), Vote: new(l.hs.vote), Commit: new(l.hs.commit)}, conf, nil
}

// FirstIndex returns the index after the compaction position.
func (l *Log) FirstIndex() (uint64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.base.index + 1, l.failed
}

// LastIndex returns the last entry's index, or the compaction position when there is none.
func (l *Log) LastIndex() (uint64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last, l.failed
}

// Term returns the term of an entry from FirstIndex()-1 to LastIndex(), else raft.ErrCompacted or
// raft.ErrUnavailable.
func (l *Log) Term(index uint64) (uint64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failed != nil {
		return 0, l.failed
	}
	return l.termOf(index)
}

func (l *Log) termOf(index uint64) (uint64, error) {
	switch {
	case index < l.base.index:
		return 0, raft.ErrCompacted
	case index == l.base.index:
		return l.base.term, nil
	case index > l.last:
		return 0, raft.ErrUnavailable
	}
	return l.at(index).term, nil
}

// Snapshot returns the compaction position and its configuration state, without data: a
// member that is behind it needs a state transfer, which is not this package's business.
func (l *Log) Snapshot() (*pb.Snapshot, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failed != nil {
		return nil, l.failed
	}
	return &pb.Snapshot{Metadata: &pb.SnapshotMetadata{
		Index: new(l.base.index), Term: new(l.base.term), ConfState: proto.Clone(l.base.conf).(*pb.ConfState),
	}}, nil
}

// Entries returns entries lo to hi-1, as many as fit into maxSize bytes of protobuf, at least one.
// The slice is the caller's; the entries must not be changed. Errors are raft.ErrCompacted,
// raft.ErrUnavailable, or damage on disk.
func (l *Log) Entries(lo, hi, maxSize uint64) ([]*pb.Entry, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.failed != nil:
		return nil, l.failed
	case lo <= l.base.index:
		return nil, raft.ErrCompacted
	case hi > l.last+1 || l.last == l.base.index:
		return nil, raft.ErrUnavailable
	}
	var out []*pb.Entry
	var size uint64
	for i := lo; i < hi; {
		next := []*pb.Entry{l.cache.get(i)}
		if next[0] == nil {
			var err error
			if next, err = l.readSpan(i, hi, maxSize-min(size, maxSize)); err != nil {
				return nil, err
			}
		}
		for _, e := range next {
			size += uint64(proto.Size(e))
			if size > maxSize && len(out) > 0 {
				return out, nil
			}
			out = append(out, e)
			i++
		}
	}
	return out, nil
}

// readSpan reads entries from lo on, with one read: those before hi that follow in the
// same segment, are not cached and are worth reading when want bytes are wanted; at least one.
func (l *Log) readSpan(lo, hi, want uint64) ([]*pb.Entry, error) {
	first := l.at(lo)
	end, n := first.off+first.size, uint64(1)
	for lo+n < hi && l.cache.get(lo+n) == nil {
		x := l.at(lo + n)
		if span := x.off + x.size - first.off; x.seq != first.seq || span > readSpanBytes || uint64(span) > want {
			break
		}
		end, n = x.off+x.size, n+1
	}
	s := l.segs[first.seq-l.segs[0].seq]
	buf := make([]byte, end-first.off)
	if _, err := s.f.ReadAt(buf, first.off); err != nil {
		return nil, fmt.Errorf("raftlog: read entry %d from %s at offset %d: %w", lo, s.path, first.off, err)
	}
	out := make([]*pb.Entry, 0, n)
	for i := lo; i < lo+n; i++ {
		x := l.at(i)
		r, err := decodeRecord(buf[x.off-first.off:], x.seq, x.off)
		var e *pb.Entry
		if err == nil {
			e, err = decodeEntry(r.payload)
		}
		if err == nil && (e.GetIndex() != i || e.GetTerm() != x.term) {
			err = fmt.Errorf("entry %d of term %d was expected, found %d of term %d", i, x.term, e.GetIndex(),
				e.GetTerm())
		}
		if err != nil {
			return nil, corrupt(s.path, x.off, err)
		}
		out = append(out, e)
	}
	return out, nil
}
