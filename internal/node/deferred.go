package node

import (
	"context"

	"github.com/tuttidb/tutti/internal/deferred"
	"github.com/tuttidb/tutti/internal/session"
)

// deferredOf is a replica as its deferred writes need it; its core need not be there yet.
func deferredOf(l *life) deferred.Options {
	return deferred.Options{
		Values: l.config.Limits.Additions, Sighted: l.config.Limits.BlindWrites < 0, Metrics: &l.metrics,
		Applied: func() uint64 { return l.core.Applied() }, Tables: l.tables.Load,
	}
}

// PutOff begins additions, if all their rows are known.
func (h *host) PutOff(adds []session.Adds) (rows []session.Counted, ok bool) {
	return h.rows.PutOff(adds)
}

// Added takes, before Committed, what a transaction has found when it added to its rows.
func (h *host) Added(seq, order uint64, err error) {
	w := h.n.waiters.get(seq)
	w.added, w.diverged = order, err
}

// awaitAdditions waits until the sessions' own transactions of a group have their rows no more, if something else adds
// to rows, too: each has its own order in which it takes their locks.
func awaitAdditions(ctx context.Context, locals []*waiter) error {
	for _, w := range locals {
		if len(w.sub.AddBases) == 0 {
			continue
		}
		select {
		case <-w.committed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// addingMax is for how many sessions is asked at a time whom they wait for. Mostly they wait for each other, and all
// for one.
const addingMax = 4

// adding are the backends of some sessions that commit and may wait for rows to which they add.
func (l *life) adding() (pids []uint32) {
	for _, w := range l.running.locals() {
		if len(w.sub.AddBases) == 0 {
			continue
		}
		select {
		case <-w.committed:
		default:
			pids = append(pids, w.guard.PID())
		}
	}
	if len(pids) > addingMax {
		at := int(l.running.asked.Add(addingMax)) % len(pids)
		pids = append(pids[at:], pids[:at]...)[:addingMax]
	}
	return pids
}
