package ordering

import (
	"fmt"
	"testing"
)

// appends counts the entries of the appends among a peer's next frames, per frame.
func appends(t *testing.T, p *peer, to int) (sizes []int) {
	t.Helper()
	for p.HasReady() {
		p.carry(t, func(m Message) {
			if f := decode(t, m.Data); f.GetType().String() == "MsgApp" && int(m.To) == to {
				sizes = append(sizes, len(f.Entries))
			}
		})
	}
	return sizes
}

// TestProposalsGather: behind a proposal under way, others wait and then travel as one append.
func TestProposalsGather(t *testing.T) {
	ps := peers(t, 3)
	elect(t, ps, ps[0])
	for i := range 5 {
		if !ps[0].Propose(fmt.Appendf(nil, "%d", i)) {
			t.Fatalf("proposal %d was refused", i)
		}
	}
	if got := fmt.Sprint(appends(t, ps[0], 2)); got != "[1]" || !ps[0].Held() {
		t.Errorf("five proposals at once went as appends of %s entries, held: %v", got, ps[0].Held())
	}
	if ps[0].HasReady() {
		t.Error("held proposals are ready although the one before is under way")
	}
	ps[0].Release()
	if got := fmt.Sprint(appends(t, ps[0], 2)); got != "[4]" || ps[0].Held() {
		t.Errorf("released proposals went as appends of %s entries, held: %v", got, ps[0].Held())
	}
}

// TestGather: a leader waits until what it was offered weighs enough, or for Release; who does not lead waits for
// nothing.
func TestGather(t *testing.T) {
	ps := peers(t, 3)
	elect(t, ps, ps[0])
	ps[0].held.weigh = func(data []byte) int { return len(data) }
	for _, p := range ps {
		p.Gather(5)
	}
	for _, data := range []string{"a", "bb"} {
		if !ps[0].Propose([]byte(data)) {
			t.Fatalf("%s was refused", data)
		}
		if ps[0].HasReady() || !ps[0].Held() {
			t.Errorf("after %s the leader waits for no more, or has taken nothing: held %v", data, ps[0].Held())
		}
	}
	ps[1].Propose([]byte("cc"))
	if ps[1].Held() {
		t.Error("a follower keeps its proposal back")
	}
	settle(t, ps)
	if got := fmt.Sprint(ps[0].delivered); got != "[a bb cc]" {
		t.Errorf("with a follower's proposal it is enough, but %s was delivered", got)
	}
	ps[0].Propose([]byte("d"))
	if settle(t, ps); len(ps[0].delivered) != 3 {
		t.Errorf("%v was delivered before it was enough", ps[0].delivered)
	}
	ps[0].Release()
	if settle(t, ps); len(ps[0].delivered) != 4 {
		t.Errorf("%v was delivered after Release", ps[0].delivered)
	}
	ps[0].Propose([]byte("eeeee"))
	if settle(t, ps); len(ps[0].delivered) != 5 {
		t.Errorf("%v was delivered, though the last weighs enough alone", ps[0].delivered)
	}
	ps[0].Gather(0)
	ps[0].Propose([]byte("f"))
	if settle(t, ps); len(ps[0].delivered) != 6 {
		t.Errorf("%v was delivered, though nothing has to gather any more", ps[0].delivered)
	}
}

// TestHeldFollowTheWay: what is held goes by itself once the way is free, in order, whoever
// proposed it.
func TestHeldFollowTheWay(t *testing.T) {
	ps := peers(t, 3)
	elect(t, ps, ps[0])
	for i := range 6 {
		if !ps[i%3].Propose(fmt.Appendf(nil, "%d", i)) {
			t.Fatalf("proposal %d was refused", i)
		}
	}
	settle(t, ps)
	if got := len(ps[0].delivered); got != 6 {
		t.Fatalf("%d of 6 proposals were delivered without a release: %v", got, ps[0].delivered)
	}
	last := map[int]int{}
	for _, d := range ps[0].delivered {
		var i int
		if _, err := fmt.Sscan(d, &i); err != nil {
			t.Fatal(err)
		}
		if i < last[i%3] {
			t.Errorf("member %d's proposals overtook each other: %v", i%3+1, ps[0].delivered)
		}
		last[i%3] = i
	}
}

// TestHeldSurviveADeposition: a leader that is deposed hands on what it held.
func TestHeldSurviveADeposition(t *testing.T) {
	ps := peers(t, 3)
	elect(t, ps, ps[0])
	ps[0].Propose([]byte("a"))
	ps[0].Propose([]byte("b"))
	for ps[0].HasReady() {
		ps[0].carry(t, func(Message) {}) // lost
	}
	ps[0].down = true
	for range 10 { // the others' leases on the leader run out
		ps[1].Tick()
		ps[2].Tick()
	}
	elect(t, ps, ps[1])
	ps[0].down = false
	for range 30 { // heartbeats tell it
		ps[1].Tick()
		settle(t, ps)
	}
	if ps[0].Held() {
		t.Error("a follower still holds proposals")
	}
	if got := fmt.Sprint(ps[1].delivered); got != "[b]" {
		t.Errorf("delivered %s, want [b]: a was lost with its frames, b was held", got)
	}
}

// TestNewsTravelsWithTheNext: when a majority has answered, what is committed is told by the
// frame that carries what was held, not by one of its own.
func TestNewsTravelsWithTheNext(t *testing.T) {
	ps := peers(t, 3)
	elect(t, ps, ps[0])
	ps[0].Propose([]byte("a"))
	ps[0].Propose([]byte("b"))
	var answers []Message
	for ps[0].HasReady() {
		ps[0].carry(t, func(m Message) {
			if m.To == 2 {
				if err := ps[1].Step(1, m.Data); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
	for ps[1].HasReady() {
		ps[1].carry(t, func(m Message) { answers = append(answers, m) })
	}
	for _, m := range answers {
		if err := ps[0].Step(2, m.Data); err != nil {
			t.Fatal(err)
		}
	}
	if got := fmt.Sprint(appends(t, ps[0], 2)); got != "[1]" {
		t.Errorf("after the answer to a, appends of %s entries went to member 2, want one with b that says a is "+
			"committed", got)
	}
}

// TestProposalsDoNotWaitForTheDisk: a follower's proposal says nothing about its log, so it
// leaves while entries of others are being written.
func TestProposalsDoNotWaitForTheDisk(t *testing.T) {
	ps := peers(t, 3)
	elect(t, ps, ps[0])
	ps[0].Propose([]byte("a"))
	for ps[0].HasReady() {
		ps[0].carry(t, func(m Message) {
			if m.To == 2 {
				if err := ps[1].Step(1, m.Data); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
	ps[1].Propose([]byte("b"))
	rd := ps[1].Ready()
	if len(rd.Entries) != 1 || len(rd.Early) != 1 || decode(t, rd.Early[0].Data).GetType().String() != "MsgProp" {
		t.Errorf("with %d entries to be written, %d frames leave early", len(rd.Entries), len(rd.Early))
	}
}
