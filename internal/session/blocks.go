package session

import (
	"github.com/tuttidb/tutti/internal/session/plan"
	"github.com/tuttidb/tutti/internal/session/proto"
	"github.com/tuttidb/tutti/internal/session/txn"
	"github.com/tuttidb/tutti/internal/wire"
)

// blocks runs requests inside of the client's blocks, and commits these.
type blocks struct {
	backend  *backend
	in       *wire.Reader // from the client
	host     blocksHost
	mayDefer func() bool // see Definitions.Deferrable
	planned  func(plan.Plan)
	triesMax int

	txn      *txn.Machine
	tx       *transaction
	block    *block
	planner  *planner
	carrying *carrying
	plain    *plain
	relaying *relaying
	retry    *retrying
	staying  *staying
	buffer   *buffer
	later    *later
	levels   *levels
	forms    *forms
	direct   *direct
	locks    *locks
	listener *listener
	results  *proto.Results

	habits habits
}

// blocksHost is what it needs of the node.
type blocksHost struct {
	Control
	Order
}

// openEarly opens the backend's transaction of a block that has begun, before there is something to do in it. If that
// fails, by a late cancel for example, it is opened with the first statement. What comes may be direct, if it is
// prepared already: preparing may wait for a table's lock, and nothing that the client has sent does.
func (w *blocks) openEarly() error {
	w.listener.unwatch()
	w.forms.renew()
	w.direct.wish = ownTxDirect
	if err := w.tx.ensureOpen(false); err != nil {
		return err
	}
	if err := w.tx.begun(); err != nil {
		return err
	}
	if w.txn.Open() {
		w.txn.Early()
	} else {
		w.txn.Absolve()
	}
	return nil
}

// inBlock is execute inside a block.
func (w *blocks) inBlock(r request, rep *reply) (failedToo bool, err error) {
	if err := w.tx.takeAhead(); err != nil {
		return true, err
	}
	if r.prepares && w.txn.Gone() {
		return w.prepareOutside(r, rep)
	}
	if over, err := w.over(&r); over || err != nil {
		return true, err
	}
	if !w.txn.Failed() {
		if done, failedToo, err := w.settle(&r, rep); done {
			return failedToo, err
		}
	}
	if err := w.carryOut(&r, rep); err != nil {
		return true, err
	}
	if r.prepares {
		if rep.failed != nil && w.txn.Reason() != nil {
			return w.prepareAgain(r, rep)
		}
		w.results.Release()
	}
	if forgot, err := w.tx.recover(); forgot || err != nil {
		w.txn.Condemn(errForgotten(forgottenStatements)) // told now, or with the next statement
		if rep.failed != nil {
			w.txn.Absolve()
			w.txn.Fail()
		}
		return rep.failed != nil, err
	}
	return rep.failed != nil, w.block.afterBlock(*rep)
}

// settle does what must come before a request of a block that has not failed, or puts the request off. done reports
// that it is answered.
func (w *blocks) settle(r *request, rep *reply) (done, failedToo bool, err error) {
	if err := w.planner.choose(r); err != nil {
		return true, true, err
	}
	if done, err := w.goOn(r, rep); done || err != nil {
		return true, rep.status != wire.TxActive, err
	}
	return w.openFor(r, rep)
}

// carryOut has the backend carry a request out, and the collect step with it if a COMMIT is to be expected.
func (w *blocks) carryOut(r *request, rep *reply) error {
	if r.prepares {
		w.results.Hold(false)
	}
	r.way.resumes = w.retry.redoable(r)
	before := w.retry.telling()
	w.carrying.writes(r)
	w.buffer.runs(r)
	w.carrying.send(r)
	if !r.prepares {
		w.habits.reached(r)
		if w.foresees(r) {
			w.tx.collectAhead()
		}
	}
	began := w.host.Clock()
	if err := w.answered(r, rep, before); err != nil {
		return err
	}
	w.later.spent += w.host.Clock() - began
	return nil
}

// openFor opens the backend's transaction for a request of the block, if it is not. done reports that the request is
// answered.
func (w *blocks) openFor(r *request, rep *reply) (done, failedToo bool, err error) {
	if r.prepares && w.later.pending() && !w.txn.Open() {
		failedToo, err := w.prepareOutside(*r, rep)
		w.retry.note(r, rep)
		return true, failedToo, err
	}
	if w.staying.from(r) {
		if ok, err := w.staying.before(); !ok || err != nil {
			return true, true, err
		}
	}
	if err := w.tx.ensureOpen(!r.does.settings || r.does.snapshot); err != nil {
		return true, true, err
	}
	if failed, err := w.readied(r); failed || err != nil {
		return true, true, err
	}
	if r.flushes() {
		if err := w.tx.begun(); err != nil {
			return true, true, err
		}
	}
	if r.prepares && w.txn.Gone() {
		failedToo, err := w.prepareOutside(*r, rep)
		return true, failedToo, err
	}
	return w.block.tellDoom(), true, nil
}

