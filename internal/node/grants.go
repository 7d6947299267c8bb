package node

import (
	"context"

	"github.com/tuttidb/tutti/internal/admission"
	"github.com/tuttidb/tutti/internal/bootstrap"
	"github.com/tuttidb/tutti/internal/capture"
	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/grants"
	"github.com/tuttidb/tutti/internal/semantics"
	"github.com/tuttidb/tutti/internal/session"
	"github.com/tuttidb/tutti/internal/wire"
	"github.com/tuttidb/tutti/internal/writeset"
)

// grantsOf is a replica as its schema locks and turns need it; its core need not be there yet.
func grantsOf(l *life) grants.Options {
	return grants.Options{
		Config: l.config, Log: l.log, Metrics: &l.metrics, Life: l.id.incarnation, Clock: admission.Time,
		Applied: func() uint64 { return l.order.core.Applied() }, Complete: l.complete,
		Ordered: func() (ordered uint64) {
			l.order.core.Call(func(e *engine.Engine) { ordered = e.Ordinal() })
			return ordered
		},
		RowTurns: func() bool { return l.tenure.standing.Understand(bootstrap.RowTurns) },
		Await:    l.flow.gate.Await, Wake: l.flow.gate.Wake, Ending: l.course.ending, Go: l.course.background.Go,
		Reach: func(member uint32) grants.Reach { return reachOf(l, member) },
		Send: func(to uint32, answer bool, word []byte) bool {
			if answer {
				return l.sendFrame(to, frameHeld, word)
			}
			return l.sendFrame(to, frameHold, word)
		},
		Position: l.db.monitor.Position, Gone: l.db.monitor.Gone, Blockers: l.db.monitor.Blockers,
	}
}

// reachOf is what is known of another member that is to be asked for a lock.
func reachOf(l *life, member uint32) grants.Reach {
	_, alive := l.others.peers.Get(member)
	return grants.Reach{Alive: alive, Unheard: l.others.peers.Unheard(member),
		Halted: l.others.peers.HaltedAt(member) != nil}
}

// Pass waits while another member's definitions want to be alone with tables that a transaction has written to.
func (h *host) Pass(ws *writeset.Writeset, limits session.Limits) *wire.SQLError {
	h.clock.Collect()
	return h.losesBy(h.grants.Pass(ws, limits))
}

// losesBy notes that the session's transaction has lost, if that is why it does not pass.
func (h *host) losesBy(why *wire.SQLError) *wire.SQLError {
	if why != nil && why.Code == wire.CodeSerializationFailure {
		h.writes, h.lost = true, true
	}
	return why
}

// endLock ends the schema lock of a session's transaction, if it has one.
func (h *host) endLock() {
	if h.won {
		h.grants.End(h.after)
		return
	}
	h.grants.End(0)
}

// intents is session.Intents of a host.
type intents struct {
	*grants.Session
	h *host
}

// HoldTables is grants.Session.HoldTables for what a LOCK TABLE names.
func (x intents) HoldTables(
	lock *semantics.TableLock, schemas []string, most int64,
) (late bool, failure *wire.SQLError) {
	l := x.h.n
	r, err := l.db.monitor.Exec(context.Background(), capture.LockExtentSQL(lock.Relations, schemas))
	if err != nil {
		l.log.Debug("the tables that a session locks cannot be looked up; the others are not asked",
			"error", err)
		return false, nil
	}
	tables, err := capture.LockExtent(r[0].Rows[0][0], lock.Mode >= int32(writeset.ShareTable))
	if err != nil {
		l.log.Error("the tables that a session locks cannot be read", "error", err)
		return false, nil
	}
	var keys []uint64
	for _, t := range tables {
		keys = append(keys, t.Key)
	}
	return x.Session.HoldTables(keys, lock.NoWait, most)
}

// Locks notes that the session's transaction asks for locks on rows of tables, or on whole tables.
func (x intents) Locks(tables []string) { x.h.rows.Locks(tables) }

// Writing notes that the session's transaction writes to a table, seeing it.
func (x intents) Writing(table string) { x.h.rows.Writing(table) }
