package membership

import (
	"github.com/tuttidb/tutti/internal/bootstrap"
	"github.com/tuttidb/tutti/internal/config"
	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/quorum"
	"github.com/tuttidb/tutti/internal/semantics"
)

// LevelOf is what all members must understand before the order has a change.
func LevelOf(c semantics.MemberChange) uint32 {
	if c.Later() {
		return bootstrap.Roles
	}
	return bootstrap.Membership
}

// Listed are the members, witnesses included, and those that were removed, for the leaders of orders, once the order
// has changed the list; nobody: nothing has changed.
func Listed(c *config.Config) (list engine.List) {
	r := c.Roster()
	if r == nil {
		return list
	}
	for _, m := range c.Everybody() {
		list.Members = append(list.Members, engine.Listed{Member: m.Member, Role: quorum.Role{Rank: m.Rank,
			Learner: m.Role == config.Learner, Witness: m.Role == config.Witness}})
	}
	for _, m := range r.Gone {
		list.Gone = append(list.Gone, m.Member)
	}
	return list
}
