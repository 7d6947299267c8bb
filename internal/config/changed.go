package config

// Changed gives a configuration with which a node has started with the values of another one, which was read since, for
// what can be changed while the node runs.
func (c *Config) Changed(since *Config) *Config {
	next := *c
	next.LogLevel, next.DrainTimeout, next.ClientTLS = since.LogLevel, since.DrainTimeout, since.ClientTLS
	next.Postgres.AllowTrust, next.Postgres.Settings = since.Postgres.AllowTrust, since.Postgres.Settings
	to, from := &next.Limits, &since.Limits
	if from.Sessions <= c.Limits.Sessions { // PostgreSQL has connections for no more
		to.Sessions = from.Sessions
	}
	to.CommitTimeoutMs, to.LogRetention = from.CommitTimeoutMs, from.LogRetention
	to.FlowDelayMaxMs, to.FlowMinorityPercent = from.FlowDelayMaxMs, from.FlowMinorityPercent
	to.TurnsPercent = from.TurnsPercent
	to.AuditPercent, to.AuditIntervalS = from.AuditPercent, from.AuditIntervalS
	to.Channels, to.NotifyQueue = from.Channels, from.NotifyQueue
	return &next
}
