package node

import (
	"context"
	"time"

	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/replay"
	"github.com/tuttidb/tutti/internal/session"
	"github.com/tuttidb/tutti/internal/writeset"
)

// cancelDefinition carries out a client's wish: a definition that was not proposed yet is withdrawn, and an index that
// is built CONCURRENTLY here is given up, and left as it is. Everything else is ordered, and runs at all members.
func (l *life) cancelDefinition(seq uint64) {
	l.order.core.Do(func(e *engine.Engine) {
		if e.Withdraw(seq) {
			l.submitted.definitions.Answer(seq, session.Result{Err: replay.ErrCanceled()})
		}
	})
	l.db.jobs.Cancel(l.txid(seq))
}

// answer tells the session that waits for a definition of this member's, if there is one.
func (l *life) answer(t *engine.Task, r session.Result) {
	if t.Item.ID.Member == l.config.Member && t.Item.ID.Incarnation == l.id.incarnation {
		l.submitted.definitions.Answer(t.Item.ID.Seq, r)
	}
}

// awaitLong waits for the end of one, but not for ever: its client may have given up.
func (l *life) awaitLong(g *replay.Job) {
	timeout := time.NewTimer(longPatience)
	defer timeout.Stop()
	select {
	case <-g.Done:
		l.db.jobs.AwaitUpTo(g.Number, l.course.ending) // the next may be under way already
	case <-l.course.done:
	case <-timeout.C:
	}
}

// jobsOf is a replica as its definition jobs and detachments need it; what they need is there.
func jobsOf(l *life) replay.JobOptions {
	return replay.JobOptions{
		Log: l.log, ConnString: l.db.connString, Applier: l.db.applier, Monitor: l.db.monitor,
		Streaming: l.db.streaming,
		Backends:  &l.submitted.running.backends, Watch: l.submitted.running.Watch,
		Shown:     func(t engine.Task) { l.submitted.running.Begin([]engine.Task{t}, nil) },
		Described: l.db.tables.Store, Answer: l.answer, Complete: l.complete,
		Background: l.course.background.Go, Opened: l.course.opened, Done: l.course.done,
		Seq: func() uint64 { return l.order.seq.Add(1) }, TxID: l.txid,
		Define: func(id writeset.TxID, d session.Definition) session.Result { return l.defineAs(id, d, nil) },
		Unblock: func(ctx context.Context, backend uint32, blocked time.Duration) error {
			_, err := l.submitted.watcher.Unblock(ctx, backend, blocked, nil)
			return err
		},
		Group: l.id.group, Vain: &l.node.vain,
	}
}

// Detach is described in session.Definitions.
func (h *host) Detach(d session.Definition) (session.Turn, session.Result) {
	return h.n.db.detaches.Detach(d, h.g.PID(), func() bool { return h.g.Lost() != nil },
		func(id writeset.TxID) session.Result { return h.n.defineAs(id, d, h.g) })
}
