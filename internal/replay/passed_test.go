package replay

import (
	"testing"
	"time"
)

// TestPassed: what ended before a position counts, what failed does not, and what is about to end is
// waited for.
func TestPassed(t *testing.T) {
	var p passed
	want := func(lsn, ordinal uint64) {
		t.Helper()
		if got := p.Before(lsn); got != ordinal {
			t.Errorf("before %d: %d, want %d", lsn, got, ordinal)
		}
	}
	want(5, 0)
	p.Ending(7, 1)
	p.Ended(true)
	want(1, 7)
	p.Ending(9, 100)
	p.Ended(false)
	want(200, 7)
	p.Ending(0, 0) // rows of an orphan
	want(200, 7)
	p.Ended(true)
	p.Ending(9, 210)
	want(209, 7)
	got := make(chan uint64)
	for range 2 {
		go func() { got <- p.Before(210) }()
	}
	select {
	case <-got:
		t.Fatal("an answer came before it was known")
	case <-time.After(20 * time.Millisecond):
	}
	p.Ended(true)
	if a, b := <-got, <-got; a != 9 || b != 9 {
		t.Errorf("after the COMMIT: %d and %d, want 9", a, b)
	}
	for i := uint64(10); i < 10+2*passesMax; i++ {
		p.Ending(i, 1000*i)
		p.Ended(true)
	}
	want(1<<40, 9+2*passesMax)
	want(1000*(9+2*passesMax)-1, 8+2*passesMax)
	want(210, 0) // forgotten
	if len(p.list) > passesMax {
		t.Errorf("%d are remembered", len(p.list))
	}
}
