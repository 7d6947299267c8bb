package config

import (
	"fmt"
	"testing"
)

// TestSites: who is at a site with others is named with them; who is alone there, or at none, is not.
func TestSites(t *testing.T) {
	c := valid()
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	if got := c.Sites(); got != nil {
		t.Errorf("%v, and nobody has named a site", got)
	}
	c.Becomes(&Roster{Members: []Member{{Member: 1, Site: "north"}, {Member: 2, Site: "south"}, {Member: 3},
		{Member: 4}, {Member: 6, Site: "west"}, {Member: 7, Site: "south"}, {Member: 8, Site: "north"},
		{Member: 9, Site: "south"}}})
	if got := fmt.Sprint(c.Sites()); got != "[[1 8] [2 7 9]]" {
		t.Errorf("%s are at one site", got)
	}
}

// TestRoster: the members are those of the configuration until the order says others, and then they are for all that
// are made of the configuration, too. Who is gone keeps its name.
func TestRoster(t *testing.T) {
	c := valid()
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	other := c.Changed(valid())
	n := len(c.Members)
	if c.Roster() != nil || len(c.All()) != n || !c.IsMember(c.Member) || len(c.First()) != n {
		t.Errorf("before: %+v", c.All())
	}
	c.Becomes(&Roster{Members: []Member{{Member: 7, Name: "late", Address: "l:1"}}, First: []uint32{1, 2},
		Gone: []Member{{Member: 5, Name: "left", Address: "g:1"}}})
	for _, c := range []*Config{c, other} {
		got := fmt.Sprintf("%d %t %t %v %s %s %s %s %q %t", len(c.All()), c.IsMember(7), c.IsMember(c.Member),
			c.First(), c.Name(7), c.Name(5), c.Name(9), c.Address(5), c.Address(9), c.Self().Name == c.Members[0].Name)
		if want := `1 true false [1 2] late left member 9 g:1 "" true`; got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	c.Becomes(&Roster{Members: []Member{{Member: 7}, {Member: 8, Role: Learner}},
		Witnesses: []Member{{Member: 9, Role: Witness}}})
	if !c.MayVote(7) || c.MayVote(8) || c.MayVote(9) || c.MayVote(1) || !c.IsMember(9) {
		t.Error("the wrong ones may vote")
	}
	if plain := c.Changed(c); Diff(c, plain) != nil {
		t.Errorf("it is in the file: %v", Diff(c, plain))
	}
}
