package engine

import (
	"slices"

	"github.com/tuttidb/tutti/internal/ordering"
	"github.com/tuttidb/tutti/internal/quorum"
)

// Listed is a member as the list of members has it.
type Listed struct {
	Member uint32
	quorum.Role
}

// List is who the members are, as far as this one has applied the main database's order.
type List struct {
	// Members are all, with the witnesses, once the order has changed that, Gone are those that it has removed; nil:
	// nothing has changed. Of who is neither this member may not have heard yet.
	Members []Listed
	Gone    []uint32
	Stops   []uint32 // those that have said that they stop
}

// Voting is who votes on an engine's order, and the rule that changes it (package quorum).
type Voting struct {
	o     *Options
	order *ordering.Order
	rule  *quorum.Rule
	fixed bool
	list  List
	paces map[uint32]quorum.Pace
	told  []quorum.Slow
	leads bool // the rule is asked
	first bool // see First
	hands int  // ticks for which a leader has handed over that is not to lead
}

// VotingOf returns an engine's.
func VotingOf(e *Engine) *Voting { return &e.voting }

// May says whether who votes may change: all members must understand that.
func (v *Voting) May(may bool) { v.fixed = !may }

// Of says who the members are.
func (v *Voting) Of(list List) {
	v.list = list
	var witnesses []uint32
	for _, m := range list.Members {
		if m.Witness {
			witnesses = append(witnesses, m.Member)
		}
	}
	v.order.Witnesses(witnesses)
}

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
	case leader != v.o.Member || v.o.GoneTicks <= 0 && v.list.Members == nil || v.fixed && !alone:
		v.rule.Reset()
		v.hands, v.first, v.leads = 0, false, false
		return
	}
	if !v.leads {
		v.rule.Inherit(v.told)
	}
	v.leads = true
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
			Role: v.role(p.Member), Leaves: slices.Contains(v.list.Gone, p.Member),
			Stops: slices.Contains(v.list.Stops, p.Member), Pace: v.paces[p.Member]})
	}
	return list, settled
}

// role is what the list says of a member; that of a voter if it has not changed.
func (v *Voting) role(member uint32) quorum.Role {
	for _, m := range v.list.Members {
		if m.Member == member {
			return m.Role
		}
	}
	return quorum.Role{}
}

// change proposes what the rule wants, if it wants anything, or what the list of members does.
func (v *Voting) change(voters []uint32, peers []quorum.Peer) {
	if voters == nil && v.differs(peers) {
		voters = v.order.Voters()
	}
	alone := v.o.Copies == 1 && !slices.Contains(v.list.Gone, v.o.Member) && len(voters) == 1
	switch {
	case alone && voters[0] != v.o.Member && v.order.Voter(voters[0]):
		// Who cannot lead is not to vote alone. It is tried again later.
		if !v.handsOver(voters[0]) {
			v.hands = (v.hands + 1) % handOverRest
		}
	case voters != nil:
		v.order.Vote(voters, v.numbers(), v.list.Gone)
	}
}

// numbers are those of the members on the list.
func (v *Voting) numbers() (list []uint32) {
	for _, m := range v.list.Members {
		list = append(list, m.Member)
	}
	return list
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

// retires has a leader that is no member any more, is never to vote, or is far too slow, hand over, and reports whether
// it does nothing else. If there is nobody who could lead, or nobody does, it goes by the rule first.
func (v *Voting) retires(peers []quorum.Peer) bool {
	leaves := func(p quorum.Peer) bool { return p.Leaves || p.Learner || v.rule.IsSlow(p.Member) && !v.first }
	if !slices.ContainsFunc(peers, func(p quorum.Peer) bool { return p.Member == v.o.Member && leaves(p) }) {
		return false
	}
	var heir *quorum.Peer
	for i := range peers {
		if p := &peers[i]; p.Voter && !leaves(*p) && !p.Witness && (heir == nil || p.Silent < heir.Silent) {
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
	if v.list.Members == nil {
		return false
	}
	readers := v.order.Readers()
	for _, m := range v.list.Members {
		if !slices.Contains(readers, m.Member) {
			return true
		}
	}
	return slices.ContainsFunc(peers, func(p quorum.Peer) bool { return p.Leaves && !p.Voter })
}
