package sim

import (
	"slices"
	"testing"

	"github.com/tuttidb/tutti/internal/writeset"
)

// TestChain: who waits for one that waits for others waits for these, too, and for itself if they wait for it.
func TestChain(t *testing.T) {
	a, b, c, d := &tx{}, &tx{}, &tx{}, &tx{}
	waits := func(x *tx, by ...*tx) {
		l := &lock{}
		for _, o := range by {
			l.holders = append(l.holders, hold{o, writeset.Exclusive})
		}
		x.wait = &waiter{hold: hold{x, writeset.Exclusive}, l: l}
		l.waiters = append(l.waiters, x.wait)
	}
	waits(a, b)
	waits(b, c, d)
	if got := chain(a); !slices.Equal(got, []*tx{b, c, d}) || deadlocked(a) {
		t.Errorf("a waits for b, who waits for c and d: %d of them, in a circle: %v", len(got), deadlocked(a))
	}
	waits(d, a)
	if !deadlocked(a) || !deadlocked(b) || deadlocked(c) {
		t.Errorf("a, b and d wait in a circle, c does not: %v, %v, %v", deadlocked(a), deadlocked(b), deadlocked(c))
	}
}
