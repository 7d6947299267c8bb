package node

import (
	"fmt"
	"testing"

	"github.com/tuttidb/tutti/internal/bootstrap"
	"github.com/tuttidb/tutti/internal/config"
)

// goesBy has a cluster want so many copies, at the level of this build.
func goesBy(c *config.Config, copies int) {
	c.Recorded(&bootstrap.Record{Level: bootstrap.Level, MinCopies: copies, ExpelAfter: "10s", Changed: 1})
}

// TestNeeded: a member that votes alone is needed while another one is there, stays, and may vote, if one copy is
// enough; else to wait would be in vain.
func TestNeeded(t *testing.T) {
	tn := ordered(t, "beside")
	c := tn.node.config
	for _, x := range []struct {
		about  string
		copies int
		state  string
		role   config.Role
		want   bool
	}{
		{"one copy is enough", 1, "synced", config.Voter, true},
		{"it hears of no leader just now", 1, "no leader", config.Voter, true},
		{"two copies are wanted", 2, "synced", config.Voter, false},
		{"the other one stops as well", 1, "stopping", config.Voter, false},
		{"it is halted", 1, "halted", config.Voter, false},
		{"it never votes", 1, "synced", config.Learner, false},
	} {
		goesBy(c, x.copies)
		c.Becomes(&config.Roster{Ordinal: 1, Members: []config.Member{{Member: 1}, {Member: 2, Role: x.role}}})
		for _, l := range tn.all() {
			if err := l.others.peers.Hear(2, fmt.Appendf(nil, `{"state": %q}`, x.state)); err != nil {
				t.Fatal(err)
			}
		}
		if got := (house{tn}).Needed(); got != x.want {
			t.Errorf("%s: it is needed: %v", x.about, got)
		}
	}
	goesBy(c, 1)
	for _, l := range tn.all() {
		l.others.peers.Forget(2)
	}
	if (house{tn}).Needed() {
		t.Error("it is needed, and nobody is there")
	}
}

// TestStopsAreTold: who has said that it stops is told to the rule of each order, this member included.
func TestStopsAreTold(t *testing.T) {
	tn := ordered(t)
	l := tn.life(mainGroup)
	goesBy(tn.node.config, 1)
	if list := l.members(); len(list.Stops) > 0 {
		t.Errorf("%v stop", list.Stops)
	}
	if err := l.others.peers.Hear(2, []byte(`{"state": "stopping"}`)); err != nil {
		t.Fatal(err)
	}
	if list := l.members(); fmt.Sprint(list.Stops) != "[2]" || list.Members != nil {
		t.Errorf("the list is %+v", list)
	}
}
