package ordering

import (
	"fmt"
	"testing"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
)

// propose offers n proposals at ps[0], numbered from first on.
func propose(t *testing.T, ps []*peer, first, n int) {
	t.Helper()
	for i := range n {
		if !ps[0].Propose(fmt.Appendf(nil, "%d", first+i)) {
			t.Fatalf("proposal %d was refused", first+i)
		}
		settle(t, ps)
	}
	ps[0].Tick() // the heartbeat tells the others what is committed
	settle(t, ps)
}

// TestPause: what is decided while delivery is paused comes later, in order, read from storage and
// mixed with what is decided meanwhile; raft itself does not wait.
func TestPause(t *testing.T) {
	ps := peers(t, 3)
	for _, p := range ps {
		p.feed.bytesMax = 100 // several readings
	}
	elect(t, ps, ps[0])
	propose(t, ps, 0, 10)
	for _, paused := range [][]*peer{{ps[2]}, {ps[0]}, {ps[1], ps[2]}} {
		before := len(ps[0].delivered)
		for _, p := range paused {
			p.Pause(true)
		}
		propose(t, ps, before, 20)
		for _, p := range paused {
			if len(p.delivered) != before || p.Behind() != 20 {
				t.Fatalf("member %d was paused: %d more delivered, %d behind", p.member, len(p.delivered)-before,
					p.Behind())
			}
			p.Pause(false)
			if !p.HasReady() {
				t.Fatalf("member %d has nothing to do although it is behind", p.member)
			}
			p.carry(t, func(Message) {})
			p.Pause(true) // again, half way
			if got := len(p.delivered) - before; got == 0 || got == 20 {
				t.Fatalf("%d of 20 entries at once", got)
			}
		}
		propose(t, ps, before+20, 5)
		for _, p := range paused {
			p.Pause(false)
		}
		propose(t, ps, before+25, 5)
		for _, p := range ps {
			if p.Behind() != 0 || len(p.delivered) != before+30 {
				t.Fatalf("member %d: %d entries, %d behind", p.member, len(p.delivered), p.Behind())
			}
			for i, d := range p.delivered {
				if d != fmt.Sprint(i) {
					t.Fatalf("member %d: entry %d is %s", p.member, i, d)
				}
			}
		}
	}
}

// TestLateEntriesAreCommittedOnes: while an entry is committed, another one can still be in its
// place on disk. It is handed out from memory or later, never from there.
func TestLateEntriesAreCommittedOnes(t *testing.T) {
	entry := func(index, term uint64) *pb.Entry { return &pb.Entry{Index: new(index), Term: new(term)} }
	s := raft.NewMemoryStorage()
	// the last one was never committed
	if err := s.Append([]*pb.Entry{entry(1, 1), entry(2, 1), entry(3, 1)}); err != nil {
		t.Fatal(err)
	}
	f := newFeed(s, 0, 1<<20)
	f.paused = true
	f.take([]*pb.Entry{entry(1, 1), entry(2, 1)})
	f.advance()
	f.take([]*pb.Entry{entry(3, 2)})
	f.paused = false
	if got := f.take(nil); len(got) != 2 || f.due() {
		t.Fatalf("before the new entry is written %v are handed out, and more is due: %v", got, f.due())
	}
	if err := s.Append([]*pb.Entry{entry(3, 2)}); err != nil {
		t.Fatal(err)
	}
	f.advance()
	if got := f.take(nil); len(got) != 1 || got[0].GetTerm() != 2 {
		t.Errorf("handed out: %v", got)
	}
}

// TestStored: what is handed out counts as stored once it is certainly on disk, and not before.
func TestStored(t *testing.T) {
	ps := peers(t, 3)
	if _, _, ok := ps[1].Stored(); ok {
		t.Error("something is stored before anything was delivered")
	}
	elect(t, ps, ps[0])
	propose(t, ps, 0, 3)
	for _, p := range ps {
		last, err := p.storage.LastIndex()
		if index, term, ok := p.Stored(); err != nil || !ok || index != last || term != 1 {
			t.Errorf("member %d: entry %d of term %d, %v; the last is %d, %v", p.member, index, term, ok, last, err)
		}
	}
	// A majority without this member may have an entry before it does.
	p := ps[2]
	p.feed.take([]*pb.Entry{{Index: new(p.feed.known + 1), Term: new(uint64(1))}})
	if index, _, ok := p.Stored(); ok {
		t.Errorf("entry %d is not on disk and counts as stored", index)
	}
}

