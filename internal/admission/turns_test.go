package admission

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
	w := NewTurns(20, &metrics.Flow{}, &metrics.Waits{})
	for range 8 {
		w.Take(nil)
	}
	for i := range 100 {
		w.Give(i%2 == 0, i%2 == 1)
		w.Take(nil)
	}
	time.Sleep(turnsPeriod)
	w.Give(true, false)
	w.Take(nil)
	if got := w.allowed.Load(); got != 6 {
		return fmt.Sprintf("%d may run, want 6", got)
	}
	for range 8 {
		w.Give(false, false)
	}
	if w.open != 0 {
		return fmt.Sprintf("%d run", w.open)
	}
	for range 6 {
		w.Take(nil)
	}
	var mu sync.Mutex
	var order []int
	var all sync.WaitGroup
	waited := w.counts.TurnsWaited.Load()
	for i := range 3 {
		all.Go(func() {
			w.Take(nil)
			mu.Lock()
			order = append(order, i)
			mu.Unlock()
		})
		for w.counts.TurnsWaited.Load() <= waited+uint64(i) {
			time.Sleep(time.Millisecond)
		}
	}
	for i := range 3 {
		w.Give(true, false)
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
	w.Take(nil)
	if took := time.Since(began); took < turnMax/2 || w.counts.TurnsWaited.Load() != 5 {
		return fmt.Sprintf("without a turn one waited %v, %d waited in all", took, w.counts.TurnsWaited.Load())
	}
	done := make(chan struct{})
	close(done)
	w.Take(done)
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.waiting) != 0 {
		return fmt.Sprintf("%d still wait", len(w.waiting))
	}
	return ""
}
