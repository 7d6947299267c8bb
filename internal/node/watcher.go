package node

import (
	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/watcher"
)

// watcherOf is a replica as its watcher needs it; what it needs is there.
func watcherOf(l *life) watcher.Options {
	return watcher.Options{
		Log: l.log, Monitor: l.monitor, Group: l.running.Group, Waiters: l.waiters, Backends: &l.running.backends,
		Words: &l.words, Session: l.sessions.Of, Blocked: func() { l.metrics.Transactions.Blocked.Add(1) },
		Definition: l.jobs.Under, Executor: func() uint32 { return l.applier.Conn.PID() },
		Definer:   func() uint32 { return l.applier.Definer.Conn.PID() },
		Streaming: l.streaming.PID.Load, GiveWay: l.streaming.GiveWay, BreakOff: l.detaches.BreakOff,
		Engine: func(f func(unblock func(seq uint64, joins bool) (engine.Way, engine.Task))) {
			l.core.Call(func(e *engine.Engine) { f(e.Unblock) })
		},
		Forget: l.forget,
	}
}
