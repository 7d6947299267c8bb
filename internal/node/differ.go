package node

import (
	"fmt"
	"time"

	"github.com/tuttidb/tutti/internal/audit"
	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/peers"
)

// differences are those that this member has found: in the main database those of all databases, with their names.
func (l *life) differences() []audit.Difference {
	if l.group != mainGroup {
		return l.audit.Differences()
	}
	var out []audit.Difference
	for _, o := range l.tenure.all() {
		for _, d := range o.audit.Differences() {
			if o != l {
				d.Table = o.database + ": " + d.Table
			}
			out = append(out, d)
		}
	}
	return out
}

// differing says of each member in which tables some member has found that it differs.
func (l *life) differing() map[uint32]string {
	out := map[uint32]string{}
	for _, m := range l.config.Members {
		s, alive := l.peers.Of(m.Member)
		if !alive {
			continue
		}
		for _, d := range s.Differs {
			for _, to := range d.Members {
				if out[to] != "" {
					out[to] += ", "
				}
				out[to] += fmt.Sprintf("%s at ordinal %d", d.Table, d.Ordinal)
			}
		}
	}
	return out
}

// auditOf is a replica as its audit needs it.
func auditOf(l *life) audit.Replica {
	return audit.Replica{
		Log: l.log, ConnString: l.connString, Self: l.config.Member, Incarnation: l.incarnation,
		Members: l.config.Members, Name: l.name, Counts: &l.metrics.Audit, Waits: &l.metrics.Waits,
		Limits: func() (percent int, every time.Duration) {
			c := &l.settled().Limits
			return c.AuditPercent, time.Duration(c.AuditIntervalS) * time.Second
		},
		Ready: l.ready.Load, CaughtUp: l.peers.CaughtUp, Busy: l.jobs.Busy,
		Leader: func() uint32 { return l.core.Leader() },
		Seq:    func() uint64 { return l.seq.Add(1) },
		Engine: func(f func(*engine.Engine)) bool { return l.core.Call(f) },
		Send:   func(to uint32, report []byte) bool { return l.sendFrame(to, frameCheck, report) },
		State: func(member uint32) (s audit.State, alive bool) {
			x, alive := l.peers.Of(member)
			return audit.State{Applied: x.Applied, Halted: x.Halted != nil}, alive
		},
		LastHeard: l.peers.LastHeard, Gossip: peers.Interval, Silent: peers.SilentAfter,
		Background: l.background.Go, Done: l.done,
	}
}
