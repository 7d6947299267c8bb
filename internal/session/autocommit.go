package session

import (
	"github.com/tuttidb/tutti/internal/semantics"
	"github.com/tuttidb/tutti/internal/session/plan"
	"github.com/tuttidb/tutti/internal/session/proto"
	"github.com/tuttidb/tutti/internal/wire"
)

// request is something for the backend to do that ends with one ReadyForQuery.
type request struct {
	frames   []byte   // ends with a Query, a FunctionCall, a Sync or a Flush
	sql      []string // texts, to remember which of them turned out to write
	parses   []string // names of the statements it parses, in order
	runsCode bool     // some statement may run code of somebody's
	write    bool     // some statement needs a Tutti transaction
	local    bool     // some statement must run outside transactions
	copies   bool     // it may start a COPY FROM STDIN
	settles  bool     // the session has more to do after it, see learn
	settings bool     // nothing in it looks at data
	extended bool
	prepares bool      // it only parses, describes and closes
	defines  bool      // it changes the schema, as far as its text tells, or is noted
	yields   int       // when it has lost so often, it is done in another way, see first; zero: never
	outlives outliving // what of it outlives a rollback
	messages int       // of an extended one

	marked bool                   // some text of it begins with the mark of statements that are captured as a whole
	shifts []int32                // for each message, characters that its text has less than the client's; nil for none
	tables []*semantics.TableLock // that it locks

	calls   string // the procedure it calls, without its schema
	commits bool   // it is a DO that may commit

	notes     []string    // texts for the other members, see note
	describes []*prepared // statements it describes that may be noted, in order; nil for others

	listens  bool     // it may change what the session listens to
	channels []string // it adds to that

	added  int                   // statements
	reads  int                   // of these, that write nothing as far as their text tells
	locks  []*semantics.RowLocks // how its messages, or its one statement, are followed; nil if none is
	direct *directRun            // how it may be run directly; nil if it cannot
	glance *glancePart           // while it is carried out: that it may be a glance

	apart    bool  // it is more than rows read and written, or not complete in itself, see redo
	closes   bool  // it closes a prepared statement
	runs     []Run // what its statements read of tables, see reading
	followed bool  // that is known of one of them
	opaque   bool  // and not of another
	chosen   bool  // it is run directly
	resumes  bool  // if the transaction loses while it runs, it is not told so, see resume
}

// harmless reports whether the request writes nothing, as far as its text tells.
func (r *request) harmless() bool { return r.added > 0 && r.added == r.reads }

// yieldsAt reports whether the request is done in another way if it loses this try, counted from zero.
func (r *request) yieldsAt(try int) bool { return r.yields > 0 && try+1 >= r.yields }

// send gives the backend a request of a transaction.
func (s *Session) send(r *request) {
	s.reads.note(r)
	s.locks.tell(r)
	if r.chosen {
		s.backend.out.Append(r.direct.frames)
		return
	}
	s.unnamed.sent(r)
	s.backend.out.Append(r.frames)
}

// run is how it is run directly; nil if it is not.
func (r *request) run() *directRun {
	if r.chosen {
		return r.direct
	}
	return nil
}

// flushes reports whether the frames end with a Flush, see relay.
func (r *request) flushes() bool { return r.extended && r.copies }

// add notes what one statement of the request needs.
func (r *request) add(st semantics.Statement) {
	r.added++
	if st.Kind == semantics.Read && !st.Later || st.Kind == semantics.Local {
		r.reads++
	}
	r.runsCode = r.runsCode || runsCode(st)
	r.write = r.write || st.NeedsTransaction()
	r.local = r.local || st.Kind == semantics.Local
	r.outlives |= outlivesIf(st.Sticky, effects)
	r.apart = r.apart || st.Kind != semantics.Read && st.Kind != semantics.Write || st.Later || st.Executes != "" ||
		st.Locks != nil
	r.settles = r.settles || st.Forgets || st.Scope != semantics.NoScope
	r.listens = r.listens || st.Listens
	if st.LocksTables != nil {
		r.tables = append(r.tables, st.LocksTables)
	}
	r.calls, r.commits = st.Calls, st.Commits
	if st.Channel != "" {
		r.channels = append(r.channels, st.Channel)
	}
	r.copies = r.copies || st.Kind == semantics.Copy || st.Kind == semantics.Unknown
}

