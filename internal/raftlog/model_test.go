package raftlog

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"pgregory.net/rapid"
)

// model drives a Log and raft's MemoryStorage with the same calls.
type model struct {
	o    Options
	d    disk
	log  *Log
	mem  *raft.MemoryStorage
	term uint64
}

func (m *model) bounds(t *rapid.T) (first, last uint64) {
	first, err := m.mem.FirstIndex()
	must(t, err)
	last, err = m.mem.LastIndex()
	must(t, err)
	return first, last
}

func (m *model) append(t *rapid.T) {
	first, last := m.bounds(t)
	from := rapid.Uint64Range(max(first, last+1-min(last, 8)), last+1).Draw(t, "from")
	m.term += rapid.Uint64Range(0, 1).Draw(t, "newTerm")
	var ents []*pb.Entry
	for i := range rapid.Uint64Range(0, 6).Draw(t, "count") {
		e := &pb.Entry{Index: new(from + i), Term: new(m.term), Type: new(pb.EntryNormal)}
		// Empty data comes back as nil, which protobuf encodes two bytes shorter.
		if data := rapid.SliceOfN(rapid.Byte(), 0, 200).Draw(t, "data"); len(data) > 0 {
			e.Data = data
		}
		ents = append(ents, e)
	}
	var hs *pb.HardState
	if rapid.Bool().Draw(t, "withHardState") {
		// The commit index never passes what an overwrite leaves over.
		hs = hard(m.term, rapid.Uint64Range(1, 9).Draw(t, "vote"), first-1)
		must(t, m.mem.SetHardState(hs))
	}
	must(t, m.mem.Append(ents))
	must(t, m.log.Append(hs, ents, rapid.Bool().Draw(t, "sync")))
}

func (m *model) compact(t *rapid.T) {
	first, last := m.bounds(t)
	to := rapid.Uint64Range(first-1, last).Draw(t, "to")
	want := m.mem.Compact(to)
	if err := m.log.Compact(to); !errors.Is(err, want) {
		t.Fatalf("Compact(%d) is %v, want %v", to, err, want)
	}
	if hs, _, _ := m.mem.InitialState(); want == nil && hs.GetCommit() < to {
		term, err := m.mem.Term(to)
		must(t, err)
		vote := hs.GetVote()
		if hs.GetTerm() < term {
			vote = 0
		}
		must(t, m.mem.SetHardState(hard(max(hs.GetTerm(), term), vote, to)))
	}
}

func (m *model) restart(t *rapid.T) {
	_, last := m.bounds(t)
	at := last + rapid.Uint64Range(1, 5).Draw(t, "ahead")
	snap := &pb.Snapshot{Metadata: &pb.SnapshotMetadata{Index: new(at), Term: new(m.term),
		ConfState: &pb.ConfState{Voters: []uint64{at}}}}
	must(t, m.mem.ApplySnapshot(snap))
	must(t, m.log.ApplySnapshot(snap))
	hs, _, _ := m.mem.InitialState()
	vote := hs.GetVote()
	if hs.GetTerm() < m.term {
		vote = 0
	}
	must(t, m.mem.SetHardState(hard(max(hs.GetTerm(), m.term), vote, at)))
}

func (m *model) reopen(t *rapid.T) {
	must(t, m.log.Close())
	m.d = drawDisk(t)
	m.log = mustOpen(t, m.o, m.d)
	if len(m.log.Repairs()) != 0 {
		t.Fatalf("repairs after Close: %v", m.log.Repairs())
	}
}

// read compares one random read, errors included.
func (m *model) read(t *rapid.T) {
	first, last := m.bounds(t)
	i := rapid.Uint64Range(first-min(first, 3), last+2).Draw(t, "index")
	wantTerm, wantErr := m.mem.Term(i)
	if term, err := m.log.Term(i); term != wantTerm || !errors.Is(err, wantErr) {
		t.Fatalf("Term(%d) is %d, %v; want %d, %v", i, term, err, wantTerm, wantErr)
	}
	if i > last {
		return // MemoryStorage panics
	}
	hi := rapid.Uint64Range(i, last+1).Draw(t, "hi")
	maxSize := rapid.Uint64Range(0, 1500).Draw(t, "maxSize")
	want, wantErr := m.mem.Entries(i, hi, maxSize)
	got, err := m.log.Entries(i, hi, maxSize)
	if !errors.Is(err, wantErr) || !equalEntries(got, want) {
		t.Fatalf("Entries(%d, %d, %d) is %v, %v; want %v, %v", i, hi, maxSize, got, err, want, wantErr)
	}
}

func (m *model) check(t *rapid.T) {
	first, last := m.bounds(t)
	gotFirst, _ := m.log.FirstIndex()
	gotLast, _ := m.log.LastIndex()
	hs, _, _ := m.mem.InitialState()
	gotHS, _, err := m.log.InitialState()
	must(t, err)
	if gotFirst != first || gotLast != last || hs.GetTerm() != gotHS.GetTerm() || hs.GetVote() != gotHS.GetVote() ||
		hs.GetCommit() != gotHS.GetCommit() {
		t.Fatalf("log %d to %d %v, want %d to %d %v", gotFirst, gotLast, gotHS, first, last, hs)
	}
	if c := m.log.cache; c.bytes > c.bytesMax || c.bytes < 0 || len(c.ents) == 0 && c.bytes != 0 {
		t.Fatalf("the cache holds %d bytes in %d entries, the limit is %d", c.bytes, len(c.ents), c.bytesMax)
	}
	if err := m.log.state.check(); err != nil {
		t.Fatalf("L5: %v", err)
	}
}

func drawDisk(t *rapid.T) disk {
	if rapid.Bool().Draw(t, "direct") {
		return quickDisk()
	}
	return bufferedDisk()
}

func TestModelMemoryStorage(t *testing.T) {
	root := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp(root, "run")
		must(t, err)
		m := &model{o: Options{
			Dir:          filepath.Join(dir, "log"),
			SegmentBytes: rapid.SampledFrom([]int64{512, 2048, 1 << 16}).Draw(t, "segmentBytes"),
			CacheBytes:   rapid.SampledFrom([]int64{1, 500, 1 << 20}).Draw(t, "cacheBytes"),
		}, d: drawDisk(t), mem: raft.NewMemoryStorage(), term: 1}
		must(t, create(m.o, testID, m.d))
		m.log = mustOpen(t, m.o, m.d)
		t.Repeat(map[string]func(*rapid.T){
			"append": m.append, "append2": m.append, "compact": m.compact, "restart": m.restart,
			"reopen": m.reopen, "read": m.read, "read2": m.read, "": m.check,
		})
		must(t, m.log.Close())
		must(t, os.RemoveAll(dir))
	})
}
