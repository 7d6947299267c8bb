package node

import (
	"runtime"
	"time"

	"github.com/tuttidb/tutti/internal/replica"
)

// measure sets the gauges of a database. It asks nobody who might not answer.
func measure(l *life) {
	s, m := l.others.peers.Own(), &l.metrics.Member
	m.Ready.Is(l.course.ready.Load() && s.Halted == nil)
	m.Synced.Is(s.State == replica.Synced)
	m.Halted.Is(s.Halted != nil)
	m.Leads.Is(s.Leader == l.config.Member)
	all := l.others.peers.All()
	m.Reached.Set(int64(l.tenure.words.Reach(l.config.Member, s.Leader, all).Heard))
	m.Members.Set(int64(len(all)))
	m.Voters.Set(int64(len(l.order.core.Voters())))
	m.Differs.Set(int64(len(s.Differs)))
	m.Ordinal.Set(int64(s.Ordinal))
	m.Applied.Set(int64(s.Applied))
	m.Lag.Set(int64(s.Lag.Items))
	m.LagBytes.Set(int64(s.Lag.Bytes))
	m.LagTime.Set(l.others.age.Is(time.Since(l.course.began), s.Applied))
	m.Sessions.Set(int64(s.Clients))
	l.metrics.Log.Bytes.Set(l.order.disk.Bytes())
	f := &l.metrics.Flow
	f.Delay.Set(time.Duration(s.DelayMicros) * time.Microsecond)
	f.Turns.Set(int64(l.flow.turns.Allowed()))
	l.metrics.Notify.Queued.Set(int64(l.notices.QueueBytes()))
	l.metrics.Notify.Channels.Set(int64(l.notices.Count()))
}

// reach is how many of those who vote this member hears.
func (l *life) reach() replica.Reach {
	return l.tenure.words.Reach(l.config.Member, l.order.core.Leader(), l.order.core.Voters())
}

// measureNode sets the gauges of the process.
func measureNode(n *Node) {
	m := n.metrics.Process
	t := n.current()
	m.Node.Ready.Is(t != nil && t.ready() && !n.stops.Refuses())
	m.Node.Draining.Is(n.stops.Refuses())
	m.Node.Goroutines.Set(int64(runtime.NumGoroutine()))
	m.Clients.SessionsMax.Set(int64(n.settled().Limits.Sessions))
	if t != nil {
		m.Clients.Sessions.Set(t.clients.Load())
		m.Clients.LargeOpen.Set(int64(t.larges.Open()))
	}
}
