package node

import (
	"time"

	"github.com/tuttidb/tutti/internal/admission"
	"github.com/tuttidb/tutti/internal/config"
	"github.com/tuttidb/tutti/internal/flow"
	"github.com/tuttidb/tutti/internal/metrics"
	"github.com/tuttidb/tutti/internal/session"
	"github.com/tuttidb/tutti/internal/wire"
)

// most is how long a wait takes at most, by the table of all waits.
func most(w flow.Wait) time.Duration { return metrics.Most(w) }

// longPatience is how long a session waits for a long definition.
var longPatience = most(flow.WaitLong)

// awaits waits at the gate, and counts that, unless what it waits for is so already.
func awaits(l *life, w flow.Wait, done func() bool) {
	if done() {
		return
	}
	defer l.metrics.Waits.Begin(w).End()
	l.flow.gate.Await(done)
}

// underWay notes that the log decides on a submission of a session's, until over is called.
func underWay(h *host, seq uint64) (over func()) {
	h.g.Submitted(seq)
	h.clock.Hand()
	wait := h.n.metrics.Waits.Begin(flow.WaitOrder)
	return func() {
		wait.End()
		h.g.Submitted(0)
	}
}

// decided notes what the log has decided.
func decided(h *host, d *session.Decision) {
	h.clock.Decide()
	h.won, h.lost = d.Commit, d.Retry
}

// slowed ends a transaction that has committed: its client is answered when it returns.
func slowed(h *host) {
	at := time.Now()
	h.n.flow.throttle.Slow(&h.debt)
	h.clock.Committed(&h.n.metrics.Transactions, at)
}

// throttleOf is a replica as its throttle needs it.
func throttleOf(l *life) admission.Options {
	return admission.Options{
		Clock: admission.Time, Limits: func() *config.Limits { return &l.settled().Limits }, Name: l.name, Log: l.log,
		Metrics: &l.metrics, Done: l.course.done,
	}
}

// BeginLarge is described in session.Order.
func (h *host) BeginLarge() *wire.SQLError {
	if h.large {
		return nil
	}
	wait := h.n.metrics.Waits.Begin(flow.WaitLarge)
	why := h.n.tenure.larges.Enter(h.n.submitted.patience.Max(), h.Interrupted)
	wait.End()
	h.large = why == nil
	return why
}

// Exceeded is described in session.Order.
func (h *host) Exceeded() { h.n.metrics.Limits.Writeset.Add(1) }

// endLarge says that the session's transaction has ended.
func (h *host) endLarge() {
	if h.large {
		h.large = false
		h.n.tenure.larges.Leave()
	}
}
