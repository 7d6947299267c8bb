package executor

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
)

// Executor carries out one group after another. Its goroutine alone calls it.
type Executor struct {
	o      Options
	added  []Added // by sessions of the running group
	shared bool    // the running group changes what all databases share: who may do what, for instance
}

// New makes a replica's.
func New(o Options) *Executor { return &Executor{o: o} }

// Run is the executor's goroutine.
func (x *Executor) Run(ctx context.Context) error {
	if err := x.o.Jobs.Resume(ctx); err != nil {
		return x.failed(ctx, nil, err)
	}
	for {
		over, down := x.o.Jobs.Long() // never, unless there is a long definition
		select {
		case <-ctx.Done():
			return nil
		case <-over:
			if err := x.o.Jobs.End(ctx); err != nil {
				return x.failed(ctx, &engine.Group{Tasks: []engine.Task{x.o.Jobs.Task()}}, err)
			}
		case err := <-down:
			return err
		case g := <-x.o.Groups:
			began := time.Now()
			if err := x.execute(ctx, g); err != nil {
				return x.failed(ctx, g, err)
			}
			x.o.Rest(ctx, time.Since(began))
		}
	}
}

// execute carries out one group (see the package comment) and reports it done.
func (x *Executor) execute(ctx context.Context, g *engine.Group) error {
	if err := x.o.Jobs.Beside(ctx, g, func() error { return x.finishLocals(ctx, g) }); err != nil {
		return err
	}
	if len(g.Tasks) > 0 && g.Tasks[0].Writeset != nil && g.Tasks[0].Writeset.Shared {
		if err := x.o.Meetings.Hold(ctx, g.Tasks[0].Ordinal); err != nil {
			return err
		}
		x.o.Database.Unlearn() // also now, so that nobody relies on it while a session commits it
		x.shared = true
	}
	if slices.ContainsFunc(g.Tasks, defines) {
		x.o.Ahead.GiveWayUnless(g.Tasks) // what it has read may mean something else now
		defer x.o.Ahead.GiveWay()
		x.o.Rows.ForgetValues()
	}
	x.forget(g.Tasks)
	if len(g.Tasks) > 0 && isAlone(g.Tasks[0]) {
		return x.executeAlone(ctx, g)
	}
	return x.executeRows(ctx, g)
}

// executeRows carries out a group of writesets and notifications.
func (x *Executor) executeRows(ctx context.Context, g *engine.Group) error {
	x.closeGate()
	locals, remote, notes, err := x.o.Waiters.Release(g, x.o.Rows.Commits)
	if err != nil {
		return err
	}
	x.o.Group.Begin(remote, locals)
	if slices.ContainsFunc(remote, func(t engine.Task) bool { return t.Writeset.Adds() }) {
		if err := x.timed(flow.WaitDeltas, func() error { return pending.AwaitAdding(ctx, locals) }); err != nil {
			return err
		}
	}
	found, err := x.applyRemote(ctx, g.Last, remote)
	if err != nil {
		return err
	}
	life := x.o.ID(0).Incarnation
	x.o.Rows.Applied(remote, found.Missed)
	x.o.Waiters.Tell(remote, life, found.Missed, found.Void)
	if err := x.timed(flow.WaitCommits, func() error { return x.finishLocals(ctx, g) }); err != nil {
		return err
	}
	x.o.Rows.GroupDone(remote)
	x.o.Waiters.SettledOwn(remote, life)
	if err := x.groupDone(); err != nil {
		return err
	}
	return x.o.Notices.Notified(ctx, notes, x.o.Course.Serving())
}

