package session

import (
	"github.com/tuttidb/tutti/internal/session/plan"
	"github.com/tuttidb/tutti/internal/session/proto"
	"github.com/tuttidb/tutti/internal/session/txn"
	"github.com/tuttidb/tutti/internal/wire"
	"github.com/tuttidb/tutti/internal/writeset"
)

// alone runs requests outside of the client's blocks: as they are, if they only read, and else as transactions of their
// own.
type alone struct {
	backend  *backend
	host     aloneHost
	facts    Facts
	planned  func(plan.Plan)
	triesMax int

	txn        *txn.Machine
	tx         *transaction
	block      *block
	planner    *planner
	carrying   *carrying
	collecting *collecting
	relaying   *relaying
	buffer     *buffer
	texts      *texts
	forms      *forms
	unnamed    *unnamed
	direct     *direct
	sight      *sight
	advisory   *advisory
	results    *proto.Results
	out        *wire.Writer // to the client
}

// aloneHost is what it needs of the node.
type aloneHost struct {
	Control
	Order
	Deferred
}

// plain runs a request that only reads, outside any transaction of ours. If it turns out
// to write, capture has refused it (TT001), or PostgreSQL, nothing happened, and it is run as a write.
func (a *alone) plain(r request, rep *reply) (_ bool, err error) {
	guarded := a.texts.guarded(&r)
	a.planned(plan.Plan{Kind: plan.Plain})
	for try := 0; ; try++ {
		if guarded {
			a.backend.guard()
		}
		a.unnamed.sent(&r)
		a.backend.out.Append(r.frames)
		a.results.Hold(false)
		a.advisory.attempt()
		a.relaying.moved = false
		if *rep, err = a.relaying.relay(r); err != nil {
			return true, err
		}
		forgot, err := a.tx.recover()
		if err != nil {
			return true, err
		}
		late := r.repeatsLate(forgot, a.txn.Reason() != nil && rep.failed != nil &&
			rep.failed.Code == wire.CodeQueryCanceled && !a.host.Cancelled())
		if !late || a.results.Spilled() || try == lateCancels {
			break
		}
		a.results.Drop() // the cancel was meant for the transaction that was rolled back under the client
		if closes := closeFirst(r, rep.parsed); closes != nil {
			a.backend.out.Append(closes)
			if _, err := a.backend.quiet(); err != nil {
				return true, err
			}
		}
	}
	a.txn.Alone()
	// from a transaction it can be repeated as often as it takes
	if rep.failed != nil && a.relaying.moved && !a.results.Spilled() && !r.does.local {
		if again, err := a.advisory.giveBack(); err != nil {
			return true, err
		} else if again {
			a.results.Drop()
			return a.autocommit(r, rep)
		}
	}
	if refusedWrite(rep, guarded) {
		for _, sql := range r.sql {
			a.texts.cache.writes(sql)
		}
		if again, err := a.advisory.giveBack(); err != nil {
			return true, err
		} else if again && !a.results.Spilled() {
			a.results.Drop()
			return a.autocommit(r, rep)
		}
		a.results.Drop()
		a.out.Append(wire.Errorf(wire.CodeFeatureNotSupported, "a query wrote to a table after it had returned rows").
			WithHint("Run it again; it is now known to write.").Append(nil))
		return true, nil
	}
	a.results.Release()
	return rep.failed != nil, nil
}

// autocommit runs a request as a transaction of its own, and again if it lost and the
// client has seen nothing yet (S3). rep comes with what the backend has carried out of it
// already.
func (a *alone) autocommit(r request, rep *reply) (bool, error) {
	parsed := rep.parsed
	for try := 0; ; try++ {
		if try > 0 {
			if done, err := a.blindly(&r, rep, try); done || err != nil {
				return rep.failed != nil, err
			}
		}
		o, err := a.attempt(r, closeFirst(r, parsed), rep)
		if err != nil {
			return true, err
		}
		parsed = max(parsed, rep.parsed)
		again := o.retry && !a.results.Spilled() && r.repeats(try, a.triesMax)
		if again {
			if again, err = a.advisory.giveBack(); err != nil {
				return true, err
			}
		}
		if again && r.way.yieldsAt(try) {
			rep.yielded = true
			a.results.Drop()
			a.block.reset()
			return true, nil
		}
		if again {
			dropLost(a.results)
			a.block.reset()
			continue
		}
		if o.failure != nil && !r.extended {
			a.results.Uncommitted()
		}
		a.results.Release()
		a.block.reset()
		if o.failure != nil {
			return true, a.block.fail(o.failure)
		}
		return o.failed, nil
	}
}

