package node

import (
	"context"
	"time"

	"github.com/tuttidb/tutti/internal/apply"
	"github.com/tuttidb/tutti/internal/database/link"
	"github.com/tuttidb/tutti/internal/databases"
	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/membership"
	"github.com/tuttidb/tutti/internal/process"
	"github.com/tuttidb/tutti/internal/semantics"
	"github.com/tuttidb/tutti/internal/session"
	"github.com/tuttidb/tutti/internal/standing"
	"github.com/tuttidb/tutti/internal/wire"
)

// mayChange refuses, where a statement comes from, what it may not do to a database.
func (t *tenure) mayChange(from *life, d semantics.Database) *wire.SQLError {
	if d.Does == semantics.NoDatabase {
		return nil
	}
	main := t.life(mainGroup)
	if main == nil || !main.course.ready.Load() {
		return errNotReady()
	}
	known := databases.Known{Main: main.id.database, Current: from.id.database, There: t.count(),
		Limit: t.node.config.Limits.Databases}
	if l := t.named(d.Name); l != nil {
		known.Clients = l.others.peers.Clients()
	}
	return databases.Refused(d, known)
}

// awaitDatabase waits until clients can use a database that was created, or for a while.
func (t *tenure) awaitDatabase(name string) {
	l := t.named(name)
	if l == nil {
		return
	}
	timeout := time.NewTimer(databaseWait)
	defer timeout.Stop()
	select {
	case <-l.course.opened:
	case <-l.course.done:
	case <-timeout.C:
	}
}

// await looks for a database that is not known here once everything is applied that was ordered before now: its
// creation may have been answered at another member. It looks for one at a time, for databaseWait at most: then it is
// not known whether there is one.
func (t *tenure) await(ctx context.Context, name string) (l *life, known bool) {
	ctx, cancel := context.WithTimeout(ctx, databaseWait)
	defer cancel()
	select {
	case t.looking <- struct{}{}:
		defer func() { <-t.looking }()
	case <-ctx.Done():
		return nil, false
	}
	main := t.life(mainGroup)
	if l := t.named(name); l != nil || main == nil {
		return l, l != nil
	}
	seq := main.order.seq.Add(1)
	main.order.core.Do(func(e *engine.Engine) { e.Submit(engine.Submission{Kind: engine.KindFence, Seq: seq}) })
	alone := loneliness{}
	for !main.resolved(seq) {
		if main.course.ending() || alone.lasts(t.leaderless()) || !process.Sleep(ctx, time.Millisecond) {
			return nil, false
		}
	}
	var decided uint64
	main.order.core.Call(func(e *engine.Engine) { decided = e.Ordinal() })
	for main.order.core.Applied() < decided {
		if main.course.ending() || !process.Sleep(ctx, time.Millisecond) {
			return nil, false
		}
	}
	return t.named(name), true
}

// replicas is databases.Replicas of a server session.
type replicas struct{ t *tenure }

func (x replicas) Start(id uint64, name string) error { return x.t.start(id, name) }
func (x replicas) End(id uint64)                      { x.t.end(id) }
func (x replicas) Runs(id uint64) bool                { return x.t.life(id) != nil }
func (x replicas) Retire(id, dropped uint64) error    { return x.t.retired.Add(id, dropped) }

// changeDatabases carries out what a definition does to the list of databases.
func (l *life) changeDatabases(ctx context.Context, last uint64, t engine.Task, d session.Definition) (
	session.Result, error) {
	l.db.applier.Begun.Store(last)
	// As of this place: who joins has been told of a later list.
	roster, err := membership.Read(ctx, l.db.connString)
	if err != nil {
		return session.Result{}, err
	}
	conn, err := link.Connect(ctx, l.db.connString, "tutti databases", apply.SessionSettings())
	if err != nil {
		return session.Result{}, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	defer l.submitted.running.backends.Instead(conn.PID())() // whoever blocks it loses
	return databases.Carry(ctx, databases.Options{Log: l.log, Replicas: replicas{l.tenure},
		Progress: l.db.applier, Voters: t.Voters, Roster: roster,
		List: l.db.applier.Pgx, Conn: conn}, last, t.Ordinal, d)
}

// count is how many databases there are, those included that are dropped and not forgotten.
func (t *tenure) count() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.lives) + t.retired.Count()
}

// forgetDropped removes what is left of databases that every member has dropped.
func (t *tenure) forgetDropped(ctx context.Context) error {
	main := t.life(mainGroup)
	if main == nil || t.retired.Count() == 0 {
		return nil
	}
	return t.retired.Remove(main.others.peers.AllApplied(), func(id uint64) error {
		if err := t.standing.Removed(id); err != nil {
			return err
		}
		_, err := main.db.monitor.Exec(ctx, databases.ForgetSQL(id))
		return err
	})
}

// listed lists the databases for a member that has none (standing.Standing.Lists).
func listed(t *tenure) func(context.Context) (standing.Listed, error) {
	return func(ctx context.Context) (list standing.Listed, err error) {
		main := t.life(mainGroup)
		if main == nil {
			return list, t.notBegun()
		}
		list.Applied = main.order.core.Applied() // before it is looked which there are
		list.Orders, err = databases.Orders(ctx, t.connString(t.node.config.Database))
		return list, err
	}
}

// retiredOf is a server session as its retired logs need it.
func retiredOf(t *tenure) databases.RetiredOptions {
	return databases.RetiredOptions{
		Config: t.node.config, Log: t.node.log, Faults: t.node.faults, Context: t.ctx, Go: t.running.Go, Fail: t.fail,
		Send: func(to uint32, id uint64, word []byte) bool { return t.send(to, frameRaft, id, word) },
	}
}