// forget forgets what is known of rows that transactions take away with their tables. It comes before they are visible
// to a session of this node; who looks at such a table before that waits for its lock.
func (x *Executor) forget(tasks []engine.Task) {
	for i := range tasks {
		if w := tasks[i].Writeset; w != nil {
			x.o.Rows.Forget(w)
		}
	}
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
func (x *Executor) finishLocals(ctx context.Context, g *engine.Group) error {
	for i := 0; ; i++ {
		w, ok := x.o.Group.Local(i)
		if !ok {
			return nil
		}
		select {
		case ok := <-w.Local:
			if w.Diverged != nil {
				return &failure.Fatal{Err: fmt.Errorf("transaction %s: %w: this database has diverged from the "+
					"cluster; restore this member from another", x.o.ID(w.Sub.Seq), w.Diverged)}
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
				if err := x.o.Database.Changed(ctx, w.Sub.Writeset); err != nil {
					return err
				}
				x.o.Database.Described()
			}
			x.o.Rows.Committed(w.Ordinal, w.Sub.Writeset)
			if ok && w.Added > 0 {
				x.added = append(x.added, Added{w.Sub.Seq, w.Added})
			}
			x.o.Waiters.Remove(w.Sub.Seq)
			close(w.Applied)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// awaitCommitting is pending.AwaitAdding before rows of a session are applied in its place.
func (x *Executor) awaitCommitting(ctx context.Context, orphan *pending.Waiter) error {
	if !orphan.Adds() {
		return nil
	}
	return pending.AwaitAdding(ctx, x.o.Group.Locals())
}

// applyOrphan puts the rows of a certified local transaction into the database whose own
// backend could not commit it, unless it had after all.
func (x *Executor) applyOrphan(ctx context.Context, last uint64, w *pending.Waiter) error {
	x.o.Log.Warn("a certified transaction's backend is gone; applying its rows", "slot", w.Guard.Slot(),
		"seq", w.Sub.Seq)
	if !x.o.Order.Orphan(w.Sub.Seq) {
		return errCoreStopped
	}
	x.o.Group.Watch() // its locks are free, and another session may have taken them
	t := engine.Task{Ordinal: w.Ordinal, Mark: true, Writeset: w.Sub.Writeset, Item: engine.Item{
		Kind: engine.KindCertified, ID: x.o.ID(w.Sub.Seq), Slot: w.Guard.Slot()}}
	if len(w.Sub.Writeset.Steps) > 0 { // it may become long, and be kept
		t.Item.Payload = w.Sub.Writeset.Append(nil)
	}
	orphaned, err := x.o.Database.Orphaned(ctx, w.Guard, t)
	if err != nil || !orphaned {
		return err
	}
	_, err = x.applyRemote(ctx, last, []engine.Task{t})
	return err
}

// groupDone tells the engine, which lets snapshots in unless a later transaction is already
// visible. It does not wait: the next group is issued after it, on the same goroutine.
func (x *Executor) groupDone() error { return x.done(false) }

// groupSettled is groupDone for who must know that it has happened.
func (x *Executor) groupSettled() error { return x.done(true) }

var errCoreStopped = errors.New("executor: the core has stopped")

func (x *Executor) done(wait bool) error {
	added := x.added
	x.added = nil
	if x.shared {
		x.o.Database.Unlearn()
		x.shared = false
	}
	if !x.o.Order.Done(added, wait) {
		return errCoreStopped
	}
	return nil
}

// applyRemote applies the rows of other members' transactions with the progress row.
func (x *Executor) applyRemote(ctx context.Context, last uint64, tasks []engine.Task) (found Found, err error) {
	if len(tasks) == 0 {
		return found, nil
	}
	if ok, err := x.o.Ahead.Commit(ctx, last, tasks); ok || err != nil {
		if ok && len(tasks[0].Writeset.Steps) > 0 {
			x.o.Database.Described()
		}
		return found, err
	}
	if len(tasks) == 1 && len(tasks[0].Writeset.Steps) > 0 {
		_, _, err := x.o.Jobs.CarryOut(ctx, last, tasks[0], nil)
		return found, err
	}
	found, err = x.o.Database.Apply(ctx, last, tasks)
	switch {
	case err == nil || !failure.Lasting(err):
		return found, err
	case len(tasks) == 1:
		return found, &halt.Entry{Task: tasks[0], Err: err}
	case x.o.Course.Serving():
		return found, err
	}
	return found, halt.OneByOne(tasks, last, func(upTo uint64, one []engine.Task) (err error) {
		found, err = x.o.Database.Apply(ctx, upTo, one)
		return err
	})
}

// executeAlone carries out a group of one item that is no writeset.
func (x *Executor) executeAlone(ctx context.Context, g *engine.Group) error {
	t := g.Tasks[0]
	switch t.Item.Kind {
	case engine.KindStatement:
		return x.executeStatement(ctx, g, t)
	case engine.KindListen:
		x.o.Gate.Close()
		return x.listen(ctx, g)
	case engine.KindCheck:
		x.o.Gate.Close()
		if err := x.o.Check(ctx, t); err != nil {
			return err
		}
		return x.groupSettled()
	}
	x.o.Gate.Close() // a fence
	if err := x.groupSettled(); err != nil {
		return err
	}
	if t.Item.ID == x.o.ID(x.o.Fence) { // others end a large transaction that broke off
		return x.fenced(ctx, g.Last)
	}
	return nil
}

// executeStatement carries out a group that is a definition.
func (x *Executor) executeStatement(ctx context.Context, g *engine.Group, t engine.Task) error {
	d, meeting, err := replay.DecodeDefinition(t.Writeset.Steps[0].Definition)
	if err != nil {
		return &failure.Fatal{Err: err}
	}
	x.o.Gate.Close()
	if meeting > 0 {
		return x.attend(ctx, meeting)
	}
	x.o.Group.Begin([]engine.Task{t}, nil)
	r, over := session.Result{}, true
	switch {
	case d.Database.Does != semantics.NoDatabase:
		r, err = x.o.Databases(ctx, g.Last, t, d)
	case d.Membership.Does != semantics.NoMember, d.Record.Does != semantics.NoRecord:
		r, err = x.o.Members(ctx, g.Last, t, d)
	case d.Index.Name != "":
		over, err = false, x.o.Jobs.BuildConcurrently(ctx, g.Last, t, d)
	case d.Detach.Ends:
		r, over, err = x.o.Detaches.End(ctx, g.Last, t, d)
	case d.Detach.Partition[1] != "":
		r, over, err = x.o.Detaches.Begin(ctx, g.Last, t, d)
	default:
		r, over, err = x.o.Jobs.CarryOut(ctx, g.Last, t, &d)
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
		x.o.Answer(&t, r)
	}
	x.o.Jobs.Settled()
	return nil
}

// fenced is called when this life's own fence is applied: everything committed before the
// start is in the database.
func (x *Executor) fenced(ctx context.Context, ordinal uint64) error {
	if x.o.Copied {
		if err := x.o.Database.Adopt(ctx, ordinal); err != nil {
			return err
		}
		return x.o.Course.Adopted(ctx)
	}
	x.o.Notices.Begin(ordinal)
	x.o.Course.Serves()
	x.o.Log.Info("ready", "ordinal", ordinal, "incarnation", x.o.ID(0).Incarnation)
	return nil
}

// listen carries out a listen item.
func (x *Executor) listen(ctx context.Context, g *engine.Group) error {
	t := g.Tasks[0] // the engine clears the group when it is settled
	carried, err := x.o.Notices.Listen(ctx, t)
	if err != nil {
		return err
	}
	if err := x.groupSettled(); err != nil {
		return err
	}
	if t.Item.ID.Member != x.o.ID(0).Member {
		return x.o.Tell(t.Item.ID.Member)
	}
	carried()
	return nil
}

// attend carries out a word that the database has come to a meeting.
func (x *Executor) attend(ctx context.Context, meeting uint64) error {
	if err := x.o.Meetings.Attend(ctx, meeting); err != nil {
		return err
	}
	x.shared = true
	return x.groupSettled()
}

// failed is called when the executor has failed with a group. It returns nil if the database was halted by that, once
// the life ends.
func (x *Executor) failed(ctx context.Context, g *engine.Group, err error) error {
	if ctx.Err() != nil || failure.NotUnderstood(err) {
		return err
	}
	if failure.Follows(err, x.o.Course.Serving()) == failure.Ends {
		if failure.Lasting(err) { // no reason to end the process
			x.o.Log.Error("an entry of the order cannot be carried out here; this life ends, and the next one tries "+
				"it again", "error", err)
			return errors.New(err.Error())
		}
		return err
	}
	h := halt.Describe(ctx, g, err, x.o.Trial)
	x.o.Log.Error("this database is halted at this member: an entry of the order cannot be carried out here. It "+
		"serves no clients, and is tried again at the next start",
		"entry", h.Ordinal, "transaction", h.Transaction, "table", h.Table, "row", h.Row, "error", h.Reason)
	x.o.Course.Halts(h)
	<-ctx.Done()
	return nil
}

// timed is f as a wait.
func (x *Executor) timed(w flow.Wait, f func() error) error {
	defer x.o.Waits.Begin(w).End()
	return f()
}

// closeGate begins a group.
func (x *Executor) closeGate() {
	defer x.o.Waits.Begin(flow.WaitSnapshots).End()
	x.o.Gate.Close()
}
