package replacement

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tuttidb/tutti/internal/quorum"
)

// Change is a replacement: Old is the name of the member that goes.
type Change struct {
	Old     string
	Name    string // of the new one
	Address string // host:port for the other members
	Clients string // host:port for clients; empty: not said

	demoted bool // the old one never voted when this run added the new one
}

// Member is a member as the list has it, and its state as a node sees it.
type Member struct{ Name, Address, Clients, Role, Rank, Site, State string }

// The roles of a member, and those of its states that decide something.
const (
	Voter       = "voter"
	Learner     = "learner"
	Witness     = "witness"
	Synced      = "synced"
	Unreachable = "unreachable"
)

// Votes are who votes in one database.
type Votes struct {
	Database string
	View     quorum.View
	Names    map[uint32]string
}

// Situation is the cluster as one of its nodes sees it.
type Situation struct {
	Members []Member
	Votes   []Votes
	Missed  bool // the old member cannot be reached for long
}

// Find gives a member; nil if there is none of that name.
func (s *Situation) Find(name string) *Member {
	for i := range s.Members {
		if s.Members[i].Name == name {
			return &s.Members[i]
		}
	}
	return nil
}

// Step is what comes next: a procedure of the schema tutti with what it takes, or what is waited for; neither: it is
// done.
type Step struct {
	Procedure string
	Takes     []string
	Waits     string
	Refused   error
}

func calls(procedure string, takes ...string) Step { return Step{Procedure: procedure, Takes: takes} }

// Next is what a replacement comes to next (R1), but for the role of a new member, which is that of the old one when
// this run adds it: later, whether the old one was demoted before or by this is not to be told.
func (c *Change) Next(s Situation) Step {
	old, is := s.Find(c.Old), s.Find(c.Name)
	if err := c.wrong(old, is); err != nil {
		return Step{Refused: err}
	}
	switch {
	case is == nil:
		c.demoted = old.Role == Learner
		takes := []string{c.Name, c.Address}
		if c.Clients != "" {
			takes = append(takes, c.Clients)
		}
		return calls("add_member", takes...)
	case old == nil:
		return c.awaits(s, is)
	}
	if does := c.alike(old, is); does.Procedure != "" {
		return does
	}
	if s.Missed || planted == "replaced-before-it-votes" {
		return c.removes(s)
	}
	if is.State == Synced && old.Role == Voter {
		return calls("demote_member", c.Old)
	}
	if w := c.awaits(s, is); w.Waits != "" {
		return w
	}
	return c.removes(s)
}

// wrong is why one member cannot take the place of the other.
func (c *Change) wrong(old, is *Member) error {
	switch {
	case c.Name == c.Old:
		return fmt.Errorf("the new member needs another name than %s", c.Old)
	case old == nil && is == nil:
		return fmt.Errorf("%s is no member", c.Old)
	case old != nil && old.Role == Witness:
		return fmt.Errorf("%s is a witness: remove it, and add another one", c.Old)
	case is == nil:
		return nil
	case is.Address != c.Address || c.Clients != "" && is.Clients != c.Clients || is.Role == Witness:
		return fmt.Errorf("%s is a member already, at %s (clients: %s): choose another name, or say its addresses if "+
			"it is the new one", is.Name, is.Address, is.Clients)
	}
	return nil
}

// alike gives the new member what the old one has of the order; nothing if it has that.
func (c *Change) alike(old, is *Member) Step {
	switch {
	case is.Rank != old.Rank:
		return calls("rank_member", c.Name, old.Rank)
	case is.Site == "" && old.Site != "":
		return calls("site_member", c.Name, old.Site)
	case c.demoted && old.Role == Learner && is.Role == Voter:
		return calls("demote_member", c.Name)
	}
	return Step{}
}

// removes is how the old member is removed, once the others go on without it (R2).
func (c *Change) removes(s Situation) Step {
	for i := range s.Votes {
		v := &s.Votes[i]
		who, is := v.number(c.Old)
		if is && !v.View.Removed(who).GoesOn {
			return Step{Waits: fmt.Sprintf("%s cannot be removed yet: more of the others that vote in %s must be there",
				c.Old, v.Database)}
		}
	}
	return calls("remove_member", c.Old)
}

// awaits is what is waited for until the new member has all, and who votes is settled without the old one.
func (c *Change) awaits(s Situation, is *Member) Step {
	switch is.State {
	case Synced:
	case Unreachable:
		return Step{Waits: c.Name + " cannot be reached: start its node"}
	default:
		return Step{Waits: c.Name + " is " + is.State}
	}
	for i := range s.Votes {
		v := &s.Votes[i]
		who, known := v.number(c.Name)
		switch {
		case !known || !slices.Contains(v.View.There, who):
			return Step{Waits: c.Name + " is not there yet in " + v.Database}
		case !v.View.Settled():
			return Step{Waits: "who votes in " + v.Database + " is changing: " + v.list(v.View.Voters)}
		}
	}
	return Step{}
}

// number is that of a member.
func (v *Votes) number(name string) (member uint32, is bool) {
	i := slices.IndexFunc(v.View.Members, func(m uint32) bool { return v.Names[m] == name })
	if i < 0 {
		return 0, false
	}
	return v.View.Members[i], true
}

// list names members.
func (v *Votes) list(members []uint32) string {
	var names []string
	for _, m := range members {
		names = append(names, v.Names[m])
	}
	return strings.Join(names, ", ")
}
