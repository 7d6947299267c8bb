package ordering

import (
	"fmt"
	"slices"
	"testing"

	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// site is a cluster whose frames are counted by way, and passed on by who gets them for others.
type site struct {
	ps   []*peer
	down []uint32                   // nothing reaches them
	cut  func(from, to uint32) bool // nil: nothing is
	sent map[[2]uint32]int          // appends with entries, by who sends and who receives
}

// sites are members that all go by the same groups; the first leads.
func sites(t *testing.T, n int, groups ...[]uint32) *site {
	t.Helper()
	x := &site{ps: peers(t, n), sent: map[[2]uint32]int{}}
	for _, p := range x.ps {
		p.Sites(groups)
	}
	elect(t, x.ps, x.ps[0])
	x.settle(t)
	x.tick(t)
	return x
}

// tick has time pass, and all be carried.
func (x *site) tick(t *testing.T) {
	t.Helper()
	for _, p := range x.ps {
		if !slices.Contains(x.down, p.member) {
			p.Tick()
		}
	}
	x.settle(t)
}

// carries reports whether a frame arrives.
func (x *site) carries(from, to uint32) bool {
	return !slices.Contains(x.down, to) && !slices.Contains(x.down, from) && (x.cut == nil || !x.cut(from, to))
}

// settle carries frames until nothing is left to do.
func (x *site) settle(t *testing.T) {
	t.Helper()
	for busy := true; busy; {
		busy = false
		for _, p := range x.ps {
			for p.HasReady() {
				busy = true
				p.carry(t, func(m Message) { x.send(t, p.member, m) })
			}
		}
	}
}

// send has a member take a message, and pass it on.
func (x *site) send(t *testing.T, from uint32, m Message) {
	t.Helper()
	if !x.carries(from, m.To) {
		return
	}
	if d := decode(t, m.Data); d.GetType() == pb.MsgApp && len(d.Entries) > 0 {
		x.sent[[2]uint32{from, m.To}]++
	}
	step := func(p *peer, err error) {
		if err != nil {
			t.Errorf("member %d: %v", p.member, err)
		}
	}
	if to := x.ps[m.To-1]; m.For == nil {
		step(to, to.Step(from, m.Data))
		return
	}
	for _, id := range m.For {
		if p := x.ps[id-1]; id == m.To || x.carries(m.To, id) {
			step(p, p.Relayed(from, m.Data))
		}
	}
}

// propose has a member propose something, and gives what travelled between whom for that.
func (x *site) propose(t *testing.T, p *peer, what string) map[[2]uint32]int {
	t.Helper()
	x.sent = map[[2]uint32]int{}
	if !p.Propose([]byte(what)) {
		t.Fatal("it is not taken")
	}
	x.settle(t)
	p.Release()
	x.settle(t)
	return x.sent
}

// has reports whether all of these have delivered exactly so much.
func (x *site) has(n int, members ...uint32) bool {
	return !slices.ContainsFunc(members, func(m uint32) bool { return len(x.ps[m-1].delivered) != n })
}

// TestRelay: an entry leaves once for a site, all get it, and each answers for itself (O11). Members of the leader's
// own site get it directly, as do those that are at a site of their own.
func TestRelay(t *testing.T) {
	x := sites(t, 6, []uint32{1, 2}, []uint32{3, 4, 5})
	got := x.propose(t, x.ps[0], "a")
	if want := map[[2]uint32]int{{1, 2}: 1, {1, 3}: 1, {1, 6}: 1}; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("appends went %v, want %v", got, want)
	}
	x.tick(t)
	if x.tick(t); !x.has(1, 1, 2, 3, 4, 5, 6) {
		t.Error("somebody does not have it")
	}
	list, _ := x.ps[0].Peers()
	for _, p := range list {
		if p.Lag != 0 {
			t.Errorf("member %d has not answered", p.Member)
		}
	}
}

