package node

import (
	"time"

	"github.com/tuttidb/tutti/internal/flow"
	"github.com/tuttidb/tutti/internal/metrics"
	"github.com/tuttidb/tutti/internal/wire"
)

// largeLook is how often one that waits looks whether it still wants to.
const largeLook = 20 * time.Millisecond

// larges lets a node keep only some large transactions at once for the sessions of all databases: each takes several
// times its size in memory. The others wait in the order of their coming; their backends are not read from meanwhile.
type larges struct {
	slots chan struct{}
	waits *metrics.Counter // how often one waited
}

func newLarges(most int, waits *metrics.Counter) *larges {
	return &larges{slots: make(chan struct{}, most), waits: waits}
}

// enter waits for its turn, for as long as most, and until over gives a reason not to. Without an error, leave must
// follow.
func (l *larges) enter(most time.Duration, over func() *wire.SQLError) *wire.SQLError {
	select {
	case l.slots <- struct{}{}:
		return nil
	default:
	}
	l.waits.Add(1)
	look := time.NewTicker(largeLook)
	defer look.Stop()
	for began := time.Now(); ; {
		select {
		case l.slots <- struct{}{}:
			return nil
		case <-look.C:
		}
		if why := over(); why != nil {
			return why
		}
		if time.Since(began) > most {
			return wire.Errorf(wire.CodeConfigurationLimit,
				"%d other large transactions are under way at this member (large_transactions)", cap(l.slots)).
				WithHint("Try again, or commit less than 16 MiB at a time.")
		}
	}
}

func (l *larges) leave() { <-l.slots }

// BeginLarge is described in session.Order.
func (h *host) BeginLarge() *wire.SQLError {
	if h.large {
		return nil
	}
	wait := h.n.metrics.Waits.Begin(flow.WaitLarge)
	why := h.n.tenure.larges.enter(h.n.patience.max(), h.interrupted)
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
		h.n.tenure.larges.leave()
	}
}
