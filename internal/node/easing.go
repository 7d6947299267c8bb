package node

import (
	"context"
	"time"

	"github.com/tuttidb/tutti/internal/flow"
	"github.com/tuttidb/tutti/internal/process"
)

// A member that was away carries out what it has missed as fast as it can. Where members share a machine that takes
// from the others what they need for their clients, so it rests for twice as long as it works, if it comes nearer fast
// enough all the same.
const (
	easeWindow = time.Second // for which is measured how fast it comes nearer; a few gossipInterval
	easeRest   = 2           // times as long as the work before it
	// easeGain is how many times as fast as the order grows a member must carry it out while it rests; without rests,
	// more by what they take.
	easeGain = 2
)

var easeMax = most(flow.WaitRest)

// easing is that of a life, and its executor's.
type easing struct {
	rests            bool
	since            time.Time // of the window; zero: none has begun
	applied, ordered uint64    // bytes of the order at its beginning
}

// look judges a window if one is over: applied and ordered are bytes of the order, of which the latter are known to any
// member.
func (e *easing) look(now time.Time, applied, ordered uint64) {
	if !e.since.IsZero() {
		if now.Sub(e.since) < easeWindow {
			return
		}
		gain := uint64(easeGain)
		if !e.rests {
			gain *= 1 + easeRest
		}
		e.rests = applied-e.applied > gain*(ordered-min(ordered, e.ordered))
	}
	e.since, e.applied, e.ordered = now, applied, ordered
}

// ease rests after a group that took so long, if others that have clients share the machine and this member has not
// caught up yet.
func (l *life) ease(ctx context.Context, took time.Duration) {
	e := &l.easing
	if !l.config.SharesMachine || l.caughtUp.Load() {
		return
	}
	_, ordered, serve := l.peers.furthest()
	e.look(time.Now(), l.volumeApplied.Load(), ordered)
	if !e.rests || !serve {
		return
	}
	began := time.Now()
	defer l.metrics.Waits.Begin(flow.WaitRest).End()
	process.Sleep(ctx, min(easeRest*took, easeMax))
	l.metrics.Flow.RestTime.Add(time.Since(began))
}
