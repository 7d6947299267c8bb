package guards

import (
	"sync/atomic"
	"time"
)

// coming is whether a transaction of a session may come soon. Of one whose last transaction has changed something
// another such one may: while it serves a request or is in a block, and at any time if its client asks again at once.
type coming struct {
	count   *atomic.Int32 // of the sessions that come; nil: none is counted
	counted bool          // it is one of them
	writes  bool          // its last request, or block, has submitted something
	submits bool          // this one has
	rests   time.Time     // since when it neither serves a request nor is in a block; zero: it does, or is
	pause   time.Duration // how long it usually rests
}

// soon is how short the usual pause is of a session that is on its way again as soon as it has been answered;
// pauseShare is the weight of one pause, which counts as pauseMax at most.
const (
	soon       = time.Millisecond
	pauseShare = 8
	pauseMax   = 32 * soon
)

func newComing(count *atomic.Int32, now time.Time) coming {
	return coming{count: count, pause: pauseMax, rests: now}
}

// serve notes that the session begins to serve a request, or ends it and is in no block.
func (c *coming) serve(on bool, now time.Time) {
	if on {
		c.pause += (min(now.Sub(c.rests), pauseMax) - c.pause) / pauseShare
		c.rests, c.submits = time.Time{}, false
		c.come(c.writes)
		return
	}
	c.rests, c.writes = now, c.submits
	c.come(c.writes && c.pause < soon)
}

// submit notes that it submits its transaction.
func (c *coming) submit() {
	c.submits = true
	c.come(c.pause < soon)
}

// look forgets a session that has rested for longer than it usually does.
func (c *coming) look(now time.Time) {
	if !c.rests.IsZero() && now.Sub(c.rests) > soon {
		c.come(false)
	}
}

// others is how many others come.
func (c *coming) others() int {
	switch {
	case c.count == nil:
		return 0
	case c.counted:
		return int(c.count.Load()) - 1
	}
	return int(c.count.Load())
}

func (c *coming) come(on bool) {
	if on == c.counted || c.count == nil {
		return
	}
	c.counted = on
	if on {
		c.count.Add(1)
	} else {
		c.count.Add(-1)
	}
}

// Serves is session.Control's Serves.
func (g *Guard) Serves(on bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.coming.serve(on, time.Now())
}

// Others is how many other sessions may soon submit something; zero if nobody counts them.
func (g *Guard) Others() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.coming.others()
}

// leave counts the session no longer.
func (g *Guard) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.coming.come(false)
}