// readied makes the transaction ready for a request. It has failed if it has lost by that, or the client has cancelled
// it, and the client knows.
func (w *blocks) readied(r *request) (failed bool, err error) {
	if !r.prepares {
		if failed, err := w.takeTurns(r); failed || err != nil {
			return true, err
		}
		w.tx.reopen()
		w.direct.adjust()
	}
	ok, err := w.carrying.settled(r)
	return !ok, err
}

// takeTurns has the block take its turns at the rows that a request names. It is done again if it has lost meanwhile,
// and takes them once more then. It has failed if that was in vain, or the client has cancelled it.
func (w *blocks) takeTurns(r *request) (failed bool, err error) {
	for try := 0; try < 2 && w.txn.Reason() == nil && w.txn.Open(); try++ {
		failure := w.carrying.turns.take(r)
		switch {
		case failure == nil:
			return false, nil
		case failure.Code != wire.CodeSerializationFailure:
			if err := w.tx.begun(); err != nil { // the cancel may meet it
				return true, err
			}
			return true, w.failTurn(failure)
		}
		w.txn.Condemn(failure)
		if err := w.tx.rollbackServer(); err != nil {
			return true, err
		}
		if err := w.retry.revive(); err != nil {
			return true, err
		}
		if !w.txn.Gone() {
			if err := w.planner.choose(r); err != nil { // what is known of its forms may have changed
				return true, err
			}
		}
	}
	return w.block.tellDoom(), nil
}

// failTurn tells the client why a statement has not had its turn, but if the transaction is gone.
func (w *blocks) failTurn(failure *wire.SQLError) error {
	if w.block.tellDoom() {
		return nil
	}
	return w.block.fail(failure)
}

// answered relays the answer to a request of a block, and does it again if the transaction loses meanwhile.
func (w *blocks) answered(r *request, rep *reply, before telling) (err error) {
	if *rep, err = w.relaying.relay(*r); err != nil {
		return err
	}
	if rep.interrupted {
		err = w.retry.resume(r, rep, before)
	} else {
		err = w.carrying.noteRun(r, rep)
	}
	if err == nil {
		w.retry.note(r, rep)
	}
	return err
}

// over reports whether there is no transaction any more for a request of the block. Then the client has been told so.
func (w *blocks) over(r *request) (bool, error) {
	if !r.prepares {
		if err := w.retry.revive(); err != nil {
			return true, err
		}
	}
	if w.block.tellDoom() {
		return true, nil
	}
	if w.txn.Failed() && !w.txn.Open() {
		return true, w.block.fail(inFailedTransaction())
	}
	return false, nil
}

// prepareAgain carries out a request that only prepares and was cancelled because the
// transaction lost.
func (w *blocks) prepareAgain(r request, rep *reply) (bool, error) {
	w.results.Drop()
	if err := w.tx.rollbackServer(); err != nil {
		return true, err
	}
	if err := w.backend.close(closeFirst(r, rep.parsed)); err != nil {
		return true, err
	}
	return w.prepareOutside(r, rep)
}

// prepareOutside carries out a request that only prepares, in a block whose transaction was
// rolled back under the client. Clients expect a conflict when they execute, not when they
// prepare (pgbench gives up), so they are told with the next statement.
func (w *blocks) prepareOutside(r request, rep *reply) (bool, error) {
	failedToo, err := w.plain.run(r, rep)
	if failedToo {
		w.txn.Absolve()
		w.txn.Fail()
	}
	return failedToo, err
}

// goOn puts a request off, or carries out what was put off if that must come first. done reports that it is answered:
// with rep, or else because the transaction has lost.
func (w *blocks) goOn(r *request, rep *reply) (done bool, err error) {
	age := w.forms.age
	pending := w.later.pending()
	off, err := w.defers(r, rep)
	stays := (pending || w.later.pending()) && !w.buffer.goesAlong(r)
	switch {
	case err != nil:
		return true, err
	case off:
		w.habits.reached(r)
		w.retry.note(r, rep)
		return true, nil
	case stays || w.txn.Gone():
		return w.catchUp(r, rep)
	case w.forms.age != age: // its direct forms are gone
		return false, w.planner.choose(r)
	}
	return false, nil
}

