package process

import (
	"context"
	"testing"
	"time"
)

// TestBeat: intervals end at multiples of their length, so those of a length end together with those of half of it.
func TestBeat(t *testing.T) {
	for range 50 {
		for _, interval := range []time.Duration{time.Millisecond, 3 * time.Millisecond, time.Second} {
			before := time.Since(began)
			left := ToBeat(interval)
			after := time.Since(began)
			if left <= 0 || left > interval {
				t.Fatalf("%v are left of %v", left, interval)
			}
			if end := (before + left - 1) / interval * interval; (after+left)/interval*interval < end+interval {
				t.Fatalf("%v are left between %v and %v", left, before, after)
			}
		}
	}
	n := Beats(2 * time.Millisecond)
	if !Rest(context.Background(), 2*time.Millisecond) || Beats(2*time.Millisecond) == n {
		t.Error("it has not waited for the end of the interval")
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if Rest(ctx, time.Hour) {
		t.Error("it has waited")
	}
}
