package engine

import (
	"slices"
	"testing"

	"github.com/tuttidb/tutti/internal/quorum"
)

// listed is a list of members that vote.
func listed(members, gone []uint32) List {
	l := List{Gone: gone}
	for _, m := range members {
		l.Members = append(l.Members, Listed{Member: m})
	}
	return l
}

// TestMembersByTheOrder: who is added gets the log; of whom this member has not heard yet, because it goes by an older
// list, is left alone; who was removed gets the log no longer, what it proposes behind that is left out, and what it
// had is over (E17). A leader that was removed goes on while nobody else votes.
func TestMembersByTheOrder(t *testing.T) {
	e := single(t, Options{GoneTicks: 10})
	v := VotingOf(e)
	for _, step := range []struct {
		what          string
		members, gone []uint32
		readers       []uint32
	}{
		{"nothing has changed", nil, nil, []uint32{1}},
		{"one is added", []uint32{1, 2}, nil, []uint32{1, 2}},
		{"an older list", []uint32{1}, nil, []uint32{1, 2}},
		{"another one is added", []uint32{1, 2, 3}, nil, []uint32{1, 2, 3}},
		{"the first one is removed", []uint32{1, 3}, []uint32{2}, []uint32{1, 3}},
		{"this one is removed", []uint32{3}, []uint32{1, 2}, []uint32{1, 3}},
	} {
		if step.what == "the first one is removed" {
			e.deliver(1, entry(2, 1, 1, 7))
			x := e.log.sources[2]
			x.parts = []byte("the beginning of a payload")
			e.log.sources[2] = x
			e.log.serialItem(&Item{Kind: KindSerial, ID: e.log.id(1), Payload: []byte{0}})
			e.log.serial[2] = span{open: true}
		}
		v.Of(listed(step.members, step.gone))
		passes(t, e, 60)
		if got := v.Readers(); !slices.Equal(got, step.readers) || !slices.Equal(v.Voters(), []uint32{1}) ||
			e.View().Leader != 1 {
			t.Errorf("%s: %v get the log, %v vote, member %d leads", step.what, got, v.Voters(), e.View().Leader)
		}
	}
	if x := e.log.sources[2]; x.parts != nil || x.number != 1 || e.log.serial[2].open {
		t.Errorf("what it had goes on: %+v, %+v", x, e.log.serial[2])
	}
	before := e.Ordinal()
	if e.deliver(1, entry(2, 1, 2, 8)); e.Ordinal() != before {
		t.Error("what a member proposes that was removed is taken")
	}
	if e.deliver(1, entry(3, 1, 1, 9)); e.Ordinal() != before+1 {
		t.Error("what a member proposes that was added is not taken")
	}
}

// TestRolesByTheOrder: the rule is told what the list says of each member, and who stops; a leader that was demoted
// goes on while nobody else votes.
func TestRolesByTheOrder(t *testing.T) {
	e := single(t, Options{GoneTicks: 1000})
	v := VotingOf(e)
	witness, demoted := quorum.Role{Witness: true, Rank: -1}, quorum.Role{Learner: true}
	v.Of(List{Members: []Listed{{1, demoted}, {2, witness}, {3, quorum.Role{Rank: 7}}}, Stops: []uint32{3}})
	passes(t, e, 60)
	peers, _ := v.peers()
	want := []quorum.Peer{{Member: 1, Role: demoted, Voter: true}, {Member: 2, Role: witness},
		{Member: 3, Role: quorum.Role{Rank: 7}, Stops: true}}
	for i := range peers {
		peers[i].Silent, peers[i].Lag = 0, 0
	}
	if !slices.Equal(peers, want) {
		t.Errorf("the rule is told %+v, want %+v", peers, want)
	}
	if e.View().Leader != 1 || !v.Votes(1) || v.Votes(2) || v.Votes(3) {
		t.Errorf("member %d leads, %v vote", e.View().Leader, v.Voters())
	}
	for heirs, want := range map[[2]bool]bool{{true, true}: true, {true, false}: false, {false, true}: true} {
		voters := slices.Clone(peers) // order-free: each for itself
		voters[1].Voter, voters[2].Voter = heirs[0], heirs[1]
		if v.hands = 0; v.retires(voters) != want {
			t.Errorf("the demoted leader hands over to the witness, or member 3, if they vote %v: %v", heirs, !want)
		}
	}
	v.Of(listed([]uint32{1, 2, 3}, nil))
	if peers, _ := v.peers(); v.retires(peers) {
		t.Error("one that is no longer demoted hands over")
	}
}
