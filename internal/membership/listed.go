package membership

import (
	"github.com/tuttidb/tutti/internal/bootstrap"
	"github.com/tuttidb/tutti/internal/config"
	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/semantics"
	"github.com/tuttidb/tutti/internal/wire"
)

// LevelOf is what all members must understand before the order has a change.
func LevelOf(c semantics.MemberChange) uint32 {
	if c.Later() {
		return bootstrap.Roles
	}
	return bootstrap.Membership
}

// MayChange refuses, where a statement comes from, what it may not do to the list of members; understand reports
// whether all members understand what is of a level.
func MayChange(c *config.Config, does semantics.MemberChange, understand func(level uint32) bool) *wire.SQLError {
	level := LevelOf(does)
	switch {
	case does == semantics.NoMember:
		return nil
	case does != semantics.RemovesMember && does != semantics.PromotesMember && c.Losing():
		return wire.Errorf(wire.CodeObjectNotInState, "the members that are lost are not removed yet").
			WithHint("Try again in a moment.")
	case understand(level):
		return nil
	case level > bootstrap.Membership:
		return ErrNotFinished()
	}
	return wire.Errorf(wire.CodeObjectNotInState, "not all members have said yet that they understand changes of the "+
		"list of members").WithHint("Start all members, with this release.")
}

// Listed are the members, witnesses included, and those that were removed, for the leaders of orders, once the order
// has changed the list; nobody: nothing has changed.
func Listed(c *config.Config) (list engine.List) {
	r := c.Roster()
	if r == nil {
		return list
	}
	return ListedOf(r, c.Everybody())
}