// execute runs a request in whatever block the session is in and passes the results on.
// It reports whether the request failed, and in rep how far it came.
func (s *Session) execute(r request, rep *reply) (failedToo bool, err error) {
	if e := s.ears.may(r.channels); e != nil {
		return true, s.block.fail(e)
	}
	s.ears.stale = s.ears.stale || r.listens
	s.results.Begin(r.yields == 0)
	if r.direct != nil && !s.txn.Failed() {
		s.forms.renew()
		if done, err := s.planner.foreknow(&r); done || err != nil {
			return true, err
		}
	}
	s.texts.noteOutside(&r)
	if !s.planner.keepsSight(&r) {
		s.sight.who, s.sight.odd, s.sight.asked = "", true, false
	}
	if s.txn.Idle() {
		if err := s.levels.refresh(); err != nil {
			return true, err
		}
		r.write = r.write || s.texts.guarded(&r) && r.asksAccess()
		if r.write {
			if done, err := s.blindly(&r, rep, 0); done || err != nil {
				return rep.failed != nil, err
			}
		}
		if inside, err := s.procedures.commitsInside(&r); err != nil {
			return true, err
		} else if inside {
			return s.procedures.call(r, rep)
		}
		if r.write || s.levels.level >= semantics.RepeatableRead && !r.local && !r.settings {
			return s.autocommit(r, rep)
		}
		return s.plain(r, rep)
	}
	return s.inBlock(r, rep)
}

// inBlock is execute inside a block.
func (s *Session) inBlock(r request, rep *reply) (failedToo bool, err error) {
	if err := s.tx.takeAhead(); err != nil {
		return true, err
	}
	if r.prepares && s.txn.Reason() != nil && !s.txn.Open() {
		return s.prepareOutside(r, rep)
	}
	if over, err := s.over(&r); over || err != nil {
		return true, err
	}
	if !s.txn.Failed() {
		if err := s.planner.choose(&r); err != nil {
			return true, err
		}
		if done, err := s.goOn(&r, rep); done || err != nil {
			return rep.status != wire.TxActive, err
		}
		if done, failedToo, err := s.openFor(&r, rep); done || err != nil {
			return failedToo, err
		}
	}
	if r.prepares {
		s.results.Hold(false)
	}
	r.resumes = s.retry.redoable(&r)
	before := s.retry.telling()
	s.writes(&r)
	s.buffer.runs(&r)
	s.send(&r)
	if !r.prepares {
		s.habits.reached(&r)
		if s.foresees(&r) {
			s.tx.collectAhead()
		}
	}
	began := s.host.Clock()
	if err := s.answered(&r, rep, before); err != nil {
		return true, err
	}
	s.later.spent += s.host.Clock() - began
	if r.prepares {
		if rep.failed != nil && s.txn.Reason() != nil {
			return s.prepareAgain(r, rep)
		}
		s.results.Release()
	}
	if forgot, err := s.tx.recover(); forgot || err != nil {
		s.txn.Condemn(errForgotten(forgottenStatements)) // told now, or with the next statement
		if rep.failed != nil {
			s.txn.Absolve()
			s.tx.failBlock()
		}
		return rep.failed != nil, err
	}
	return rep.failed != nil, s.block.afterBlock(*rep)
}

// openFor opens the backend's transaction for a request of the block, if it is not. done reports that the request is
// answered.
func (s *Session) openFor(r *request, rep *reply) (done, failedToo bool, err error) {
	if r.prepares && s.later.pending() && !s.txn.Open() {
		failedToo, err := s.prepareOutside(*r, rep)
		s.retry.note(r, rep)
		return true, failedToo, err
	}
	if err := s.tx.ensureOpen(!r.settings); err != nil {
		return true, true, err
	}
	if !r.prepares {
		s.tx.reopen()
		s.direct.adjust()
	}
	if ok, err := s.settled(r); !ok || err != nil {
		return true, true, err
	}
	if r.flushes() {
		if err := s.tx.begun(); err != nil {
			return true, true, err
		}
	}
	if r.prepares && s.txn.Reason() != nil && !s.txn.Open() {
		failedToo, err := s.prepareOutside(*r, rep)
		return true, failedToo, err
	}
	return s.block.tellDoom(), true, nil
}

// answered relays the answer to a request of a block, and does it again if the transaction loses meanwhile.
func (s *Session) answered(r *request, rep *reply, before telling) (err error) {
	if *rep, err = s.relaying.relay(*r); err != nil {
		return err
	}
	if rep.interrupted {
		err = s.retry.resume(r, rep, before)
	} else {
		err = s.noteRun(r, rep)
	}
	if err == nil {
		s.retry.note(r, rep)
	}
	return err
}

