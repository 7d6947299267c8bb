package core

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/tuttidb/tutti/internal/process"
)

// TestQuiet: cores to which nothing happens wake up for each heartbeat only, and their leader stays. When it is cut
// off, the others count single ticks and elect another one.
func TestQuiet(t *testing.T) {
	var woken atomic.Int64
	x := start(t, 3, func(_ uint32, o *Options) {
		o.Survey = func() (bool, []uint32) { woken.Add(1); return false, nil }
	})
	until(t, "there is a leader", func() bool { return x.leader() != 0 })
	was, term := x.leader(), x.cores[0].term
	time.Sleep(10 * tick)
	before, began := woken.Load(), time.Now()
	time.Sleep(40 * tick)
	beats := float64(woken.Load()-before) / float64(len(x.cores)) / float64(time.Since(began)/tick)
	if beats > 0.5 {
		t.Errorf("a quiet core wakes up %.2f times in a tick", beats)
	}
	if x.leader() != was || x.cores[0].term != term {
		t.Error("there was an election")
	}
	x.mu.Lock()
	x.cut[was] = true
	x.mu.Unlock()
	until(t, "another one leads", func() bool {
		for i, c := range x.cores {
			if uint32(i+1) != was && c.Leader() != 0 && c.Leader() != was {
				return true
			}
		}
		return false
	})
}

// TestBeat: what passes is counted once, and a pause of the process is not.
func TestBeat(t *testing.T) {
	b := newBeat()
	defer b.timer.Stop()
	b.counted = process.Beats(tick) - 2
	if n := b.passed(); n < 2 || n > quietTicks { // one may have passed meanwhile
		t.Errorf("%d ticks are counted of 2", n)
	}
	b.counted = process.Beats(tick) - 1000
	if n := b.passed(); n != quietTicks {
		t.Errorf("%d ticks are counted of a pause", n)
	}
	if n := b.passed(); n > 1 {
		t.Errorf("%d ticks are counted again", n)
	}
}
