package ordering

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// forced has a member of those that are left go on alone, and gives it.
func forced(t *testing.T, p *peer) *peer {
	t.Helper()
	f, err := Force(p.store, p.member)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.store.Append(f.Entries); err != nil {
		t.Fatal(err)
	}
	if torn, err := Force(p.store, p.member); err != nil || torn.State == nil {
		t.Errorf("with the entries, and without the hard state, it is %+v, %v", torn, err)
	}
	if err := p.store.SetHardState(f.State); err != nil {
		t.Fatal(err)
	}
	if again, err := Force(p.store, p.member); err != nil || again.Entries != nil || again.State != nil ||
		again.Others != nil {
		t.Errorf("once more it is %+v, %v", again, err)
	}
	alone := &peer{Order: start(t, p.member, p.store), store: p.store}
	for range 100 {
		if alone.Tick(); alone.HasReady() {
			alone.carry(t, func(m Message) { t.Errorf("member %d tells %d something", p.member, m.To) })
		}
	}
	return alone
}

// TestForce: whatever is under way, and whoever is left, the member with the longest log goes on alone with all that
// anybody was given. (FO1 in package forced.)
func TestForce(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 1))
		ps := peers(t, 3+2*rng.IntN(2))
		lead(t, ps, 0, "a")
		for i := range rng.IntN(20) {
			k := rng.IntN(len(ps))
			switch rng.IntN(4) {
			case 0:
				ps[k].Tick()
			case 1:
				voters := []uint32{1, 2, 3}
				voters[rng.IntN(3)] = uint32(len(ps))
				slices.Sort(voters)
				ps[0].Vote(slices.Compact(voters), nil, nil)
			default:
				ps[k].Propose(fmt.Appendf(nil, "%d", i))
			}
			spread(t, ps, func(uint32, *pb.Message) bool { return rng.IntN(4) > 0 })
		}
		best, most := (*peer)(nil), &Forced{}
		for _, p := range ps {
			f, err := Force(p.store, p.member)
			if err != nil {
				t.Fatal(err)
			}
			if best == nil || f.Term > most.Term || f.Term == most.Term && f.Last > most.Last {
				best, most = p, f
			}
		}
		alone := forced(t, best)
		all := strings.Join(alone.delivered, " ")
		for _, p := range ps {
			if !strings.HasPrefix(all+" ", strings.Join(p.delivered, " ")+" ") {
				t.Errorf("seed %d: member %d was given %v, and member %d goes on with %s", seed, p.member, p.delivered,
					best.member, all)
			}
		}
		if !alone.Propose([]byte("later")) {
			t.Fatalf("seed %d: member %d does not lead", seed, best.member)
		}
		for alone.HasReady() {
			alone.carry(t, func(Message) {})
		}
		told, settled := alone.Peers()
		if got := alone.Voters(); len(got) != 1 || got[0] != best.member || len(told) != 1 || !settled ||
			alone.delivered[len(alone.delivered)-1] != "later" {
			t.Errorf("seed %d: %v vote, %v are told, and it is given %v", seed, got, told, alone.delivered)
		}
	}
}

// TestForceInTheMiddle: two configurations count, or the member does not vote.
func TestForceInTheMiddle(t *testing.T) {
	for _, conf := range []*ConfState{
		{Voters: []uint64{1, 2, 3}, VotersOutgoing: []uint64{2, 4, 5}, LearnersNext: []uint64{4}, AutoLeave: new(true)},
		{Voters: []uint64{2, 3}, Learners: []uint64{1, 4}},
		{Voters: []uint64{2}, VotersOutgoing: []uint64{1, 3}, LearnersNext: []uint64{1}, AutoLeave: new(false)},
	} {
		s := raft.NewMemoryStorage()
		if err := s.ApplySnapshot(&pb.Snapshot{Metadata: &pb.SnapshotMetadata{ConfState: conf, Index: new(uint64(7)),
			Term: new(uint64(3))}}); err != nil {
			t.Fatal(err)
		}
		if err := s.Append([]*pb.Entry{{Index: new(uint64(8)), Term: new(uint64(4)), Type: pb.EntryNormal.Enum(),
			Data: []byte("tail")}}); err != nil {
			t.Fatal(err)
		}
		if err := s.SetHardState(&pb.HardState{Term: new(uint64(5)), Vote: new(uint64(2)),
			Commit: new(uint64(7))}); err != nil {
			t.Fatal(err)
		}
		alone := forced(t, &peer{Order: &Order{member: 1}, store: s})
		if v := alone.View(); alone.delivered[0] != "tail" || v.Leader != 1 || v.Term <= 5+forcedTerms ||
			!slices.Equal(alone.Voters(), []uint32{1}) {
			t.Errorf("%v: it is given %q, sees %+v, %v vote", conf, alone.delivered, v, alone.Voters())
		}
	}
}

// TestForceRemoved: whoever was removed does not go on, and a removal of the last other one that is not known to be
// decided becomes so.
func TestForceRemoved(t *testing.T) {
	ps := peers(t, 2)
	lead(t, ps, 0, "a")
	ps[1].down = true
	ps[0].Vote([]uint32{1}, nil, []uint32{2})
	for ps[0].HasReady() {
		ps[0].carry(t, func(Message) {})
	}
	if f, err := Force(ps[0].store, 1); err != nil || f.Entries != nil || f.State == nil || f.Others != nil {
		t.Errorf("it is %+v, %v", f, err)
	}
	alone := forced(t, ps[0])
	if v := alone.View(); v.Leader != 1 || !slices.Equal(alone.Voters(), []uint32{1}) {
		t.Errorf("it sees %+v, and %v vote", v, alone.Voters())
	}
	if f, err := Force(ps[0].store, 2); err == nil {
		t.Errorf("one that was removed: %+v", f)
	}
}

// TestForceRefuses: a log with something that is no change of the configuration.
func TestForceRefuses(t *testing.T) {
	s := raft.NewMemoryStorage()
	if err := s.ApplySnapshot(&pb.Snapshot{Metadata: &pb.SnapshotMetadata{Index: new(uint64), Term: new(uint64),
		ConfState: &pb.ConfState{Voters: []uint64{1, 2}}}}); err != nil {
		t.Fatal(err)
	}
	leave, err := proto.Marshal(&pb.ConfChangeV2{})
	if err != nil {
		t.Fatal(err)
	}
	for _, data := range [][]byte{[]byte("\xff"), leave} {
		if err := s.Append([]*pb.Entry{{Index: new(uint64(1)), Term: new(uint64(1)), Type: pb.EntryConfChangeV2.Enum(),
			Data: data}}); err != nil {
			t.Fatal(err)
		}
		if f, err := Force(s, 1); err == nil {
			t.Errorf("%x: %+v", data, f)
		}
	}
}
