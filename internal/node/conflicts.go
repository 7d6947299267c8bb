package node

import (
	"github.com/tuttidb/tutti/internal/outcome"
	"github.com/tuttidb/tutti/internal/writeset"
)

// wordsOf is a replica as what its sessions are told needs it.
func wordsOf(l *life) outcome.Words {
	return outcome.Words{
		Name: l.name, LeaseMs: l.config.Limits.LockLeaseMs, Metrics: &l.metrics.Transactions,
		KeyText: func(t writeset.Table, record []byte) (columns, values string, ok bool) {
			return l.db.tables.Load().KeyText(t, record)
		},
		Keyless: func(schema, name string) bool {
			d := l.db.tables.Load().Capture(schema, name)
			return d != nil && d.Key() == nil
		},
	}
}
