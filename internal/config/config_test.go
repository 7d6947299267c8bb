package config

import (
	"strings"
	"testing"
)

func valid() *Config {
	return &Config{Cluster: "c", Member: 1, DataDir: "/d", Listen: "h:1", MemberListen: "h:2",
		Secret:  "sixteen characters",
		Members: []Member{{Member: 1, Name: "a", Address: "h:2"}}}
}

// TestLimits: what contradicts itself is refused by name, what is missing gets its default.
func TestLimits(t *testing.T) {
	for _, c := range []struct {
		set  func(*Limits)
		want string
	}{
		{func(*Limits) {}, ""},
		{func(l *Limits) { l.FlowLag, l.FlowLagBytes, l.FlowMinorityPercent, l.FlowDelayMaxMs = -1, -1, -1, -1 }, ""},
		{func(l *Limits) { l.Sessions = -1 }, "sessions is -1"},
		{func(l *Limits) { l.LargeTransactions = -1 }, "large_transactions is -1"},
		{func(l *Limits) { l.LogSegmentBytes = -1 }, "log_segment_bytes is -1"},
		{func(l *Limits) { l.LogRetention = -1 }, ""},
		{func(l *Limits) { l.LogRetention = -2 }, "log_retention is -2: use -1"},
		{func(l *Limits) { l.LogRetention = 4<<26 - 1 },
			"log_retention is 268435455, less than 4 times log_segment_bytes (67108864)"},
		{func(l *Limits) { l.LogRetention = 4 << 26 }, ""},
		{func(l *Limits) { l.LogRetention, l.LogSegmentBytes = 256<<10, 64<<10 }, ""},
		{func(l *Limits) { l.LogSegmentBytes = 512 << 20 }, "log_retention is 1073741824, less than 4"},
		{func(l *Limits) { l.FlowLag = -2 }, "flow_lag is -2"},
		{func(l *Limits) { l.CertifyKeys = 1000 }, "certify_keys is 1000"},
		{func(l *Limits) { l.CertifyKeys, l.FlowLag = 1000, 100 }, ""},
		{func(l *Limits) { l.FlowDelayMaxMs = 60_000 }, "flow_delay_max_ms is 60000"},
		{func(l *Limits) { l.TurnsPercent = -1 }, ""},
		{func(l *Limits) { l.TurnsPercent = 101 }, "turns_percent is 101"},
		{func(l *Limits) { l.FlowMinorityPercent = 100 }, "flow_minority_percent is 100"},
	} {
		conf := valid()
		c.set(&conf.Limits)
		err := conf.Validate()
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%+v: %v, want %q", conf.Limits, err, c.want)
		}
	}
	conf := valid()
	if err := conf.Validate(); err != nil || conf.Limits.FlowLag != 5000 || conf.Limits.LogRetention != 1<<30 {
		t.Errorf("%v, flow_lag %d", err, conf.Limits.FlowLag)
	}
}
