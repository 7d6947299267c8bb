package session

import (
	"slices"

	"github.com/tuttidb/tutti/internal/semantics"
	"github.com/tuttidb/tutti/internal/session/plan"
)

// factsOf collects what is known of a request, for the choice of a plan.
func factsOf(s *Session, r *request) plan.Facts {
	return r.facts(s) | s.direct.facts(s) | s.later.facts(s, r)
}

// facts are those of the statement.
func (r *request) facts(s *Session) (f plan.Facts) {
	f = f.With(plan.Reads, r.glance != nil)
	if r.direct == nil {
		return f
	}
	parts := r.direct.parts
	ready := r.direct.known()
	unknown := func(p directPart) bool { return p.form.how == nil }
	f = f.With(plan.Changes, true).With(plan.Single, len(parts) == 1).With(plan.Ready, ready).
		With(plan.Prepared, ready || !s.texts.escape && !slices.ContainsFunc(parts, unknown))
	p := &parts[0]
	return f.With(plan.Unnamed, p.parse == nil).With(plan.AllRows, !p.limited).With(plan.Proven, p.form.blind).
		With(plan.OwnRole, s.sight.who == "" || p.form.who == s.sight.who).With(plan.Kept, p.kept || !s.retry.busy)
}

// facts are those of the session.
func (d *direct) facts(s *Session) (f plan.Facts) {
	catalog := s.o.Collector.Catalog()
	return f.With(plan.Known, s.sight.who != "").With(plan.Direct, !s.forms.off).With(plan.UTF8, !s.texts.encoded).
		With(plan.Unlocked, !s.advisory.used).With(plan.Settled, s.backend.prefix == 0).
		With(plan.Current, s.forms.catalog == catalog && (len(s.later.unseen) == 0 || s.later.catalog == catalog))
}

// facts are those of the block, or that there is none.
func (l *later) facts(s *Session, r *request) (f plan.Facts) {
	level := s.levels.current()
	again := s.retry.redoable(r)
	return f.With(plan.Alone, s.txn.Idle()).With(plan.InBlock, s.txn.Active() && !s.txn.Implicit()).
		With(plan.ReadCommitted, level == semantics.ReadCommitted).With(plan.Certified,
		level != semantics.Serializable).
		With(plan.MayWrite, s.levels.modes.Access != "READ ONLY").With(plan.Open, s.txn.Open() && !s.txn.Untouched()).
		With(plan.Uncaptured, !s.txn.Open() || !s.direct.closed).With(plan.FirstTry, !l.off).With(plan.Unwritten,
		!l.wrote).
		With(plan.Undefined, !s.schema.noted).With(plan.Uncollected, !s.txn.Collected()).
		With(plan.LocksNothing, !s.locks.tables && len(s.locks.rows) == 0).With(plan.NothingAdded, len(l.adds) == 0).
		With(plan.Deferred, len(l.unseen) > 0).With(plan.RoomToDefer, len(l.unseen) < laterMax).
		With(plan.RoomToAdd, len(l.adds) < laterMax).With(plan.Noted, !s.retry.off).With(plan.NotAgain, !s.retry.busy).
		With(plan.Repeatable, again).With(plan.Affordable, !l.shown() || again && !s.buffer.dear())
}
