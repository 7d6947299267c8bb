package node

import (
	"github.com/tuttidb/tutti/internal/advisory"
	"github.com/tuttidb/tutti/internal/audit"
	"github.com/tuttidb/tutti/internal/bootstrap"
	"github.com/tuttidb/tutti/internal/capture"
	"github.com/tuttidb/tutti/internal/config"
	"github.com/tuttidb/tutti/internal/database/instance"
	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/membership"
	"github.com/tuttidb/tutti/internal/plancache"
	"github.com/tuttidb/tutti/internal/replica"
	"github.com/tuttidb/tutti/internal/session"
	"github.com/tuttidb/tutti/internal/show"
)

// showOf is a replica as it is shown.
func showOf(l *life) *show.Replica {
	return &show.Replica{
		Node: l.node.metrics, Metrics: &l.metrics, Members: l.config.All, Name: l.name, Leader: l.order.core.Leader,
		Voters: l.order.core.Voters, Witnesses: l.config.Witnesses, Hears: l.tenure.hears,
		Ordinal: l.order.core.Ordinal, Applied: l.order.core.Applied, Peer: l.others.peers.Of,
		Copies: l.others.peers.Copies, Slow: l.others.peers.Slow,
		Settings: func() *config.Limits { return &l.settled().Limits },
		Levels:   func() show.Levels { return levels(l) },
		Votes:    func() []show.Votes { return votesOf(l.tenure) },
		Databases: func() (list []show.Database) {
			for _, x := range l.tenure.all() {
				list = append(list, show.Database{Name: x.id.database, Number: x.id.group,
					Status: x.others.peers.Own()})
			}
			return list
		},
		Parts: map[string]show.Part{
			"checksums": {Columns: audit.Columns, Show: l.audit.Show},
			"locks":     {Columns: advisory.Columns, Show: l.advisory.Show},
			"plans":     {Columns: plancache.Columns, Show: l.plans.Show},
			"upgrade": {Columns: membership.LevelColumns, Show: func() session.Result {
				return membership.Levels(l.config, l.tenure.standing.Levels(), l.others.peers.Version)
			}},
		},
	}
}

// votesOf is who votes in each database, as far as this member knows.
func votesOf(t *tenure) (list []show.Votes) {
	expel := t.node.config.Expel()
	if !t.standing.Understand(bootstrap.Configurations) {
		expel = 0
	}
	for _, l := range t.all() {
		v := show.Votes{Database: l.id.database, Voters: l.order.core.Voters(), Expel: expel,
			Copies: t.node.config.Copies(), Slow: l.others.peers.Slow()}
		for _, m := range l.config.Everybody() {
			_, alive := l.others.peers.Of(m.Member)
			if m.Role == config.Witness && t.hears(m.Member) || alive && l.others.peers.Copies(m.Member) == 0 {
				v.There = append(v.There, m.Member)
			}
		}
		list = append(list, v)
	}
	return list
}

// levels are how far a replica is to its limits.
func levels(l *life) (x show.Levels) {
	l.order.core.Call(func(e *engine.Engine) {
		f := e.Figures()
		x.Pending, x.Keys, x.Queue, x.Fills = f.Pending, f.Keys, f.QueueBytes, f.Fills
	})
	x.Values, x.Fulls = l.rows.Count()
	for _, p := range l.tenure.transport.Stats() {
		x.Sent, x.Dropped = max(x.Sent, p.QueuedBytes), x.Dropped+p.Dropped
	}
	x.Delay, _ = l.flow.throttle.Delays()
	for _, m := range l.others.peers.Flow().Synced {
		x.Slowest = replica.Lag{Items: max(x.Slowest.Items, m.Lag), Bytes: max(x.Slowest.Bytes, m.LagBytes)}
	}
	x.Sessions, x.LogBytes = l.tenure.clients.Load(), l.order.disk.Bytes()
	x.Large, x.Waited = int64(l.tenure.larges.Open()), l.tenure.larges.Waited()
	x.Channels, x.Notifying = l.notices.Count(), l.notices.QueueBytes()
	return x
}

// fileOf is a server session as the file with its metrics needs it.
func fileOf(t *tenure) *show.File {
	return &show.File{
		Log: t.node.log, Metrics: t.node.metrics, Come: t.come,
		Clients: func() bool { return t.clients.Load() > 0 },
		Replace: func(content []byte) error { return instance.Replace(t.pg, capture.MetricsFile, content) },
	}
}

// differences are those that this member has found: in the main database those of all databases, with their names.
func differences(l *life) []audit.Difference {
	if l.id.group != mainGroup {
		return l.audit.Differences()
	}
	var out []audit.Difference
	for _, o := range l.tenure.all() {
		for _, d := range o.audit.Differences() {
			if o != l {
				d.Table = o.id.database + ": " + d.Table
			}
			out = append(out, d)
		}
	}
	return out
}
