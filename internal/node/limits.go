package node

import (
	"strconv"

	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/replica"
	"github.com/tuttidb/tutti/internal/session"
)

// limit is one row of SHOW tutti.limits. A negative maximum is none, a negative level unknown.
type limit struct {
	name       string
	max, level int64
	reached    uint64
}

// limits lists what is bounded, by the names of the configuration.
func (l *life) limits() []limit {
	c, m := &l.settled().Limits, &l.metrics
	pending, keys, waiting, fills := 0, 0, 0, uint64(0)
	l.core.Call(func(e *engine.Engine) {
		f := e.Figures()
		pending, keys, waiting, fills = f.Pending, f.Keys, f.QueueBytes, f.Fills
	})
	counted, fulls := l.rows.Count()
	queued, dropped := 0, uint64(0)
	for _, p := range l.tenure.transport.Stats() {
		queued, dropped = max(queued, p.QueuedBytes), dropped+p.Dropped
	}
	delay, _ := l.throttle.Delays()
	slowest := replica.Lag{}
	for _, m := range l.peers.Flow().Synced {
		slowest = replica.Lag{Items: max(slowest.Items, m.Lag), Bytes: max(slowest.Bytes, m.LagBytes)}
	}
	return []limit{
		{"sessions", int64(c.Sessions), l.tenure.clients.Load(), m.Limits.Sessions.Load()},
		{"writeset_bytes", int64(c.WritesetBytes), -1, m.Limits.Writeset.Load()},
		{"large_transactions", int64(c.LargeTransactions), int64(l.tenure.larges.Open()),
			l.tenure.larges.Waited()},
		{"pending_items", int64(c.PendingItems), int64(pending), m.Limits.Pending.Load()},
		{"apply_queue_bytes", int64(c.ApplyQueueBytes), int64(waiting), fills},
		{"log_retention", c.LogRetention, l.disk.Bytes(), m.Log.Compacted.Load()},
		{"certify_keys", int64(c.CertifyKeys), int64(keys), m.Limits.Keys.Load()},
		{"member_queue", int64(c.MemberQueue), int64(queued), dropped},
		{"commit_timeout_ms", int64(c.CommitTimeoutMs), -1, m.Limits.Timeout.Load()},
		{"flow_lag", int64(c.FlowLag), int64(slowest.Items), m.Flow.Delays.Load()},
		{"flow_lag_bytes", int64(c.FlowLagBytes), int64(slowest.Bytes), m.Flow.Delays.Load()},
		{"flow_delay_max_ms", int64(c.FlowDelayMaxMs), delay / 1000, m.Flow.Delays.Load()},
		{"additions", int64(c.Additions), int64(counted), fulls},
		{"turns_percent", int64(c.TurnsPercent), -1, m.Flow.TurnsWaited.Load()},
		{"channels", int64(c.Channels), int64(l.notices.Count()), m.Limits.Channels.Load()},
		{"notify_queue", int64(c.NotifyQueue), int64(l.notices.QueueBytes()), m.Notify.Refused.Load()},
	}
}

var limitColumns = []string{"limit", "max", "now", "reached"}

// showLimits answers SHOW tutti.limits.
func (l *life) showLimits() session.Result {
	r := session.Result{Tag: "SHOW", Columns: limitColumns}
	text := func(v int64) string {
		if v < 0 {
			return ""
		}
		return strconv.FormatInt(v, 10)
	}
	for _, x := range l.limits() {
		r.Rows = append(r.Rows, []string{x.name, text(x.max), text(x.level), strconv.FormatUint(x.reached, 10)})
	}
	return r
}
