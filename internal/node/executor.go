package node

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/failure"
	"github.com/tuttidb/tutti/internal/flow"
	"github.com/tuttidb/tutti/internal/halt"
	"github.com/tuttidb/tutti/internal/pending"
	"github.com/tuttidb/tutti/internal/replay"
	"github.com/tuttidb/tutti/internal/semantics"
	"github.com/tuttidb/tutti/internal/session"
	"github.com/tuttidb/tutti/internal/writeset"
)

// execute carries out one group (see the package comment) and reports it done.
func (l *life) execute(ctx context.Context, g *engine.Group) error {
	if err := l.db.jobs.Beside(ctx, g, func() error { return l.finishLocals(ctx, g) }); err != nil {
		return err
	}
	if len(g.Tasks) > 0 && g.Tasks[0].Writeset != nil && g.Tasks[0].Writeset.Shared {
		if err := holdMeeting(ctx, l, g.Tasks[0].Ordinal); err != nil {
			return err
		}
	}
	if slices.ContainsFunc(g.Tasks, defines) {
		l.db.streaming.GiveWayUnless(g.Tasks) // what it has read may mean something else now
		defer l.db.streaming.GiveWay()
		l.rows.ForgetValues()
	}
	for i := range g.Tasks {
		l.forget(g.Tasks[i].Writeset)
	}
	if len(g.Tasks) > 0 && isAlone(g.Tasks[0]) {
		return l.executeAlone(ctx, g)
	}
	closeGate(l)
	locals, remote, notes, err := l.submitted.waiters.Release(g, l.rows.Commits)
	if err != nil {
		return err
	}
	l.submitted.running.Begin(remote, locals)
	if slices.ContainsFunc(remote, func(t engine.Task) bool { return t.Writeset.Adds() }) {
		if err := timed(l, flow.WaitDeltas, func() error { return pending.AwaitAdding(ctx, locals) }); err != nil {
			return err
		}
	}
	if err := l.applyRemote(ctx, g.Last, remote); err != nil {
		return err
	}
	l.rows.Applied(remote, l.db.applier.Missed)
	l.submitted.waiters.Tell(remote, l.id.incarnation, l.db.applier.Missed, l.db.applier.Void)
	if err := timed(l, flow.WaitCommits, func() error { return l.finishLocals(ctx, g) }); err != nil {
		return err
	}
	l.rows.GroupDone(remote)
	l.submitted.waiters.SettledOwn(remote, l.id.incarnation)
	if err := l.groupDone(); err != nil {
		return err
	}
	return l.notices.Notified(ctx, notes, l.course.ready.Load())
}

// isAlone reports whether a task is a group of its own that is no writeset.
func isAlone(t engine.Task) bool {
	return t.Item.Kind != engine.KindCertified && t.Item.Kind != engine.KindNotify
}

// defines reports whether a task changes the schema.
func defines(t engine.Task) bool {
	return t.Item.Kind == engine.KindStatement || t.Writeset != nil && len(t.Writeset.Steps) > 0
}

