package show

import (
	"strconv"

	"github.com/tuttidb/tutti/internal/config"
	"github.com/tuttidb/tutti/internal/metrics"
	"github.com/tuttidb/tutti/internal/replica"
)

// Levels are how far a replica is to its limits.
type Levels struct {
	Sessions  int64
	Large     int64 // large transactions under way
	Waited    uint64
	Pending   int // see engine.Figures
	Keys      int
	Queue     int // bytes
	Fills     uint64
	LogBytes  int64
	Sent      int // bytes that wait to be sent to the member that takes them slowest
	Dropped   uint64
	Slowest   replica.Lag // of those that are waited for
	Delay     int64       // microseconds
	Values    int         // see deferred.Rows
	Fulls     uint64
	Channels  int
	Notifying int // bytes
}

// limits lists what is bounded, by the names of the configuration. A negative maximum is none, a negative level is not
// known.
func limits(c *config.Limits, m *metrics.Database, l Levels) (rows [][]string) {
	text := func(v int64) string {
		if v < 0 {
			return ""
		}
		return strconv.FormatInt(v, 10)
	}
	for _, x := range []struct {
		name       string
		max, level int64
		reached    uint64
	}{
		{"sessions", int64(c.Sessions), l.Sessions, m.Limits.Sessions.Load()},
		{"writeset_bytes", int64(c.WritesetBytes), -1, m.Limits.Writeset.Load()},
		{"large_transactions", int64(c.LargeTransactions), l.Large, l.Waited},
		{"pending_items", int64(c.PendingItems), int64(l.Pending), m.Limits.Pending.Load()},
		{"apply_queue_bytes", int64(c.ApplyQueueBytes), int64(l.Queue), l.Fills},
		{"log_retention", c.LogRetention, l.LogBytes, m.Log.Compacted.Load()},
		{"certify_keys", int64(c.CertifyKeys), int64(l.Keys), m.Limits.Keys.Load()},
		{"member_queue", int64(c.MemberQueue), int64(l.Sent), l.Dropped},
		{"commit_timeout_ms", int64(c.CommitTimeoutMs), -1, m.Limits.Timeout.Load()},
		{"flow_lag", int64(c.FlowLag), int64(l.Slowest.Items), m.Flow.Delays.Load()},
		{"flow_lag_bytes", int64(c.FlowLagBytes), int64(l.Slowest.Bytes), m.Flow.Delays.Load()},
		{"flow_delay_max_ms", int64(c.FlowDelayMaxMs), l.Delay / 1000, m.Flow.Delays.Load()},
		{"additions", int64(c.Additions), int64(l.Values), l.Fulls},
		{"turns_percent", int64(c.TurnsPercent), -1, m.Flow.TurnsWaited.Load()},
		{"channels", int64(c.Channels), int64(l.Channels), m.Limits.Channels.Load()},
		{"notify_queue", int64(c.NotifyQueue), int64(l.Notifying), m.Notify.Refused.Load()},
	} {
		rows = append(rows, []string{x.name, text(x.max), text(x.level), strconv.FormatUint(x.reached, 10)})
	}
	return rows
}
