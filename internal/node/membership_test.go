package node

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tuttidb/tutti/internal/config"
	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/membership"
	"github.com/tuttidb/tutti/internal/quorum"
	"github.com/tuttidb/tutti/internal/semantics"
	"github.com/tuttidb/tutti/internal/wire"
)

// TestMembersOfATenure: as configured nobody is told who the members are, and the first change brings them with it;
// behind it the list is what the order says, also for whoever is gone.
func TestMembersOfATenure(t *testing.T) {
	tn := ordered(t)
	list := membership.Listed(tn.node.config)
	if began := tn.began(); list.Members != nil || list.Gone != nil || len(began) != 2 || began[1].Name != "beta" {
		t.Errorf("at the beginning: %+v, %+v", list, began)
	}
	if e := tn.mayChangeMembers(semantics.Membership{}); e != nil {
		t.Errorf("a statement about something else: %v", e)
	}
	if e := tn.mayChangeMembers(semantics.Membership{Does: semantics.RemovesMember}); e == nil ||
		e.Code != wire.CodeObjectNotInState {
		t.Errorf("nobody has said what he understands: %v", e)
	}
	tn.node.config.Becomes(&config.Roster{Ordinal: 7,
		Members: []config.Member{{Member: 1, Name: "alpha"}, {Member: 4, Name: "delta",
			Role: config.Learner, Rank: 3}},
		Witnesses: []config.Member{{Member: 5, Name: "eps", Role: config.Witness}},
		Gone:      []config.Member{{Member: 2, Name: "beta"}}, First: []uint32{1, 2}})
	list = membership.Listed(tn.node.config)
	if !slices.Equal(list.Members, []engine.Listed{{Member: 1}, {Member: 4, Role: quorum.Role{Rank: 3, Learner: true}},
		{Member: 5, Role: quorum.Role{Witness: true}}}) || !slices.Equal(list.Gone, []uint32{2}) || tn.began() != nil {
		t.Errorf("afterwards: %+v, %+v", list, tn.began())
	}
	if got := fmt.Sprint(config.NamesOf(tn.node.config.All())); got != "[alpha delta]" {
		t.Errorf("they are called %s", got)
	}
	if a, b, c := tn.node.nameOf(2), tn.node.nameOf(4), tn.node.nameOf(9); a != "beta" || b != "delta" || c != "" {
		t.Errorf("their certificates must be in the names of %q, %q and %q", a, b, c)
	}
	if tn.node.errRemoved() != nil {
		t.Error("it was not removed")
	}
	if tn.node.removed.Store(true); tn.node.errRemoved() == nil {
		t.Error("it was removed")
	}
}

// TestLosing: until the members that are lost are removed nobody is added, and the first change brings all of the
// configured list with it.
func TestLosing(t *testing.T) {
	tn := ordered(t)
	c := tn.node.config
	if err := c.Lose([]uint32{2}); err != nil {
		t.Fatal(err)
	}
	if err := c.ReadLost(); err != nil {
		t.Fatal(err)
	}
	c.Becomes(nil)
	if e := tn.mayChangeMembers(semantics.Membership{Does: semantics.AddsMember}); e == nil ||
		!strings.Contains(e.Message, "lost are not removed yet") {
		t.Errorf("one is added: %v", e)
	}
	if list := membership.Listed(tn.node.config); !slices.Equal(list.Members, []engine.Listed{{Member: 1}}) ||
		!slices.Equal(list.Gone, []uint32{2}) {
		t.Errorf("the list is %+v", list)
	}
	if began := tn.began(); len(began) != 2 {
		t.Errorf("the first change brings %v", began)
	}
}
