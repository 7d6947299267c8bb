package node

import (
	"time"

	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/outcome"
	"github.com/tuttidb/tutti/internal/pending"
	"github.com/tuttidb/tutti/internal/session"
	"github.com/tuttidb/tutti/internal/snapshots"
	"github.com/tuttidb/tutti/internal/wire"
)

// snapshotsOf is a replica as its snapshots need it; its core need not be there yet.
func snapshotsOf(l *life) snapshots.Options {
	return snapshots.Options{
		Waits: &l.metrics.Waits, Gate: l.flow.gate, Applied: func() uint64 { return l.order.core.Applied() },
		Tell: func(runs bool) <-chan struct{} { return submitSerial(l, runs) }, CatchUp: l.catchUp,
		Vouches: func(sub session.Submission) (loses, wins bool, decided uint64) {
			l.order.core.Call(func(e *engine.Engine) {
				loses, wins = e.Vouches(engine.Submission{Kind: engine.KindCertified, Seq: sub.Seq,
					Snapshot: sub.Snapshot, Base: sub.Base, Writeset: sub.Writeset})
				decided = e.Ordinal()
			})
			return loses, wins, decided
		},
		Patience:   func() time.Duration { return l.submitted.patience.Max() },
		NoMajority: func() *wire.SQLError { return l.submitted.patience.NotOrdered("the transaction") },
		Ends:       outcome.Ending, Ending: l.course.ending, Done: l.course.done, Go: l.course.background.Go,
	}
}

// submitSerial tells the order whether this member runs SERIALIZABLE transactions.
func submitSerial(l *life, runs bool) (ordered <-chan struct{}) {
	payload := []byte{0}
	if runs {
		payload[0] = 1
	}
	seq := l.order.seq.Add(1)
	ordered = l.advisory.Place(seq)
	l.order.core.Order(l.course.context, engine.Submission{Kind: engine.KindSerial, Seq: seq, Payload: payload})
	return ordered
}

// serialDecided tells the session's snapshots what became of a transaction; w is nil if the engine has none.
func (h *host) serialDecided(w *pending.Waiter, fromLog bool) {
	if w == nil {
		h.snapshots.SerialApart()
		return
	}
	h.snapshots.Decided(h.n.txid(w.Sub.Seq), fromLog, w.Applied)
}
