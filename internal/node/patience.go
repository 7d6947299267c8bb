package node

import (
	"fmt"
	"time"

	"github.com/tuttidb/tutti/internal/core"
	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/flow"
	"github.com/tuttidb/tutti/internal/guards"
	"github.com/tuttidb/tutti/internal/metrics"
	"github.com/tuttidb/tutti/internal/replay"
	"github.com/tuttidb/tutti/internal/replica"
	"github.com/tuttidb/tutti/internal/session"
	"github.com/tuttidb/tutti/internal/wire"
	"github.com/tuttidb/tutti/internal/writeset"
)

// patience is how long a COMMIT, or a definition, waits to be ordered (commit_timeout_ms, replica.Patience).
type patience struct {
	most    func() time.Duration // at most zero: for ever
	now     func() int64
	core    *core.Core
	waiters *waiters
	metrics *metrics.Database
	txid    func(seq uint64) writeset.TxID
	done    <-chan struct{} // closed when the replica ends
}

// begin begins a wait. The channel is nil, and so never ready, if it is for ever. It fires again and again.
func (p *patience) begin() (wait replica.Patience, over <-chan time.Time, stop func()) {
	most := p.most()
	wait = replica.NewPatience(p.now(), int64(most))
	if most <= 0 {
		return wait, nil, func() {}
	}
	t := time.NewTicker(most)
	return wait, t.C, t.Stop
}

// max is it for waits that are bounded in any case.
func (p *patience) max() time.Duration {
	if most := p.most(); most > 0 {
		return most
	}
	return time.Duration(1<<62 - 1)
}

// look ends a session's wait for the log, if it is over. Not proposed yet, its transaction is certainly not
// committed. Proposed without a verdict, its outcome is open: the session must end, and the log
// decides as it does when a backend dies.
func (p *patience) look(w *waiter) {
	seq := w.sub.Seq
	p.core.Do(func(e *engine.Engine) {
		switch w.patience.Look(p.now(), e, seq) {
		case replica.NotOrdered:
			w.decision <- session.Decision{Err: p.errNoMajority("the transaction")}
		case replica.Unknown:
			e.Orphan(seq)
			p.waiters.orphaned(w)
			p.metrics.Limits.Timeout.Add(1)
			w.decision <- session.Decision{Err: wire.Errorf(wire.CodeStatementUnknown,
				"the outcome of the transaction is not known: no majority of the members answered within %d ms "+
					"(commit_timeout_ms)", p.most().Milliseconds()).
				WithDetail("Transaction %s was handed to the cluster; whether it commits is decided by the log.",
					p.txid(seq)).AsFatal()}
		}
	})
}

// definition waits for a statement to run here. Only the wait for its place in the order
// ends after a while; running it may take any time.
func (p *patience) definition(id writeset.TxID, result <-chan session.Result) session.Result {
	wait, over, stop := p.begin()
	defer stop()
	defer p.metrics.Waits.Begin(flow.WaitDefinition).End()
	for {
		select {
		case r := <-result:
			return r
		case <-over:
			was := replica.GoOn
			p.core.Call(func(e *engine.Engine) { was = wait.Look(p.now(), e, id.Seq) })
			switch was {
			case replica.NotOrdered:
				return session.Result{Err: p.errNoMajority("the statement")}
			case replica.Unknown:
				p.metrics.Limits.Timeout.Add(1)
				return unknownDefinition(id, fmt.Sprintf("no majority of the members answered within %d ms "+
					"(commit_timeout_ms)", p.most().Milliseconds()))
			}
		case <-p.done:
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
func (p *patience) errNoMajority(what string) *wire.SQLError {
	p.metrics.Limits.Timeout.Add(1)
	return wire.Errorf(wire.CodeCannotConnectNow, "%s was not committed: it could not be put into the order within "+
		"%d ms (commit_timeout_ms)", what, p.most().Milliseconds()).
		WithHint("Is a majority of the members up? See SHOW tutti.status. Run it again later, or at another member.")
}

// withdraw takes a submission back because its client cancelled, unless it is proposed.
func (p *patience) withdraw(seq uint64) {
	w := p.waiters.get(seq)
	if w == nil {
		return
	}
	p.core.Do(func(e *engine.Engine) {
		if e.Withdraw(seq) {
			w.decision <- session.Decision{Err: replay.ErrCanceled()}
		}
	})
}

// awaitOrphan keeps the slot of a session that gave up until the log has decided.
func (p *patience) awaitOrphan(g *guards.Guard) {
	if g == nil || g.Orphan() == nil {
		return
	}
	defer p.metrics.Waits.Begin(flow.WaitSlot).End()
	select {
	case <-g.Orphan():
	case <-p.done:
	}
}

// patienceOf is a replica as those who wait for the order need it; its core is there.
func patienceOf(l *life) patience {
	return patience{now: l.peers.Now, core: l.core, waiters: l.waiters, metrics: &l.metrics, txid: l.txid, done: l.done,
		most: func() time.Duration {
			return time.Duration(max(l.settled().Limits.CommitTimeoutMs, 0)) * time.Millisecond
		}}
}