// TestRelayIsDown: who does not get an append because the one that is to pass it on is away, or does not reach it, gets
// it directly soon, and for a while; then things are as before.
func TestRelayIsDown(t *testing.T) {
	for name, cut := range map[string]func(x *site){
		"it is away":           func(x *site) { x.down = []uint32{3} },
		"it does not reach it": func(x *site) { x.cut = func(from, to uint32) bool { return from == 3 && to == 4 } },
	} {
		t.Run(name, func(t *testing.T) {
			x := sites(t, 5, []uint32{3, 4, 5})
			cut(x)
			x.propose(t, x.ps[0], "a")
			if x.has(1, 4) {
				t.Fatal("nothing was cut")
			}
			for range patienceLeast + 2*3 { // and a heartbeat, and one whose answer says what is missing
				x.tick(t)
			}
			if !x.has(1, 1, 2, 4) {
				t.Error("it is not there after some ticks")
			}
			if got := x.propose(t, x.ps[0], "b"); got[[2]uint32{1, 4}] == 0 {
				t.Errorf("it is not sent directly: %v", got)
			}
			x.down, x.cut = nil, nil
			for range restTicks + 10 {
				x.tick(t)
			}
			got := x.propose(t, x.ps[0], "c")
			for range 6 {
				x.tick(t)
			}
			if got[[2]uint32{1, 3}] != 1 || got[[2]uint32{1, 4}] != 0 || !x.has(3, 3, 4, 5) {
				t.Errorf("in the end appends went %v", got)
			}
		})
	}
}

// TestRelayPatience: where answers take longer than the patience at first, that becomes longer.
func TestRelayPatience(t *testing.T) {
	x := sites(t, 5, []uint32{3, 4, 5})
	r := &x.ps[0].relays
	for _, want := range []uint64{8, 16, 20, 20} {
		r.owed[4] = owed{1 << 40, x.ps[0].ticks}
		for was := r.patience; r.patience == was && len(r.owed) > 0; {
			x.tick(t)
		}
		if r.patience != want {
			t.Errorf("it is %d ticks, want %d", r.patience, want)
		}
		delete(r.owed, 4)
	}
	x.ps[0].Unreachable(3)
	if _, still := r.via[4]; still || len(r.via) != 0 {
		t.Errorf("nothing can be sent to member 3: %v", r.via)
	}
}

// TestRelayDiffers: what is not the same for two members is sent to each, in the way of its site. What is the same as
// the last one for its member is not sent twice, and nothing overtakes another one to its member.
func TestRelayDiffers(t *testing.T) {
	r := relays{via: map[uint32]uint32{3: 3, 4: 3, 5: 3}, owed: map[uint32]owed{}}
	app := func(to uint64, index uint64) *pb.Message {
		return &pb.Message{Type: pb.MsgApp.Enum(), To: &to, Index: &index,
			Entries: []*pb.Entry{{Index: proto.Uint64(index + 1)}}}
	}
	var list []Message
	for _, m := range []*pb.Message{app(2, 7), app(3, 7), app(3, 7), app(4, 7), app(4, 8),
		app(3, 8), app(5, 6), app(5, 8)} {
		if !r.joins(m, list, 1) {
			list = r.early(m, Message{To: uint32(m.GetTo())}, list)
		}
	}
	want := []Message{{To: 2}, {To: 3, For: []uint32{3, 4}}, {To: 3, For: []uint32{4, 3}}, {To: 3, For: []uint32{5}},
		{To: 3, For: []uint32{5}}}
	if fmt.Sprint(list) != fmt.Sprint(want) {
		t.Errorf("%v, want %v", list, want)
	}
	if r.owed[4] != (owed{8, 1}) || r.owed[3] != (owed{8, 1}) {
		t.Errorf("%v is owed", r.owed)
	}
}

// TestRelayedRefuses: nothing but appends is passed on, of who is said to have sent them.
func TestRelayedRefuses(t *testing.T) {
	p := peers(t, 3)[2]
	for name, m := range map[string]*pb.Message{
		"a vote":            {Type: pb.MsgVoteResp.Enum(), From: proto.Uint64(1), To: proto.Uint64(3)},
		"a proposal":        {Type: pb.MsgProp.Enum(), From: proto.Uint64(1), To: proto.Uint64(3)},
		"another's message": {Type: pb.MsgApp.Enum(), From: proto.Uint64(2), To: proto.Uint64(3)},
	} {
		if err := p.Relayed(1, message(t, m)); err == nil {
			t.Errorf("%s was taken", name)
		}
	}
	if err := p.Relayed(1, []byte{0xff}); err == nil {
		t.Error("garbage was taken")
	}
}