// over reports whether there is no transaction any more for a request of the block. Then the client has been told so.
func (s *Session) over(r *request) (bool, error) {
	if !r.prepares {
		if err := s.retry.revive(); err != nil {
			return true, err
		}
	}
	if s.block.tellDoom() {
		return true, nil
	}
	if s.txn.Failed() && !s.txn.Open() {
		return true, s.block.fail(inFailedTransaction())
	}
	return false, nil
}

// noteRun notes what a request that was carried out means for the transaction.
func (s *Session) noteRun(r *request, rep *reply) error {
	s.buffer.noteDirect(r)
	s.locks.tables = s.locks.tables || len(r.tables) > 0
	if rep.failed != nil || s.backend.lost {
		s.reads.anyway = true // what made it fail was read, too
		if r.defines || len(r.tables) > 0 {
			s.host.GiveBack() // it may not even have had the right to do that
		}
		return nil
	}
	return s.note(r.notes, true)
}

// prepareAgain carries out a request that only prepares and was cancelled because the
// transaction lost.
func (s *Session) prepareAgain(r request, rep *reply) (bool, error) {
	s.results.Drop()
	if err := s.tx.rollbackServer(); err != nil {
		return true, err
	}
	if closes := closeFirst(r, rep.parsed); closes != nil {
		s.backend.out.Append(closes)
		if _, err := s.backend.quiet(); err != nil {
			return true, err
		}
	}
	return s.prepareOutside(r, rep)
}

// prepareOutside carries out a request that only prepares, in a block whose transaction was
// rolled back under the client. Clients expect a conflict when they execute, not when they
// prepare (pgbench gives up), so they are told with the next statement.
func (s *Session) prepareOutside(r request, rep *reply) (bool, error) {
	failedToo, err := s.plain(r, rep)
	if failedToo {
		s.txn.Absolve()
		s.tx.failBlock()
	}
	return failedToo, err
}

// lateCancels is how often a request is repeated that a cancel of ours has hit late.
const lateCancels = 5

// plain runs a request that only reads, outside any transaction of ours. If it turns out
// to write, capture has refused it (TT001), or PostgreSQL, nothing happened, and it is run as a write.
func (s *Session) plain(r request, rep *reply) (_ bool, err error) {
	guarded := s.texts.guarded(&r)
	s.o.Planned(plan.Plan{Kind: plan.Plain})
	for try := 0; ; try++ {
		if guarded {
			s.backend.guard()
		}
		s.unnamed.sent(&r)
		s.backend.out.Append(r.frames)
		s.results.Hold(false)
		s.advisory.attempt()
		s.relaying.moved = false
		if *rep, err = s.relaying.relay(r); err != nil {
			return true, err
		}
		forgot, err := s.tx.recover()
		if err != nil {
			return true, err
		}
		late := r.repeatsLate(forgot, s.txn.Reason() != nil && rep.failed != nil &&
			rep.failed.Code == wire.CodeQueryCanceled && !s.host.Cancelled())
		if !late || s.results.Spilled() || try == lateCancels {
			break
		}
		s.results.Drop() // the cancel was meant for the transaction that was rolled back under the client
		if closes := closeFirst(r, rep.parsed); closes != nil {
			s.backend.out.Append(closes)
			if _, err := s.backend.quiet(); err != nil {
				return true, err
			}
		}
	}
	s.txn.Alone()
	// from a transaction it can be repeated as often as it takes
	if rep.failed != nil && s.relaying.moved && !s.results.Spilled() && !r.local {
		if again, err := s.advisory.giveBack(); err != nil {
			return true, err
		} else if again {
			s.results.Drop()
			return s.autocommit(r, rep)
		}
	}
	if refusedWrite(rep, guarded) {
		for _, sql := range r.sql {
			s.texts.cache.writes(sql)
		}
		if again, err := s.advisory.giveBack(); err != nil {
			return true, err
		} else if again && !s.results.Spilled() {
			s.results.Drop()
			return s.autocommit(r, rep)
		}
		s.results.Drop()
		s.out.Append(wire.Errorf(wire.CodeFeatureNotSupported, "a query wrote to a table after it had returned rows").
			WithHint("Run it again; it is now known to write.").Append(nil))
		return true, nil
	}
	s.results.Release()
	return rep.failed != nil, nil
}

// outcome is how an attempt ended. Its results are still held.
type outcome struct {
	failed  bool
	failure *wire.SQLError // to be told after the results; nil if they hold the error
	retry   bool           // certainly not committed, and another try may succeed
}

