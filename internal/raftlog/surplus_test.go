package raftlog

import (
	"path/filepath"
	"testing"

	pb "go.etcd.io/raft/v3/raftpb"
)

// TestSurplus: what is kept after a compaction is as much as was asked for, and not a segment more.
func TestSurplus(t *testing.T) {
	const entries, segment = 200, 2048
	for _, keep := range []int64{0, 1, segment, 3 * segment, 5*segment + 7, 1 << 30} {
		o := Options{Dir: filepath.Join(t.TempDir(), "log"), SegmentBytes: segment}
		must(t, create(o, testID, quickDisk()))
		l := mustOpen(t, o, quickDisk())
		if s := l.Surplus(0); s != 0 {
			t.Errorf("an empty log has surplus entries up to %d", s)
		}
		for i := range uint64(entries) {
			must(t, l.Append(nil, []*pb.Entry{{Index: new(i + 1), Term: new(uint64(1)), Type: new(pb.EntryNormal),
				Data: make([]byte, 60)}}, true))
		}
		before := l.Bytes()
		to := l.Surplus(keep)
		if keep > before != (to == 0) {
			t.Errorf("keep %d of %d bytes: up to entry %d", keep, before, to)
		}
		if to > 0 {
			must(t, l.Compact(to))
		}
		if after := l.Bytes(); after < min(keep, before) || after-l.segs[0].used >= max(keep, 1) {
			t.Errorf("keep %d of %d bytes: %d are left, %d in the first segment", keep, before, after, l.segs[0].used)
		}
		if again := l.Surplus(keep); again != to {
			t.Errorf("keep %d: up to entry %d, and then up to %d", keep, to, again)
		}
		must(t, l.Close())
	}
}

// TestBytesAfter: bytes between two entries are those of their records and of segments' ends.
func TestBytesAfter(t *testing.T) {
	o := Options{Dir: filepath.Join(t.TempDir(), "log"), SegmentBytes: 2048}
	must(t, create(o, testID, quickDisk()))
	l := mustOpen(t, o, quickDisk())
	for i := range uint64(100) {
		must(t, l.Append(nil, []*pb.Entry{{Index: new(i + 1), Term: new(uint64(1)), Type: new(pb.EntryNormal),
			Data: make([]byte, 60)}}, true))
	}
	one := recordBytes(entryFixedBytes + 60)
	for i := uint64(0); i <= 100; i++ {
		n, least := l.BytesAfter(i), one*int64(100-i)
		if n < least || n > l.Bytes() || i == 100 && n != 0 || i < 100 && n <= l.BytesAfter(i+1) {
			t.Errorf("%d bytes after entry %d, at least %d were expected, %d after the next", n, i, least,
				l.BytesAfter(i+1))
		}
	}
	want := l.BytesAfter(50)
	must(t, l.Compact(50))
	if got := l.BytesAfter(3); got < want || got > want+200 { // and a record that says so
		t.Errorf("%d bytes after what is compacted, want %d", got, want)
	}
	must(t, l.Close())
}

// TestRestart: the log goes on behind another entry, with the configuration it had.
func TestRestart(t *testing.T) {
	o := Options{Dir: filepath.Join(t.TempDir(), "log")}
	must(t, create(o, testID, quickDisk()))
	l := mustOpen(t, o, quickDisk())
	must(t, l.Append(hard(3, 8, 0), []*pb.Entry{{Index: new(uint64(1)), Term: new(uint64(3))}}, true))
	must(t, l.Restart(70, 3, nil))
	must(t, l.Close())
	l = mustOpen(t, o, quickDisk())
	first, _ := l.FirstIndex()
	hs, conf, err := l.InitialState()
	must(t, err)
	if first != 71 || hs.GetTerm() != 3 || hs.GetVote() != 8 || hs.GetCommit() != 70 || len(conf.GetVoters()) != 3 {
		t.Errorf("first entry %d, %v, %v", first, hs, conf)
	}
	must(t, l.Close())
}
