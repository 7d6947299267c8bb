package ordering

import (
	"fmt"
	"testing"
)

// alonePeers are three of which the first leads, and votes alone; it waits for the others.
func alonePeers(t *testing.T) []*peer {
	t.Helper()
	ps := peers(t, 3)
	for _, p := range ps {
		p.Order = again(t, p)
	}
	lead(t, ps, 0, "a")
	ps[0].Vote([]uint32{1}, nil, nil)
	beat(t, ps, 0)
	if got := ps[2].Voters(); fmt.Sprint(got) != "[1]" {
		t.Fatalf("%v vote", got)
	}
	return ps
}

// again starts a peer's endpoint from what its disk has.
func again(t *testing.T, p *peer) *Order {
	t.Helper()
	o, err := New(Options{Member: p.member, Storage: p.store, Alone: true})
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// has compares what a peer was given behind the first entry.
func has(t *testing.T, p *peer, want, about string) {
	t.Helper()
	got := ""
	for _, d := range p.delivered[1:] {
		got += d
	}
	if got != want {
		t.Errorf("%s: member %d is given %q, not %q", about, p.member, got, want)
	}
}

// TestAlone: what one voter decides alone is handed out once the others have it, or are not waited for (O10).
func TestAlone(t *testing.T) {
	ps := alonePeers(t)
	ps[0].Propose([]byte("b"))
	settle(t, ps)
	has(t, ps[0], "b", "all are there")
	ps[2].down = true
	ps[0].Propose([]byte("c"))
	beat(t, ps, 0)
	has(t, ps[0], "b", "one is not there")
	has(t, ps[1], "bc", "two have it, and one of them knows")
	ps[0].Forgo([]uint32{3})
	settle(t, ps)
	has(t, ps[0], "bc", "nobody waits for who is not there")
	ps[1].down = true
	ps[0].Propose([]byte("d"))
	ps[0].Propose([]byte("e"))
	beat(t, ps, 0)
	has(t, ps[0], "bc", "another one is not there")
	if n := ps[0].feed.known - ps[0].feed.given; n != 2 || ps[0].Behind() > 0 {
		t.Errorf("%d entries wait, not two, and %d could be given", n, ps[0].Behind())
	}
	ps[1].down = false
	beat(t, ps, 0)
	has(t, ps[0], "bcde", "it is back")
	ps[0].Pause(true)
	ps[0].Propose([]byte("f"))
	beat(t, ps, 0)
	ps[0].Pause(false)
	settle(t, ps)
	has(t, ps[0], "bcdef", "it has paused")
	ps[2].down = false
	ps[0].Forgo(nil)
	beat(t, ps, 0)
	has(t, ps[2], "bcdef", "all are back")
}

// TestAloneOnTwoDisks: who does not vote is given nothing before it has it on its own disk. What is decided reaches it
// with what follows, which is on the other's disk by then.
func TestAloneOnTwoDisks(t *testing.T) {
	ps := alonePeers(t)
	given, early := 0, 0
	for i := range 20 {
		ps[0].Propose(fmt.Append(nil, i))
		for ps[0].HasReady() { // its own disk is fast
			ps[0].carry(t, func(m Message) {
				ps[m.To-1].inbox = append(ps[m.To-1].inbox, Message{To: 1, Data: m.Data})
			})
		}
		if i%2 == 0 {
			continue
		}
		for _, m := range ps[1].inbox {
			if err := ps[1].Step(m.To, m.Data); err != nil {
				t.Fatal(err)
			}
		}
		ps[1].inbox = nil
		for ps[1].HasReady() {
			rd := ps[1].Ready()
			last, err := ps[1].store.LastIndex()
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range rd.Delivered {
				if given++; d.Index > last {
					early++
				}
			}
			if err := ps[1].store.Append(rd.Entries); err != nil {
				t.Fatal(err)
			}
			for _, m := range rd.Late {
				ps[0].inbox = append(ps[0].inbox, Message{To: 2, Data: m.Data})
			}
			ps[1].Advance()
		}
		settle(t, ps[:1])
	}
	if early > 0 || given < 10 {
		t.Errorf("%d entries of %d were given before they were on the disk", early, given)
	}
}

// TestAloneStarts: one that voted alone waits when it starts again, until it leads, and then for all.
func TestAloneStarts(t *testing.T) {
	ps := alonePeers(t)
	ps[1].down, ps[2].down = true, true
	ps[0].Propose([]byte("b"))
	beat(t, ps, 0)
	has(t, ps[0], "", "nobody else is there")
	ps[0].Order = again(t, ps[0])
	ps[0].delivered = nil
	settle(t, ps)
	if len(ps[0].delivered) > 0 {
		t.Errorf("it does not lead, and is given %q", ps[0].delivered)
	}
	elect(t, ps, ps[0])
	beat(t, ps, 0)
	if len(ps[0].delivered) > 0 {
		t.Errorf("it leads and has heard of nobody, and is given %q", ps[0].delivered)
	}
	ps[0].Forgo([]uint32{2, 3})
	settle(t, ps)
	if got := fmt.Sprint(ps[0].delivered); got != "[a b]" {
		t.Errorf("it waits for nobody, and is given %s", got)
	}
}

// TestAloneNoLonger: what was decided by one alone is handed out when others vote as well that have it, not before.
func TestAloneNoLonger(t *testing.T) {
	ps := alonePeers(t)
	ps[1].down, ps[2].down = true, true
	ps[0].Forgo([]uint32{3})
	ps[0].Propose([]byte("b"))
	beat(t, ps, 0)
	ps[0].Vote([]uint32{1, 2, 3}, nil, nil)
	ps[0].Propose([]byte("c")) // decided by the one as well: raft has not taken the change in
	ps[0].Release()
	beat(t, ps, 0)
	if got := ps[0].Voters(); fmt.Sprint(got) != "[1 2 3]" {
		t.Fatalf("%v vote", got)
	}
	if n := ps[0].feed.known - ps[0].feed.given; n < 3 {
		t.Fatalf("only %d entries are decided", n)
	}
	has(t, ps[0], "", "the others are to vote, and do not have it")
	ps[0].Order = again(t, ps[0])
	settle(t, ps)
	has(t, ps[0], "", "it has started again")
	ps[2].down = false
	for range 100 { // it has heard of no majority meanwhile, and has to be elected
		ps[0].Tick()
		ps[2].Tick()
		settle(t, ps)
	}
	has(t, ps[0], "abc", "two of three have it") // from the beginning, as it was told nothing else
	has(t, ps[2], "bc", "it votes")
}

// TestAloneReadmits: a member that has lost its log is not waited for before it can begin another one; then it is.
func TestAloneReadmits(t *testing.T) {
	ps := alonePeers(t)
	ps[2].down = true
	for range 3 {
		ps[0].Readmit(3, 7)
		settle(t, ps)
	}
	if _, ok := ps[0].Readmit(3, 7); !ok {
		t.Fatal("it is not readmitted")
	}
	ps[0].Propose([]byte("b"))
	beat(t, ps, 0)
	has(t, ps[0], "b", "one has lost its log")
	renew(ps[0].Order, ps[0].view.Term+1)
	settle(t, ps)
	ps[0].Propose([]byte("c"))
	beat(t, ps, 0)
	has(t, ps[0], "b", "in another term it may have begun one")
}

// TestAloneAway: a leader that was away itself, as with a disk that hangs, does not know of anybody that he is gone.
func TestAloneAway(t *testing.T) {
	ps := alonePeers(t)
	ps[0].Forgo([]uint32{2, 3})
	ps[1].down, ps[2].down = true, true
	ps[0].Propose([]byte("b"))
	rd := ps[0].Ready()
	for range 2 * awayTicks {
		ps[0].Tick()
	}
	if err := ps[0].store.Append(rd.Entries); err != nil {
		t.Fatal(err)
	}
	ps[0].Advance()
	if list, _ := ps[0].Peers(); list[1].Silent > 0 {
		t.Errorf("another one is silent for %d ticks, in which nobody spoke to it", list[1].Silent)
	}
	settle(t, ps)
	has(t, ps[0], "", "its disk hung")
}
