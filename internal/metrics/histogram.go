package metrics

import (
	"sync/atomic"
	"time"
)

// bounds are the buckets' upper ends: from a transaction at one server's memory to the longest that a client waits.
var bounds = [...]time.Duration{
	50 * time.Microsecond, 100 * time.Microsecond, 250 * time.Microsecond, 500 * time.Microsecond,
	time.Millisecond, 2500 * time.Microsecond, 5 * time.Millisecond, 10 * time.Millisecond, 25 * time.Millisecond,
	50 * time.Millisecond, 100 * time.Millisecond, 250 * time.Millisecond, 500 * time.Millisecond,
	time.Second, 2500 * time.Millisecond, 5 * time.Second, 10 * time.Second, 30 * time.Second,
}

// Histogram counts times by how long they are.
type Histogram struct {
	buckets [len(bounds) + 1]atomic.Uint64 // each for itself; the last is beyond all bounds
	nanos   atomic.Int64
}

// Observe counts a time.
func (h *Histogram) Observe(d time.Duration) {
	d = max(d, 0)
	i := 0
	for i < len(bounds) && d > bounds[i] {
		i++
	}
	h.buckets[i].Add(1)
	h.nanos.Add(int64(d))
}

// Count is how many times were counted.
func (h *Histogram) Count() (n uint64) {
	for i := range h.buckets {
		n += h.buckets[i].Load()
	}
	return n
}

// Sum is how long they were together.
func (h *Histogram) Sum() time.Duration { return time.Duration(h.nanos.Load()) }

func (h *Histogram) read(of family, emit func(Sample)) {
	d := &Distribution{Sum: h.Sum().Seconds(), Buckets: make(map[float64]uint64, len(bounds))}
	for i, bound := range bounds {
		d.Count += h.buckets[i].Load()
		d.Buckets[bound.Seconds()] = d.Count
	}
	d.Count += h.buckets[len(bounds)].Load()
	s := of.sample(0)
	s.Times = d
	emit(s)
}
