package config

import (
	"slices"
	"testing"
)

// TestWhatCanBeChanged: of a configuration that is read again, what can be changed while the node runs is taken over,
// and all else is as it was at the start. There may be fewer sessions than then, but no more.
func TestWhatCanBeChanged(t *testing.T) {
	start := &Config{Member: 1, DataDir: "a", LogLevel: "info"}
	start.Limits.Sessions, start.Limits.BatchItems = 50, 7
	read := func(sessions int) *Config {
		c := &Config{Member: 2, DataDir: "b", LogLevel: "debug", DrainTimeout: "5s"}
		c.ClientTLS.Require, c.Postgres.AllowTrust = true, true
		c.Postgres.Settings = map[string]string{"work_mem": "8MB"}
		l := &c.Limits
		l.Sessions, l.BatchItems, l.CommitTimeoutMs, l.LogRetention, l.FlowDelayMaxMs = sessions, 8, 2, 3, 4
		l.FlowMinorityPercent, l.TurnsPercent, l.AuditPercent, l.AuditIntervalS, l.Channels, l.NotifyQueue =
			5, 6, 7, 8, 9, 10
		return c
	}
	next := start.Changed(read(20))
	changed := Diff(start, next)
	want := []string{"client_tls.require", "drain_timeout", "limits.audit_interval_s", "limits.audit_percent",
		"limits.channels", "limits.commit_timeout_ms", "limits.flow_delay_max_ms", "limits.flow_minority_percent",
		"limits.log_retention", "limits.notify_queue", "limits.sessions", "limits.turns_percent", "log_level",
		"postgres.allow_trust", "postgres.settings.work_mem"}
	slices.Sort(changed)
	if !slices.Equal(changed, want) {
		t.Errorf("it changes %q", changed)
	}
	if left := Diff(next, read(20)); len(left) != 3 {
		t.Errorf("what waits for the next start is %q", left)
	}
	if got := start.Changed(read(60)).Limits.Sessions; got != 50 {
		t.Errorf("there may be %d sessions, more than PostgreSQL has connections for", got)
	}
}
