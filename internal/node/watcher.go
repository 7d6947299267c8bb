package node

import (
	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/guards"
	"github.com/tuttidb/tutti/internal/watcher"
)

// elsewhere is the session of a backend of another database; nil if there is none.
func (l *life) elsewhere(backend uint32) (g *guards.Guard) {
	for _, other := range l.tenure.all() {
		if other != l && g == nil {
			g = other.sessions.Of(backend)
		}
	}
	return g
}

// watcherOf is a replica as its watcher needs it; what it needs is there.
func watcherOf(l *life) watcher.Options {
	return watcher.Options{
		Log: l.log, Monitor: l.db.monitor, Group: l.submitted.running.Group, Waiters: l.submitted.waiters,
		Backends: &l.submitted.running.backends,
		Words:    &l.words, Session: l.sessions.Of, Elsewhere: l.elsewhere,
		Blocked:    func() { l.metrics.Transactions.Blocked.Add(1) },
		Definition: l.db.jobs.Under, Executor: func() uint32 { return l.db.applier.Conn.PID() },
		Definer:   func() uint32 { return l.db.applier.Definer.Conn.PID() },
		Streaming: l.db.streaming.PID.Load, GiveWay: l.db.streaming.GiveWay, BreakOff: l.db.detaches.BreakOff,
		Engine: func(f func(unblock func(seq uint64, joins bool) (engine.Way, engine.Task))) {
			l.order.core.Call(func(e *engine.Engine) { f(e.Unblock) })
		},
		Forget: l.rows.Forget,
	}
}
