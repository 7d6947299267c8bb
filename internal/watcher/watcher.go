package watcher

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/guards"
	"github.com/tuttidb/tutti/internal/outcome"
	"github.com/tuttidb/tutti/internal/pending"
	"github.com/tuttidb/tutti/internal/replay"
	"github.com/tuttidb/tutti/internal/session"
	"github.com/tuttidb/tutti/internal/wire"
	"github.com/tuttidb/tutti/internal/writeset"
)

const (
	blockedInterval = 4 * time.Millisecond
	strangerAfter   = time.Second      // a blocker that is no session of ours is ended
	stubbornAfter   = 10 * time.Second // one that has lost and does not let go is ended
	// Who only blocks a blocker need not lose if that one lets go, as a VACUUM FULL of a catalog does that waits.
	chainAfter = 250 * time.Millisecond
)

// Monitor is the local database, seen from outside of what goes on there.
type Monitor interface {
	// Blockers are the backends that one waits for now, and those that these wait for; 0 is a prepared transaction.
	Blockers(ctx context.Context, backend uint32) ([]uint32, error)
	FirstBlockers(ctx context.Context, backend uint32) ([]uint32, error) // the former alone
	// Rebuilds reports whether a backend rebuilds a catalog, and waits for nobody.
	Rebuilds(ctx context.Context, backend uint32) (bool, error)
	Terminate(ctx context.Context, backend uint32) error
	Cancel(log *slog.Logger, backend uint32)
	// Chore is the backend that does what else is to be done, and since when; zero: nothing. Late says when to look.
	Chore() (backend uint32, age time.Duration)
	Late() <-chan struct{}
}

// Options are what a replica's watcher needs of it.
type Options struct {
	Log      *slog.Logger
	Monitor  Monitor
	Group    *pending.Group
	Waiters  *pending.Waiters
	Backends *replay.Backends
	Words    *outcome.Words
	Session  func(backend uint32) *guards.Guard // nil: it is none of this database's
	// Elsewhere is the same for this member's other databases: roles are locked in all of them.
	Elsewhere func(backend uint32) *guards.Guard
	Blocked   func() // counts a transaction that loses for being in the way
	// Definition is the one that goes on beside groups; nil if there is none. Executor and Definer are the backends.
	Definition        func() *replay.Job
	Executor, Definer func() uint32
	// Streaming executes large transactions while they come in; 0: none. BreakOff has a detachment give way.
	Streaming func() uint32
	GiveWay   func()
	BreakOff  func(backend uint32) bool
	// Engine has the core's goroutine call f with engine.Engine.Unblock, and waits for that.
	Engine func(f func(unblock func(seq uint64, joins bool) (engine.Way, engine.Task)))
	Forget func(*writeset.Writeset) // what is known of rows, before a transaction is visible
}

// Watcher is a replica's.
type Watcher struct {
	o        Options
	stubborn time.Duration // stubbornAfter
	asked    time.Duration // for how long the first answer was waited for that took long, while the group goes on
	free     time.Time     // when the chore that is under way was not blocked
}

// New makes one.
func New(o Options) *Watcher { return &Watcher{o: o, stubborn: stubbornAfter} }

// Run is the goroutine that looks while a group, or a definition, goes on.
func (x *Watcher) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-x.o.Group.Started():
		case <-x.o.Monitor.Late():
		}
		wait := replay.BlockedAfter
		x.asked, x.free = 0, time.Now()
		for wait > 0 {
			timer := time.NewTimer(wait)
			select {
			case <-ctx.Done():
				timer.Stop()
				return nil
			case <-x.o.Group.Started(): // while a long definition is looked at now and then
				timer.Stop()
				wait, x.asked = replay.BlockedAfter, 0
				continue
			case <-timer.C:
			}
			var err error
			if wait, err = x.look(ctx); err != nil && ctx.Err() == nil {
				return err
			}
		}
	}
}

// look returns after how long to look again, zero if nothing is under way (WT1).
func (x *Watcher) look(ctx context.Context) (wait time.Duration, err error) {
	o := &x.o
	g := o.Definition()
	if g != nil && g.Concurrent() {
		if err := x.breakCircle(ctx, o.Definer()); err != nil {
			return 0, err
		}
		wait = replay.LongInterval // it waits for everybody
	} else if g != nil {
		blocked, err := x.Unblock(ctx, o.Definer(), time.Since(g.Free), o.Words.Missed(g.Task.Item.ID))
		if err != nil {
			return 0, err
		}
		if !blocked {
			g.Free = time.Now()
		}
		wait = replay.LongInterval
	}
	if backend, age := o.Monitor.Chore(); age > chainAfter {
		blocked, err := x.Unblock(ctx, backend, time.Since(x.free), o.Words.InTheWay())
		if err != nil {
			return 0, err
		}
		if !blocked {
			x.free = time.Now()
		}
		wait = replay.LongInterval
	} else {
		x.free = time.Now()
	}
	age, runs := o.Group.Age()
	if !runs || age < replay.BlockedAfter {
		return wait, nil
	}
	began := time.Now()
	for _, pid := range append(o.Group.Adding(), o.Backends.Busy.Load()) {
		if _, err := x.Unblock(ctx, pid, age-x.asked, nil); err != nil {
			return blockedInterval, err
		}
	}
	if took := time.Since(began); took > chainAfter && x.asked == 0 {
		x.asked = took // nobody could let go meanwhile
	}
	return blockedInterval, nil
}

