package ordering

import (
	"testing"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
)

// lead has peer k lead, and decide something.
func lead(t *testing.T, ps []*peer, k int, data string) {
	t.Helper()
	if err := ps[k].node.Campaign(); err != nil {
		t.Fatal(err)
	}
	settle(t, ps)
	ps[k].Propose([]byte(data))
	settle(t, ps)
}

// TestReadmit: a member without its log is readmitted by who leads, in a term that was begun since it asked and is far
// ahead, once something is decided in it; then it begins in that term and gets everything.
func TestReadmit(t *testing.T) {
	ps := peers(t, 3)
	lead(t, ps, 0, "a")
	before := ps[0].view.Term
	ps[2].down = true
	if _, ok := ps[1].Readmit(3, 7); ok || ps[1].view.Term != before {
		t.Error("a follower readmits")
	}
	if _, ok := ps[0].Readmit(3, 7); ok {
		t.Error("a leader readmits in the term that it had when it was asked")
	}
	if _, ok := ps[0].Readmit(3, 7); ok {
		t.Error("somebody readmits who does not lead again yet")
	}
	settle(t, ps)
	term, ok := ps[0].Readmit(3, 7)
	if !ok || term <= before+termsAhead || ps[0].view.Leader != 1 {
		t.Fatalf("member %d leads in term %d; readmitted: %v, in term %d", ps[0].view.Leader, ps[0].view.Term, ok, term)
	}
	if again, ok := ps[0].Readmit(3, 7); !ok || again != term {
		t.Errorf("asked again, it says term %d, %v", again, ok)
	}
	if ps[0].Propose([]byte("b")); ps[0].HasReady() {
		settle(t, ps)
	}

	s := raft.NewMemoryStorage()
	if err := s.ApplySnapshot(&pb.Snapshot{Metadata: &pb.SnapshotMetadata{Index: new(uint64), Term: new(uint64),
		ConfState: &pb.ConfState{Voters: []uint64{1, 2, 3}}}}); err != nil {
		t.Fatal(err)
	}
	if err := s.SetHardState(&pb.HardState{Term: &term, Vote: new(uint64), Commit: new(uint64)}); err != nil {
		t.Fatal(err)
	}
	ps[2] = &peer{Order: start(t, 3, s), store: s}
	for range 10 {
		ps[0].Tick()
		settle(t, ps)
	}
	if len(ps[2].delivered) != 2 || ps[2].delivered[1] != "b" {
		t.Errorf("the member is given %q", ps[2].delivered)
	}
	// Lost once more, it asks under another number, and what was said before is worth nothing.
	if _, ok := ps[0].Readmit(3, 8); ok {
		t.Error("an old term is readmitted")
	}
}

// TestReadmitBehind: who leads and has not been given what is decided does not readmit yet.
func TestReadmitBehind(t *testing.T) {
	ps := peers(t, 3)
	lead(t, ps, 0, "a")
	ps[2].down = true
	ps[0].Pause(true)
	_, _ = ps[0].Readmit(3, 7)
	settle(t, ps)
	for range 2 {
		if _, ok := ps[0].Readmit(3, 7); ok {
			t.Error("it is readmitted by one that is behind")
		}
	}
	ps[0].Pause(false)
	settle(t, ps)
	if _, ok := ps[0].Readmit(3, 7); !ok {
		t.Error("it is not readmitted")
	}
}

// TestReadmitNeedsMajority: without a majority beside the lost member nobody readmits.
func TestReadmitNeedsMajority(t *testing.T) {
	ps := peers(t, 3)
	lead(t, ps, 0, "a")
	ps[1].down, ps[2].down = true, true
	for range 50 {
		if _, ok := ps[0].Readmit(3, 7); ok {
			t.Fatal("readmitted by one of three")
		}
		ps[0].Tick()
		settle(t, ps)
	}
	ps[1].down = false
	for range 50 {
		for _, p := range ps[:2] {
			p.Tick()
			settle(t, ps)
			if _, ok := p.Readmit(3, 7); ok {
				return
			}
		}
	}
	t.Error("never readmitted with a majority")
}
