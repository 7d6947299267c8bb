package node

import (
	"sync"
	"testing"
	"time"
)

// TestTurns: while too many lose only some run, in the order of their coming, and nobody waits for
// ever.
func TestTurns(t *testing.T) {
	w := turns{percent: 20}
	for range 8 {
		w.take(nil)
	}
	for i := range 100 {
		w.give(i%2 == 0, i%2 == 1)
		w.take(nil)
	}
	time.Sleep(turnsPeriod)
	w.give(true, false)
	w.take(nil)
	if got := w.allowed.Load(); got != 6 {
		t.Fatalf("%d may run, want 6", got)
	}
	for range 8 {
		w.give(false, false)
	}
	if w.open != 0 {
		t.Fatalf("%d run", w.open)
	}
	for range 6 {
		w.take(nil)
	}
	var mu sync.Mutex
	var order []int
	var all sync.WaitGroup
	for i := range 3 {
		all.Go(func() {
			w.take(nil)
			mu.Lock()
			order = append(order, i)
			mu.Unlock()
		})
		for waiting := 0; waiting <= i; time.Sleep(time.Millisecond) {
			w.mu.Lock()
			waiting = len(w.waiting)
			w.mu.Unlock()
		}
	}
	for range 3 {
		mu.Lock()
		n := len(order)
		mu.Unlock()
		w.give(true, false)
		for now := n; now == n; time.Sleep(time.Millisecond) {
			mu.Lock()
			now = len(order)
			mu.Unlock()
		}
	}
	all.Wait()
	if order[0] != 0 || order[1] != 1 || order[2] != 2 {
		t.Errorf("the turns came in the order %v", order)
	}
	began := time.Now()
	w.take(nil)
	if waited := time.Since(began); waited < turnMax/2 || w.waits.Load() != 5 {
		t.Errorf("without a turn one waited %v, %d waited in all", waited, w.waits.Load())
	}
	done := make(chan struct{})
	close(done)
	w.take(done)
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.waiting) != 0 {
		t.Errorf("%d still wait", len(w.waiting))
	}
}
