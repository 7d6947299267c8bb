package sim

import (
	"testing"

	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/ordering"
	"github.com/tuttidb/tutti/internal/semantics"
)

// TestIntersect: raft's joint configurations have majorities in common with what is before and behind them, and so have
// those that differ by one voter.
func TestIntersect(t *testing.T) {
	conf := func(voters, outgoing []uint64) *ordering.ConfState {
		return &ordering.ConfState{Voters: voters, VotersOutgoing: outgoing}
	}
	for _, c := range []struct {
		what          string
		before, after *ordering.ConfState
		want          bool
	}{
		{"one more", conf([]uint64{1, 2, 3}, nil), conf([]uint64{1, 2, 3, 4}, nil), true},
		{"one of two is left", conf([]uint64{1, 2}, nil), conf([]uint64{1}, nil), true},
		{"one of three is left", conf([]uint64{1, 2, 3}, nil), conf([]uint64{1}, nil), false},
		{"another one", conf([]uint64{1, 2, 3}, nil), conf([]uint64{1, 2, 4}, nil), false},
		{"another one, joint", conf([]uint64{1, 2, 3}, nil), conf([]uint64{1, 2, 4}, []uint64{1, 2, 3}), true},
		{"and behind it", conf([]uint64{1, 2, 4}, []uint64{1, 2, 3}), conf([]uint64{1, 2, 4}, nil), true},
		{"two more", conf([]uint64{1}, nil), conf([]uint64{1, 2, 3}, nil), false},
		{"all others", conf([]uint64{1, 2, 3}, nil), conf([]uint64{4, 5, 6}, nil), false},
		{"all others, joint", conf([]uint64{1, 2, 3}, nil), conf([]uint64{4, 5, 6}, []uint64{1, 2, 3}), true},
	} {
		if got := intersect(c.before, c.after); got != c.want {
			t.Errorf("%s: %t", c.what, got)
		}
		if got := intersect(c.after, c.before); got != c.want {
			t.Errorf("%s, the other way round: %t", c.what, got)
		}
	}
}

// TestServes: a member that lacks what was acknowledged before it started is found when it begins to serve.
func TestServes(t *testing.T) {
	j := &joins{w: &world{}, changed: newChanged(), refused: map[uint32]int64{}}
	m := &member{w: j.w, id: 1}
	j.w.swarm.members = 1
	j.w.truth = &truth{seqs: map[uint64]uint64{7: 5}}
	j.told(&attempt{tag: 7, outcome: outcomeOK})
	j.starts(m)
	j.told(&attempt{tag: 7, outcome: outcomeUnknown})
	j.serves(m, 5)
	finds(t, "lacks an acknowledged transaction", func() { j.serves(m, 4) })
}

// TestSends: a member that votes for two in one term is found.
func TestSends(t *testing.T) {
	j := &joins{w: &world{}, changed: newChanged()}
	m := &member{w: j.w, id: 1}
	j.sends(m, vote(t, 2, 5))
	j.sends(m, vote(t, 2, 5))
	j.sends(m, vote(t, 3, 6))
	finds(t, "votes twice", func() { j.sends(m, vote(t, 3, 5)) })
}

// TestJudgeChanged: what began at a member when the order went on without it, and was ordered or acknowledged, is
// found; what began before may be.
func TestJudgeChanged(t *testing.T) {
	w := &world{truth: &truth{seqs: map[uint64]uint64{7: 5}}}
	w.truth.voting.joins = &joins{w: w, changed: newChanged()}
	w.truth.voting.joins.changed.dropped[4] = 100
	a := attempt{tag: 7, home: 4, start: 100, changes: []change{{}}}
	w.history = []*attempt{&a, {tag: 8, home: 4, start: 101, outcome: outcomeFail, changes: []change{{}}},
		{tag: 9, home: 3, start: 101, outcome: outcomeOK, changes: []change{{}}},
		{tag: 10, home: 4, start: 101, outcome: outcomeOK}}
	judgeChanged(w)
	a.start++
	finds(t, "it was ordered", func() { judgeChanged(w) })
	a.tag, a.outcome = 11, outcomeOK
	finds(t, "it was acknowledged", func() { judgeChanged(w) })
}

// TestListsAlike: a member whose list is not the one behind its ordinal is found.
func TestListsAlike(t *testing.T) {
	w := &world{truth: &truth{}}
	w.swarm.members = 2
	j := &joins{w: w, spares: 1, changed: newChanged()}
	w.truth.voting.joins = j
	l := j.next(nil, &definition{ordinal: 3,
		member: semantics.Membership{Does: semantics.AddsMember, Name: nameOf(3), Address: addressOf(3)}})
	j.extends(3, l)
	e, err := engine.New(engine.Options{Member: 1, Incarnation: 1, Position: engine.Position{Member: 1, Ordinal: 2},
		Order: ordering.Options{Storage: newDisk(2).view}})
	must(err)
	m := &member{w: w, id: 1, db: newDatabase(w, nil, nil), engine: e}
	j.check(m)
	m.db.listed = l
	finds(t, "it has the list of later", func() { j.check(m) })
}

// finds expects a violation.
func finds(t *testing.T, what string, f func()) {
	t.Helper()
	defer func() {
		if is, ok := recover().(failure); !ok || is.code != Safety {
			t.Errorf("%s: it is not found", what)
		}
	}()
	f()
}

func vote(t *testing.T, of, term uint64) []byte {
	t.Helper()
	data, err := proto.Marshal(&pb.Message{Type: pb.MsgVoteResp.Enum(), To: &of, Term: &term})
	if err != nil {
		t.Fatal(err)
	}
	return data
}
