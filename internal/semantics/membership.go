package semantics

import (
	"fmt"
	"strings"

	pg "github.com/pganalyze/pg_query_go/v6"
)

// MemberChange is what a statement does to the list of the cluster's members.
type MemberChange uint8

const (
	// NoMember: nothing.
	NoMember MemberChange = iota
	// AddsMember is CALL tutti.add_member(name, address [, clients]).
	AddsMember
	// RemovesMember is CALL tutti.remove_member(name).
	RemovesMember
	// MovesMember is CALL tutti.move_member(name, address [, clients]).
	MovesMember

	lastMemberChange = MovesMember
)

// Valid reports whether c is one of the above.
func (c MemberChange) Valid() bool { return c <= lastMemberChange }

// memberChanges are the procedures, none of which PostgreSQL has.
var memberChanges = map[string]MemberChange{
	"add_member": AddsMember, "remove_member": RemovesMember, "move_member": MovesMember,
}

// Membership is what a statement does to the list of members.
type Membership struct {
	Does    MemberChange
	Name    string
	Address string // host:port for the other members
	Clients string // host:port for clients; empty: not said
}

// membership classifies a CALL of what changes the list of members; false for others.
func membership(c *pg.CallStmt) (s Statement, is bool) {
	names := c.GetFunccall().GetFuncname()
	if len(names) != 2 || names[0].GetString_().GetSval() != "tutti" {
		return s, false
	}
	name := names[1].GetString_().GetSval()
	does, is := memberChanges[name]
	if !is {
		return s, false
	}
	least, most, usage := 2, 3, "name, address, clients"
	if does == RemovesMember {
		least, most, usage = 1, 1, "name"
	}
	given := c.GetFunccall().GetArgs()
	var args [3]string
	ok := len(given) >= least && len(given) <= most
	for i := 0; ok && i < len(given); i++ {
		args[i], ok = stringConst(given[i])
	}
	if !ok {
		s = refuse(fmt.Sprintf("tutti.%s takes %d to %d texts (%s)", name, least, most, usage),
			"Write them as literals: who the members are is decided before anything is computed.")
		s.Refusal.Code = "42883"
		return s, true
	}
	return Statement{Kind: Definition, Quiet: true, Shared: true, Alone: "CALL tutti." + name,
		Confined: Confined{To: true, Apart: true},
		Cluster: Cluster{Membership: Membership{Does: does, Name: strings.TrimSpace(args[0]), Address: args[1],
			Clients: args[2]}}}, true
}
