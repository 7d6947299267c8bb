package node

import (
	"context"
	"time"

	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/replay"
	"github.com/tuttidb/tutti/internal/semantics"
	"github.com/tuttidb/tutti/internal/session"
)

// buildConcurrently has the definer carry out CREATE INDEX CONCURRENTLY, as PostgreSQL does: in several transactions,
// of which each waits for who could not see it. Its place in the order is where it begins, and it is long from there
// (L1), without holding any table: an index that is not unique means nothing to what is captured and applied. It gives
// way to everything: what waits for it and cannot go on breaks it off, and it begins again.
func (l *life) buildConcurrently(ctx context.Context, last uint64, t engine.Task, d session.Definition) error {
	g := &replay.Job{Task: t, Last: last, Free: time.Now(), Definition: &d, Kind: semantics.LongFree, Beside: true,
		Kept: make(chan struct{}), Done: make(chan struct{})}
	l.applier.Begun.Store(last)
	if err := l.applier.Keep(ctx, last, &t); err != nil {
		return err
	}
	close(g.Kept)
	l.longs.add(g)
	l.long = g
	l.log.Info("an index is built beside what is ordered after it", "ordinal", t.Ordinal, "index", d.Index.Name)
	l.begin(ctx, g)
	l.running.watch()
	return nil
}

// cancelDefinition carries out a client's wish: a definition that was not proposed yet is withdrawn, and an index that
// is built CONCURRENTLY here is given up, and left as it is. Everything else is ordered, and runs at all members.
func (l *life) cancelDefinition(seq uint64) {
	l.core.do(func(e *engine.Engine) {
		if !e.Withdraw(seq) {
			return
		}
		if c, ok := l.definitions.Load(seq); ok {
			c.(chan session.Result) <- session.Result{Err: replay.ErrCanceled()}
		}
	})
	if g := l.longs.under(); g != nil && g.Concurrent() && g.Task.Item.ID == l.txid(seq) {
		g.Unwanted.Store(true)
		l.monitor.Cancel(l.log, l.applier.Definer.Conn.PID())
	}
}
