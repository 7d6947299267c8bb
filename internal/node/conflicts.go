package node

import (
	"time"

	"github.com/tuttidb/tutti/internal/guards"
	"github.com/tuttidb/tutti/internal/outcome"
	"github.com/tuttidb/tutti/internal/session"
	"github.com/tuttidb/tutti/internal/wire"
	"github.com/tuttidb/tutti/internal/writeset"
)

// aborts has a session's transaction lose that is in the order's way, and counts it. It returns what Abort does.
func aborts(l *life, g *guards.Guard, why *wire.SQLError) (session.Phase, time.Duration) {
	phase, fresh, inWay := g.Abort(why)
	if fresh {
		l.metrics.Transactions.Blocked.Add(1)
	}
	return phase, inWay
}

// wordsOf is a replica as what its sessions are told needs it.
func wordsOf(l *life) outcome.Words {
	return outcome.Words{
		Name: l.name, LeaseMs: l.config.Limits.LockLeaseMs, Metrics: &l.metrics.Transactions,
		KeyText: func(t writeset.Table, record []byte) (columns, values string, ok bool) {
			return l.tables.Load().KeyText(t, record)
		},
		Keyless: func(schema, name string) bool {
			d := l.tables.Load().Capture(schema, name)
			return d != nil && d.Key() == nil
		},
	}
}