// breakCircle has an index that is built CONCURRENTLY give way to who waits for it, if it waits for that one, too: who
// asks for the whole table while it is under way has a snapshot already. PostgreSQL would have one of them lose (WT4).
func (x *Watcher) breakCircle(ctx context.Context, definer uint32) error {
	pids, err := x.o.Monitor.FirstBlockers(ctx, definer)
	for _, pid := range pids {
		var behind []uint32
		if behind, err = x.o.Monitor.Blockers(ctx, pid); err != nil {
			return err
		}
		if slices.Contains(behind, definer) {
			x.o.Monitor.Cancel(x.o.Log, definer)
			return nil
		}
	}
	return err
}

// Unblock has the transactions lose that block a backend of the executor's or of its definer's now. They are told why,
// or what is being applied if that is nil. It reports whether there are any.
func (x *Watcher) Unblock(
	ctx context.Context, backend uint32, blocked time.Duration, why *wire.SQLError,
) (bool, error) {
	blockers := x.o.Monitor.Blockers
	if blocked < chainAfter {
		blockers = x.o.Monitor.FirstBlockers
	}
	pids, err := blockers(ctx, backend)
	if err != nil {
		return false, err
	}
	if x.ownGivesWay(backend, pids) {
		return true, nil
	}
	for _, pid := range pids {
		if spared, err := x.spares(ctx, pid); err != nil {
			return true, err
		} else if spared {
			continue
		}
		if err := x.unblockFrom(ctx, pid, blocked, why); err != nil {
			return true, err
		}
	}
	return len(pids) > 0, nil
}

// ownGivesWay has a backend of this member's own work give way if it is among those who block another one of it (WT4).
// Whom it waits for need not be in the way then.
func (x *Watcher) ownGivesWay(backend uint32, pids []uint32) bool {
	o := &x.o
	definer := o.Definer()
	if g := o.Definition(); g != nil && g.Concurrent() && backend == o.Executor() && slices.Contains(pids, definer) {
		o.Monitor.Cancel(o.Log, definer) // it may wait for the executor, too
		return true
	}
	if f := o.Streaming(); f != 0 && slices.Contains(pids, f) { // 0 is a prepared transaction, or no streaming
		o.GiveWay()
		o.Monitor.Cancel(o.Log, f)
		return true
	}
	return false
}

// spares reports whether a backend is let go on for a while because it rebuilds a catalog (WT7).
func (x *Watcher) spares(ctx context.Context, pid uint32) (bool, error) {
	g := x.o.Session(pid)
	if g == nil {
		return false, nil
	}
	if runs := g.Runs(); runs == 0 || runs > x.stubborn {
		return false, nil
	}
	return x.o.Monitor.Rebuilds(ctx, pid)
}

// unblockFrom deals with one backend that blocks.
func (x *Watcher) unblockFrom(ctx context.Context, pid uint32, blocked time.Duration, why *wire.SQLError) error {
	o := &x.o
	if pid == o.Backends.Busy.Load() || pid == o.Definer() || pid == o.Backends.Curtain.Load() {
		return nil // one of them waits for the other, and not for ever
	}
	if why == nil {
		why = o.Words.Blocked(o.Group.Remote())
	}
	if o.BreakOff(pid) {
		return nil
	}
	g := o.Session(pid)
	if g == nil {
		return x.unblockStranger(ctx, pid, blocked, why)
	}
	phase, fresh, inWay := g.Abort(why)
	if fresh {
		o.Blocked()
	}
	switch {
	case phase == session.PhaseSubmitted && x.unblockSubmitted(g, why):
		o.Log.Info("ending a backend: it blocks a full apply queue, behind which its own verdict waits", "pid", pid)
		return o.Monitor.Terminate(ctx, pid)
	case phase != session.PhaseSubmitted && inWay > x.stubborn:
		o.Log.Warn("ending a backend: it does not let go of what replication needs", "pid", pid)
		return o.Monitor.Terminate(ctx, pid)
	}
	return nil
}

// unblockStranger deals with one that is none of this database's. What another database's order decides on may wait for
// this one's (package meetings).
func (x *Watcher) unblockStranger(ctx context.Context, pid uint32, blocked time.Duration, why *wire.SQLError) error {
	if g := x.o.Elsewhere(pid); g != nil {
		if phase, _, inWay := g.Abort(why); phase != session.PhaseSubmitted && inWay <= x.stubborn {
			return nil
		}
	}
	if blocked <= strangerAfter {
		return nil
	}
	x.o.Log.Warn("ending a backend that blocks replication and is no session of this database, or does not let go",
		"pid", pid)
	return x.o.Monitor.Terminate(ctx, pid)
}

// unblockSubmitted deals with a blocker whose fate the log decides (WT3), and reports whether its backend must end.
func (x *Watcher) unblockSubmitted(g *guards.Guard, why *wire.SQLError) (end bool) {
	o := &x.o
	w := o.Waiters.Get(g.Submission())
	if w == nil {
		return false
	}
	o.Engine(func(unblock func(seq uint64, joins bool) (engine.Way, engine.Task)) {
		switch way := o.Group.Unblock(unblock, w); way {
		case engine.Withdrawn:
			w.Ordinal = o.Group.Last()
			w.Decision <- session.Decision{Retry: true, Err: why}
		case engine.Joins:
			o.Forget(w.Sub.Writeset)
			w.Decision <- session.Decision{Commit: true}
		default:
			end = way == engine.Ends
		}
	})
	return end
}
