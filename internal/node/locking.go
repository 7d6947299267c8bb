package node

import (
	"context"
	"time"

	"github.com/tuttidb/tutti/internal/advisory"
	"github.com/tuttidb/tutti/internal/engine"
)

// Lock passes on what a function asks. What no function of ours has said is ignored.
func (h *host) Lock(message string) (worker bool) {
	c, ok := advisory.Parse(message)
	if !ok {
		return false
	}
	if h.advisory == nil {
		h.advisory = h.n.advisory.Begin(h.g.PID(), h.g.Client())
	}
	return h.advisory.Lock(c)
}

// SettleLocks has compared what the backend holds with what the cluster thinks.
func (h *host) SettleLocks(compare bool) {
	if h.advisory != nil {
		h.advisory.Await(compare)
	}
}

// advisoryOf is a replica as its advisory locks need it.
func advisoryOf(l *life) advisory.Replica {
	return advisory.Replica{
		Log: l.log, Context: l.course.context, Self: l.config.Member, Name: l.name,
		Lease:   time.Duration(l.config.Limits.LockLeaseMs) * time.Millisecond,
		Waits:   &l.metrics.Waits,
		Seq:     func() uint64 { return l.order.seq.Add(1) },
		Order:   func(ctx context.Context, s engine.Submission) bool { return l.order.core.Order(ctx, s) },
		Engine:  func(f func(*engine.Engine)) bool { return l.order.core.Call(f) },
		Applied: func() uint64 { return l.order.core.Applied() },
		Await:   l.flow.gate.Await, Wake: l.flow.gate.Wake,
		Opened: l.course.opened, Done: l.course.done, Ending: l.course.ending,
		Patience: func() (<-chan time.Time, func()) {
			_, over, stop := l.submitted.patience.Begin()
			return over, stop
		},
		TimedOut:   func() { l.metrics.Limits.Timeout.Add(1) },
		EndBackend: l.endBackend,
	}
}
