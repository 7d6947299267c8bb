package ordering

import (
	"fmt"
	"slices"
	"testing"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// beat ticks the leader so that the others hear what is decided.
func beat(t *testing.T, ps []*peer, k int) {
	t.Helper()
	for range 6 {
		ps[k].Tick()
		settle(t, ps)
	}
}

// TestVote: who is to vote no longer gets the log and does not count; and the other way round. Every member has the
// same configuration.
func TestVote(t *testing.T) {
	ps := peers(t, 5)
	lead(t, ps, 0, "a")
	ps[1].Vote([]uint32{2, 3, 4}, nil, nil) // no leader
	ps[0].Vote([]uint32{1, 2, 3}, nil, nil)
	ps[0].Vote([]uint32{1, 4, 5}, nil, nil) // while a change is under way
	beat(t, ps, 0)
	for i, p := range ps {
		if got := p.Voters(); !slices.Equal(got, []uint32{1, 2, 3}) || p.Voter(4) || !p.Voter(3) {
			t.Errorf("member %d takes %v to vote", i+1, got)
		}
	}
	ps[1].down, ps[3].down = true, true
	ps[0].Propose([]byte("b"))
	settle(t, ps)
	if got := ps[0].delivered; len(got) != 2 {
		t.Errorf("two of three who vote have it, and it is not decided: %q", got)
	}
	ps[3].down = false
	ps[2].down = true
	ps[0].Propose([]byte("c"))
	settle(t, ps)
	if got := ps[0].delivered; len(got) != 2 {
		t.Errorf("one of three who vote has it, and it is decided: %q", got)
	}
	ps[1].down, ps[2].down = false, false
	beat(t, ps, 0)
	if got := ps[4].delivered; fmt.Sprint(got) != "[a b c]" {
		t.Errorf("a member that does not vote is given %q", got)
	}
	ps[0].Vote([]uint32{1, 2, 3, 4, 5}, nil, nil)
	beat(t, ps, 0)
	if got := ps[4].Voters(); len(got) != 5 {
		t.Errorf("all are to vote, and member 5 takes %v to", got)
	}
}

// TestPeers: a leader knows who is silent since when, and who lacks what, and whether a change is under way.
func TestPeers(t *testing.T) {
	ps := peers(t, 4)
	lead(t, ps, 0, "a")
	if list, settled := ps[1].Peers(); list != nil || settled {
		t.Error("a follower knows the others")
	}
	for range 50 {
		ps[0].Tick()
		settle(t, ps)
	}
	ps[3].down = true
	ps[0].Propose([]byte("b"))
	term := ps[0].view.Term
	for range 20 {
		ps[0].Tick()
		for _, m := range []*pb.Message{ // it can be heard, and does not hear
			{Type: pb.MsgPreVote.Enum(), Term: &term, Index: new(uint64), LogTerm: new(uint64)},
			{Type: pb.MsgHeartbeatResp.Enum(), Term: proto.Uint64(term - 1)},
		} {
			m.From, m.To = proto.Uint64(4), proto.Uint64(1)
			_ = ps[0].Step(4, message(t, m))
		}
		settle(t, ps)
	}
	list, settled := ps[0].Peers()
	if !settled {
		t.Error("a change is under way")
	}
	for _, p := range list {
		away := p.Member == 4
		if !p.Voter || (p.Silent >= 20) != away || (p.Lag == 1) != away || p.Lag > 1 || p.Silent > 25 {
			t.Errorf("%+v", p)
		}
	}
	ps[0].Vote([]uint32{1, 2, 3}, nil, nil)
	for ps[0].HasReady() {
		ps[0].carry(t, func(Message) {})
	}
	if _, settled := ps[0].Peers(); settled {
		t.Error("who votes changes, and no change is under way")
	}
}

// TestConfiguredWhilePaused: raft goes by a change although its owner has paused; the owner is told of it in its place.
func TestConfiguredWhilePaused(t *testing.T) {
	ps := peers(t, 5)
	lead(t, ps, 0, "a")
	beat(t, ps, 0)
	ps[1].Pause(true)
	ps[0].Propose([]byte("b"))
	settle(t, ps)
	ps[0].Vote([]uint32{1, 2, 3}, nil, nil)
	beat(t, ps, 0)
	ps[0].Propose([]byte("c"))
	settle(t, ps)
	ps[0].Vote([]uint32{1, 2, 4}, nil, nil)
	beat(t, ps, 0)
	if got := ps[1].Voters(); !slices.Equal(got, []uint32{1, 2, 4}) {
		t.Errorf("a paused member takes %v to vote", got)
	}
	ps[1].Pause(false)
	var seen []string
	for ps[1].HasReady() {
		rd := ps[1].Ready()
		for _, d := range rd.Delivered {
			switch {
			case d.Conf == nil:
				seen = append(seen, string(d.Data))
			case len(d.Conf.GetVotersOutgoing()) == 0:
				seen = append(seen, fmt.Sprint(d.Conf.GetVoters()))
			}
		}
		ps[1].Advance()
	}
	if got := fmt.Sprint(seen); got != "[b [1 2 3] c [1 2 4]]" {
		t.Errorf("it is told %s", got)
	}
}

// TestStartWithConfiguration: what a member starts from says who votes, and what its log has behind that changes it.
func TestStartWithConfiguration(t *testing.T) {
	ps := peers(t, 5)
	lead(t, ps, 0, "a")
	ps[0].Vote([]uint32{1, 2, 3}, nil, nil)
	beat(t, ps, 0)
	at, state := ps[3].feed.given, ps[3].changes.state
	ps[0].Vote([]uint32{1, 2, 4}, nil, nil)
	beat(t, ps, 0)
	state1 := &pb.HardState{Term: new(uint64(1)), Vote: new(uint64), Commit: &at}
	if err := ps[3].store.SetHardState(state1); err != nil {
		t.Fatal(err)
	}
	o, err := New(Options{Member: 4, Storage: ps[3].store, Start: at, Conf: state})
	if err != nil {
		t.Fatal(err)
	}
	if got := o.Voters(); !slices.Equal(got, []uint32{1, 2, 3}) {
		t.Errorf("it starts with %v", got)
	}
	if o.changes.bound(at) != at {
		t.Error("it knows what it has not read yet")
	}
	ps[3].Order = o
	beat(t, ps, 0)
	if got := o.Voters(); !slices.Equal(got, []uint32{1, 2, 4}) {
		t.Errorf("then %v vote", got)
	}
}

// TestFoundByConfiguration: a follower finds nothing behind a change that it does not know to be decided, nor while two
// configurations count, nor by claims of members that do not vote, nor if it does not vote itself (O9).
func TestFoundByConfiguration(t *testing.T) {
	entry := func(i uint64, kind pb.EntryType) *pb.Entry {
		return &pb.Entry{Index: &i, Term: new(uint64(1)), Type: &kind, Data: []byte("x")}
	}
	for _, c := range []struct {
		about  string
		conf   *ConfState
		kind   pb.EntryType // of entry 2
		from   uint32       // whose claim comes
		commit uint64       // what is found
	}{
		{"a voter's claim", &ConfState{Voters: []uint64{1, 2, 3}}, pb.EntryNormal, 3, 3},
		{"a change before it", &ConfState{Voters: []uint64{1, 2, 3}}, pb.EntryConfChangeV2, 3, 1},
		{"a learner's claim", &ConfState{Voters: []uint64{1, 2, 4}, Learners: []uint64{3}}, pb.EntryNormal, 3, 0},
		{"as a learner", &ConfState{Voters: []uint64{1, 3, 4}, Learners: []uint64{2}}, pb.EntryNormal, 3, 0},
		{"two configurations", &ConfState{Voters: []uint64{1, 2, 3}, VotersOutgoing: []uint64{1, 4, 5}},
			pb.EntryNormal, 3, 0},
	} {
		s := raft.NewMemoryStorage()
		if err := s.ApplySnapshot(&pb.Snapshot{Metadata: &pb.SnapshotMetadata{ConfState: c.conf, Index: new(uint64),
			Term: new(uint64)}}); err != nil {
			t.Fatal(err)
		}
		o := start(t, 2, s)
		p := &peer{Order: o, store: s}
		give := func(m *pb.Message) {
			m.To, m.Term = new(uint64(2)), new(uint64(1))
			data, err := proto.Marshal(m)
			if err != nil {
				t.Fatal(err)
			}
			if err := o.Step(uint32(m.GetFrom()), data); err != nil {
				t.Fatal(err)
			}
			for o.HasReady() {
				p.carry(t, func(Message) {})
			}
		}
		give(&pb.Message{Type: pb.MsgApp.Enum(), From: new(uint64(1)), Index: new(uint64), LogTerm: new(uint64),
			Commit:  new(uint64),
			Entries: []*pb.Entry{entry(1, pb.EntryNormal), entry(2, c.kind), entry(3, pb.EntryNormal)}})
		give(&pb.Message{Type: pb.MsgAppResp.Enum(), From: new(uint64(c.from)), Index: new(uint64(3))})
		if got := o.node.BasicStatus().HardState.GetCommit(); got != c.commit {
			t.Errorf("%s: found decided up to %d, not %d", c.about, got, c.commit)
		}
	}
}

func TestConfStateCodec(t *testing.T) {
	c := &ConfState{Voters: []uint64{1, 2, 9}, Learners: []uint64{4}, VotersOutgoing: []uint64{1, 4},
		LearnersNext: []uint64{5}, AutoLeave: new(true)}
	data := AppendConfState([]byte("x"), c)
	got, err := ReadConfState(data[1:])
	if err != nil || !proto.Equal(got, c) {
		t.Errorf("%v, %v", got, err)
	}
	for _, bad := range [][]byte{nil, data, append(data[1:len(data):len(data)], 0x38, 0), []byte("\x38\x01")} {
		if got, err := ReadConfState(bad); err == nil {
			t.Errorf("%x is read as %v", bad, got)
		}
	}
}

// TestUnknownChange: who meets a change of who votes that is of another kind, or cannot be read, says so, and takes
// nothing for it.
func TestUnknownChange(t *testing.T) {
	for _, e := range []*pb.Entry{
		{Type: pb.EntryType(7).Enum()},
		{Type: pb.EntryConfChange.Enum()},
		{Type: pb.EntryType(7).Enum(), Data: []byte("?")},
	} {
		ps := peers(t, 3)
		lead(t, ps, 0, "a")
		was := ps[1].Voters()
		m := &pb.Message{Type: pb.MsgProp.Enum(), From: proto.Uint64(1), Entries: []*pb.Entry{e}}
		if err := ps[0].node.Step(m); err != nil {
			t.Fatal(err)
		}
		beat(t, ps, 0)
		for i, p := range ps {
			if p.Unread() == nil || !slices.Equal(p.Voters(), was) {
				t.Errorf("%v at member %d: %v, and %v vote", e, i+1, p.Unread(), p.Voters())
			}
		}
	}
}