// attempt runs a request once inside its own transaction.
func (a *alone) attempt(r request, closes []byte, rep *reply) (o outcome, err error) {
	if err := a.relaying.anew(&r, closes); err != nil {
		return o, err
	}
	if err := a.planner.choose(&r); err != nil {
		return o, err
	}
	a.planned(plan.Instead(plan.Blind, a.planner.factsOf(&r)))
	if err := a.tx.ensureOpen(true); err != nil {
		return o, err
	}
	if r.flushes() {
		if err := a.tx.begun(); err != nil {
			return o, err
		}
	}
	if doom := a.txn.Reason(); doom != nil && !a.txn.Open() {
		a.txn.Absolve()
		return outcome{failed: true, failure: doom, retry: doom.Code == wire.CodeSerializationFailure}, nil
	}
	a.direct.adjust()
	a.carrying.writes(&r)
	a.carrying.send(&r)
	pipelined := !r.does.copies && !r.way.chosen && len(r.does.notes) == 0 && len(r.frames) < pipelineBytesMax
	var c collected
	if pipelined {
		c = a.collecting.appendCollect()
	}
	if *rep, err = a.relaying.relay(r); err != nil {
		return o, err
	}
	lost := a.backend.lost
	if err := a.carrying.noteRun(&r, rep); err != nil {
		return o, err
	}
	if doom := a.txn.Reason(); doom != nil && !a.txn.Open() && len(r.does.notes) > 0 { // see note
		a.txn.Absolve()
		return outcome{failed: true, failure: doom, retry: doom.Code == wire.CodeSerializationFailure}, nil
	}
	if r.way.chosen && a.txn.Reason() != nil && rep.failed == nil && !lost {
		return outcome{failed: true, failure: a.txn.Reason(),
			retry: a.txn.Reason().Code == wire.CodeSerializationFailure}, a.tx.rollbackServer()
	}
	if pipelined || rep.failed == nil && !lost {
		if err = a.tx.collect(&c, pipelined); err != nil {
			return o, err
		}
	}
	if a.results.Changed() && !lost {
		return outcome{failed: true, failure: errAnnounced()}, a.tx.rollbackServer()
	}
	if lost {
		_, err = a.tx.recover()
		return outcome{failed: true, failure: errForgotten(forgottenStatements), retry: true}, err
	}
	if rep.failed != nil {
		// The backend's answer is held, with our doom in place of a cancel of ours.
		retry := a.tx.doomed() || rep.failed.Code == wire.CodeSerializationFailure
		return outcome{failed: true, retry: retry}, a.tx.rollbackServer()
	}
	o.failure, o.retry, err = a.tx.settle(c)
	o.retry = o.retry || o.failure != nil && c.again
	if o.failed = o.failure != nil; r.way.chosen && !o.failed {
		if a.sight.odd = false; a.direct.who != "" && !a.direct.clean {
			a.sight.who = ""
		}
		a.buffer.sees()
	}
	return o, err
}

// dropLost forgets what an attempt that has lost would have told.
func dropLost(r *proto.Results) {
	if planted == "lost-attempt-told" {
		r.Release()
	}
	r.Drop()
}

// closeFirst gives Close messages for the statements a request has parsed before, so that
// its Parse messages can be repeated; nil if there are none.
func closeFirst(r request, parsed int) []byte {
	var frames []byte
	for _, name := range r.parses[:min(parsed, len(r.parses))] {
		if name != "" {
			frames = wire.AppendClose(frames, 'S', name)
		}
	}
	if frames == nil {
		return nil
	}
	return wire.AppendSync(frames)
}

// errAnnounced is told when a statement's results are not those that were announced, because a definition
// came between two runs.
func errAnnounced() *wire.SQLError {
	return errForgotten("the results of the statement were changed by a definition")
}

// lateCancels is how often a request is repeated that a cancel of ours has hit late.
const lateCancels = 5

// outcome is how an attempt ended. Its results are still held.
type outcome struct {
	failed  bool
	failure *wire.SQLError // to be told after the results; nil if they hold the error
	retry   bool           // certainly not committed, and another try may succeed
}

// blindly carries out a request that is a transaction of its own without its backend, at its try from 0. It reports
// whether it has.
func (a *alone) blindly(r *request, rep *reply, try int) (done bool, err error) {
	if !plan.Allows(plan.Blind, a.planner.factsOf(r)) {
		return false, nil
	}
	p := &r.way.direct.parts[0]
	if ok, err := a.buffer.looks(); !ok {
		return false, err
	}
	base := a.host.DefinedUpTo()
	if a.forms.catalog != a.facts.Catalog() {
		return false, nil
	}
	what, ok := p.form.how.Buffered(p.bind, Began{})
	if !ok || what.Shape != p.form.blindShape || what.Inserts {
		return false, nil
	}
	ws := &writeset.Writeset{Tables: []writeset.Table{what.Table}, Rows: []writeset.Row{what.Row}}
	ws.AddTableKeys()
	_, _, seq := a.host.NewSeq()
	*rep = reply{} // of an earlier try
	decision, done := a.tx.order(Submission{Seq: seq, Base: base, Writeset: ws}, try >= blindTries)
	a.host.Enter(PhaseIdle)
	switch {
	case !done || !decision.Commit && decision.Retry:
		return false, nil
	case !decision.Commit:
		rep.failed = &decision.Err.ErrorFields
		return true, a.block.fail(decision.Err)
	}
	a.planned(plan.Plan{Kind: plan.Blind})
	return true, a.buffer.answerAlone(r, rep, what.Tag)
}
