package node

import (
	"testing"

	"github.com/tuttidb/tutti/internal/config"
	"github.com/tuttidb/tutti/internal/databases"
	"github.com/tuttidb/tutti/internal/peers"
	"github.com/tuttidb/tutti/internal/replica"
	"github.com/tuttidb/tutti/internal/semantics"
	"github.com/tuttidb/tutti/internal/wire"
)

// TestMayChange: what a statement may do to a database is refused where it comes from: to the main one and to the one
// it is in, to one with other sessions unless they are to be ended, and to one more than there may be.
func TestMayChange(t *testing.T) {
	c := &config.Config{Member: 1, Members: []config.Member{{Member: 1}, {Member: 2}}}
	c.Limits.Databases = 3
	tn := &tenure{node: &Node{config: c}, lives: map[uint64]*life{}}
	tn.retired = databases.NewRetired(databases.RetiredOptions{Config: c})
	lives := map[string]*life{}
	for i, name := range []string{"main", "own", "used"} {
		l := &life{course: newCourse(), tenure: tn, config: c,
			id: identity{group: mainGroup + uint64(i), database: name}}
		l.others.peers = peers.New(peers.Options{Config: c, Own: func() (o replica.Own) { return o },
			Details: func() (d peers.Details) { return d }})
		lives[name], tn.lives[l.id.group] = l, l
	}
	if err := lives["used"].others.peers.Hear(2, []byte(`{"state": "synced", "clients": 2}`)); err != nil {
		t.Fatal(err)
	}
	own := lives["own"]
	does := func(what semantics.DatabaseChange, name string) semantics.Database {
		return semantics.Database{Does: what, Name: name}
	}
	drops := does(semantics.DropsDatabase, "used")
	if e := tn.mayChange(own, drops); e == nil || e.Code != wire.CodeCannotConnectNow {
		t.Errorf("while the main database is not ready: %v", e)
	}
	if e := tn.mayChange(own, semantics.Database{}); e != nil {
		t.Errorf("what does nothing to a database: %v", e)
	}
	lives["main"].course.ready.Store(true)
	forced := drops
	forced.Force = true
	for name, x := range map[string]struct {
		d    semantics.Database
		code string
	}{
		"one that others use":    {drops, wire.CodeObjectInUse},
		"one whose users end":    {forced, ""},
		"one that is not there":  {does(semantics.DropsDatabase, "x"), ""},
		"its own":                {does(semantics.DropsDatabase, "own"), wire.CodeObjectInUse},
		"its own, by a new name": {does(semantics.RenamesDatabase, "own"), wire.CodeFeatureNotSupported},
		"the main one":           {does(semantics.DropsDatabase, "main"), wire.CodeFeatureNotSupported},
		"one too many":           {does(semantics.CreatesDatabase, "x"), wire.CodeConfigurationLimit},
	} {
		code := ""
		if e := tn.mayChange(own, x.d); e != nil {
			code = e.Code
		}
		if code != x.code {
			t.Errorf("%s: code %q, want %q", name, code, x.code)
		}
	}
	delete(tn.lives, lives["used"].id.group)
	if tn.mayChange(own, does(semantics.CreatesDatabase, "x")) != nil {
		t.Error("as many as there may be are not created")
	}
}
