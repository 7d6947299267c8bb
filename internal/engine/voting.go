package engine

import (
	"slices"

	"github.com/tuttidb/tutti/internal/ordering"
	"github.com/tuttidb/tutti/internal/quorum"
)

// Voting is who votes on an engine's order, and the rule that changes it (package quorum).
type Voting struct {
	o     *Options
	order *ordering.Order
	rule  *quorum.Rule
	fixed bool
	// members are all, once the order has changed that, gone are those that it has removed; nil: nothing has changed
	members, gone []uint32
	first         bool // see First
	hands         int  // ticks for which a leader has handed over that is not to lead
}

// VotingOf returns an engine's.
func VotingOf(e *Engine) *Voting { return &e.voting }

// May says whether who votes may change: all members must understand that.
func (v *Voting) May(may bool) { v.fixed = !may }

// Of says who the members are, and who was removed, as far as this one has applied the main database's order; nil:
// nothing has changed. Of who is neither it may not have heard yet.
func (v *Voting) Of(members, gone []uint32) { v.members, v.gone = members, gone }

// Witnesses says which of the members have no database.
func (v *Voting) Witnesses(members []uint32) { v.order.Witnesses(members) }

// Votes reports whether a member votes, as far as this one knows. Voters lists those who do.
func (v *Voting) Votes(member uint32) bool { return v.order.Voter(member) }
func (v *Voting) Voters() []uint32         { return v.order.Voters() }

// Readers lists who gets the log, as far as this member knows.
func (v *Voting) Readers() []uint32 { return v.order.Readers() }

// tick has the rule look at the members, if this one leads, and proposes what it wants.
func (v *Voting) tick() {
	alone := v.o.Copies == 1
	switch leader := v.order.View().Leader; {
	case leader == 0 && alone:
		return // who votes alone leads again
	case leader != v.o.Member || v.o.GoneTicks <= 0 && v.members == nil || v.fixed && !alone:
		v.rule.Reset()
		v.hands, v.first = 0, false
		return
	}
	peers, settled := v.peers()
	if !settled && !alone {
		return
	}
	voters := v.rule.Tick(v.o.Member, peers)
	v.order.Forgo(v.rule.Released())
	v.first = v.rule.First(v.o.Member)
	if !v.fixed && settled && !v.retires(peers) {
		v.change(voters, peers)
	}
}

// peers are the members as the rule takes them, and whether who votes can change now.
func (v *Voting) peers() (list []quorum.Peer, settled bool) {
	all, settled := v.order.Peers()
	for _, p := range all {
		list = append(list, quorum.Peer{Member: p.Member, Voter: p.Voter, Silent: p.Silent, Lag: p.Lag,
			Leaves: slices.Contains(v.gone, p.Member)})
	}
	return list, settled
}

// change proposes what the rule wants, if it wants anything, or what the list of members does.
func (v *Voting) change(voters []uint32, peers []quorum.Peer) {
	if voters == nil && v.differs(peers) {
		voters = v.order.Voters()
	}
	alone := v.o.Copies == 1 && !slices.Contains(v.gone, v.o.Member) && len(voters) == 1
	switch {
	case alone && voters[0] != v.o.Member && v.order.Voter(voters[0]):
		// Who cannot lead is not to vote alone. It is tried again later.
		if !v.handsOver(voters[0]) {
			v.hands = (v.hands + 1) % handOverRest
		}
	case voters != nil:
		v.order.Vote(voters, v.members, v.gone)
	}
}

// First reports whether this member leads and votes alone, or may be to as soon as it knows who is gone: nobody else is
// to lead then.
func (v *Voting) First() bool { return v.first }

// handsOver has another member lead, and reports whether it may come to that yet.
func (v *Voting) handsOver(to uint32) bool {
	if v.hands >= handOvers*handOverTicks {
		return false
	}
	if v.hands%handOverTicks == 0 {
		v.order.HandOver(to)
	}
	v.hands++
	return true
}

// retires has a leader that is no member any more hand over, and reports whether it does nothing else. If there is
// nobody who could lead, or nobody does, it goes by the rule first.
func (v *Voting) retires(peers []quorum.Peer) bool {
	if !slices.Contains(v.gone, v.o.Member) {
		return false
	}
	var heir *quorum.Peer
	for i := range peers {
		if p := &peers[i]; p.Voter && !p.Leaves && (heir == nil || p.Silent < heir.Silent) {
			heir = p
		}
	}
	return heir != nil && v.handsOver(heir.Member)
}

// handOverTicks is how long a leader that is not to lead waits for another one to do so before it asks again, handOvers
// times.
const (
	handOverTicks = 20
	handOvers     = 3
	handOverRest  = 30 * handOverTicks
)

// differs reports whether who gets the log is not who is a member, but for those who vote: these the rule changes.
func (v *Voting) differs(peers []quorum.Peer) bool {
	if v.members == nil {
		return false
	}
	readers := v.order.Readers()
	for _, m := range v.members {
		if !slices.Contains(readers, m) {
			return true
		}
	}
	return slices.ContainsFunc(peers, func(p quorum.Peer) bool { return p.Leaves && !p.Voter })
}
