package node

import (
	"context"
	"time"

	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/process"
)

// resubmitAfter is when something is submitted again for which the engine had too much to order.
const resubmitAfter = 10 * time.Millisecond

// order submits what must not be lost because too much is under way at the moment. False if the life ends.
func (l *life) order(ctx context.Context, s engine.Submission) bool {
	for {
		taken := false
		if !l.core.call(func(e *engine.Engine) { taken = e.Submit(s) }) {
			return false
		}
		if taken {
			return true
		}
		if !process.Sleep(ctx, resubmitAfter) {
			return false
		}
	}
}

// letGo lets more of a large transaction leave, if it is time.
func (l *life) letGo(seq uint64) {
	synced, voters, percent := l.peers.synced(), len(l.config.Members),
		l.settled().Limits.FlowMinorityPercent
	// If the core has stopped, the session is told.
	l.core.do(func(e *engine.Engine) { l.paces.LetGo(e, seq, synced, voters, percent) })
}
