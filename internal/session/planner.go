package session

import (
	"slices"

	"github.com/tuttidb/tutti/internal/semantics"
	"github.com/tuttidb/tutti/internal/session/plan"
	"github.com/tuttidb/tutti/internal/session/txn"
)

// planner finds out in which ways a request may be run. It looks at everything that the session knows.
type planner struct {
	backend  *backend
	txn      *txn.Machine
	texts    *texts
	levels   *levels
	advisory *advisory
	forms    *forms
	direct   *direct
	schema   *schema
	locks    *locks
	retry    *retrying
	later    *later
	buffer   *buffer
	sight    *sight
}

// factsOf collects what is known of a request, for the choice of a plan.
func (c *planner) factsOf(r *request) plan.Facts {
	return c.statementFacts(r) | c.sessionFacts() | c.blockFacts(r)
}

// statementFacts are those of the statement.
func (c *planner) statementFacts(r *request) (f plan.Facts) {
	f = f.With(plan.Reads, r.way.glance != nil)
	if r.way.direct == nil {
		return f
	}
	parts := r.way.direct.parts
	ready := r.way.direct.known()
	unknown := func(p directPart) bool { return p.form.how == nil }
	f = f.With(plan.Changes, true).With(plan.Single, len(parts) == 1).With(plan.Ready, ready).
		With(plan.Prepared, ready || !c.texts.escape && !slices.ContainsFunc(parts, unknown))
	p := &parts[0]
	return f.With(plan.Unnamed, p.parse == nil).With(plan.AllRows, !p.limited).With(plan.Proven, p.form.blind).
		With(plan.OwnRole, c.sight.who == "" || p.form.who == c.sight.who).With(plan.Kept, p.kept || !c.retry.busy)
}

// sessionFacts are those of the session.
func (c *planner) sessionFacts() (f plan.Facts) {
	return f.With(plan.Known, c.sight.who != "").With(plan.Direct, !c.forms.off).With(plan.UTF8, !c.texts.encoded).
		With(plan.Unlocked, !c.advisory.used).With(plan.Settled, c.backend.prefix == 0).
		With(plan.Current, c.forms.current() && c.later.known())
}

// blockFacts are those of the block, or that there is none.
func (c *planner) blockFacts(r *request) (f plan.Facts) {
	level := c.levels.current()
	again := c.retry.redoable(r)
	return f.With(plan.Alone, c.txn.Idle()).With(plan.InBlock, c.txn.Active() && !c.txn.Implicit()).
		With(plan.ReadCommitted, level == semantics.ReadCommitted).With(plan.Certified,
		level != semantics.Serializable).
		With(plan.MayWrite, c.levels.modes.Access != "READ ONLY").With(plan.Open, c.txn.Open() && !c.txn.Untouched()).
		With(plan.Uncaptured, !c.txn.Open() || !c.direct.closed).With(plan.FirstTry, !c.later.off).With(plan.Unwritten,
		!c.later.wrote).
		With(plan.Undefined, !c.schema.noted).With(plan.Uncollected, !c.txn.Collected()).
		With(plan.LocksNothing, !c.locks.tables && len(c.locks.rows) == 0).
		With(plan.NothingAdded, len(c.later.adds) == 0).
		With(plan.Deferred, len(c.later.unseen) > 0).With(plan.RoomToDefer, len(c.later.unseen) < laterMax).
		With(plan.RoomToAdd, len(c.later.adds) < laterMax).With(plan.Noted, !c.retry.off).
		With(plan.NotAgain, !c.retry.busy).
		With(plan.Repeatable, again).With(plan.Affordable, !c.later.shown() || again && !c.buffer.dear())
}

// choose decides whether a request is run directly, and prepares what is wanted if the backend is
// outside of transactions.
func (c *planner) choose(r *request) error {
	d := c.direct
	c.forms.renew()
	if !c.txn.Open() {
		if err := c.forms.prepare(); err != nil {
			return err
		}
	}
	r.way.chosen = plan.Allows(plan.Returning, c.factsOf(r))
	switch {
	case r.way.chosen && c.retry.busy:
		r.way.direct.rewind()
	case r.way.chosen:
		r.way.direct.build()
	}
	switch {
	case r.marked && !r.way.chosen:
		d.wish = ownTxBulk
	// of what is harmless the text is known, and is not marked
	case r.way.chosen, r.does.harmless(), r.prepares && !c.txn.Open():
		d.wish = ownTxDirect
	case !r.prepares:
		d.wish = ownTx
	}
	return nil
}

// keepsSight reports whether a request leaves the session who it is, as far as its text tells.
func (c *planner) keepsSight(r *request) bool {
	return r.prepares || r.way.direct != nil && (r.way.direct.known() || c.foreknown(r)) || c.texts.still(r)
}
