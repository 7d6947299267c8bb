package core

import (
	"time"

	"github.com/tuttidb/tutti/internal/process"
)

const (
	// tick is the engine's unit of time. Elections start after 10 to 20 ticks without a leader.
	tick = 50 * time.Millisecond
	// quietTicks are counted together while nothing happens: as many as there are from one heartbeat to the next.
	quietTicks = 3
)

// Ticks are how many of the engine's ticks make up a time.
func Ticks(d time.Duration) int { return int(d / tick) }

// beat counts ticks, at the common moments of the process, so that the cores of all databases wake it together.
type beat struct {
	timer   *time.Timer
	counted int64
}

func newBeat() beat {
	return beat{timer: time.NewTimer(process.ToBeat(tick)), counted: process.Beats(tick)}
}

// passed is how many ticks are to be counted now: those that have passed, but no more than are counted together when
// all is well. A process that stood still has not waited.
func (b *beat) passed() int64 {
	n := process.Beats(tick) - b.counted
	b.counted += n
	return min(n, quietTicks)
}

// next sets the timer.
func (b *beat) next(quiet bool) {
	d := tick
	if quiet {
		d *= quietTicks
	}
	b.timer.Reset(process.ToBeat(d))
}

// quiet reports whether nothing has happened since the last tick but that other members were heard, and nothing is
// waited for. A core that hears nobody counts single ticks, so that not all stand for election at once.
func (c *Core) quiet() bool {
	ordinal, leader := c.engine.Ordinal(), c.engine.View().Leader
	quiet := leader != 0 && c.silent <= 2*quietTicks && ordinal == c.before && c.engine.Figures().Own == 0
	c.before = ordinal
	return quiet
}
