package node

import (
	"context"
	"slices"
	"time"

	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/guards"
	"github.com/tuttidb/tutti/internal/replay"
	"github.com/tuttidb/tutti/internal/session"
	"github.com/tuttidb/tutti/internal/wire"
)

const (
	blockedAfter    = replay.BlockedAfter
	blockedInterval = 4 * time.Millisecond
	strangerAfter   = time.Second // a blocker that is no session of ours is ended
)

// watch finds backends that hold locks the executor waits for (N4).
func (l *life) watch(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-l.running.Started():
		}
		wait := blockedAfter
		for wait > 0 {
			timer := time.NewTimer(wait)
			select {
			case <-ctx.Done():
				timer.Stop()
				return nil
			case <-l.running.Started(): // while a long definition is looked at now and then
				timer.Stop()
				wait = blockedAfter
				continue
			case <-timer.C:
			}
			var err error
			if wait, err = l.lookForBlockers(ctx); err != nil && ctx.Err() == nil {
				return err
			}
		}
	}
}

// lookForBlockers returns after how long to look again, zero if nothing is under way.
func (l *life) lookForBlockers(ctx context.Context) (wait time.Duration, err error) {
	g := l.jobs.Under()
	if g != nil && g.Concurrent() {
		wait = replay.LongInterval // it waits for everybody
	} else if g != nil {
		blocked, err := l.unblock(ctx, l.applier.Definer.Conn.PID(), time.Since(g.Free), l.words.Missed(g.Task.Item.ID))
		if err != nil {
			return 0, err
		}
		if !blocked {
			g.Free = time.Now()
		}
		wait = replay.LongInterval
	}
	age, runs := l.running.Age()
	if !runs || age < blockedAfter {
		return wait, nil
	}
	for _, pid := range append(l.running.Adding(), l.running.backends.Busy.Load()) {
		if _, err := l.unblock(ctx, pid, age, nil); err != nil {
			return blockedInterval, err
		}
	}
	return blockedInterval, nil
}

// unblock dooms the transactions that block a backend of the executor's or of its definer's now. They are told why, or
// what is being applied if that is nil. It reports whether there are any.
func (l *life) unblock(ctx context.Context, backend uint32, blocked time.Duration, why *wire.SQLError) (bool, error) {
	pids, err := l.monitor.Blockers(ctx, backend)
	if err != nil {
		return false, err
	}
	if ownGivesWay(l, backend, pids) {
		return true, nil
	}
	for _, pid := range pids {
		if err := unblockFrom(ctx, l, pid, blocked, why); err != nil {
			return true, err
		}
	}
	return len(pids) > 0, nil
}

// ownGivesWay has a backend of this member's own work give way if it is among those who block another one of it. Whom
// it waits for need not be in the way then.
func ownGivesWay(l *life, backend uint32, pids []uint32) bool {
	definer := l.applier.Definer.Conn.PID()
	if g := l.jobs.Under(); g != nil && g.Concurrent() && backend == l.applier.Conn.PID() &&
		slices.Contains(pids, definer) {
		l.monitor.Cancel(l.log, definer) // it may wait for the executor, too
		return true
	}
	if f := l.streaming.PID.Load(); f != 0 && slices.Contains(pids, f) { // 0 is a prepared transaction, or no streaming
		l.streaming.GiveWay()
		l.monitor.Cancel(l.log, f)
		return true
	}
	return false
}

// unblockFrom deals with one backend that blocks.
func unblockFrom(ctx context.Context, l *life, pid uint32, blocked time.Duration, why *wire.SQLError) error {
	backends := &l.running.backends
	if pid == backends.Busy.Load() || pid == l.applier.Definer.Conn.PID() || pid == backends.Curtain.Load() {
		return nil // one of them waits for the other, and not for ever
	}
	if why == nil {
		why = l.words.Blocked(l.running.Remote())
	}
	if l.detaches.BreakOff(pid) {
		return nil
	}
	g := l.sessions.Of(pid)
	if g == nil {
		if blocked <= strangerAfter {
			return nil
		}
		l.log.Warn("ending a backend that blocks replication and is no session of Tutti", "pid", pid)
		return l.monitor.Terminate(ctx, pid)
	}
	phase, inWay := aborts(l, g, why)
	switch {
	case phase == session.PhaseSubmitted && l.unblockSubmitted(g, why):
		l.log.Info("ending a backend: it blocks a full apply queue, behind which its own verdict waits", "pid", pid)
		return l.monitor.Terminate(ctx, pid)
	case phase != session.PhaseSubmitted && inWay > 10*strangerAfter:
		l.log.Warn("ending a backend: it does not let go of what replication needs", "pid", pid)
		return l.monitor.Terminate(ctx, pid)
	}
	return nil
}

// unblockSubmitted deals with a blocker whose fate the log decides (engine.Unblock), and reports whether its backend
// must end.
func (l *life) unblockSubmitted(g *guards.Guard, why *wire.SQLError) (end bool) {
	seq := g.Submission()
	w := l.waiters.Get(seq)
	if w == nil {
		return false
	}
	l.core.Call(func(e *engine.Engine) {
		switch way := l.running.Unblock(e.Unblock, w); way {
		case engine.Withdrawn:
			w.Ordinal = l.running.Last()
			w.Decision <- session.Decision{Retry: true, Err: why}
		case engine.Joins:
			l.forget(w.Sub.Writeset)
			w.Decision <- session.Decision{Commit: true}
		default:
			end = way == engine.Ends
		}
	})
	return end
}
