package admission

import "time"

// Clock is the time by which sessions wait. The simulator has one of its own.
type Clock interface {
	// Now is the time since some moment. It never goes back.
	Now() time.Duration
	// Rest returns after a while, or before that when something comes through early, or that is closed.
	Rest(d time.Duration, early <-chan struct{})
	// After calls f after a while, unless stop is called before.
	After(d time.Duration, f func()) (stop func())
}

// Time is the clock of the machine.
var Time Clock = machine{time.Now()}

type machine struct{ began time.Time }

func (c machine) Now() time.Duration { return time.Since(c.began) }

func (machine) Rest(d time.Duration, early <-chan struct{}) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-early:
	}
}

func (machine) After(d time.Duration, f func()) (stop func()) {
	timer := time.AfterFunc(d, f)
	return func() { timer.Stop() }
}
