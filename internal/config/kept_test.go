package config

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// TestKeptRoster: what a witness has heard of who the members are it knows after a restart; damage is an error.
func TestKeptRoster(t *testing.T) {
	dir := t.TempDir()
	begin := func() *Config {
		c := &Config{Cluster: "c", Member: 2, DataDir: dir, MemberListen: "a:2", Secret: "sixteen characters",
			Witness: true, Members: []Member{{Member: 1, Name: "a", Address: "a:1"}, {Member: 2, Name: "w",
				Address: "a:2"}}}
		if err := c.Validate(); err != nil {
			t.Fatal(err)
		}
		return c
	}
	c := begin()
	if err := ReadRoster(c); err != nil || c.Roster() != nil || KeepRoster(c) != nil {
		t.Fatalf("nothing was kept: %v, %v", err, c.Roster())
	}
	c.Becomes(&Roster{Ordinal: 7, Members: []Member{{Member: 3, Name: "b", Address: "b:1"}},
		Witnesses: []Member{{Member: 2, Name: "w", Address: "a:2", Role: Witness}}, Gone: []Member{{Member: 1}}})
	if err := KeepRoster(c); err != nil {
		t.Fatal(err)
	}
	c = begin()
	if err := ReadRoster(c); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprintf("%v %s %v %s", NamesOf(c.Everybody()), c.Address(3), c.IsMember(1),
		c.Self().Role); got != "[b w] b:1 false witness" {
		t.Errorf("what was kept is %s", got)
	}
	for _, text := range []string{"", "{}", "[1]"} {
		if err := os.WriteFile(filepath.Join(dir, keptName), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := ReadRoster(begin()); err == nil {
			t.Errorf("%q is taken for a list", text)
		}
	}
}
