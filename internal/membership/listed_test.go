package membership

import (
	"testing"

	"github.com/tuttidb/tutti/internal/bootstrap"
	"github.com/tuttidb/tutti/internal/semantics"
)

// TestLevelOf: builds before the roles understand who comes, goes and moves, and nothing else.
func TestLevelOf(t *testing.T) {
	for c := semantics.AddsMember; c.Valid(); c++ {
		if got := LevelOf(c); got != bootstrap.Membership && got != bootstrap.Roles ||
			(got == bootstrap.Membership) != (c <= semantics.MovesMember) {
			t.Errorf("%s is of level %d", c.Procedure(), got)
		}
	}
}
