package semantics

import (
	"fmt"
	"strconv"
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
	// AddsWitness is CALL tutti.add_witness(name, address).
	AddsWitness
	// DemotesMember is CALL tutti.demote_member(name).
	DemotesMember
	// PromotesMember is CALL tutti.promote_member(name).
	PromotesMember
	// RanksMember is CALL tutti.rank_member(name, rank).
	RanksMember
	// SitesMember is CALL tutti.site_member(name, site).
	SitesMember

	lastMemberChange = SitesMember
)

// Valid reports whether c is one of the above.
func (c MemberChange) Valid() bool { return c <= lastMemberChange }

// Later reports whether builds that know of roles understand c, and no earlier ones.
func (c MemberChange) Later() bool { return c > MovesMember }

// Procedure is the name of the procedure that does c, in the schema tutti; empty: there is none.
func (c MemberChange) Procedure() string {
	if c == NoMember || !c.Valid() {
		return ""
	}
	return memberProcedures[c].name
}

// memberProcedures are the procedures, none of which PostgreSQL has, and what they take.
var memberProcedures = [lastMemberChange + 1]struct {
	name  string
	takes string
	least int
}{
	AddsMember:     {"add_member", "name, address, clients", 2},
	RemovesMember:  {"remove_member", "name", 1},
	MovesMember:    {"move_member", "name, address, clients", 2},
	AddsWitness:    {"add_witness", "name, address", 2},
	DemotesMember:  {"demote_member", "name", 1},
	PromotesMember: {"promote_member", "name", 1},
	RanksMember:    {"rank_member", "name, rank", 2},
	SitesMember:    {"site_member", "name, site", 2},
}

// Membership is what a statement does to the list of members.
type Membership struct {
	Does    MemberChange
	Name    string
	Address string // host:port for the other members
	Clients string // host:port for clients; empty: not said
	Rank    int32  // see RanksMember
	Site    string // see SitesMember
}

// membership classifies a CALL of what changes the list of members; false for others.
func membership(c *pg.CallStmt) (s Statement, is bool) {
	names := c.GetFunccall().GetFuncname()
	if len(names) != 2 || names[0].GetString_().GetSval() != "tutti" {
		return s, false
	}
	name := names[1].GetString_().GetSval()
	m := Membership{}
	for d := AddsMember; d <= lastMemberChange; d++ {
		if d.Procedure() == name {
			m.Does = d
		}
	}
	if m.Does == NoMember {
		return s, false
	}
	if p := memberProcedures[m.Does]; !m.take(c.GetFunccall().GetArgs(), p.least, strings.Count(p.takes, ",")+1) {
		s = refuse(fmt.Sprintf("tutti.%s takes literals (%s)", name, p.takes),
			"Write them as literals: who the members are is decided before anything is computed.")
		s.Refusal.Code = "42883"
		return s, true
	}
	return Statement{Kind: Definition, Quiet: true, Shared: true, Alone: "CALL tutti." + name,
		Confined: Confined{To: true, Apart: true}, Cluster: Cluster{Membership: m}}, true
}

// take takes what is given, at least and at most so much.
func (m *Membership) take(given []*pg.Node, least, most int) bool {
	if len(given) < least || len(given) > most {
		return false
	}
	var args [3]string
	for i, g := range given {
		var is bool
		if args[i], is = stringConst(g); !is && m.Does == RanksMember && i == 1 {
			args[i], is = numberConst(g)
		}
		if !is {
			return false
		}
	}
	m.Name = strings.TrimSpace(args[0])
	switch m.Does {
	case RanksMember:
		rank, err := strconv.ParseInt(strings.TrimSpace(args[1]), 10, 32)
		m.Rank = int32(rank)
		return err == nil
	case SitesMember:
		m.Site = strings.TrimSpace(args[1])
	default:
		m.Address, m.Clients = args[1], args[2]
	}
	return true
}

// numberConst is an integer literal, with its sign.
func numberConst(n *pg.Node) (string, bool) {
	if x := n.GetAExpr(); x.GetLexpr() == nil && len(x.GetName()) == 1 && x.GetName()[0].GetString_().GetSval() == "-" {
		text, is := numberConst(x.GetRexpr())
		return "-" + text, is
	}
	c := n.GetAConst()
	if c == nil || c.GetIsnull() || c.GetSval() != nil || c.GetBoolval() != nil {
		return "", false
	}
	if f := c.GetFval(); f != nil {
		return f.GetFval(), true
	}
	return strconv.Itoa(int(c.GetIval().GetIval())), true
}
