package metrics

import (
	"sync/atomic"
	"time"
)

// Counter is a number that only grows.
type Counter struct{ n atomic.Uint64 }

// Add counts so many.
func (c *Counter) Add(n uint64) { c.n.Add(n) }

// Load is what was counted.
func (c *Counter) Load() uint64 { return c.n.Load() }

// Store takes over what somebody else has counted.
func (c *Counter) Store(n uint64) { c.n.Store(n) }

func (c *Counter) read(of family, emit func(Sample)) { emit(of.sample(float64(c.n.Load()))) }

// Timer is a counter of time. It is told in seconds, and in microseconds by SHOW tutti.counters.
type Timer struct{ nanos atomic.Int64 }

// Add counts a time. One that is negative, as after the clock was set, is nothing.
func (t *Timer) Add(d time.Duration) { t.nanos.Add(int64(max(d, 0))) }

// Store takes over what somebody else has counted.
func (t *Timer) Store(d time.Duration) { t.nanos.Store(int64(d)) }

// Load is the sum of what was counted.
func (t *Timer) Load() time.Duration { return time.Duration(t.nanos.Load()) }

func (t *Timer) read(of family, emit func(Sample)) { emit(of.sample(t.Load().Seconds())) }

// Gauge is a number that grows and shrinks.
type Gauge struct{ n atomic.Int64 }

// Add adds to it.
func (g *Gauge) Add(n int64) { g.n.Add(n) }

// Set says what it is now.
func (g *Gauge) Set(n int64) { g.n.Store(n) }

// Is says whether something is so, as 1 or 0.
func (g *Gauge) Is(so bool) {
	if so {
		g.Set(1)
		return
	}
	g.Set(0)
}

// Load is what it was last set to.
func (g *Gauge) Load() int64 { return g.n.Load() }

func (g *Gauge) read(of family, emit func(Sample)) { emit(of.sample(float64(g.n.Load()))) }

// Span is a time that grows and shrinks, told in seconds.
type Span struct{ nanos atomic.Int64 }

// Set says what it is now.
func (s *Span) Set(d time.Duration) { s.nanos.Store(int64(d)) }

func (s *Span) read(of family, emit func(Sample)) {
	emit(of.sample(time.Duration(s.nanos.Load()).Seconds()))
}