// autocommit runs a request as a transaction of its own, and again if it lost and the
// client has seen nothing yet (S3). rep comes with what the backend has carried out of it
// already.
func (s *Session) autocommit(r request, rep *reply) (bool, error) {
	parsed := rep.parsed
	for try := 0; ; try++ {
		if try > 0 {
			if done, err := s.blindly(&r, rep, try); done || err != nil {
				return rep.failed != nil, err
			}
		}
		o, err := s.attempt(r, closeFirst(r, parsed), rep)
		if err != nil {
			return true, err
		}
		parsed = max(parsed, rep.parsed)
		again := o.retry && !s.results.Spilled() && r.repeats(try, s.o.RetriesMax)
		if again {
			if again, err = s.advisory.giveBack(); err != nil {
				return true, err
			}
		}
		if again && r.yieldsAt(try) {
			rep.yielded = true
			s.results.Drop()
			s.block.reset()
			return true, nil
		}
		if again {
			dropLost(&s.results)
			s.block.reset()
			continue
		}
		if o.failure != nil && !r.extended {
			s.results.Uncommitted()
		}
		s.results.Release()
		s.block.reset()
		if o.failure != nil {
			return true, s.block.fail(o.failure)
		}
		return o.failed, nil
	}
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

// attempt runs a request once inside its own transaction.
func (s *Session) attempt(r request, closes []byte, rep *reply) (o outcome, err error) {
	if err := s.relaying.anew(&r, closes); err != nil {
		return o, err
	}
	if err := s.planner.choose(&r); err != nil {
		return o, err
	}
	s.o.Planned(plan.Instead(plan.Blind, s.planner.factsOf(&r)))
	if err := s.tx.ensureOpen(true); err != nil {
		return o, err
	}
	if r.flushes() {
		if err := s.tx.begun(); err != nil {
			return o, err
		}
	}
	if doom := s.txn.Reason(); doom != nil && !s.txn.Open() {
		s.txn.Absolve()
		return outcome{failed: true, failure: doom, retry: doom.Code == wire.CodeSerializationFailure}, nil
	}
	s.direct.adjust()
	s.writes(&r)
	s.send(&r)
	pipelined := !r.copies && !r.chosen && len(r.notes) == 0 && len(r.frames) < pipelineBytesMax
	var c collected
	if pipelined {
		c = s.collecting.appendCollect()
	}
	if *rep, err = s.relaying.relay(r); err != nil {
		return o, err
	}
	lost := s.backend.lost
	if err := s.noteRun(&r, rep); err != nil {
		return o, err
	}
	if doom := s.txn.Reason(); doom != nil && !s.txn.Open() && len(r.notes) > 0 { // see note
		s.txn.Absolve()
		return outcome{failed: true, failure: doom, retry: doom.Code == wire.CodeSerializationFailure}, nil
	}
	if r.chosen && s.txn.Reason() != nil && rep.failed == nil && !lost {
		return outcome{failed: true, failure: s.txn.Reason(),
			retry: s.txn.Reason().Code == wire.CodeSerializationFailure}, s.tx.rollbackServer()
	}
	if pipelined || rep.failed == nil && !lost {
		if err = s.tx.collect(&c, pipelined); err != nil {
			return o, err
		}
	}
	if s.results.Changed() && !lost {
		return outcome{failed: true, failure: errAnnounced()}, s.tx.rollbackServer()
	}
	if lost {
		_, err = s.tx.recover()
		return outcome{failed: true, failure: errForgotten(forgottenStatements), retry: true}, err
	}
	if rep.failed != nil {
		// The backend's answer is held, with our doom in place of a cancel of ours.
		retry := s.tx.doomed() || rep.failed.Code == wire.CodeSerializationFailure
		return outcome{failed: true, retry: retry}, s.tx.rollbackServer()
	}
	o.failure, o.retry, err = s.tx.settle(c)
	o.retry = o.retry || o.failure != nil && c.again
	if o.failed = o.failure != nil; r.chosen && !o.failed {
		if s.sight.odd = false; s.direct.who != "" && !s.direct.clean {
			s.sight.who = ""
		}
		s.buffer.sees()
	}
	return o, err
}

// pipelineBytesMax bounds what is sent together with the collect step (S5).
const pipelineBytesMax = 32 << 10

// errAnnounced is told when a statement's results are not those that were announced, because a definition
// came between two runs.
func errAnnounced() *wire.SQLError {
	return errForgotten("the results of the statement were changed by a definition")
}
