package pending

import (
	"sync"
	"time"

	"github.com/tuttidb/tutti/internal/flow"
	"github.com/tuttidb/tutti/internal/guards"
	"github.com/tuttidb/tutti/internal/metrics"
	"github.com/tuttidb/tutti/internal/outcome"
	"github.com/tuttidb/tutti/internal/replay"
	"github.com/tuttidb/tutti/internal/replica"
	"github.com/tuttidb/tutti/internal/session"
	"github.com/tuttidb/tutti/internal/wire"
	"github.com/tuttidb/tutti/internal/writeset"
)

// Order is the engine, as who waits for it needs it.
type Order interface {
	replica.Order
	// Orphan says that nobody waits for a submission any more.
	Orphan(seq uint64)
}

// Patience is how long a COMMIT, or a definition, waits to be ordered (commit_timeout_ms, replica.Patience).
type Patience struct {
	Most func() time.Duration // at most zero: for ever
	Now  func() int64
	// Do has the core's goroutine call f, and Call waits for that; not once the core has stopped.
	Do, Call func(f func(Order))
	Waiters  *Waiters
	Metrics  *metrics.Database
	TxID     func(seq uint64) writeset.TxID
	Done     <-chan struct{} // closed when the replica ends
}

// Begin begins a wait. The channel is nil, and so never ready, if it is for ever. It fires again and again.
func (p *Patience) Begin() (wait replica.Patience, over <-chan time.Time, stop func()) {
	most := p.Most()
	wait = replica.NewPatience(p.Now(), int64(most))
	if most <= 0 {
		return wait, nil, func() {}
	}
	t := time.NewTicker(most)
	return wait, t.C, t.Stop
}

// Max is it for waits that are bounded in any case.
func (p *Patience) Max() time.Duration {
	if most := p.Most(); most > 0 {
		return most
	}
	return time.Duration(1<<62 - 1)
}

// Look ends a session's wait for the log, if it is over. Not proposed yet, its transaction is certainly not committed.
// Proposed without a verdict, its outcome is open: the session must end, and the log decides as it does when a backend
// dies.
func (p *Patience) Look(w *Waiter) {
	seq := w.Sub.Seq
	p.Do(func(o Order) {
		switch w.Patience.Look(p.Now(), o, seq) {
		case replica.NotOrdered:
			w.Decision <- session.Decision{Err: p.NotOrdered("the transaction")}
		case replica.Unknown:
			o.Orphan(seq)
			p.Waiters.Orphaned(w)
			p.Metrics.Limits.Timeout.Add(1)
			w.Decision <- session.Decision{Err: outcome.Unknown(p.TxID(seq), outcome.NoAnswer(p.Most()))}
		}
	})
}

// AwaitDefinition waits for a statement to run here. Only the wait for its place in the order ends after a while;
// running it may take any time.
func (p *Patience) AwaitDefinition(id writeset.TxID, result <-chan session.Result) session.Result {
	wait, over, stop := p.Begin()
	defer stop()
	defer p.Metrics.Waits.Begin(flow.WaitDefinition).End()
	for {
		select {
		case r := <-result:
			return r
		case <-over:
			was := replica.GoOn
			p.Call(func(o Order) { was = wait.Look(p.Now(), o, id.Seq) })
			switch was {
			case replica.NotOrdered:
				return session.Result{Err: p.NotOrdered("the statement")}
			case replica.Unknown:
				p.Metrics.Limits.Timeout.Add(1)
				return outcome.UnknownStatement(id, outcome.NoAnswer(p.Most()))
			}
		case <-p.Done:
			return outcome.UnknownStatement(id, outcome.Restarts)
		}
	}
}

// NotOrdered counts that nothing was proposed in time, and says so.
func (p *Patience) NotOrdered(what string) *wire.SQLError {
	p.Metrics.Limits.Timeout.Add(1)
	return outcome.NotOrdered(what, p.Most())
}

// Withdraw takes a submission back because its client cancelled, unless it is proposed.
func (p *Patience) Withdraw(seq uint64) {
	w := p.Waiters.Get(seq)
	if w == nil {
		return
	}
	p.Do(func(o Order) {
		if o.Withdraw(seq) {
			w.Decision <- session.Decision{Err: replay.ErrCanceled()}
		}
	})
}

// AwaitOrphan keeps the slot of a session that gave up until the log has decided.
func (p *Patience) AwaitOrphan(g *guards.Guard) {
	if g == nil || g.Orphan() == nil {
		return
	}
	defer p.Metrics.Waits.Begin(flow.WaitSlot).End()
	select {
	case <-g.Orphan():
	case <-p.Done:
	}
}

// Definitions are those that sessions wait for, by sequence. Its zero value is empty. Safe for concurrent use.
type Definitions struct{ m sync.Map }

// Begin notes one until end is called. Its result comes once.
func (d *Definitions) Begin(seq uint64) (result <-chan session.Result, end func()) {
	c := make(chan session.Result, 1)
	d.m.Store(seq, c)
	return c, func() { d.m.Delete(seq) }
}

// Answer tells the session that waits for a definition, if there is one.
func (d *Definitions) Answer(seq uint64, r session.Result) {
	if c, ok := d.m.Load(seq); ok {
		c.(chan session.Result) <- r
	}
}
