package node

import (
	"testing"

	"github.com/tuttidb/tutti/internal/config"
	"github.com/tuttidb/tutti/internal/core"
	"github.com/tuttidb/tutti/internal/grants"
	"github.com/tuttidb/tutti/internal/peers"
	"github.com/tuttidb/tutti/internal/replica"
)

// TestNobodyAsksHalted: a member that is halted is asked for nothing.
func TestNobodyAsksHalted(t *testing.T) {
	l := &life{config: &config.Config{Member: 1, Members: []config.Member{{Member: 1, Name: "a"},
		{Member: 2, Name: "b"}, {Member: 3, Name: "c"}, {Member: 4, Name: "d"}}}, tenure: &tenure{}}
	l.order.core = core.New(core.Options{})
	own := func() (o replica.Own) { return o }
	l.others.peers = peers.New(peers.Options{Config: l.config, Own: own})
	for m, s := range map[uint32]string{2: `{"state": "synced"}`, 3: `{"state": "halted", "halted": {"ordinal": 3}}`} {
		if err := l.others.peers.Hear(m, []byte(s)); err != nil {
			t.Fatal(err)
		}
	}
	for m, want := range map[uint32]grants.Reach{2: {Alive: true}, 3: {Alive: true, Halted: true}, 4: {Unheard: true}} {
		if got := reachOf(l, m); got != want {
			t.Errorf("member %d is %+v for who wants a lock, want %+v", m, got, want)
		}
	}
	if got := l.rehearser(); got != 2 {
		t.Errorf("member %d is to try transactions", got)
	}
}
