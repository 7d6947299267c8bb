package process

import (
	"context"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// scarceShare of the time is what threads of this process wait for a processor, all together, when processors are
	// scarce.
	scarceShare = 0.2
	scarceEvery = 300 * time.Millisecond // between two measurements
	// scarceUse of a processor is what a process uses at least that is asked how long its threads have waited: however
	// many want the processors, one that has work gets more.
	scarceUse = 0.02
)

// Watch measures until ctx ends.
func (p *Processors) Watch(ctx context.Context) {
	at, had, ran := time.Now(), runDelay(), used()
	for known := true; Rest(ctx, scarceEvery); {
		now, uses := time.Now(), used()
		if float64(uses-ran) < scarceUse*float64(now.Sub(at)) {
			p.scarce.Store(false)
			known = false
		} else {
			has := runDelay()
			p.scarce.Store(known && scarce(has-had, now.Sub(at)))
			had, known = has, true
		}
		at, ran = now, uses
	}
}

// used is how much processor time this process has used.
func used() time.Duration {
	var u unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &u) // it cannot fail
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
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
