package engine

import (
	"slices"
	"testing"
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
