package replay

import (
	"math"
	"slices"
	"sync"

	"github.com/tuttidb/tutti/internal/writeset"
)

// longsMax is how many ended ones are remembered, see L3.
const longsMax = 64

// longs is what sessions have to know of long definitions (L3).
type longs struct {
	mu    sync.Mutex
	began uint64 // how many there were
	ended uint64 // how many of them have ended: all but one, or all
	last  []*Job // the latest of them
	ends  sync.Cond
}

// add is called before anything that is ordered after it can be seen.
func (l *longs) add(g *Job) {
	l.mu.Lock()
	l.began++
	g.Number = l.began
	if len(l.last) == longsMax {
		l.last = slices.Delete(l.last, 0, 1)
	}
	l.last = append(l.last, g)
	l.mu.Unlock()
}

// end is called when the tables are known as it has left them.
func (l *longs) end() {
	l.mu.Lock()
	l.ended = l.began
	l.mu.Unlock()
	l.ends.Broadcast()
}

// Wake makes who awaits look at its stop function again.
func (l *longs) Wake() {
	l.mu.Lock() // so that nobody is between looking and waiting
	l.mu.Unlock()
	l.ends.Broadcast()
}

// Seen is how many a transaction that begins now has seen.
func (l *longs) Seen() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ended
}

// Under is the one that goes on, or nil.
func (l *longs) Under() *Job {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended == l.began {
		return nil
	}
	return l.last[len(l.last)-1]
}

// Await waits until none goes on, or stop is true.
func (l *longs) Await(stop func() bool) { l.AwaitUpTo(math.MaxUint64, stop) }

// AwaitUpTo is Await for those up to a number.
func (l *longs) AwaitUpTo(number uint64, stop func() bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.ended < min(number, l.began) && !stop() {
		l.ends.Wait()
	}
}

// Missed is one that a transaction has not seen and should have; nil if there is none. It has seen so many when it
// began, and its definitions came behind as many as took their turn before it.
func (l *longs) Missed(seen, behind uint64, ws *writeset.Writeset) *Job {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.began - seen
	if n > uint64(len(l.last)) {
		return l.last[0]
	}
	for _, g := range l.last[uint64(len(l.last))-n:] {
		if g.holds(ws) || g.Number > behind && g.Touches(ws) {
			return g
		}
	}
	return nil
}
