package node

import (
	"github.com/tuttidb/tutti/internal/deferred"
	"github.com/tuttidb/tutti/internal/session"
)

// deferredOf is a replica as its deferred writes need it; its core need not be there yet.
func deferredOf(l *life) deferred.Options {
	return deferred.Options{
		Values: l.config.Limits.Additions, Sighted: l.config.Limits.BlindWrites < 0, Metrics: &l.metrics,
		Applied: func() uint64 { return l.order.core.Applied() }, Tables: l.db.tables.Load,
	}
}

// PutOff begins additions, if all their rows are known.
func (h *host) PutOff(adds []session.Adds) (rows []session.Counted, ok bool) {
	return h.rows.PutOff(adds)
}

// Added takes, before Committed, what a transaction has found when it added to its rows.
func (h *host) Added(seq, order uint64, err error) {
	w := h.n.submitted.waiters.Get(seq)
	w.Added, w.Diverged = order, err
}
