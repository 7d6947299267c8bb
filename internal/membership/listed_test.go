package membership

import (
	"strings"
	"testing"

	"github.com/tuttidb/tutti/internal/bootstrap"
	"github.com/tuttidb/tutti/internal/config"
	"github.com/tuttidb/tutti/internal/semantics"
)

// TestMayChange: what is new is refused until an upgrade is finished, what is older until all have said that they
// understand it.
func TestMayChange(t *testing.T) {
	c := &config.Config{Cluster: "c", Member: 1, DataDir: t.TempDir(), Listen: "a:1", MemberListen: "a:2",
		Secret: "sixteen characters", Members: first}
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	for does, want := range map[semantics.MemberChange][3]string{ // by the level; order-free: each for itself
		semantics.NoMember:    {"", "", ""},
		semantics.AddsMember:  {"not all members have said yet", "", ""},
		semantics.AddsWitness: {"upgrade of the cluster", "upgrade of the cluster", ""},
		semantics.RanksMember: {"upgrade of the cluster", "upgrade of the cluster", ""},
	} {
		for i, level := range []uint32{bootstrap.NewestNames, bootstrap.Membership, bootstrap.Roles} {
			e := MayChange(c, does, func(l uint32) bool { return l <= level })
			if (e == nil) != (want[i] == "") || e != nil && !strings.Contains(e.Message, want[i]) {
				t.Errorf("%s at level %d: %v", does.Procedure(), level, e)
			}
		}
	}
}

// TestLevelOf: builds before the roles understand who comes, goes and moves, and nothing else.
func TestLevelOf(t *testing.T) {
	for c := semantics.AddsMember; c.Valid(); c++ {
		if got := LevelOf(c); got != bootstrap.Membership && got != bootstrap.Roles ||
			(got == bootstrap.Membership) != (c <= semantics.MovesMember) {
			t.Errorf("%s is of level %d", c.Procedure(), got)
		}
	}
}