// catchUp carries out what was put off, because a request cannot go along with that, or does the transaction again that
// has lost by it. done is goOn's.
func (w *blocks) catchUp(r *request, rep *reply) (done bool, err error) {
	if !w.txn.Gone() {
		w.later.caught(r)
		if err := w.buffer.flushNow(); err != nil {
			return true, err
		}
	}
	w.putsOffNoMore()
	if r.prepares {
		if err := w.retry.revive(); err != nil || !w.txn.Gone() {
			return err != nil, err
		}
		failedToo, err := w.prepareOutside(*r, rep)
		if !failedToo {
			rep.status = wire.TxActive
		}
		return true, err
	}
	if w.txn.Gone() {
		if over, err := w.over(r); over || err != nil {
			return true, err
		}
	}
	return false, w.planner.choose(r)
}

// defers carries a request of a block out without the backend's transaction, in the best way that there is; false if it
// has not.
func (w *blocks) defers(r *request, rep *reply) (off bool, err error) {
	if r.prepares {
		return false, nil
	}
	p := plan.Plan{Kind: plan.Plain}
	for tried := plan.Kinds(0); !off && err == nil && !w.txn.Gone(); tried = tried.With(p.Kind) {
		switch p = plan.Choose(w.planner.factsOf(r), tried); p.Kind {
		case plan.Defer:
			off, err = w.buffer.deferWrite(r, rep)
		case plan.Delta:
			off, err = w.buffer.delta(r, rep)
		case plan.ReadThrough:
			off, err = w.buffer.readThrough(r, rep)
		default:
			w.planned(p)
			return false, nil
		}
	}
	if off {
		w.planned(p)
	}
	return off, err
}

// caughtUp is flushNow that does the transaction again if that must be.
func (w *blocks) caughtUp() error {
	if err := w.buffer.flushNow(); err != nil || !w.txn.Gone() {
		return err
	}
	w.putsOffNoMore()
	return w.retry.revive()
}

// putsOffNoMore comes before a transaction that has lost is done again because of what must find it carried out:
// nothing of it is put off again.
func (w *blocks) putsOffNoMore() {
	w.later.off = w.later.off || w.txn.Gone()
}

// foresees reports whether the collect step shall be sent with a request: the client waits for
// its answer and will probably commit then. Deferred constraints could write after it. It looks at data, so the
// transaction's one snapshot must have been taken. Not after LOCK TABLE: others may wait for it, and who looks in
// pg_stat_activity for whom they wait shall find the client's own statement. Nor after what is noted behind it.
func (w *blocks) foresees(r *request) bool {
	return (w.txn.HasSnapshot() || !w.levels.snapshot()) && w.txn.Active() && !w.txn.Implicit() && !w.locks.tables &&
		!r.way.chosen && w.habits.places[w.habits.now] && !r.does.copies && !r.does.settles && !r.does.defines &&
		len(r.does.notes) == 0 && len(r.frames) < pipelineBytesMax && !w.in.Buffered() && !w.mayDefer()
}

// finish ends the open transaction for a COMMIT, or for a Sync of an implicit one.
func (w *blocks) finish() (*wire.SQLError, error) {
	for try := 0; ; try++ {
		failure, retry, err := w.finishOnce()
		if failure == nil || !retry || err != nil || try == w.triesMax {
			return failure, err
		}
		w.txn.Condemn(failure)
		if err := w.retry.revive(); err != nil {
			return nil, err
		}
		if failure = w.txn.Reason(); failure != nil {
			w.txn.Absolve()
			return failure, nil
		}
	}
}

// finishOnce is finish of a transaction as it is; retry is settle's. A READ ONLY one is collected too: it may have
// become READ WRITE behind our back.
func (w *blocks) finishOnce() (failure *wire.SQLError, retry bool, err error) {
	if doom := w.host.Enter(PhaseRunning); doom != nil {
		return doom, true, w.tx.rollbackServer()
	}
	if err := w.tx.takeAhead(); err != nil {
		return nil, false, err
	}
	if len(w.later.unseen) > 0 {
		if over, failure, retry, err := w.buffer.commit(); over || err != nil {
			return failure, retry, err
		}
	}
	if !w.txn.Open() {
		failure := w.txn.Reason()
		w.txn.Absolve()
		return failure, true, nil
	}
	if len(w.later.adds) > 0 && !w.buffer.fits() {
		w.later.repeats()
		if err := w.buffer.flush(); err != nil {
			return nil, false, err
		}
		if !w.txn.Open() {
			failure := w.txn.Reason()
			w.txn.Absolve()
			return failure, true, nil
		}
	}
	c := w.tx.ahead.found
	if !w.tx.ahead.says(w.txn) {
		if err := w.tx.collect(&c, false); err != nil {
			return nil, false, err
		}
	}
	return w.tx.settle(c)
}
