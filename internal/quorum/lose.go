package quorum

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
)

// View is who votes, and who is there, before members are lost.
type View struct {
	Members   []uint32 // all, in ascending order
	Voters    []uint32
	There     []uint32 // those that can be heard, and so can vote if they are to
	Changes   bool     // who votes changes, by a Rule
	MinCopies int      // copies of a commit that there are to be; zero means Copies
	Roles     map[uint32]Role
	Slow      []uint32 // those that are far too slow
}

// Loss is what becomes of the rest of a View.
type Loss struct {
	GoesOn bool // it commits
	// Voters vote in the end; who does beside the leader depends on who leads.
	Voters []uint32
	// Copies of a commit that was acknowledged are left at least, of those that members had which were there.
	Copies int
	// Another one may be lost, whichever that is, once this is settled.
	Another bool
}

// AtOnce is what becomes of the rest if members are lost at the same time.
func (v View) AtOnce(lost []uint32) Loss {
	rest := v.without(lost...)
	l := Loss{GoesOn: rest.elects(), Voters: v.Voters, Copies: v.copies(rest)}
	if !l.GoesOn {
		return l
	}
	l.Another = true
	for i, s := range rest.settled() {
		if i == 0 {
			l.Voters = s.Voters
		}
		for _, m := range s.There {
			l.Another = l.Another && s.without(m).elects()
		}
	}
	return l
}

// InTurn is what becomes of the rest if members are lost one after the other, in whatever order, each when those before
// it are known to be gone. It goes on if it does at each step, whoever leads.
func (v View) InTurn(lost []uint32) Loss { return inTurn(v, lost, map[string]Loss{}) }

// inTurn remembers what becomes of a view in known.
func inTurn(v View, lost []uint32, known map[string]Loss) Loss {
	lost = slices.DeleteFunc(slices.Clone(lost), func(m uint32) bool { return !slices.Contains(v.There, m) })
	if len(lost) < 2 {
		return v.AtOnce(lost)
	}
	key := fmt.Sprint(v.Voters, v.There)
	if l, is := known[key]; is {
		return l
	}
	all := Loss{GoesOn: true, Another: true, Copies: len(v.Members)}
	for _, m := range lost {
		rest := v.without(m)
		all.Copies = min(all.Copies, v.copies(rest))
		if !rest.elects() { // nothing is copied any more
			all.GoesOn, all.Copies = false, min(all.Copies, v.copies(v.without(lost...)))
			all.Voters = v.Voters
			continue
		}
		for _, s := range rest.settled() {
			l := inTurn(s, lost, known)
			all.GoesOn, all.Another = all.GoesOn && l.GoesOn, all.Another && l.Another
			if all.Copies = min(all.Copies, l.Copies); all.Voters == nil || !l.GoesOn {
				all.Voters = l.Voters
			}
		}
	}
	all.Another = all.Another && all.GoesOn
	known[key] = all
	return all
}

// Removed is what becomes of the rest once the order has removed a member, and who votes has changed. Copies are those
// of a commit that is acknowledged then. While it does not go on, the member is not removed, or counts still.
func (v View) Removed(member uint32) Loss {
	out := func(list []uint32) []uint32 {
		return slices.DeleteFunc(slices.Clone(list), func(m uint32) bool { return m == member })
	}
	rest := v
	rest.Members, rest.There = out(v.Members), out(v.There)
	return v.leaves(member, rest)
}

// Demoted is what becomes of all once the order has made a member one that never votes, as Removed says it. It does not
// if nobody else with a database may vote.
func (v View) Demoted(member uint32) Loss {
	if !slices.ContainsFunc(v.Members, func(m uint32) bool {
		return m != member && !v.Roles[m].Learner && !v.Roles[m].Witness
	}) {
		return Loss{Voters: v.Voters}
	}
	rest := v
	rest.Roles = map[uint32]Role{}
	maps.Copy(rest.Roles, v.Roles)
	role := rest.Roles[member]
	role.Learner = true
	rest.Roles[member] = role
	return v.leaves(member, rest)
}

// leaves is what becomes of the rest when a member is not to vote any more.
func (v View) leaves(member uint32, rest View) Loss {
	waits := !v.Changes && slices.ContainsFunc(v.Voters, func(m uint32) bool {
		return m != member && !v.Roles[m].Learner && !slices.Contains(v.There, m)
	})
	all := Loss{GoesOn: v.elects(), Copies: len(v.Members), Another: true}
	for _, leader := range rest.leaders(member) {
		next := rest
		if !waits {
			next = rest.settles(leader)
		}
		l := next.AtOnce(nil)
		all.GoesOn, all.Another = all.GoesOn && l.GoesOn, all.Another && l.Another
		all.Copies = min(all.Copies, l.Copies)
		if all.Voters == nil || !l.GoesOn {
			all.Voters = l.Voters
		}
	}
	if all.GoesOn = all.GoesOn && all.Voters != nil; !all.GoesOn {
		all = Loss{Voters: v.Voters}
	}
	return all
}

