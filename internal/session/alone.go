package session

import (
	"github.com/tuttidb/tutti/internal/semantics"
	"github.com/tuttidb/tutti/internal/session/plan"
	"github.com/tuttidb/tutti/internal/session/proto"
	"github.com/tuttidb/tutti/internal/session/txn"
	"github.com/tuttidb/tutti/internal/wire"
	"github.com/tuttidb/tutti/internal/writeset"
)

// alone runs requests outside of the client's blocks as transactions of their own.
type alone struct {
	backend  *backend
	host     aloneHost
	facts    Facts
	planned  func(plan.Plan)
	triesMax int

	txn        *txn.Machine
	tx         *transaction
	block      *block
	levels     *levels
	planner    *planner
	carrying   *carrying
	collecting *collecting
	relaying   *relaying
	buffer     *buffer
	forms      *forms
	direct     *direct
	sight      *sight
	advisory   *advisory
	results    *proto.Results
}

// aloneHost is what it needs of the node.
type aloneHost struct {
	Control
	Order
	Intents
	Deferred
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
	if err := a.open(&r, closes); err != nil {
		return o, err
	}
	if a.txn.Gone() {
		return a.lost(), nil
	}
	c, pipelined := a.send(&r)
	if *rep, err = a.relaying.relay(r); err != nil {
		return o, err
	}
	forgot := a.backend.lost
	if err := a.carrying.noteRun(&r, rep); err != nil {
		return o, err
	}
	if a.txn.Gone() && len(r.does.notes) > 0 { // see note
		return a.lost(), nil
	}
	ran := rep.failed == nil && !forgot
	if r.way.chosen && ran && a.txn.Reason() != nil {
		return lostBy(a.txn.Reason()), a.tx.rollbackServer()
	}
	if pipelined || ran {
		if err = a.tx.collect(&c, pipelined); err != nil {
			return o, err
		}
	}
	if o, err = a.failed(rep, forgot); o.failed || err != nil {
		return o, err
	}
	return a.commit(&r, c)
}

// failed ends an attempt that does not come to its COMMIT: because the backend has forgotten the session's statements,
// or the client would be told of other results than were announced, or the request has failed.
func (a *alone) failed(rep *reply, forgot bool) (o outcome, err error) {
	switch {
	case forgot:
		_, err = a.tx.recover()
		return outcome{failed: true, failure: errForgotten(forgottenStatements), retry: true}, err
	case a.results.Changed():
		return outcome{failed: true, failure: errAnnounced()}, a.tx.rollbackServer()
	case rep.failed != nil:
		// The backend's answer is held, with our doom in place of a cancel of ours.
		retry := a.tx.doomed() || rep.failed.Code == wire.CodeSerializationFailure
		return outcome{failed: true, retry: retry}, a.tx.rollbackServer()
	}
	return outcome{}, nil
}

// open opens the transaction of an attempt. If that has lost, doom says why.
func (a *alone) open(r *request, closes []byte) error {
	if err := a.relaying.anew(r, closes); err != nil {
		return err
	}
	if a.stays(r); a.txn.Gone() {
		return nil
	}
	if err := a.planner.choose(r); err != nil {
		return err
	}
	a.planned(plan.Instead(plan.Blind, a.planner.factsOf(r)))
	if err := a.tx.ensureOpen(true); err != nil {
		return err
	}
	if r.flushes() {
		return a.tx.begun()
	}
	return nil
}

// stays comes before an attempt that may lose to a definition to which all lose. It is done again then, if it can be,
// but sequences have gone on, and what the server counts is counted twice. A definition is often one to which all lose
// itself: such ones would wait for each other, and so it waits for what maintains catalogs only.
func (a *alone) stays(r *request) {
	effects := r.does.outlives&effects != 0
	defines := r.does.defines && !effects
	reads := a.levels.level >= semantics.RepeatableRead && !r.does.write
	if r.prepares || reads && !defines {
		return
	}
	failure := a.host.Enter(PhaseRunning) // the client may cancel it
	switch {
	case failure != nil:
	case defines:
		failure = a.host.Defines(a.backend.waitLimits)
	default:
		_, failure = a.host.Stays(a.host.Applied(), !effects, a.backend.waitLimits)
	}
	if failure != nil {
		a.host.Enter(PhaseIdle)
		a.txn.Condemn(failure)
	}
}

// send gives the backend the request of an attempt, and the collect step together with it if that can be.
func (a *alone) send(r *request) (c collected, pipelined bool) {
	a.direct.adjust()
	a.carrying.writes(r)
	a.carrying.send(r)
	pipelined = !r.does.copies && !r.way.chosen && len(r.does.notes) == 0 && len(r.frames) < pipelineBytesMax
	if pipelined {
		c = a.collecting.appendCollect()
	}
	return c, pipelined
}

// commit has the log decide on what an attempt has done.
func (a *alone) commit(r *request, c collected) (o outcome, err error) {
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

// lost is how an attempt ends whose transaction was rolled back.
func (a *alone) lost() outcome {
	o := lostBy(a.txn.Reason())
	a.txn.Absolve()
	return o
}

// lostBy is how an attempt ends that has lost for a reason.
func lostBy(why *wire.SQLError) outcome {
	return outcome{failed: true, failure: why, retry: why.Code == wire.CodeSerializationFailure}
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
	if !a.forms.current() {
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
