package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

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

// executor carries out one group after another. Its goroutine alone calls it.
type executor struct {
	l      *life
	orders [][2]uint64 // of those that have added to rows the sequence and the order
}

// run is the executor's goroutine.
func (x *executor) run(ctx context.Context) error {
	if err := x.l.db.jobs.Resume(ctx); err != nil {
		return x.failed(ctx, nil, err)
	}
	for {
		over, down := x.l.db.jobs.Long() // never, unless there is a long definition
		select {
		case <-ctx.Done():
			return nil
		case <-over:
			if err := x.l.db.jobs.End(ctx); err != nil {
				return x.failed(ctx, &engine.Group{Tasks: []engine.Task{x.l.db.jobs.Task()}}, err)
			}
		case err := <-down:
			return err
		case g := <-x.l.order.core.Groups():
			began := time.Now()
			if err := x.execute(ctx, g); err != nil {
				return x.failed(ctx, g, err)
			}
			x.l.flow.rests.after(ctx, time.Since(began))
		}
	}
}

// execute carries out one group (see the package comment) and reports it done.
func (x *executor) execute(ctx context.Context, g *engine.Group) error {
	if err := x.l.db.jobs.Beside(ctx, g, func() error { return x.finishLocals(ctx, g) }); err != nil {
		return err
	}
	if len(g.Tasks) > 0 && g.Tasks[0].Writeset != nil && g.Tasks[0].Writeset.Shared {
		if err := holdMeeting(ctx, x.l, g.Tasks[0].Ordinal); err != nil {
			return err
		}
	}
	if slices.ContainsFunc(g.Tasks, defines) {
		x.l.db.streaming.GiveWayUnless(g.Tasks) // what it has read may mean something else now
		defer x.l.db.streaming.GiveWay()
		x.l.rows.ForgetValues()
	}
	for i := range g.Tasks {
		x.l.forget(g.Tasks[i].Writeset)
	}
	if len(g.Tasks) > 0 && isAlone(g.Tasks[0]) {
		return x.executeAlone(ctx, g)
	}
	closeGate(x.l)
	locals, remote, notes, err := x.l.submitted.waiters.Release(g, x.l.rows.Commits)
	if err != nil {
		return err
	}
	x.l.submitted.running.Begin(remote, locals)
	if slices.ContainsFunc(remote, func(t engine.Task) bool { return t.Writeset.Adds() }) {
		if err := timed(x.l, flow.WaitDeltas, func() error { return pending.AwaitAdding(ctx, locals) }); err != nil {
			return err
		}
	}
	if err := x.applyRemote(ctx, g.Last, remote); err != nil {
		return err
	}
	x.l.rows.Applied(remote, x.l.db.applier.Missed)
	x.l.submitted.waiters.Tell(remote, x.l.id.incarnation, x.l.db.applier.Missed, x.l.db.applier.Void)
	if err := timed(x.l, flow.WaitCommits, func() error { return x.finishLocals(ctx, g) }); err != nil {
		return err
	}
	x.l.rows.GroupDone(remote)
	x.l.submitted.waiters.SettledOwn(remote, x.l.id.incarnation)
	if err := x.groupDone(); err != nil {
		return err
	}
	return x.l.notices.Notified(ctx, notes, x.l.course.ready.Load())
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
func (x *executor) finishLocals(ctx context.Context, g *engine.Group) error {
	for i := 0; ; i++ {
		w, ok := x.l.submitted.running.Local(i)
		if !ok {
			return nil
		}
		select {
		case ok := <-w.Local:
			if w.Diverged != nil {
				return &failure.Fatal{Err: fmt.Errorf("transaction %s: %w: this database has diverged from the "+
					"cluster; restore this member from another", x.l.txid(w.Sub.Seq), w.Diverged)}
			}
			if !ok {
				if err := x.awaitCommitting(ctx, w); err != nil {
					return err
				}
				if err := x.applyOrphan(ctx, g.Last, w); err != nil {
					return err
				}
			}
			if len(w.Sub.Writeset.Steps) > 0 && ok {
				if err := x.l.db.applier.Changed(ctx, w.Sub.Writeset); err != nil {
					return err
				}
				x.l.db.tables.Store(x.l.db.applier.Tables)
			}
			x.l.rows.Committed(w.Ordinal, w.Sub.Writeset)
			if ok && w.Added > 0 {
				x.orders = append(x.orders, [2]uint64{w.Sub.Seq, w.Added})
			}
			x.l.submitted.waiters.Remove(w.Sub.Seq)
			close(w.Applied)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// awaitCommitting is pending.AwaitAdding before rows of a session are applied in its place.
func (x *executor) awaitCommitting(ctx context.Context, orphan *pending.Waiter) error {
	if !orphan.Adds() {
		return nil
	}
	return pending.AwaitAdding(ctx, x.l.submitted.running.Locals())
}

// applyOrphan puts the rows of a certified local transaction into the database whose own
// backend could not commit it, unless it had after all.
func (x *executor) applyOrphan(ctx context.Context, last uint64, w *pending.Waiter) error {
	x.l.log.Warn("a certified transaction's backend is gone; applying its rows", "slot", w.Guard.Slot(),
		"seq", w.Sub.Seq)
	if !x.l.order.core.Do(func(e *engine.Engine) { e.Orphan(w.Sub.Seq) }) {
		return errCoreStopped
	}
	x.l.submitted.running.Watch() // its locks are free, and another session may have taken them
	t := engine.Task{Ordinal: w.Ordinal, Mark: true, Writeset: w.Sub.Writeset, Item: engine.Item{
		Kind: engine.KindCertified, ID: x.l.txid(w.Sub.Seq), Slot: w.Guard.Slot()}}
	if len(w.Sub.Writeset.Steps) > 0 { // it may become long, and be kept
		t.Item.Payload = w.Sub.Writeset.Append(nil)
	}
	orphaned, err := x.l.db.applier.Orphaned(ctx, x.l.db.monitor, w.Guard.PID(), t)
	if err != nil || !orphaned {
		return err
	}
	return x.applyRemote(ctx, last, []engine.Task{t})
}

// groupDone tells the engine, which lets snapshots in unless a later transaction is already
// visible. It does not wait: the next group is issued after it, on the same goroutine.
func (x *executor) groupDone() error {
	if !x.l.order.core.Do(x.settling()) {
		return errCoreStopped
	}
	return nil
}

// groupSettled is groupDone for who must know that it has happened.
func (x *executor) groupSettled() error {
	if !x.l.order.core.Call(x.settling()) {
		return errCoreStopped
	}
	return nil
}

var errCoreStopped = errors.New("node: the core has stopped")

// settling tells the engine that the group is done.
func (x *executor) settling() func(*engine.Engine) {
	orders := x.orders
	x.orders = nil
	return func(e *engine.Engine) {
		for _, o := range orders {
			e.Added(o[0], o[1])
		}
		x.l.order.core.GroupDone(e)
		x.l.flow.gate.Open(e.Holes())
	}
}

// applyRemote applies the rows of other members' transactions with the progress row.
func (x *executor) applyRemote(ctx context.Context, last uint64, tasks []engine.Task) error {
	x.l.db.applier.Missed, x.l.db.applier.Void = nil, nil
	if len(tasks) == 0 {
		return nil
	}
	backend := &x.l.submitted.running.backends.Busy
	if ok, err := x.l.db.streaming.Commit(ctx, x.l.db.applier, backend, last, tasks); ok || err != nil {
		if ok && len(tasks[0].Writeset.Steps) > 0 {
			x.l.db.tables.Store(x.l.db.applier.Tables)
		}
		return err
	}
	if len(tasks) == 1 && len(tasks[0].Writeset.Steps) > 0 {
		_, _, err := x.l.db.jobs.CarryOut(ctx, last, tasks[0], nil)
		return err
	}
	err := x.l.db.applier.Apply(ctx, last, tasks)
	switch {
	case err == nil || !failure.Lasting(err):
		return err
	case len(tasks) == 1:
		return &halt.Entry{Task: tasks[0], Err: err}
	case x.l.course.ready.Load():
		return err
	}
	return halt.OneByOne(tasks, last, func(upTo uint64, one []engine.Task) error {
		return x.l.db.applier.Apply(ctx, upTo, one)
	})
}

// executeAlone carries out a group of one item that is no writeset.
func (x *executor) executeAlone(ctx context.Context, g *engine.Group) error {
	t := g.Tasks[0]
	switch t.Item.Kind {
	case engine.KindStatement:
		return x.executeStatement(ctx, g, t)
	case engine.KindListen:
		x.l.flow.gate.Close()
		return x.listen(ctx, g)
	case engine.KindCheck:
		x.l.flow.gate.Close()
		if err := x.l.audit.Carry(ctx, t); err != nil {
			return err
		}
		return x.groupSettled()
	}
	x.l.flow.gate.Close() // a fence
	if err := x.groupSettled(); err != nil {
		return err
	}
	own := t.Item.ID.Member == x.l.config.Member && t.Item.ID.Incarnation == x.l.id.incarnation
	if own && t.Item.ID.Seq == x.l.order.fence { // others end a large transaction that broke off
		return x.fenced(ctx, g.Last)
	}
	return nil
}

// executeStatement carries out a group that is a definition.
func (x *executor) executeStatement(ctx context.Context, g *engine.Group, t engine.Task) error {
	d, meeting, err := replay.DecodeDefinition(t.Writeset.Steps[0].Definition)
	if err != nil {
		return &failure.Fatal{Err: err}
	}
	x.l.flow.gate.Close()
	if meeting > 0 {
		return x.attendMeeting(ctx, meeting)
	}
	x.l.submitted.running.Begin([]engine.Task{t}, nil)
	r, over := session.Result{}, true
	switch {
	case d.Database.Does != semantics.NoDatabase:
		r, err = x.changeDatabases(ctx, g.Last, t.Ordinal, d)
	case d.Index.Name != "":
		over, err = false, x.l.db.jobs.BuildConcurrently(ctx, g.Last, t, d)
	case d.Detach.Ends:
		r, over, err = x.l.db.detaches.End(ctx, g.Last, t, d)
	case d.Detach.Partition[1] != "":
		r, over, err = x.l.db.detaches.Begin(ctx, g.Last, t, d)
	default:
		r, over, err = x.l.db.jobs.CarryOut(ctx, g.Last, t, &d)
	}
	if err != nil {
		return err
	}
	if err := x.finishLocals(ctx, g); err != nil {
		return err
	}
	if err := x.groupSettled(); err != nil {
		return err
	}
	if over {
		x.l.answer(&t, r)
	}
	x.l.db.jobs.Settled()
	return nil
}

// forget forgets what is known of rows that a transaction takes away with their tables. It comes before the transaction
// is visible to a session of this node; who looks at such a table before it is waits for its lock.
func (l *life) forget(w *writeset.Writeset) {
	if w != nil {
		l.rows.Forget(w)
	}
}

// fenced is called when this life's own fence is applied: everything committed before the
// start is in the database.
func (x *executor) fenced(ctx context.Context, ordinal uint64) error {
	if x.l.order.position.Member != x.l.config.Member {
		if err := x.l.db.applier.Adopt(ctx, ordinal, x.l.config.Member); err != nil {
			return err
		}
		x.l.course.adopted.Store(true)
		x.l.tenure.awaitAdoptions(ctx)
		return errConverted
	}
	x.l.notices.Begin(ordinal)
	x.l.course.serves()
	x.l.log.Info("ready", "ordinal", ordinal, "incarnation", x.l.id.incarnation)
	return nil
}
