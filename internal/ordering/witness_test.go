package ordering

import (
	"fmt"
	"testing"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// withWitness is two members, of which the first leads, and a witness that has nothing and gets the log.
func withWitness(t *testing.T) []*peer {
	t.Helper()
	ps := peers(t, 2)
	s := raft.NewMemoryStorage()
	if err := s.ApplySnapshot(&pb.Snapshot{Metadata: &pb.SnapshotMetadata{Index: new(uint64), Term: new(uint64),
		ConfState: &pb.ConfState{Voters: []uint64{1, 2}}}}); err != nil {
		t.Fatal(err)
	}
	o, err := New(Options{Member: 3, Storage: s, Witness: true})
	if err != nil {
		t.Fatal(err)
	}
	ps = append(ps, &peer{Order: o, store: s})
	for _, p := range ps {
		p.Witnesses([]uint32{3})
	}
	lead(t, ps, 0, "a")
	ps[0].Vote([]uint32{1, 2}, []uint32{3}, nil)
	beat(t, ps, 0)
	return ps
}

// first is the entry behind which a peer's log begins.
func (p *peer) first(t *testing.T) uint64 {
	t.Helper()
	first, err := p.store.FirstIndex()
	if err != nil {
		t.Fatal(err)
	}
	return first - 1
}

// TestWitness: a witness that has nothing begins where the log is. What it has decided with one member the other one
// gets of it, when the first is lost; the witness does not keep the lead.
func TestWitness(t *testing.T) {
	ps := withWitness(t)
	a, b, w := ps[0], ps[1], ps[2]
	if at := w.first(t); at < 2 || len(w.delivered) > 0 || fmt.Sprint(w.Readers()) != "[1 2 3]" {
		t.Fatalf("the log of the witness begins behind entry %d, %v get it, it was given %q", at, w.Readers(),
			w.delivered)
	}
	a.Vote([]uint32{1, 2, 3}, nil, nil)
	beat(t, ps, 0)
	if got := fmt.Sprint(w.Voters()); got != "[1 2 3]" {
		t.Fatalf("%s vote", got)
	}
	b.down = true
	a.Propose([]byte("b"))
	settle(t, ps)
	if got := fmt.Sprint(a.delivered); got != "[a b]" {
		t.Fatalf("a member and the witness have it, and the member is given %s", got)
	}
	a.down, b.down = true, false
	led := false
	for range 400 {
		b.Tick()
		w.Tick()
		settle(t, ps)
		led = led || w.View().Leader == 3
	}
	if got := fmt.Sprint(b.delivered); !led || b.View().Leader != 2 || got != "[a b]" {
		t.Errorf("the witness led: %t; %d leads, and member 2 was given %s", led, b.View().Leader, got)
	}
}

// TestWitnessSaysLost: a member that lacks what a witness has dropped is lost only if another member says so as well.
func TestWitnessSaysLost(t *testing.T) {
	ps := withWitness(t)
	notice := func(from uint64) []byte {
		data, err := proto.Marshal(&pb.Message{Type: pb.MsgSnap.Enum(), From: &from, To: new(uint64(2)),
			Term: new(uint64(9)), Snapshot: &pb.Snapshot{Metadata: &pb.SnapshotMetadata{Index: new(uint64(77)),
				Term: new(uint64(8)), ConfState: &pb.ConfState{Voters: []uint64{1, 2, 3}}}}})
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	if err := ps[1].Step(3, notice(3)); err != nil || ps[1].Lost() != nil {
		t.Errorf("by the word of a witness: %v, %+v", err, ps[1].Lost())
	}
	if err := ps[1].Step(1, notice(1)); err != nil || ps[1].Lost() == nil || ps[1].Lost().First != 78 {
		t.Errorf("by a member's word: %v, %+v", err, ps[1].Lost())
	}
}

// TestWitnessYields: a witness that leads gives the lead to who answers, although another one that does not any more
// has all that it has.
func TestWitnessYields(t *testing.T) {
	ps := withWitness(t)
	a, b, w := ps[0], ps[1], ps[2]
	a.Vote([]uint32{1, 2, 3}, nil, nil)
	beat(t, ps, 0)
	b.down = true
	a.HandOver(3)
	settle(t, ps)
	w.Propose([]byte("b"))
	settle(t, ps)
	a.down, b.down = true, false
	for range 100 {
		b.Tick()
		w.Tick()
		settle(t, ps)
	}
	if got := fmt.Sprint(b.delivered); b.View().Leader != 2 || got != "[a b]" {
		t.Errorf("%d leads, and member 2 was given %s", b.View().Leader, got)
	}
}

// TestWitnessBehind: a witness that lacks what the leader has dropped goes on where the log is.
func TestWitnessBehind(t *testing.T) {
	ps := withWitness(t)
	ps[2].down = true
	for _, x := range "bcd" {
		ps[0].Propose([]byte(string(x)))
		settle(t, ps)
	}
	last, err := ps[0].store.LastIndex()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ps[0].store.CreateSnapshot(last-1, ps[0].changes.state, nil); err != nil {
		t.Fatal(err)
	}
	if err := ps[0].store.Compact(last - 1); err != nil {
		t.Fatal(err)
	}
	ps[2].down = false
	beat(t, ps, 0)
	beat(t, ps, 0)
	if at := ps[2].first(t); at != last || ps[2].Lost() != nil {
		t.Errorf("the log begins behind entry %d of %d, lost: %v", at, last, ps[2].Lost())
	}
	ps[0].Vote([]uint32{1, 2, 3}, nil, nil)
	beat(t, ps, 0)
	ps[1].down = true
	ps[0].Propose([]byte("e"))
	settle(t, ps)
	if got := fmt.Sprint(ps[0].delivered); got != "[a b c d e]" {
		t.Errorf("with the witness there is a majority, and the leader is given %s", got)
	}
}

// TestWitnessFromTheBeginning: where nothing is decided yet a witness gets what there is, as it may be needed to decide
// that.
func TestWitnessFromTheBeginning(t *testing.T) {
	ps := peers(t, 3)
	o, err := New(Options{Member: 3, Storage: ps[2].store, Witness: true})
	if err != nil {
		t.Fatal(err)
	}
	ps[2].Order = o
	for _, p := range ps {
		p.Witnesses([]uint32{3})
	}
	ps[1].down = true
	lead(t, ps, 0, "a")
	if got := fmt.Sprint(ps[0].delivered); got != "[a]" || ps[2].first(t) > 0 {
		t.Errorf("the leader is given %s, the witness begins behind entry %d", got, ps[2].first(t))
	}
}

// TestWitnessStandsLast: when a leader ends, a witness stands behind the others, whatever its number is.
func TestWitnessStandsLast(t *testing.T) {
	w := witnesses{all: []uint32{1}}
	if w.before(1, 3) || !w.before(2, 3) || w.before(4, 3) {
		t.Error("a member stands in another turn than by its number, or behind a witness")
	}
	w = witnesses{self: true, all: []uint32{3, 5}}
	if !w.before(4, 3) || w.before(5, 3) {
		t.Error("a witness stands before a member, or behind a witness of a higher number")
	}
}
