package config

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// TestLost: who is lost is on no list any more, whoever says so; until the order has removed them, that is to be done.
func TestLost(t *testing.T) {
	c := valid()
	c.DataDir = t.TempDir()
	c.roster = &roster{}
	c.Members = append(c.Members, Member{Member: 2, Name: "b"}, Member{Member: 3, Name: "c"})
	is := func(about, want string) {
		t.Helper()
		if err := c.ReadLost(); err != nil {
			t.Fatal(err)
		}
		c.Becomes(c.Roster())
		got := fmt.Sprint(c.Roster() == nil, c.Losing())
		if r := c.Roster(); r != nil {
			got = fmt.Sprint(len(r.Members), len(r.Gone), r.Later, r.First, r.Ordinal, c.Losing())
		}
		if got != want {
			t.Errorf("%s: %s, not %s", about, got, want)
		}
	}
	is("nobody is lost", "true false")
	for _, n := range []uint32{3, 2, 3} {
		if err := c.Lose([]uint32{n}); err != nil {
			t.Fatal(err)
		}
	}
	is("as configured", "1 2 [] [1 2 3] 0 true")
	if c.IsLost(1) || !c.IsLost(2) || !c.IsLost(3) || c.IsLost(4) {
		t.Error("somebody else is lost")
	}
	c.Becomes(&Roster{Ordinal: 7, Members: []Member{{Member: 1}, {Member: 3}, {Member: 4}}, Gone: []Member{{Member: 2}},
		Later: []uint32{3, 4}, First: []uint32{1, 2}})
	is("by the order", "2 2 [4] [1 2] 7 false")
	if err := os.WriteFile(filepath.Join(c.DataDir, lostName), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if c.ReadLost() == nil {
		t.Error("a file with nothing in it is read")
	}
	if c.Lose([]uint32{4}) == nil {
		t.Error("a file with nothing in it is added to")
	}
}
