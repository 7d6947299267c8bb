package engine

import (
	"github.com/tuttidb/tutti/internal/ordering"
	"github.com/tuttidb/tutti/internal/quorum"
)

// Voting is who votes on an engine's order, and the rule that changes it (package quorum).
type Voting struct {
	o     *Options
	order *ordering.Order
	rule  *quorum.Rule
	fixed bool
}

// VotingOf returns an engine's.
func VotingOf(e *Engine) *Voting { return &e.voting }

// May says whether who votes may change: all members must understand that.
func (v *Voting) May(may bool) { v.fixed = !may }

// Votes reports whether a member votes, as far as this one knows. Voters lists those who do.
func (v *Voting) Votes(member uint32) bool { return v.order.Voter(member) }
func (v *Voting) Voters() []uint32         { return v.order.Voters() }

// tick has the rule look at the members, if this one leads, and proposes what it wants.
func (v *Voting) tick() {
	if v.order.View().Leader != v.o.Member || v.o.GoneTicks <= 0 || v.fixed {
		v.rule.Reset()
		return
	}
	var peers []quorum.Peer
	for _, p := range v.order.Peers() {
		peers = append(peers, quorum.Peer(p))
	}
	if len(peers) == 0 {
		return
	}
	if voters := v.rule.Tick(v.o.Member, peers); voters != nil {
		v.order.Vote(voters)
	}
}
