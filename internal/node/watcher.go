package node

import (
	"context"
	"time"

	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/session"
	"github.com/tuttidb/tutti/internal/wire"
)

const (
	blockedAfter    = 3 * time.Millisecond // an apply this slow is looked at
	blockedInterval = 4 * time.Millisecond
	strangerAfter   = time.Second // a blocker that is no session of ours is ended
)

// watch finds backends that hold locks the executor waits for (N4).
func (l *life) watch(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-l.applyStarted:
		}
		wait := blockedAfter
		for {
			if !sleep(ctx, wait) {
				return nil
			}
			l.applyingMu.Lock()
			since := l.applyingSince
			l.applyingMu.Unlock()
			if since.IsZero() || time.Since(since) < blockedAfter {
				break
			}
			if err := l.unblock(ctx, time.Since(since)); err != nil && ctx.Err() == nil {
				return err
			}
			wait = blockedInterval
		}
	}
}

func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// unblock dooms the transactions that block the executor now.
func (l *life) unblock(ctx context.Context, blocked time.Duration) error {
	pids, err := l.monitor.blockers(ctx, l.applier.pid())
	if err != nil {
		return err
	}
	for _, pid := range pids {
		g := l.guardOf(pid)
		if g == nil {
			if blocked > strangerAfter {
				l.log.Warn("ending a backend that blocks replication and is no session of Tutti", "pid", pid)
				if err := l.monitor.terminate(ctx, pid); err != nil {
					return err
				}
			}
			continue
		}
		if g.kill(l.blockedError()) == session.PhaseSubmitted {
			if l.unblockSubmitted(g) {
				l.log.Info("ending a backend: it blocks a full apply queue, behind which its own verdict waits", "pid", pid)
				if err := l.monitor.terminate(ctx, pid); err != nil {
					return err
				}
			}
		} else if blocked > 10*strangerAfter {
			if err := l.monitor.terminate(ctx, pid); err != nil {
				return err
			}
		}
	}
	return nil
}

// unblockSubmitted deals with a blocker whose fate the log decides: not proposed yet, it
// is withdrawn; certified and queued behind, it commits at once (engine.Early); else its
// verdict is on the way, unless the queue is full (engine.Full): then its backend must end, and
// if it is certified the executor applies its rows.
func (l *life) unblockSubmitted(g *guard) (end bool) {
	seq := g.submission()
	w := l.waiters.get(seq)
	if w == nil {
		return false
	}
	l.core.call(func(e *engine.Engine) {
		if e.Withdraw(seq) {
			w.ordinal = l.applyingLast()
			w.decision <- session.Decision{Retry: true, Err: l.blockedError()}
			return
		}
		l.applyingMu.Lock()
		defer l.applyingMu.Unlock()
		if !l.joinable {
			return // its group follows next
		}
		if t, ok := e.Early(seq); ok {
			w.ordinal = t.Ordinal
			l.committing = append(l.committing, w)
			w.decision <- session.Decision{Commit: true}
			return
		}
		end = e.Full() && e.Undecided(seq)
	})
	return end
}

// blockedError is told to a transaction that held a lock the executor needs, when no more
// is known than what is being applied.
func (l *life) blockedError() *wire.SQLError {
	l.applyingMu.Lock()
	tasks := l.applying
	l.applyingMu.Unlock()
	e := wire.Errorf(wire.CodeSerializationFailure, concurrentUpdate).
		WithHint("The transaction might succeed if retried.")
	if len(tasks) == 0 {
		return e
	}
	t := tasks[len(tasks)-1]
	for i := range tasks {
		if tasks[i].Item.Kind == engine.KindStatement {
			t = tasks[i]
		}
	}
	if t.Writeset == nil || len(t.Writeset.Steps) > 0 {
		return e.WithDetail("A schema change, transaction %s of node %s, was ordered at %d while this transaction was open.", t.Item.ID, l.name(t.Item.ID.Member), t.Ordinal)
	}
	detail := l.keyOf(&t)
	if len(tasks) > 1 {
		return e.WithDetail("It held a lock that %d committed transactions up to ordinal %d need; the last is %s of node %s, %s.",
			len(tasks), t.Ordinal, t.Item.ID, l.name(t.Item.ID.Member), detail)
	}
	return e.WithDetail("%s: transaction %s of node %s committed first, at ordinal %d.", detail, t.Item.ID, l.name(t.Item.ID.Member), t.Ordinal)
}
