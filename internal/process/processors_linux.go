package process

import (
	"context"
	"time"
)

const (
	// scarceShare of the time is what threads of this process wait for a processor, all together, when processors are
	// scarce.
	scarceShare = 0.2
	scarceEvery = 300 * time.Millisecond // between two measurements
)

// Watch measures until ctx ends.
func (p *Processors) Watch(ctx context.Context) {
	ticker := time.NewTicker(scarceEvery)
	defer ticker.Stop()
	at, had := time.Now(), runDelay()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		now, has := time.Now(), runDelay()
		p.scarce.Store(scarce(has-had, now.Sub(at)))
		at, had = now, has
	}
}

// scarce judges how long threads have waited in the time that has passed. After a long time without a measurement it is
// not known when they did.
func scarce(waited, passed time.Duration) bool {
	return passed < 10*scarceEvery && float64(waited) > scarceShare*float64(passed)
}

// runDelay is how long this process's threads that exist now have waited for a processor in their lives.
func runDelay() (sum time.Duration) {
	for _, t := range threads() {
		_, waited, _ := schedstat(t)
		sum += waited
	}
	return sum
}
