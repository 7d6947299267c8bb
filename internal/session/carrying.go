package session

import (
	"slices"

	"github.com/tuttidb/tutti/internal/session/plan"
	"github.com/tuttidb/tutti/internal/session/txn"
	"github.com/tuttidb/tutti/internal/wire"
)

// carrying carries a request out at the backend: what must come before it, what is sent, and what its answer means.
type carrying struct {
	backend *backend
	host    carryingHost
	steps   carryingSteps
	facts   Facts

	txn        *txn.Machine
	tx         *transaction
	texts      *texts
	block      *block
	planner    *planner
	relaying   *relaying
	collecting *collecting
	buffer     *buffer
	later      *later
	unnamed    *unnamed
	direct     *direct
	schema     *schema
	locks      *locks
	tableLocks *tableLocks
	reads      *reads
	turns      *rowTurns
}

// carryingHost is what it needs of the node.
type carryingHost struct {
	Control
	Intents
}

// carryingSteps is what it needs of the collector.
type carryingSteps struct {
	Steps
	Extents
}

// noteRun notes what a request that was carried out means for the transaction.
func (g *carrying) noteRun(r *request, rep *reply) error {
	g.buffer.noteDirect(r)
	if r.way.chosen && rep.failed == nil && !g.backend.lost {
		if err := g.buffer.meant(r); err != nil {
			return err
		}
	}
	g.locks.tables = g.locks.tables || len(r.does.tables) > 0
	if rep.failed != nil || g.backend.lost {
		g.reads.anyway = true // what made it fail was read, too
		if r.does.defines || len(r.does.tables) > 0 {
			g.host.GiveBack() // it may not even have had the right to do that
		}
		return nil
	}
	if r.extended && slices.ContainsFunc(r.does.notes, g.texts.foreign) {
		return g.tx.forsake(errForeignNote()) // it has come to be so since the Bind
	}
	return g.note(r.does.notes, !r.does.restarts)
}

// send gives the backend a request of a transaction.
func (g *carrying) send(r *request) {
	g.reads.note(r)
	g.locks.tell(r)
	if r.way.chosen {
		g.backend.out.Append(r.way.direct.frames)
		return
	}
	g.unnamed.sent(r)
	g.backend.out.Append(r.frames)
}

// writes says which tables a request will write to, if it is one that blind statements must not get in the way of: they
// would take its locks away, and need not wait for it. Those that would be blind themselves as soon as more is known do
// not count, or they would keep each other from it.
func (g *carrying) writes(r *request) {
	if r.prepares || r.does.harmless() {
		return
	}
	if r.way.direct == nil {
		g.host.Writing("")
		return
	}
	for i := range r.way.direct.parts {
		how := r.way.direct.parts[i].form.how
		if how == nil { // nothing is known of it yet
			if !g.txn.Idle() {
				g.host.Writing("")
			}
			continue
		}
		if !g.txn.Idle() || len(r.way.direct.parts) > 1 || !how.Blind() {
			g.host.Writing(how.Target().Name)
		}
	}
}

// once does one request again. It reports whether it was carried out, or refused by the backend.
func (g *carrying) once(r *request) (rep reply, done bool, err error) {
	if !r.way.chosen {
		r.way.direct = nil // what it is made of is gone
	}
	if err := g.planner.choose(r); err != nil {
		return rep, false, err
	}
	if plan.Allows(plan.Delta, g.planner.factsOf(r)) {
		if off, err := g.buffer.delta(r, &rep); off || err != nil {
			return rep, off, err
		}
	}
	if ok, err := g.opened(r); !ok || err != nil {
		return rep, false, err
	}
	if failure := g.turns.take(r); failure != nil {
		g.txn.Condemn(failure)
		return rep, false, g.tx.rollbackServer()
	}
	g.direct.adjust()
	g.writes(r)
	g.buffer.runs(r)
	g.send(r)
	if rep, err = g.relaying.relay(*r); err != nil || rep.interrupted {
		return rep, false, err
	}
	if err := g.noteRun(r, &rep); err != nil {
		return rep, false, err
	}
	forgot, err := g.tx.recover()
	return rep, !forgot, err
}

// opened opens the transaction for a request that is done again, and carries out what must come first. False says that
// it has lost.
func (g *carrying) opened(r *request) (bool, error) {
	if g.later.pending() && !g.buffer.goesAlong(r) {
		if err := g.buffer.flush(); err != nil || g.txn.Reason() != nil {
			return false, err
		}
		if err := g.planner.choose(r); err != nil {
			return false, err
		}
	}
	err := g.tx.ensureOpen(true)
	return err == nil && g.txn.Reason() == nil && g.txn.Open(), err
}

// settled does what must come before the next request of a block. Before a definition, what was captured is frozen, and
// others are kept out of the tables that the definition locks. Before anything else, earlier definitions are followed
// up. The result is false if the transaction failed by it.
func (g *carrying) settled(r *request) (bool, error) {
	var failure *wire.SQLError
	var err error
	if g.schema.due(r) {
		g.schema.unsure = g.schema.unsure || g.schema.filled // rows are captured now
		failure, err = g.tx.follow()
	}
	if r.does.defines && failure == nil && err == nil {
		failure, err = g.freeze()
	}
	g.schema.unsure = g.schema.unsure || g.captures(r)
	if err != nil {
		return true, err
	}
	if failure == nil {
		gone, err := g.tableLocks.lockElsewhere(r.does.tables)
		return !gone, err
	}
	if doom := g.host.Enter(PhaseRunning); doom != nil {
		failure = doom
	}
	if err := g.tx.rollbackServer(); err != nil {
		return false, err
	}
	g.txn.Fail()
	return false, g.block.fail(failure)
}

// captures reports whether something may be captured by a request. A definition does that by an event trigger.
func (g *carrying) captures(r *request) bool {
	return !r.prepares && (!r.does.defines || g.schema.events || g.facts.EventTriggers())
}

// freeze keeps what was captured so far as it is now.
func (g *carrying) freeze() (failure *wire.SQLError, err error) {
	if !g.schema.unsure {
		return nil, nil
	}
	g.schema.unsure = false
	g.backend.out.Append(wire.AppendSync(g.steps.AppendPeek(g.backend.out.AvailableBuffer())))
	r, rows, err := g.backend.internal(true)
	if err != nil || r.failed != nil {
		return failureOf(r), err
	}
	if len(rows)+len(g.direct.rows) == 0 {
		return nil, nil
	}
	c := collected{}
	if g.collecting.returnedTooMuch(&c) {
		return c.failed, nil
	}
	if err := g.collecting.decode(&c, rows, g.collecting.reread); err != nil || c.failed != nil {
		return c.failed, err
	}
	if most := g.collecting.bytesMax; c.ws.Size() > most { // it becomes one value
		return g.collecting.tooMuch(most), nil
	}
	g.backend.out.Append(wire.AppendSync(g.steps.AppendFreeze(g.backend.out.AvailableBuffer(), c.ws)))
	r, err = g.backend.quiet()
	g.direct.closed = true // what is frozen holds all that was returned, unless it is rolled back
	return failureOf(r), err
}