// TestStart: delivery begins behind Start, whatever the commit index on disk says.
func TestStart(t *testing.T) {
	ps := peers(t, 3)
	elect(t, ps, ps[0])
	propose(t, ps, 0, 10)
	last, _ := ps[2].store.LastIndex()
	if err := ps[2].store.SetHardState(&pb.HardState{Term: new(ps[2].View().Term), Vote: new(uint64(0)),
		Commit: new(uint64(0))}); err != nil {
		t.Fatal(err)
	}
	o, err := New(Options{Member: 3, Storage: ps[2].store, Start: last - 4})
	if err != nil {
		t.Fatal(err)
	}
	ps[2].Order, ps[2].delivered = o, nil
	propose(t, ps, 10, 5)
	if got := fmt.Sprint(ps[2].delivered); got != "[6 7 8 9 10 11 12 13 14]" {
		t.Errorf("delivered %s", got)
	}
	if _, err := New(Options{Member: 3, Storage: ps[2].store, Start: 10_000}); err == nil {
		t.Error("a start behind the end of the log was taken")
	}
}

// TestLost: a member whose entries the leader has compacted says so and delivers nothing more. With
// the state from elsewhere it goes on.
func TestLost(t *testing.T) {
	ps := peers(t, 3)
	elect(t, ps, ps[0])
	propose(t, ps, 0, 3)
	ps[2].down = true
	propose(t, ps, 3, 10)
	base, _ := ps[0].store.LastIndex()
	base -= 2
	for _, p := range ps[:2] {
		compact(t, p.store, base)
	}
	ps[2].down = false
	for range 10 {
		ps[0].Tick()
		settle(t, ps)
	}
	lost := ps[2].Lost()
	if lost == nil || lost.Leader != 1 || lost.First != base+1 || lost.Have >= base {
		t.Fatalf("lost: %+v", lost)
	}
	if len(ps[2].delivered) != 3 {
		t.Errorf("delivered %v", ps[2].delivered)
	}
	snap, err := ps[0].store.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	if err := ps[2].store.ApplySnapshot(snap); err != nil {
		t.Fatal(err)
	}
	if ps[2].Order, err = New(Options{Member: 3, Storage: ps[2].store, Start: base}); err != nil {
		t.Fatal(err)
	}
	ps[2].delivered = nil
	for range 5 {
		ps[0].Tick()
		settle(t, ps)
	}
	propose(t, ps, 13, 2)
	if got := fmt.Sprint(ps[2].delivered); ps[2].Lost() != nil || got != "[11 12 13 14]" {
		t.Errorf("delivered %s, lost %v", got, ps[2].Lost())
	}
}

// TestNotLost: a leader that compacted what a member has, but does not know that it has it, does not
// make it give up.
func TestNotLost(t *testing.T) {
	ps := peers(t, 3)
	elect(t, ps, ps[0])
	propose(t, ps, 0, 5)
	base, _ := ps[0].store.LastIndex()
	snap := &pb.Message{Type: pb.MsgSnap.Enum(), From: new(uint64(1)), To: new(uint64(3)), Term: new(ps[2].View().Term),
		Snapshot: &pb.Snapshot{Metadata: &pb.SnapshotMetadata{Index: new(base), Term: new(ps[0].View().Term),
			ConfState: &pb.ConfState{Voters: []uint64{1, 2, 3}}}}}
	if lacks(ps[2].Order, snap) {
		t.Errorf("lost: %+v", ps[2].Lost())
	}
	*snap.Snapshot.Metadata.Index = base + 1
	if !lacks(ps[2].Order, snap) || ps[2].Lost().First != base+2 {
		t.Errorf("lost: %+v", ps[2].Lost())
	}
}

func compact(t *testing.T, s *raft.MemoryStorage, index uint64) {
	t.Helper()
	if _, err := s.CreateSnapshot(index, &pb.ConfState{Voters: []uint64{1, 2, 3}}, nil); err != nil {
		t.Fatal(err)
	}
	if err := s.Compact(index); err != nil {
		t.Fatal(err)
	}
}
