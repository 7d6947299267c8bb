package engine

import (
	"slices"
	"testing"

	"github.com/tuttidb/tutti/internal/quorum"
)

// TestVotingBy: by which rule it is decided who votes may change while members run. Of two that are there both vote,
// until one copy is enough; then what the one that votes alone decides waits for the other.
func TestVotingBy(t *testing.T) {
	e := single(t, Options{GoneTicks: 10, Copies: 2})
	v := VotingOf(e)
	v.Of(List{Members: []Listed{{Member: 1}, {Member: 2}}})
	passes(t, e, 60) // the other one is a learner that cannot be heard
	e.Submit(Submission{Kind: KindFence, Seq: 1})
	passes(t, e, 5)
	if e.Ordinal() != 1 || !slices.Equal(v.Voters(), []uint32{1}) {
		t.Fatalf("with two copies: ordinal %d, %v vote", e.Ordinal(), v.Voters())
	}
	was := v.rule
	if v.By(2, 10); v.rule != was {
		t.Error("the rule begins anew, and nothing has changed")
	}
	v.By(1, 0) // nobody is ever gone
	if v.rule == was {
		t.Error("the rule goes on")
	}
	e.Submit(Submission{Kind: KindFence, Seq: 2})
	passes(t, e, 60)
	if e.Ordinal() != 1 {
		t.Error("with one copy: it does not wait for who may be there")
	}
	v.By(2, 10)
	passes(t, e, 5)
	if e.Ordinal() != 2 {
		t.Errorf("with two copies again: ordinal %d", e.Ordinal())
	}
}

// TestSlowByTheRule: the rule is told how fast the members are, and what the leader before has found; that goes on when
// the rule begins anew, and ends where nothing is decided. A leader that is far too slow hands over to one that is not.
func TestSlowByTheRule(t *testing.T) {
	e := voter(t, Options{GoneTicks: 10, SlowTicks: 5}, []uint64{2, 3})
	v := VotingOf(e)
	paces := map[uint32]quorum.Pace{1: {Known: true}, 2: {Known: true, Load: 9000}, 3: {Known: true, Load: 9000}}
	v.Paces(paces, []quorum.Slow{{Member: 2, Times: 3}})
	if got, decides := v.Slow(); decides || got != nil {
		t.Errorf("nobody leads, and slow are %v", got)
	}
	passes(t, e, 60)
	want := func(about string, members ...uint32) {
		t.Helper()
		got, decides := v.Slow()
		same := slices.EqualFunc(got, members, func(s quorum.Slow, m uint32) bool { return s.Member == m })
		if !decides || !same {
			t.Errorf("%s: slow are %v, of which this member decides: %v", about, got, decides)
		}
	}
	want("it begins to lead", 2)
	v.By(2, 11)
	passes(t, e, 1)
	want("another time to be gone", 2)
	for n := range uint64(10) {
		paces[3] = quorum.Pace{Known: true, Load: 9000, Applied: n, Ordered: 90 + 9*n}
		passes(t, e, 1)
	}
	want("one falls behind", 2, 3)
	peers := []quorum.Peer{{Member: 1, Voter: true}, {Member: 2, Voter: true}, {Member: 4, Voter: true}}
	if v.retires(peers) {
		t.Error("it hands over, and is not slow")
	}
	v.rule.Inherit([]quorum.Slow{{Member: 1, Times: 1}})
	if v.retires(peers[:2]) {
		t.Error("it hands over to one that is slow")
	}
	if v.first = true; v.retires(peers) {
		t.Error("it hands over, and is to vote alone when others are lost")
	}
	if v.first = false; !v.retires(peers) {
		t.Error("it is slow, and does not hand over")
	}
	v.By(2, 0)
	passes(t, e, 1)
	want("nobody is ever gone")
}