// finishLocals waits for the sessions' own commits, those that joined early included, and
// applies the rows of those that failed.
func (l *life) finishLocals(ctx context.Context, g *engine.Group) error {
	for i := 0; ; i++ {
		w, ok := l.submitted.running.Local(i)
		if !ok {
			return nil
		}
		select {
		case ok := <-w.Local:
			if w.Diverged != nil {
				return &failure.Fatal{Err: fmt.Errorf("transaction %s: %w: this database has diverged from the "+
					"cluster; restore this member from another", l.txid(w.Sub.Seq), w.Diverged)}
			}
			if !ok {
				if err := l.awaitCommitting(ctx, w); err != nil {
					return err
				}
				if err := l.applyOrphan(ctx, g.Last, w); err != nil {
					return err
				}
			}
			if len(w.Sub.Writeset.Steps) > 0 && ok {
				if err := l.db.applier.Changed(ctx, w.Sub.Writeset); err != nil {
					return err
				}
				l.db.tables.Store(l.db.applier.Tables)
			}
			l.rows.Committed(w.Ordinal, w.Sub.Writeset)
			if ok && w.Added > 0 {
				l.submitted.running.orders = append(l.submitted.running.orders, [2]uint64{w.Sub.Seq, w.Added})
			}
			l.submitted.waiters.Remove(w.Sub.Seq)
			close(w.Applied)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// awaitCommitting is pending.AwaitAdding before rows of a session are applied in its place.
func (l *life) awaitCommitting(ctx context.Context, orphan *pending.Waiter) error {
	if !orphan.Adds() {
		return nil
	}
	return pending.AwaitAdding(ctx, l.submitted.running.Locals())
}

// applyOrphan puts the rows of a certified local transaction into the database whose own
// backend could not commit it, unless it had after all.
func (l *life) applyOrphan(ctx context.Context, last uint64, w *pending.Waiter) error {
	l.log.Warn("a certified transaction's backend is gone; applying its rows", "slot", w.Guard.Slot(), "seq", w.Sub.Seq)
	if !l.order.core.Do(func(e *engine.Engine) { e.Orphan(w.Sub.Seq) }) {
		return errCoreStopped
	}
	l.submitted.running.Watch() // its locks are free, and another session may have taken them
	t := engine.Task{Ordinal: w.Ordinal, Mark: true, Writeset: w.Sub.Writeset, Item: engine.Item{
		Kind: engine.KindCertified, ID: l.txid(w.Sub.Seq), Slot: w.Guard.Slot()}}
	if len(w.Sub.Writeset.Steps) > 0 { // it may become long, and be kept
		t.Item.Payload = w.Sub.Writeset.Append(nil)
	}
	orphaned, err := l.db.applier.Orphaned(ctx, l.db.monitor, w.Guard.PID(), t)
	if err != nil || !orphaned {
		return err
	}
	return l.applyRemote(ctx, last, []engine.Task{t})
}

// groupDone tells the engine, which lets snapshots in unless a later transaction is already
// visible. It does not wait: the next group is issued after it, on the same goroutine.
func (l *life) groupDone() error {
	if !l.order.core.Do(l.settling()) {
		return errCoreStopped
	}
	return nil
}

// groupSettled is groupDone for who must know that it has happened.
func (l *life) groupSettled() error {
	if !l.order.core.Call(l.settling()) {
		return errCoreStopped
	}
	return nil
}

var errCoreStopped = errors.New("node: the core has stopped")

// settling tells the engine that the group is done.
func (l *life) settling() func(*engine.Engine) {
	orders := l.submitted.running.orders
	l.submitted.running.orders = nil
	return func(e *engine.Engine) {
		for _, o := range orders {
			e.Added(o[0], o[1])
		}
		l.order.core.GroupDone(e)
		l.flow.gate.Open(e.Holes())
	}
}

// applyRemote applies the rows of other members' transactions with the progress row.
func (l *life) applyRemote(ctx context.Context, last uint64, tasks []engine.Task) error {
	l.db.applier.Missed, l.db.applier.Void = nil, nil
	if len(tasks) == 0 {
		return nil
	}
	backend := &l.submitted.running.backends.Busy
	if ok, err := l.db.streaming.Commit(ctx, l.db.applier, backend, last, tasks); ok || err != nil {
		if ok && len(tasks[0].Writeset.Steps) > 0 {
			l.db.tables.Store(l.db.applier.Tables)
		}
		return err
	}
	if len(tasks) == 1 && len(tasks[0].Writeset.Steps) > 0 {
		_, _, err := l.db.jobs.CarryOut(ctx, last, tasks[0], nil)
		return err
	}
	err := l.db.applier.Apply(ctx, last, tasks)
	switch {
	case err == nil || !failure.Lasting(err):
		return err
	case len(tasks) == 1:
		return &halt.Entry{Task: tasks[0], Err: err}
	case l.course.ready.Load():
		return err
	}
	return halt.OneByOne(tasks, last, func(upTo uint64, one []engine.Task) error {
		return l.db.applier.Apply(ctx, upTo, one)
	})
}

// executeAlone carries out a group of one item that is no writeset.
func (l *life) executeAlone(ctx context.Context, g *engine.Group) error {
	t := g.Tasks[0]
	switch t.Item.Kind {
	case engine.KindStatement:
		return executeStatement(ctx, l, g, t)
	case engine.KindListen:
		l.flow.gate.Close()
		return l.listen(ctx, g)
	case engine.KindCheck:
		l.flow.gate.Close()
		if err := l.audit.Carry(ctx, t); err != nil {
			return err
		}
		return l.groupSettled()
	}
	l.flow.gate.Close() // a fence
	if err := l.groupSettled(); err != nil {
		return err
	}
	own := t.Item.ID.Member == l.config.Member && t.Item.ID.Incarnation == l.id.incarnation
	if own && t.Item.ID.Seq == l.order.fence { // others end a large transaction that broke off
		return l.fenced(ctx, g.Last)
	}
	return nil
}

// executeStatement carries out a group that is a definition.
func executeStatement(ctx context.Context, l *life, g *engine.Group, t engine.Task) error {
	d, meeting, err := replay.DecodeDefinition(t.Writeset.Steps[0].Definition)
	if err != nil {
		return &failure.Fatal{Err: err}
	}
	l.flow.gate.Close()
	if meeting > 0 {
		return attendMeeting(ctx, l, meeting)
	}
	l.submitted.running.Begin([]engine.Task{t}, nil)
	r, over := session.Result{}, true
	switch {
	case d.Database.Does != semantics.NoDatabase:
		r, err = l.changeDatabases(ctx, g.Last, t.Ordinal, d)
	case d.Index.Name != "":
		over, err = false, l.db.jobs.BuildConcurrently(ctx, g.Last, t, d)
	case d.Detach.Ends:
		r, over, err = l.db.detaches.End(ctx, g.Last, t, d)
	case d.Detach.Partition[1] != "":
		r, over, err = l.db.detaches.Begin(ctx, g.Last, t, d)
	default:
		r, over, err = l.db.jobs.CarryOut(ctx, g.Last, t, &d)
	}
	if err != nil {
		return err
	}
	if err := l.finishLocals(ctx, g); err != nil {
		return err
	}
	if err := l.groupSettled(); err != nil {
		return err
	}
	if over {
		l.answer(&t, r)
	}
	l.db.jobs.Settled()
	return nil
}

// forget forgets what is known of rows that a transaction takes away with their tables. It comes before the transaction
// is visible to a session of this node; who looks at such a table before it is waits for its lock.
func (l *life) forget(w *writeset.Writeset) {
	if w != nil {
		l.rows.Forget(w)
	}
}
