package node

import (
	"fmt"
	"time"

	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/flow"
	"github.com/tuttidb/tutti/internal/replay"
	"github.com/tuttidb/tutti/internal/session"
	"github.com/tuttidb/tutti/internal/wire"
	"github.com/tuttidb/tutti/internal/writeset"
)

// patience is how long a COMMIT, or a definition, waits to be ordered (commit_timeout_ms).
// The channel is nil, and so never ready, if it waits for ever.
// It fires again and again.
func (l *life) patience() (over <-chan time.Time, stop func()) {
	ms := l.settled().Limits.CommitTimeoutMs
	if ms <= 0 {
		return nil, func() {}
	}
	t := time.NewTicker(time.Duration(ms) * time.Millisecond)
	return t.C, t.Stop
}

// giveUp ends a session's wait for the log. Not proposed yet, its transaction is certainly not
// committed. Proposed without a verdict, its outcome is open: the session must end, and the log
// decides as it does when a backend dies. With a verdict, or while this member itself has yet to
// take in what is decided, the wait goes on: it is not for a majority.
func (l *life) giveUp(w *waiter) {
	seq := w.sub.Seq
	l.core.do(func(e *engine.Engine) {
		sent := w.sent
		w.sent = e.Sent(seq)
		switch {
		case w.sent > sent: // a large one, which goes on
		case e.Withdraw(seq):
			w.decision <- session.Decision{Err: l.errNoMajority("the transaction")}
		case e.Undecided(seq) && e.Behind() == 0:
			e.Orphan(seq)
			l.waiters.orphaned(w)
			l.metrics.Limits.Timeout.Add(1)
			w.decision <- session.Decision{Err: wire.Errorf(wire.CodeStatementUnknown,
				"the outcome of the transaction is not known: no majority of the members answered within %d ms "+
					"(commit_timeout_ms)", l.settled().Limits.CommitTimeoutMs).
				WithDetail("Transaction %s was handed to the cluster; whether it commits is decided by the log.",
					l.txid(seq)).AsFatal()}
		}
	})
}

// awaitDefinition waits for a statement to run here. Only the wait for its place in the order
// ends after a while; running it may take any time.
func (l *life) awaitDefinition(id writeset.TxID, result <-chan session.Result) session.Result {
	over, stop := l.patience()
	defer stop()
	defer l.metrics.Waits.Begin(flow.WaitDefinition).End()
	for {
		select {
		case r := <-result:
			return r
		case <-over:
			back, open := false, false
			l.core.call(func(e *engine.Engine) {
				back = e.Withdraw(id.Seq)
				open = e.Undecided(id.Seq) && e.Behind() == 0
			})
			if back {
				return session.Result{Err: l.errNoMajority("the statement")}
			}
			if open {
				l.metrics.Limits.Timeout.Add(1)
				return unknownDefinition(id,
					fmt.Sprintf("no majority of the members answered within %d ms (commit_timeout_ms)",
						l.settled().Limits.CommitTimeoutMs))
			}
		case <-l.done:
			return unknownDefinition(id, "this member restarts")
		}
	}
}

func unknownDefinition(id writeset.TxID, why string) session.Result {
	return session.Result{Err: wire.Errorf(wire.CodeStatementUnknown, "the outcome of the statement is not known: %s",
		why).
		WithDetail("Transaction %s was handed to the cluster; whether it runs is decided by the log.", id)}
}

// errNoMajority is told when nothing was proposed.
func (l *life) errNoMajority(what string) *wire.SQLError {
	l.metrics.Limits.Timeout.Add(1)
	return wire.Errorf(wire.CodeCannotConnectNow, "%s was not committed: it could not be put into the order within "+
		"%d ms (commit_timeout_ms)", what, l.settled().Limits.CommitTimeoutMs).
		WithHint("Is a majority of the members up? See SHOW tutti.status. Run it again later, or at another member.")
}

// withdraw takes a submission back because its client cancelled, unless it is proposed.
func (l *life) withdraw(seq uint64) {
	w := l.waiters.get(seq)
	if w == nil {
		return
	}
	l.core.do(func(e *engine.Engine) {
		if e.Withdraw(seq) {
			w.decision <- session.Decision{Err: replay.ErrCanceled()}
		}
	})
}

// awaitOrphan keeps the slot of a session that gave up until the log has decided.
func (l *life) awaitOrphan(g *guard) {
	if g == nil || g.orphan == nil {
		return
	}
	defer l.metrics.Waits.Begin(flow.WaitSlot).End()
	select {
	case <-g.orphan:
	case <-l.done:
	}
}
