package node

import (
	"context"

	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/executor"
	"github.com/tuttidb/tutti/internal/guards"
	"github.com/tuttidb/tutti/internal/peers"
	"github.com/tuttidb/tutti/internal/replay"
	"github.com/tuttidb/tutti/internal/writeset"
)

// executorOf is a replica as its executor needs it; what it needs is there.
func executorOf(l *life) executor.Options {
	return executor.Options{
		Log: l.log, Waits: &l.metrics.Waits, ID: l.txid, Fence: l.order.fence,
		Copied: l.order.position.Member != l.config.Member,
		Groups: l.order.core.Groups(), Order: done{l}, Course: comes{l}, Gate: l.flow.gate, Rows: l.rows,
		Waiters: l.submitted.waiters, Group: l.submitted.running.Group,
		Database: applied{l}, Trial: rowTrial{l}, Ahead: ahead{l.db.streaming, l}, Jobs: l.db.jobs,
		Detaches: l.db.detaches, Notices: l.notices, Meetings: meeting{l},
		Answer: l.answer, Check: l.audit.Carry, Databases: l.changeDatabases, Members: l.changeMembers,
		Tell: l.others.peers.Tell,
		Rest: l.flow.rests.after,
	}
}

// done is executor.Order of a replica.
type done struct{ l *life }

func (x done) Done(added []executor.Added, wait bool) bool {
	do := x.l.order.core.Do
	if wait {
		do = x.l.order.core.Call
	}
	return do(func(e *engine.Engine) {
		for _, a := range added {
			e.Added(a.Seq, a.Order)
		}
		x.l.order.core.GroupDone(e)
		x.l.flow.gate.Open(e.Holes())
	})
}

func (x done) Orphan(seq uint64) bool {
	return x.l.order.core.Do(func(e *engine.Engine) { e.Orphan(seq) })
}

// comes is executor.Course of a replica.
type comes struct{ l *life }

func (x comes) Serves()             { x.l.course.serves() }
func (x comes) Serving() bool       { return x.l.course.ready.Load() }
func (x comes) Halts(h *peers.Halt) { x.l.course.halts(h) }

func (x comes) Adopted(ctx context.Context) error {
	x.l.course.adopted.Store(true)
	x.l.tenure.awaitAdoptions(ctx)
	return errConverted
}

// applied is executor.Database of a replica.
type applied struct{ *life }

func (l applied) Apply(ctx context.Context, last uint64, tasks []engine.Task) (executor.Found, error) {
	done, err := replay.InPieces(ctx, l.db.applier, last, tasks)
	switch {
	case done && err == nil:
		l.log.Info("applied a large transaction in pieces", "transaction", tasks[0].Item.ID)
	case err == nil:
		err = l.db.applier.Apply(ctx, last, tasks)
	}
	return executor.Found{Missed: l.db.applier.Missed, Void: l.db.applier.Void}, err
}

func (l applied) Changed(ctx context.Context, ws *writeset.Writeset) error {
	return l.db.applier.Changed(ctx, ws)
}

func (l applied) Described() { l.db.tables.Store(l.db.applier.Tables) }

func (l applied) Unlearn() {
	l.db.applier.Tables = l.db.applier.Tables.Anew()
	l.Described()
}

func (l applied) Orphaned(ctx context.Context, of *guards.Guard, t engine.Task) (bool, error) {
	return l.db.applier.Orphaned(ctx, l.db.monitor, of.PID(), t)
}

func (l applied) Adopt(ctx context.Context, ordinal uint64) error {
	return l.db.applier.Adopt(ctx, ordinal, l.config.Member)
}

// ahead is executor.Ahead of a replica.
type ahead struct {
	*replay.Streaming
	l *life
}

func (x ahead) Commit(ctx context.Context, last uint64, tasks []engine.Task) (bool, error) {
	return x.Streaming.Commit(ctx, x.l.db.applier, &x.l.submitted.running.backends.Busy, last, tasks)
}

// rowTrial is halt.Database of a replica. The executor, whose connection it uses, has failed.
type rowTrial struct{ l *life }

func (x rowTrial) Begin(ctx context.Context) bool {
	conn := x.l.db.applier.Conn
	return !conn.IsClosed() && conn.TxStatus() == 'I' &&
		conn.ExecPrepared(ctx, replay.ApplyBegin, nil, nil, nil).Read().Err == nil
}

func (x rowTrial) Try(ctx context.Context, one *writeset.Writeset) error {
	return x.l.db.applier.SiftOne(ctx, []*writeset.Writeset{one}, true)
}

// End takes all back. If that fails, nothing is open any more.
func (x rowTrial) End(ctx context.Context) {
	_ = x.l.db.applier.Conn.ExecPrepared(ctx, replay.ApplyRollback, nil, nil, nil).Read()
}

func (x rowTrial) KeyText(t writeset.Table, record []byte) (columns, values string, ok bool) {
	return x.l.db.tables.Load().KeyText(t, record)
}
