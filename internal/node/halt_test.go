package node

import (
	"testing"
	"time"

	"github.com/tuttidb/tutti/internal/config"
	"github.com/tuttidb/tutti/internal/core"
	"github.com/tuttidb/tutti/internal/replica"
	"github.com/tuttidb/tutti/internal/schemalock"
)

func TestHaltText(t *testing.T) {
	h := &halted{Ordinal: 7, Transaction: "1.2.3", Table: "public.t", Row: "(k)=(1)", Reason: "no"}
	if got, want := h.text(), "entry 7 (transaction 1.2.3), table public.t, row (k)=(1): no"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got, want := (&halted{Ordinal: 7, Reason: "no"}).text(), "entry 7: no"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestNobodyWaitsForHalted: a member that is halted lacks nothing that others wait for.
func TestNobodyWaitsForHalted(t *testing.T) {
	l := &life{config: &config.Config{Member: 1, Members: []config.Member{{Member: 1, Name: "a"},
		{Member: 2, Name: "b"}, {Member: 3, Name: "c"}}}, core: core.New(core.Options{}), tenure: &tenure{}}
	l.peers.init(peersOptions{Config: l.config})
	l.peers.began = time.Now().Add(-time.Minute)
	for m, s := range map[uint32]status{
		2: {replica.Status{State: replica.Synced, Applied: 9}, statusDetails{}},
		3: {replica.Status{State: replica.Halted, Applied: 2}, statusDetails{Halted: &halted{Ordinal: 3}}},
	} {
		l.peers.put(m, s, 0, 0)
	}
	if got := l.peers.lacking(5); len(got) != 0 {
		t.Errorf("LISTEN waits for %v", got)
	}
	if got := l.peers.lacking(10); len(got) != 1 {
		t.Errorf("LISTEN waits for %v, and should for the one that is just behind", got)
	}
	if told, fresh := l.askHold(3, schemalock.Request{}); told || fresh {
		t.Error("a hold asks a halted member")
	}
	if got := l.rehearser(); got != 2 {
		t.Errorf("member %d is to try transactions", got)
	}
}
