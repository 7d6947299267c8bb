package node

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/tuttidb/tutti/internal/metrics"
)

// TestTurns: while too many lose only some run, in the order of their coming, and nobody waits for
// ever.
func TestTurns(t *testing.T) {
	wrong := ""
	for range 5 { // where the machine has a pause, another period ends, or one has waited for too long
		if wrong = takeTurns(); wrong == "" {
			return
		}
	}
	t.Error(wrong)
}

// takeTurns says what was wrong.
func takeTurns() string {
	w := turns{percent: 20, counts: &metrics.Flow{}, measured: &metrics.Waits{}}
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
		return fmt.Sprintf("%d may run, want 6", got)
	}
	for range 8 {
		w.give(false, false)
	}
	if w.open != 0 {
		return fmt.Sprintf("%d run", w.open)
	}
	for range 6 {
		w.take(nil)
	}
	var mu sync.Mutex
	var order []int
	var all sync.WaitGroup
	waited := w.counts.TurnsWaited.Load()
	for i := range 3 {
		all.Go(func() {
			w.take(nil)
			mu.Lock()
			order = append(order, i)
			mu.Unlock()
		})
		for w.counts.TurnsWaited.Load() <= waited+uint64(i) {
			time.Sleep(time.Millisecond)
		}
	}
	for i := range 3 {
		w.give(true, false)
		for now := 0; now <= i; time.Sleep(time.Millisecond) {
			mu.Lock()
			now = len(order)
			mu.Unlock()
		}
	}
	all.Wait()
	if order[0] != 0 || order[1] != 1 || order[2] != 2 {
		return fmt.Sprintf("the turns came in the order %v", order)
	}
	began := time.Now()
	w.take(nil)
	if took := time.Since(began); took < turnMax/2 || w.counts.TurnsWaited.Load() != 5 {
		return fmt.Sprintf("without a turn one waited %v, %d waited in all", took, w.counts.TurnsWaited.Load())
	}
	done := make(chan struct{})
	close(done)
	w.take(done)
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.waiting) != 0 {
		return fmt.Sprintf("%d still wait", len(w.waiting))
	}
	return ""
}
