package node

import (
	"runtime"
	"strconv"
	"time"

	"github.com/tuttidb/tutti/internal/flow"
	"github.com/tuttidb/tutti/internal/metrics"
	"github.com/tuttidb/tutti/internal/replica"
	"github.com/tuttidb/tutti/internal/session"
)

// measure sets the gauges of a database. It asks nobody who might not answer.
func measure(l *life) {
	s, m := l.peers.Own(), &l.metrics.Member
	m.Ready.Is(l.ready.Load() && s.Halted == nil)
	m.Synced.Is(s.State == replica.Synced)
	m.Halted.Is(s.Halted != nil)
	m.Leads.Is(s.Leader == l.config.Member)
	m.Reached.Set(int64(l.tenure.words.Reach(l.peers, l.core.Leader()).Heard))
	m.Members.Set(int64(len(l.config.Members)))
	m.Differs.Set(int64(len(s.Differs)))
	m.Ordinal.Set(int64(s.Ordinal))
	m.Applied.Set(int64(s.Applied))
	m.Lag.Set(int64(s.Lag.Items))
	m.LagBytes.Set(int64(s.Lag.Bytes))
	m.LagTime.Set(l.age.Is(time.Since(l.began), s.Applied))
	m.Sessions.Set(int64(s.Clients))
	l.metrics.Log.Bytes.Set(l.disk.Bytes())
	f := &l.metrics.Flow
	f.Delay.Set(time.Duration(s.DelayMicros) * time.Microsecond)
	f.Turns.Set(int64(l.turns.Allowed()))
	l.metrics.Notify.Queued.Set(int64(l.notices.QueueBytes()))
	l.metrics.Notify.Channels.Set(int64(l.notices.Count()))
}

// measureNode sets the gauges of the process.
func measureNode(n *Node) {
	m := n.metrics.Process
	t := n.current()
	m.Node.Ready.Is(t != nil && t.ready() && !n.stops.refuses.Load())
	m.Node.Draining.Is(n.stops.refuses.Load())
	m.Node.Goroutines.Set(int64(runtime.NumGoroutine()))
	m.Clients.SessionsMax.Set(int64(n.settled().Limits.Sessions))
	if t != nil {
		m.Clients.Sessions.Set(t.clients.Load())
		m.Clients.LargeOpen.Set(int64(t.larges.Open()))
	}
}

var counterColumns = []string{"name", "value"}

// showCounters answers SHOW tutti.counters: the metrics that have a short name, of this database and of the process.
func (l *life) showCounters() session.Result {
	r := session.Result{Tag: "SHOW", Columns: counterColumns}
	l.node.metrics.ReadOne(&l.metrics, func(s metrics.Sample) {
		if s.Show != "" {
			r.Rows = append(r.Rows, []string{s.Show, s.Shown()})
		}
	})
	return r
}

var metricColumns = []string{"name", "labels", "value", "help"}

// showMetrics answers SHOW tutti.metrics: all that this node knows of itself.
func showMetrics(n *Node) session.Result {
	r := session.Result{Tag: "SHOW", Columns: metricColumns}
	n.metrics.Read(func(s metrics.Sample) {
		for _, x := range s.Plain() {
			r.Rows = append(r.Rows, []string{x.Name, x.LabelText(), x.Text(), s.Help})
		}
	})
	return r
}

var waitColumns = []string{"wait", "who", "for", "most", "then", "waiting", "waits", "seconds"}

// showWaits answers SHOW tutti.waits: who waits for what at this member, and for how long at most.
func showWaits(l *life) session.Result {
	r := session.Result{Tag: "SHOW", Columns: waitColumns}
	w := &l.metrics.Waits
	for i, row := range flow.Waits {
		times := w.Times.Of(flow.Wait(i))
		r.Rows = append(r.Rows, []string{row.Name, row.Who, row.For, mostText(flow.Wait(i)), row.Then,
			strconv.FormatInt(w.Waiting.Load(flow.Wait(i)), 10), strconv.FormatUint(times.Count(), 10),
			strconv.FormatFloat(times.Sum().Seconds(), 'f', 6, 64)})
	}
	return r
}
