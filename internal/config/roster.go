package config

import (
	"slices"
	"sync/atomic"

	"github.com/tuttidb/tutti/internal/bootstrap"
)

// Roster is who the members are once the order has changed that.
type Roster struct {
	Ordinal uint64   // of the last change, in the main database's order
	Members []Member // those with a database
	Later   []uint32 // those of them that were added by the order

	Witnesses []Member // members without one

	Gone  []Member // those that were removed, by their numbers
	First []uint32 // with whom the cluster began: they vote at first on what nothing else is said of
}

// roster is where a configuration has it, and all that are made of it.
type roster struct {
	now    atomic.Pointer[Roster]
	record atomic.Pointer[bootstrap.Record]
	lost   atomic.Pointer[[]uint32] // see Lost
	losing atomic.Bool
	said   said
	kept   uint64 // the ordinal of the list that was written down, see KeepRoster
}

// Roster is who the members are by the order; nil while it is as configured.
func (c *Config) Roster() *Roster {
	if c.roster == nil {
		return nil
	}
	return c.roster.now.Load()
}

// Becomes has r be who the members are from now on, for everybody who has this configuration, but for those that are
// lost.
func (c *Config) Becomes(r *Roster) { c.roster.now.Store(c.without(r)) }

// All lists the members as they are now, but for witnesses. The list must not be changed.
func (c *Config) All() []Member {
	if r := c.Roster(); r != nil {
		return r.Members
	}
	return c.Members
}

// Witnesses lists the members that have no database. The list must not be changed.
func (c *Config) Witnesses() []Member {
	if r := c.Roster(); r != nil {
		return r.Witnesses
	}
	return nil
}

// Everybody lists the members, with and without a database. The list must not be changed.
func (c *Config) Everybody() []Member {
	if w := c.Witnesses(); len(w) > 0 {
		return slices.Concat(c.All(), w)
	}
	return c.All()
}

// NamesOf are those of members.
func NamesOf(members []Member) (list []string) {
	for _, m := range members {
		list = append(list, m.Name)
	}
	return list
}

// First lists with whom the cluster began.
func (c *Config) First() (list []uint32) {
	if r := c.Roster(); r != nil {
		return r.First
	}
	for _, m := range c.Members {
		list = append(list, m.Member)
	}
	return list
}

// IsMember reports whether a number is that of a member now.
func (c *Config) IsMember(member uint32) bool {
	return slices.ContainsFunc(c.Everybody(), func(m Member) bool { return m.Member == member })
}

// MayVote reports whether a member has a database and is to vote when it is there.
func (c *Config) MayVote(member uint32) bool {
	return slices.ContainsFunc(c.All(), func(m Member) bool { return m.Member == member && m.Role == Voter })
}

// Address is where a member's port for the others is, or was; empty if that is not known.
func (c *Config) Address(member uint32) string {
	m, _ := c.Find(member)
	return m.Address
}

// Find gives a member's entry: as it is now, as it was when it was removed, or as it was configured.
func (c *Config) Find(member uint32) (Member, bool) {
	lists := [][]Member{c.All(), c.Members}
	if r := c.Roster(); r != nil {
		lists = [][]Member{r.Members, r.Witnesses, r.Gone, c.Members}
	}
	for _, list := range lists {
		for _, m := range list {
			if m.Member == member {
				return m, true
			}
		}
	}
	return Member{}, false
}

// Sites lists the members that are at one site, by its name, for each site with several of them. Who is at none that is
// named is at a site of its own.
func (c *Config) Sites() (groups [][]uint32) {
	of := map[string]int{}
	for _, m := range c.All() {
		i, known := of[m.Site]
		switch {
		case m.Site == "":
		case known:
			groups[i] = append(groups[i], m.Member)
		default:
			of[m.Site] = len(groups)
			groups = append(groups, []uint32{m.Member})
		}
	}
	return slices.DeleteFunc(groups, func(g []uint32) bool { return len(g) < 2 })
}