// leaders are those that may lead while a member leaves the voters: it does itself if it is there, and nobody else can.
func (v View) leaders(leaves uint32) (list []uint32) {
	for _, p := range v.good() {
		if p.Voter {
			list = append(list, p.Member)
		}
	}
	if list == nil && slices.Contains(v.There, leaves) {
		return []uint32{leaves}
	}
	return list
}

// Settled reports whether who votes is who is to vote under one that may lead, while those are there that are now. A
// leader votes whatever its rank, so under another one others may be to vote.
func (v View) Settled() bool {
	silent := func(m uint32) bool { return !v.Roles[m].Learner && !slices.Contains(v.There, m) }
	if !v.elects() || !v.Changes && slices.ContainsFunc(v.Voters, silent) {
		return false
	}
	v.Changes = true // nobody is silent
	stays := func(s View) bool { return slices.Equal(s.Voters, v.Voters) }
	leaves := func(m uint32) bool { return v.Roles[m].Learner }
	return slices.ContainsFunc(v.settled(), stays) && !slices.ContainsFunc(v.Voters, leaves)
}

// without is v when members are not there any more.
func (v View) without(members ...uint32) View {
	v.There = slices.DeleteFunc(slices.Clone(v.There), func(m uint32) bool { return slices.Contains(members, m) })
	return v
}

// here is how many of those that vote are there.
func (v View) here() (n int) {
	for _, m := range v.Voters {
		if slices.Contains(v.There, m) {
			n++
		}
	}
	return n
}

// elects reports whether those who are there can elect a leader.
func (v View) elects() bool { return 2*v.here() > len(v.Voters) }

// copies is how many copies of a commit that was acknowledged in v the rest of it has at least.
func (v View) copies(rest View) int {
	if v.MinCopies == 1 && v.Changes && len(v.Voters) == 1 {
		return len(rest.There) - rest.learners() // it waits for all others
	}
	return max(0, len(v.Voters)/2+1-(v.here()-rest.here()))
}

// settled are the views that follow when who is not there is gone, for each member that may lead then; v itself if
// nobody may but those that are not to vote.
func (v View) settled() (list []View) {
	if !v.Changes {
		return []View{v}
	}
	for _, p := range v.good() {
		if !p.Voter {
			continue
		}
		next := v.settles(p.Member)
		if !slices.ContainsFunc(list, func(s View) bool { return slices.Equal(s.Voters, next.Voters) }) {
			list = append(list, next)
		}
	}
	if list == nil {
		return []View{v}
	}
	return list
}

// settles is the view that follows under a leader.
func (v View) settles(leader uint32) View {
	rule := New(0, v.MinCopies)
	for range len(v.Members) + 1 { // or sooner
		good := v.good()
		gone := len(v.Voters)
		for _, p := range good {
			if p.Voter {
				gone--
			}
		}
		to := rule.wanted(leader, good, v.eligible(), len(v.Voters), gone)
		if to == nil {
			break
		}
		if v.Voters = to; !slices.Contains(to, leader) {
			leader = to[0]
		}
	}
	return v
}

// eligible is how many members may vote.
func (v View) eligible() (n int) {
	for _, m := range v.Members {
		if !v.Roles[m].Learner {
			n++
		}
	}
	return n
}

// learners is how many of those that are there never vote, and do not.
func (v View) learners() (n int) {
	for _, m := range v.There {
		if v.Roles[m].Learner && !slices.Contains(v.Voters, m) {
			n++
		}
	}
	return n
}

// good are those that are there and may vote, without those that are far too slow if these need not (Q11).
func (v View) good() (list []Peer) {
	fast := 0
	for _, m := range v.There {
		if v.Roles[m].Learner {
			continue
		}
		p := Peer{Member: m, Voter: slices.Contains(v.Voters, m), Role: v.Roles[m], slow: slices.Contains(v.Slow, m)}
		if list = append(list, p); !p.slow {
			fast++
		}
	}
	if fast >= fastLeast(cmp.Or(v.MinCopies, Copies)) {
		list = slices.DeleteFunc(list, func(p Peer) bool { return p.slow })
	}
	return list
}
