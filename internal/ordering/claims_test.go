package ordering

import (
	"fmt"
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

// spread carries frames as settle does, but only those that pass.
func spread(t *testing.T, ps []*peer, pass func(from, to uint32, m *pb.Message) bool) {
	t.Helper()
	for busy := true; busy; {
		busy = false
		for _, p := range ps {
			for _, m := range p.inbox {
				if f := decode(t, m.Data); pass(m.To, p.member, f) {
					if err := p.Step(m.To, m.Data); err != nil {
						t.Fatal(err)
					}
				}
			}
			p.inbox = nil
			for p.HasReady() {
				busy = true
				p.carry(t, func(m Message) {
					ps[m.To-1].inbox = append(ps[m.To-1].inbox, Message{To: p.member, Data: m.Data})
				})
			}
		}
	}
}

// TestAuthorFinds: the author of an entry delivers it when a majority has it on disk, also if the leader hears of nobody (O7); nobody else
// does, nor the author with less than a majority.
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
				spread(t, ps, func(from, to uint32, m *pb.Message) bool {
					for _, d := range c.deaf {
						if to == d {
							return false
						}
					}
					return to != 1 || m.GetType() == pb.MsgProp // the leader hears of nobody what they have
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

// TestClaimsAreOfTheTerm: what was said in another term, by a stranger, or in refusal, decides nothing; nor does it before the author's own disk has
// the entry, nor for an entry of an older term.
func TestClaimsAreOfTheTerm(t *testing.T) {
	ps := authored(t, 3)
	author := ps[1]
	term := author.View().Term
	author.Propose([]byte("2 0"))
	nobody := func(_, to uint32, m *pb.Message) bool {
		return m.GetType() != pb.MsgAppResp && !(to == 2 && m.GetType() == pb.MsgApp && len(m.Entries) == 0)
	}
	spread(t, ps, nobody)
	index := author.claims.own.index
	say := func(from uint32, term, index uint64, reject bool) int {
		data := message(t, &pb.Message{Type: pb.MsgAppResp.Enum(), From: proto.Uint64(uint64(from)), To: proto.Uint64(2), Term: proto.Uint64(term), Index: proto.Uint64(index), Reject: proto.Bool(reject)})
		_ = author.Step(from, data)
		for author.HasReady() {
			author.carry(t, func(Message) {})
		}
		return len(author.delivered)
	}
	if n := say(1, term-1, index, false) + say(9, term, index, false) + say(3, term, index, true) + say(1, term, index-1, false); n > 0 {
		t.Error("it is delivered by claims that do not count")
	}
	// The author has the next one in memory only, and then not at all.
	if n := say(3, term, index, false); n != 1 {
		t.Errorf("%d entries are delivered by a claim that counts", n)
	}
	if n := say(1, term, index+5, false) + say(3, term, index+5, false); n != 2 {
		t.Error("what the author does not have is delivered")
	}
}
