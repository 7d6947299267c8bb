package ordering

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
	"testing/cryptotest"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// peer is an endpoint with a perfect disk.
type peer struct {
	*Order
	store     *raft.MemoryStorage
	inbox     []Message // To is who sent it
	delivered []string
	down      bool
}

func start(t *testing.T, id uint32, s *raft.MemoryStorage) *Order {
	t.Helper()
	o, err := New(Options{Member: id, Storage: s})
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func peers(t *testing.T, n int) []*peer {
	t.Helper()
	cryptotest.SetGlobalRandom(t, 1) // raft's election timeouts
	var voters []uint64
	for i := range n {
		voters = append(voters, uint64(i+1))
	}
	var ps []*peer
	for i := range n {
		s := raft.NewMemoryStorage()
		if err := s.ApplySnapshot(&pb.Snapshot{Metadata: &pb.SnapshotMetadata{ConfState: &pb.ConfState{Voters: voters},
			Index: new(uint64), Term: new(uint64)}}); err != nil {
			t.Fatal(err)
		}
		ps = append(ps, &peer{Order: start(t, uint32(i+1), s), store: s})
	}
	return ps
}

// carry does one peer's work and hands its frames to send.
func (p *peer) carry(t *testing.T, send func(Message)) {
	t.Helper()
	rd := p.Ready()
	for _, m := range rd.Early {
		send(m)
	}
	if b := rd.Begins; b != nil {
		if err := p.store.ApplySnapshot(&pb.Snapshot{Metadata: &pb.SnapshotMetadata{ConfState: b.State,
			Index: &b.Index, Term: &b.Term}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.store.Append(rd.Entries); err != nil {
		t.Fatal(err)
	}
	if rd.HardState != nil {
		if err := p.store.SetHardState(rd.HardState); err != nil {
			t.Fatal(err)
		}
	}
	for _, m := range rd.Late {
		send(m)
	}
	for _, d := range rd.Delivered {
		if d.Conf != nil {
			continue
		}
		p.delivered = append(p.delivered, string(d.Data))
	}
	p.Advance()
}

// settle carries frames until nothing is left to do.
func settle(t *testing.T, ps []*peer) {
	t.Helper()
	spread(t, ps, func(uint32, *pb.Message) bool { return true })
}

// spread carries those frames that pass, until nothing is left to do; the others are lost.
func spread(t *testing.T, ps []*peer, pass func(to uint32, m *pb.Message) bool) {
	t.Helper()
	for busy := true; busy; {
		busy = false
		for i, p := range ps {
			if p.down {
				p.inbox = nil
				continue
			}
			for _, m := range p.inbox {
				if !pass(p.member, decode(t, m.Data)) {
					continue
				}
				if err := p.Step(m.To, m.Data); err != nil {
					t.Fatal(err)
				}
			}
			p.inbox = nil
			for p.HasReady() {
				busy = true
				p.carry(t, func(m Message) {
					to := ps[m.To-1]
					to.inbox = append(to.inbox, Message{To: uint32(i + 1), Data: m.Data})
				})
			}
		}
	}
}

// elect ticks a peer until it leads.
func elect(t *testing.T, ps []*peer, p *peer) {
	t.Helper()
	for range 100 {
		p.Tick()
		settle(t, ps)
		if p.View().Leader == p.member {
			return
		}
	}
	t.Fatalf("member %d does not become leader", p.member)
}

// TestTotalOrder: everybody's proposals come out everywhere, in one order (O2).
func TestTotalOrder(t *testing.T) {
	ps := peers(t, 3)
	if ps[1].Propose([]byte("too early")) {
		t.Error("a proposal was taken without a leader")
	}
	elect(t, ps, ps[0])
	for i := range 30 {
		if !ps[i%3].Propose(fmt.Appendf(nil, "%d", i)) {
			t.Fatalf("proposal %d was refused", i)
		}
		if i%4 == 0 {
			settle(t, ps)
		}
	}
	settle(t, ps)
	ps[0].Tick() // the heartbeat tells the others what is committed
	settle(t, ps)
	for _, p := range ps {
		if fmt.Sprint(p.delivered) != fmt.Sprint(ps[0].delivered) || len(p.delivered) != 30 {
			t.Errorf("member %d delivered %v", p.member, p.delivered)
		}
	}
	if v := ps[2].View(); v.Leader != 1 || v.Term == 0 {
		t.Errorf("member 3 sees %+v", v)
	}
}

// TestNothingBeforeTheDisk: an entry that only the leader has sent, nobody stored, is not
// delivered; and a leader's own vote counts at Advance (O1).
func TestNothingBeforeTheDisk(t *testing.T) {
	ps := peers(t, 3)
	elect(t, ps, ps[0])
	ps[0].Propose([]byte("x"))
	rd := ps[0].Ready()
	if len(rd.Early) != 2 || len(rd.Late) != 0 || len(rd.Entries) != 1 || !rd.Sync || len(rd.Delivered) != 0 {
		t.Fatalf("the leader's Ready: %d early, %d late, %d entries, sync %v, %d delivered",
			len(rd.Early), len(rd.Late), len(rd.Entries), rd.Sync, len(rd.Delivered))
	}
	if err := ps[1].Step(1, rd.Early[0].Data); err != nil {
		t.Fatal(err)
	}
	rd2 := ps[1].Ready()
	if len(rd2.Early) != 0 || len(rd2.Late) != 1 || !rd2.Sync {
		t.Fatalf("a follower's Ready: %d early, %d late, sync %v: its answer must follow its disk", len(rd2.Early),
			len(rd2.Late), rd2.Sync)
	}
	// The answer of one follower alone is one vote of three: not delivered until the
	// leader's own write is done, too.
	if err := ps[0].Step(2, rd2.Late[0].Data); err != nil {
		t.Fatal(err)
	}
	if err := ps[0].store.Append(rd.Entries); err != nil {
		t.Fatal(err)
	}
	ps[0].Advance()
	if rd := ps[0].Ready(); len(rd.Delivered) != 1 || string(rd.Delivered[0].Data) != "x" {
		t.Errorf("with two of three on disk: %+v", rd.Delivered)
	}
}

// TestLeaderChange: what the old leader had not spread is lost, what was delivered stays,
// and the old leader catches up from the log after a restart.
func TestLeaderChange(t *testing.T) {
	ps := peers(t, 3)
	elect(t, ps, ps[0])
	ps[0].Propose([]byte("stays"))
	settle(t, ps)
	ps[0].Propose([]byte("lost"))
	ps[0].carry(t, func(Message) {})
	ps[0].down = true
	for range 10 { // the others' leases on the leader run out
		ps[1].Tick()
		ps[2].Tick()
	}
	elect(t, ps, ps[1])
	ps[1].Propose([]byte("new"))
	settle(t, ps)
	ps[0].Order, ps[0].down, ps[0].delivered = start(t, 1, ps[0].store), false, nil
	for range 3 {
		ps[1].Tick()
		settle(t, ps)
	}
	for _, p := range ps {
		if fmt.Sprint(p.delivered) != "[stays new]" {
			t.Errorf("member %d delivered %v", p.member, p.delivered)
		}
	}
	if ps[1].View().Term <= 1 || ps[0].View().Leader != 2 {
		t.Errorf("views %+v %+v", ps[0].View(), ps[1].View())
	}
}

// TestUncommittedIsBounded: a leader without a majority refuses more than
// UncommittedBytesMax.
func TestUncommittedIsBounded(t *testing.T) {
	ps := peers(t, 1)
	s := ps[0].store
	o, err := New(Options{Member: 1, Storage: s, UncommittedBytesMax: 1000})
	if err != nil {
		t.Fatal(err)
	}
	ps[0].Order = o
	elect(t, ps, ps[0])
	taken := 0
	for range 100 {
		if o.Propose(bytes.Repeat([]byte("x"), 100)) {
			taken++
		}
	}
	if taken < 5 || taken > 11 {
		t.Errorf("%d proposals of 100 bytes were taken within 1000", taken)
	}
}

func decode(t *testing.T, data []byte) *pb.Message {
	t.Helper()
	m := &pb.Message{}
	if err := proto.Unmarshal(data, m); err != nil {
		t.Fatal(err)
	}
	return m
}

func message(t *testing.T, m *pb.Message) []byte {
	t.Helper()
	b, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestStepRefuses: frames that another member may not send.
func TestStepRefuses(t *testing.T) {
	m := func(kind pb.MessageType, from, to uint64) *pb.Message {
		return &pb.Message{Type: kind.Enum(), From: &from, To: &to, Term: new(uint64)}
	}
	conf := m(pb.MsgProp, 2, 1)
	conf.Entries = []*pb.Entry{{Type: pb.EntryConfChange.Enum()}}
	for name, data := range map[string][]byte{
		"no message":            {0xff},
		"no type":               message(t, &pb.Message{From: new(uint64), To: new(uint64)}),
		"for somebody else":     message(t, m(pb.MsgHeartbeat, 2, 3)),
		"from somebody else":    message(t, m(pb.MsgHeartbeat, 3, 1)),
		"a local one":           message(t, m(pb.MsgHup, 2, 1)),
		"a local beat":          message(t, m(pb.MsgBeat, 2, 1)),
		"a storage answer":      message(t, m(pb.MsgStorageAppendResp, 2, 1)),
		"a change of members":   message(t, conf),
		"an unreachable report": message(t, m(pb.MsgUnreachable, 2, 1)),
	} {
		ps := peers(t, 3)
		if err := ps[0].Step(2, data); !errors.Is(err, ErrMessage) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzStep: no frame of an authenticated but broken member panics the decoder's side of
// Step. Well-formed raft messages that lie (commit indexes of entries that do not exist)
// are raft's to panic on, so only what Step refuses is fuzzed.
func FuzzStep(f *testing.F) {
	to := uint64(9)
	b, err := proto.Marshal(&pb.Message{Type: pb.MsgHeartbeat.Enum(), From: new(uint64), To: &to})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add([]byte{})
	f.Add([]byte{0xff})
	f.Fuzz(func(t *testing.T, data []byte) {
		m := &pb.Message{}
		if proto.Unmarshal(data, m) == nil && m.GetTo() == 1 {
			return
		}
		s := raft.NewMemoryStorage()
		if err := s.ApplySnapshot(&pb.Snapshot{Metadata: &pb.SnapshotMetadata{
			ConfState: &pb.ConfState{Voters: []uint64{1, 2}}, Index: new(uint64), Term: new(uint64)}}); err != nil {
			t.Fatal(err)
		}
		if err := start(t, 1, s).Step(2, data); !errors.Is(err, ErrMessage) {
			t.Fatalf("%x: %v", data, err)
		}
	})
}

// TestHandOver: the lead goes to a member that has all entries, at once, and nothing that was delivered changes its
// place. A follower gives nothing away.
func TestHandOver(t *testing.T) {
	ps := peers(t, 3)
	elect(t, ps, ps[0])
	for i := range 5 {
		ps[i%3].Propose(fmt.Appendf(nil, "%d", i))
		settle(t, ps)
	}
	ps[1].HandOver(3)
	settle(t, ps)
	if v := ps[2].View(); v.Leader != 1 {
		t.Fatalf("a follower handed over to member %d", v.Leader)
	}
	ps[0].Propose([]byte("before"))
	ps[0].HandOver(2)
	if ps[0].Propose([]byte("meanwhile")) && !ps[0].Held() {
		t.Error("a proposal was taken while the lead is handed over")
	}
	settle(t, ps)
	for _, p := range ps {
		if v := p.View(); v.Leader != 2 {
			t.Errorf("member %d sees member %d lead", p.member, v.Leader)
		}
	}
	ps[0].Propose([]byte("after"))
	settle(t, ps)
	ps[1].Tick()
	settle(t, ps)
	for _, p := range ps {
		if got := fmt.Sprint(p.delivered); got != "[0 1 2 3 4 before after]" {
			t.Errorf("member %d delivered %s", p.member, got)
		}
	}
}

// ended makes a peer fall silent, and tells others that it has ended.
func ended(ps []*peer, gone *peer, told ...*peer) {
	gone.down = true
	for _, p := range told {
		p.Gone(gone.member)
	}
}

// TestGone: a leader that is known to have ended has a successor before a tick has passed, and the first member does
// not wait for the others; who hears of it late, or is the only one who has heard, does no harm.
func TestGone(t *testing.T) {
	ps := peers(t, 3)
	elect(t, ps, ps[0])
	ps[0].Propose([]byte("stays"))
	settle(t, ps)
	ended(ps, ps[0], ps[2], ps[1]) // the second of two first
	settle(t, ps)
	if v := ps[2].View(); v.Leader != 2 {
		t.Fatalf("member %d leads", v.Leader)
	}
	ps[1].Propose([]byte("new"))
	settle(t, ps)
	ps[1].Tick()
	settle(t, ps)
	if got := fmt.Sprint(ps[2].delivered); got != "[stays new]" {
		t.Errorf("delivered %s", got)
	}
}

// TestGoneTakesTurns: the first of those that are left is down as well; the next stands for election a tick later.
func TestGoneTakesTurns(t *testing.T) {
	ps := peers(t, 5)
	elect(t, ps, ps[2])
	ps[0].down = true
	ended(ps, ps[2], ps[1], ps[3], ps[4])
	settle(t, ps)
	ticks := 0
	for ; ps[4].View().Leader == 0 && ticks < 10; ticks++ {
		for _, p := range []*peer{ps[1], ps[3], ps[4]} {
			p.Tick()
			settle(t, ps)
		}
	}
	if v := ps[4].View(); v.Leader != 2 || ticks > 2 {
		t.Errorf("member %d leads after %d ticks", v.Leader, ticks)
	}
}

// TestGoneIsNot: who takes a living leader for ended gets no vote of those that hear it, and follows it again.
func TestGoneIsNot(t *testing.T) {
	ps := peers(t, 3)
	elect(t, ps, ps[0])
	term := ps[0].View().Term
	ps[1].Gone(1)
	settle(t, ps)
	ps[1].Gone(3) // no leader: nothing
	for range 20 {
		for _, p := range ps {
			p.Tick()
		}
		settle(t, ps)
	}
	for _, p := range ps {
		if v := p.View(); v.Leader != 1 || v.Term != term {
			t.Errorf("member %d sees member %d lead in term %d, not member 1 in term %d", p.member, v.Leader, v.Term,
				term)
		}
	}
}
