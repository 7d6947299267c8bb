package ordering

import (
	"fmt"
	"slices"
	"strconv"
	"testing"

	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// authored are peers whose proposals begin with their number.
func authored(t *testing.T, n int) []*peer {
	t.Helper()
	ps := peers(t, n)
	for _, p := range ps {
		p.claims.author = func(data []byte) uint32 {
			a, _ := strconv.Atoi(string(data[:1]))
			return uint32(a)
		}
	}
	elect(t, ps, ps[0])
	return ps
}

// TestAuthorFinds: the author of an entry delivers it when a majority has it on disk, also if the leader hears of
// nobody (O7); nobody else does, nor the author with less than a majority.
func TestAuthorFinds(t *testing.T) {
	for _, c := range []struct {
		n     int
		deaf  []uint32 // append nothing
		finds bool
	}{
		{3, nil, true}, {3, []uint32{3}, true}, {5, []uint32{4, 5}, true}, {5, []uint32{3, 4, 5}, false},
	} {
		t.Run(fmt.Sprint(c.n, " members, deaf ", c.deaf), func(t *testing.T) {
			ps := authored(t, c.n)
			for i := range 3 {
				ps[1].Propose(fmt.Appendf(nil, "2 %d", i))
				spread(t, ps, func(to uint32, m *pb.Message) bool {
					// the leader hears of nobody what they have
					return !slices.Contains(c.deaf, to) && (to != 1 || m.GetType() == pb.MsgProp)
				})
			}
			ps[0].Release()
			for _, p := range ps {
				if want := p.member == 2 && c.finds; (len(p.delivered) > 0) != want {
					t.Errorf("member %d delivered %v", p.member, p.delivered)
				}
			}
			settle(t, ps)
			ps[0].Tick()
			settle(t, ps)
			for _, p := range ps {
				if fmt.Sprint(p.delivered) != "[2 0 2 1 2 2]" {
					t.Errorf("in the end member %d delivered %v", p.member, p.delivered)
				}
			}
		})
	}
}

// say has a member claim something to p, and gives how much p has delivered then.
func say(t *testing.T, p *peer, from uint32, term, index uint64, reject bool) int {
	t.Helper()
	data := message(t, &pb.Message{Type: pb.MsgAppResp.Enum(), From: proto.Uint64(uint64(from)),
		To: proto.Uint64(uint64(p.member)), Term: proto.Uint64(term), Index: proto.Uint64(index),
		Reject: proto.Bool(reject)})
	if err := p.Step(from, data); err != nil {
		t.Fatal(err)
	}
	for p.HasReady() {
		p.carry(t, func(Message) {})
	}
	return len(p.delivered)
}

// silent lets nobody hear what others have on disk, nor what is decided.
func silent(_ uint32, m *pb.Message) bool {
	return m.GetType() != pb.MsgAppResp && m.GetType() != pb.MsgHeartbeat &&
		!(m.GetType() == pb.MsgApp && len(m.Entries) == 0)
}

// TestClaimsThatCount: what was said in another term, by a stranger, or in refusal, decides nothing; nor is anything
// delivered that the author does not have.
func TestClaimsThatCount(t *testing.T) {
	ps := authored(t, 3)
	author := ps[1]
	term := author.View().Term
	author.Propose([]byte("2 0"))
	spread(t, ps, silent)
	index := author.claims.own.index
	for _, c := range []struct {
		from        uint32
		term, index uint64
		reject      bool
		delivered   int
	}{
		{1, term - 1, index, false, 0}, {9, term, index, false, 0}, {3, term, index, true, 0},
		{1, term, index - 1, false, 0},
		{3, term, index, false, 1}, {1, term, index + 5, false, 1}, {3, term, index + 5, false, 1},
	} {
		if n := say(t, author, c.from, c.term, c.index, c.reject); n != c.delivered {
			t.Errorf("after %+v %d entries are delivered", c, n)
		}
	}
}

// TestClaimsOfOlderEntries: that a majority has an entry of an older term does not decide it; one of the current term
// behind it does.
func TestClaimsOfOlderEntries(t *testing.T) {
	ps := authored(t, 3)
	author := ps[2]
	author.Propose([]byte("3 0"))
	spread(t, ps, silent)
	old := author.claims.own.index
	ps[0].down = true
	for range 10 { // the others' leases on the leader run out
		ps[1].Tick()
		author.Tick()
	}
	for range 100 {
		if ps[1].Tick(); ps[1].View().Leader == 2 && author.View().Leader == 2 {
			break
		}
		spread(t, ps, silent)
	}
	own := author.claims.own
	if own.term != author.View().Term || own.index <= old {
		t.Fatalf("the author has %+v of the new leader, and the old one's entry at %d", own, old)
	}
	if n := say(t, author, 1, own.term, old, false); n != 0 {
		t.Error("an entry of an older term is delivered")
	}
	if n := say(t, author, 1, own.term, own.index, false); n != 1 {
		t.Errorf("%d entries are delivered when the new leader's is decided", n)
	}
}
