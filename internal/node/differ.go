package node

import (
	"time"

	"github.com/tuttidb/tutti/internal/audit"
	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/peers"
)

// auditOf is a replica as its audit needs it.
func auditOf(l *life) audit.Replica {
	return audit.Replica{
		Log: l.log, ConnString: l.db.connString, Self: l.config.Member, Incarnation: l.id.incarnation,
		Members: l.config.All, Name: l.name, Counts: &l.metrics.Audit, Waits: &l.metrics.Waits,
		Limits: func() (percent int, every time.Duration) {
			c := &l.settled().Limits
			return c.AuditPercent, time.Duration(c.AuditIntervalS) * time.Second
		},
		Ready: l.course.ready.Load, CaughtUp: l.others.peers.CaughtUp, Busy: l.db.jobs.Busy,
		Leader: func() uint32 { return l.order.core.Leader() },
		Seq:    func() uint64 { return l.order.seq.Add(1) },
		Engine: func(f func(*engine.Engine)) bool { return l.order.core.Call(f) },
		Send:   func(to uint32, report []byte) bool { return l.sendFrame(to, frameCheck, report) },
		State: func(member uint32) (s audit.State, alive bool) {
			x, alive := l.others.peers.Of(member)
			return audit.State{Applied: x.Applied, Halted: x.Halted != nil}, alive
		},
		LastHeard: l.others.peers.LastHeard, Gossip: peers.Interval, Silent: peers.SilentAfter,
		Background: l.course.background.Go, Done: l.course.done,
	}
}
