package engine

import (
	"testing"

	"github.com/tuttidb/tutti/internal/writeset"
)

// TestOwnKeys: which of two own transactions with one key waits for the other (E5), mode by mode, and that a key is
// free again when the first one is done.
func TestOwnKeys(t *testing.T) {
	modes := []writeset.Mode{
		writeset.Read, writeset.Shared, writeset.Share, writeset.Update, writeset.Add, writeset.Exclusive,
	}
	waits := map[writeset.Mode][]writeset.Mode{ // of the second one, by the mode of the first
		writeset.Shared:    {writeset.Exclusive},
		writeset.Share:     {writeset.Update, writeset.Add, writeset.Exclusive},
		writeset.Update:    {writeset.Share, writeset.Update, writeset.Add, writeset.Exclusive},
		writeset.Add:       {writeset.Share, writeset.Update, writeset.Exclusive},
		writeset.Exclusive: {writeset.Shared, writeset.Share, writeset.Update, writeset.Add, writeset.Exclusive},
	}
	of := func(m writeset.Mode, snapshot bool) *own {
		w := &writeset.Writeset{Keys: []writeset.Key{{Hash: 7, Mode: m}}}
		return &own{Submission: Submission{Kind: KindCertified, Snapshot: snapshot, Writeset: w}}
	}
	for _, first := range modes {
		for _, second := range modes {
			k, w := ownKeys{counts: map[uint64]lockCount{}}, of(first, true)
			k.add(w, 1)
			want := true
			for _, m := range waits[first] {
				want = want && m != second
			}
			if got := k.clear(of(second, true)); got != want {
				t.Errorf("mode %d behind mode %d goes on: %v", second, first, got)
			}
			table := first == writeset.Read || first == writeset.Share // LOCK TABLE waits for all who write
			if got := k.clear(of(writeset.Read, false)); got != table {
				t.Errorf("a lock of the table behind mode %d goes on: %v", first, got)
			}
			if k.add(w, -1); len(k.counts) != 0 || !k.clear(of(second, true)) {
				t.Errorf("mode %d: the key is still held", first)
			}
		}
	}
}

// TestWindow: batches are offered in order, again from the first one that nobody took, and taken off in order.
func TestWindow(t *testing.T) {
	var i window
	for n := range uint64(3) {
		if !i.open(3) {
			t.Fatalf("with %d under way there is no place", n)
		}
		i.push(&batch{Member: 1, Number: n + 1}, n == 1)
		i.send(func([]byte) bool { return true })
	}
	if i.open(3) || i.parts() != 1 {
		t.Errorf("three under way: open %v, %d with parts", i.open(3), i.parts())
	}
	i.repeat()
	offered := 0
	i.send(func([]byte) bool { offered++; return offered < 2 })
	if offered != 2 || !i.inflight[0].sent || i.inflight[1].sent || i.inflight[2].sent || i.open(4) {
		t.Errorf("offered %d times, and the second one was refused: %+v", offered, i.inflight)
	}
	if i.arrived(2) || !i.arrived(1) || !i.arrived(2) || len(i.inflight) != 1 {
		t.Errorf("taken off out of order: %+v", i.inflight)
	}
}
