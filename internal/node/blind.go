package node

import (
	"time"

	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/flow"
	"github.com/tuttidb/tutti/internal/pending"
	"github.com/tuttidb/tutti/internal/session"
)

// DefinedUpTo is up to where definitions are known here.
func (h *host) DefinedUpTo() uint64 {
	h.seen = h.n.db.jobs.Seen()
	return h.n.complete()
}

// Sees is DefinedUpTo that waits until what the session has committed last is applied: what it does not see would
// make it lose to itself.
func (h *host) Sees() uint64 {
	if h.after > 0 {
		awaits(h.n, flow.WaitOwnCommit, func() bool {
			return h.n.order.core.Applied() >= h.after || h.n.course.ending()
		})
	}
	return h.DefinedUpTo()
}

// Blind orders a transaction that has seen nothing (decision 0057), unless a session has locked rows of its tables, or
// writes to them otherwise: these would be given way, and it need not wait for them. If it must, it does not wait for
// who writes, nor for who has asked for a while without. It is done when the executor has carried it out.
func (h *host) Blind(sub session.Submission, must bool) (d session.Decision, done bool) {
	l := h.n
	if !h.rows.Blind(sub.Writeset.Tables, must) {
		return d, false
	}
	if l.grants.Locks.Block(sub.Writeset) || h.Pass(sub.Writeset, sub.Limits) != nil {
		return d, false
	}
	if h.Enter(session.PhaseSubmitted) != nil {
		h.grants.Passed()
		return d, false
	}
	h.must = must
	d, w := h.submit(sub)
	for began := time.Now(); w != nil && w.Shunned; d, w = h.submit(sub) {
		time.Sleep(shunPause)
		h.must = must || time.Since(began) > shunWait
	}
	h.must = false
	h.grants.Passed()
	if !d.Commit {
		return d, true
	}
	slowed(h)
	if w.Missed {
		return session.Decision{Retry: true}, false
	}
	if l.metrics.Writes.Blind.Add(1); len(sub.Writeset.Rows) > 1 {
		l.metrics.Writes.BlindBlocks.Add(1)
	}
	return d, true
}

const (
	// So long it gives way to those who have asked for it, see engine.Engine.Shuns.
	shunWait  = 30 * time.Millisecond
	shunPause = 2 * time.Millisecond
)

// beatenMax is how often a transaction that might be blind itself loses to blind ones before it asks for a while
// without them.
const beatenMax = 3

// shun asks for a while without blind transactions in the tables of a transaction that has lost to one, if it has.
func (h *host) shun(w *pending.Waiter) {
	if !w.Beaten {
		return
	}
	if h.beaten++; !h.rows.Writes() && h.beaten < beatenMax {
		return
	}
	h.n.order.core.Do(func(e *engine.Engine) {
		if !e.Shuns(w.Sub.Writeset) { // if too much waits to be ordered already, it loses once more
			e.Submit(engine.Submission{Kind: engine.KindShun, Seq: h.n.order.seq.Add(1),
				Payload: engine.ShunPayload(w.Sub.Writeset.Tables)})
		}
	})
}
