package session

import (
	"fmt"

	"github.com/tuttidb/tutti/internal/semantics"
	"github.com/tuttidb/tutti/internal/wire"
)

// ensureOpen appends the BEGIN of the backend's transaction if there is none (S1), and,
// when snapshot says that the next statement will look at data, takes the transaction's one
// snapshot between two groups.
func (s *Session) ensureOpen(snapshot bool) error {
	before := s.txn.Open()
	defers, err := s.open(snapshot)
	if err != nil || !s.txn.Open() {
		return err
	}
	s.txn.Touch()
	if !snapshot || s.txn.HasSnapshot() || !s.levels.snapshot() {
		return nil
	}
	if err := s.begun(); err != nil || !s.txn.Open() {
		return err
	}
	doom, err := s.prompt(before && !defers)
	if err != nil {
		return err
	}
	if doom == nil {
		doom = s.host.Enter(PhaseRunning) // the client may cancel what follows
	}
	if doom == nil && s.levels.serializable() {
		doom = s.host.SerialBegin()
	}
	if doom == nil && defers {
		return s.safeSnapshot()
	}
	if doom != nil {
		return s.undo(doom)
	}
	return s.takeSnapshot(before)
}

// open tells the backend to begin, or begins a transaction again that was opened early for another one than it is by
// now. It reports whether the transaction's snapshot is to be a safe one.
func (s *Session) open(snapshot bool) (defers bool, err error) {
	switch {
	case !s.txn.Open():
		s.direct.begin() // what was put off before there was a transaction stays so
		if err := s.levels.refresh(); err != nil {
			return false, err
		}
		m := s.levels.begins(snapshot)
		s.backend.sendBegin(m, s.direct.setting())
		s.txn.Opens()
		s.backend.prefix = beginStatements
		s.base = s.host.Base()
		s.locks.end()
		s.reads.begin()
		return m.Isolation == semantics.Serializable && m.Deferrable == deferrable, nil
	case s.txn.Untouched():
		s.base = s.host.Base()
		defers = snapshot && s.levels.serializable() && s.levels.modes.Deferrable == deferrable
		if defers { // it was not said when it was opened early
			err = s.beginAgain()
		}
	}
	return defers, err
}

// takeSnapshot takes the transaction's one snapshot. Before says that it was open before this statement.
func (s *Session) takeSnapshot(before bool) error {
	base, doom := s.host.EnterSnapshot()
	if doom != nil {
		return s.undo(doom)
	}
	s.base = base
	s.backend.sendOwn(ownSnapshot)
	r, rows, err := s.backend.internal(true)
	s.host.LeaveSnapshot()
	s.txn.TakeSnapshot()
	if len(rows) == 1 && s.levels.modes.Isolation == semantics.Unsaid &&
		semantics.ParseIsolation(string(rows[0][0])) != s.levels.level {
		return s.otherLevel(before)
	}
	switch {
	case err != nil || r.failed == nil:
		return err
	case r.failed.Code != wire.CodeQueryCanceled:
		return fmt.Errorf("session: the backend refused to take a snapshot: %s", r.failed.Message)
	}
	if doom = s.host.Enter(PhaseRunning); doom == nil {
		doom = failureOf(r)
	}
	return s.undo(doom)
}

// otherLevel begins a transaction again whose level is another one by now: a function has set
// default_transaction_isolation. If it has done something, it is lost.
func (s *Session) otherLevel(begun bool) error {
	s.levels.stale = true
	if begun {
		return s.undo(errOtherLevel())
	}
	if err := s.rollbackServer(); err != nil {
		return err
	}
	return s.ensureOpen(true)
}

// errOtherLevel is told when a transaction has begun at another level than the session knew of.
func errOtherLevel() *wire.SQLError {
	return errForgotten("a function has changed default_transaction_isolation")
}

// reset forgets the transaction on both sides; the backend must be idle.
func (s *Session) reset() {
	s.txn.Reset()
	s.backend.prefix = 0
	s.ahead, s.habits.now, s.schema = ahead{}, place{}, schema{}
	s.direct.end()
	s.redo.end()
	s.later.forget()
	s.later.off, s.later.next = s.later.next, false
	s.locks.end()
	s.levels.modes, s.sight.within = semantics.Modes{}, false
	clear(s.portals)
}

// undo rolls the backend back although the client did not ask for it; the client is told
// with its next statement. What the transaction wrote tells which key it lost.
func (s *Session) undo(doom *wire.SQLError) error {
	if err := s.takeAhead(); err != nil {
		return err
	}
	if !s.txn.Open() {
		s.txn.Condemn(doom)
		return nil
	}
	c := s.collecting.appendCollect()
	if err := s.readCollect(&c); err != nil {
		return err
	}
	if c.ws != nil {
		if e := s.host.Explain(c.ws); e != nil {
			doom = e
		}
	}
	err := s.rollbackServer()
	s.txn.Condemn(doom)
	return err
}

// rollbackServer ends the backend's transaction, if there is one, without effects.
func (s *Session) rollbackServer() error {
	if err := s.takeAhead(); err != nil || !s.txn.Open() {
		return err
	}
	for {
		s.backend.sendOwn(ownRollback)
		r, err := s.backend.quiet()
		if err == nil && r.status != wire.TxIdle && r.failed != nil && r.failed.Code == wire.CodeInvalidStatementName {
			s.srvW.Append(wire.AppendQuery(nil, "ROLLBACK"))
			s.direct.unnamed.owed = true
			r, err = s.backend.quiet()
		}
		if err != nil {
			return err
		}
		if r.status == wire.TxIdle {
			break
		}
		// A cancel meant for the statement before hit the ROLLBACK.
	}
	s.undone()
	return nil
}

// undone notes that the backend's transaction is gone.
func (s *Session) undone() {
	s.txn.End()
	s.backend.prefix, s.ahead, s.schema = 0, ahead{}, schema{}
	s.direct.end()
	s.later.end()
	if s.sight.within { // what it has told then may be gone with it
		s.sight.who, s.sight.asked, s.sight.within = "", false, false
	}
	s.host.Enter(PhaseIdle)
}

// tellDoom answers a statement of a transaction that was rolled back under the client.
func (s *Session) tellDoom() bool {
	if s.txn.Reason() == nil || s.txn.Open() {
		return false
	}
	s.out.Append(s.txn.Reason().Append(nil))
	s.txn.Absolve()
	s.failBlock()
	return true
}

// readCollect reads its answer. A failure (a deferred constraint) has aborted the backend's
// transaction.
func (s *Session) readCollect(c *collected) error {
	r, rows, err := s.backend.internal(true)
	if err != nil {
		return err
	}
	if r.failed != nil {
		if r.failed.Code == wire.CodeInvalidStatementName {
			return s.lostStatements(c)
		}
		c.failed = &wire.SQLError{ErrorFields: *r.failed}
		return nil
	}
	if s.collecting.returnedTooMuch(c) {
		return nil
	}
	return s.collecting.decode(c, rows, s.collecting.reread)
}

// lostStatements prepares the collect step again after something hidden (a function that
// ran DEALLOCATE ALL) removed it; the transaction is lost but may be repeated.
func (s *Session) lostStatements(c *collected) error {
	c.failed = errForgotten(forgottenStatements)
	if err := s.rollbackServer(); err != nil {
		return err
	}
	s.backend.lost = true
	_, err := s.recover()
	return err
}

// settle orders a collected transaction and ends the backend's. It returns nil if the
// transaction is committed, else what to tell the client; retry says it may be run again.
func (s *Session) settle(c collected) (failure *wire.SQLError, retry bool, err error) {
	if err := s.collecting.complete(&c); err != nil {
		return nil, false, err
	}
	if c.failed != nil {
		if doom := s.host.Enter(PhaseRunning); doom != nil {
			c.failed, retry = doom, true
		}
		return c.failed, retry, s.rollbackServer()
	}
	if c.ws == nil || c.ws.Empty() {
		return s.commitLocal()
	}
	sub, refused, retry, err := s.collecting.submission(&c, s.base)
	if err != nil {
		return nil, false, err
	}
	if refused != nil {
		s.host.SerialApart()
		return refused, retry, s.rollbackServer()
	}
	s.txn.Submit()
	d := submit(s.host, sub)
	if !d.Commit {
		err := s.rollbackServer()
		if err != nil && !d.Retry {
			s.backend.fatal = d.Err // not the backend's last words, which say that nothing was committed
		}
		return d.Err, d.Retry, err
	}
	s.txn.Decide()
	r, rows, err := s.commitServer(&c)
	ok := err == nil && r.failed == nil && r.tag == "COMMIT"
	if ok && len(c.adds) > 0 {
		order, err := c.added(rows)
		s.host.Added(c.seq, order, err)
	}
	s.host.Committed(c.seq, ok)
	// Committed has put the rows into the database if the backend could not (S2), and the log
	// has decided: the client is told so even if the backend broke, which shows at its next use.
	s.txn.End()
	return nil, false, nil
}

// submit has the log decide on what the backend has done.
func submit(o Order, sub Submission) Decision {
	d := o.Submit(sub)
	if planted == "committed-whatever" && !d.Commit {
		return Decision{}
	}
	return d
}

// order has the log decide on what was put off, in which the backend has no part; see Deferred.Blind.
func (s *Session) order(sub Submission, must bool) (Decision, bool) {
	s.txn.Order()
	defer s.txn.Ordered()
	return s.host.Blind(sub, must)
}

// commitServer commits what the log has decided, or what wrote nothing, with its mark.
func (s *Session) commitServer(c *collected) (reply, [][][]byte, error) {
	marks := 0
	if !c.marked && c.ws != nil {
		marks = len(c.adds) + 1
		all := make([]postponed, len(c.adds))
		for i := range all {
			all[i] = c.adds[i].postponed
		}
		s.appendPostponed(all)
		if planted == "direct-unmarked" {
			marks--
		} else {
			s.srvW.Append(s.o.Collector.AppendMark(s.srvW.AvailableBuffer(), c.slot, c.incarnation, c.seq))
		}
	}
	s.backend.sendCommit(marks)
	s.direct.unnamed.owed = true
	r, rows, err := s.backend.internal(len(c.adds) > 0)
	s.backend.skippable = 0
	if err == nil && r.failed != nil { // what was to remove the COMMIT has been skipped
		s.srvW.Append(wire.AppendSync(wire.AppendClose(s.srvW.AvailableBuffer(), 'S', s.backend.own(ownCommit))))
		_, err = s.backend.quiet()
	}
	if err == nil && r.status != wire.TxIdle {
		return r, nil, s.rollbackServer() // the mark failed; its rows come from the log
	}
	if err == nil {
		s.txn.End()
		s.host.Enter(PhaseIdle)
	}
	return r, rows, err
}

// commitLocal commits a transaction that wrote nothing replicated.
func (s *Session) commitLocal() (*wire.SQLError, bool, error) {
	r, _, err := s.commitServer(&collected{marked: true})
	if err == nil && r.failed != nil {
		return &wire.SQLError{ErrorFields: *r.failed}, false, nil
	}
	return nil, false, err
}

// finish ends the open transaction for a COMMIT, or for a Sync of an implicit one.
func (s *Session) finish() (*wire.SQLError, error) {
	for try := 0; ; try++ {
		failure, retry, err := s.finishOnce()
		if failure == nil || !retry || err != nil || try == s.o.RetriesMax {
			return failure, err
		}
		s.txn.Condemn(failure)
		if err := s.revive(); err != nil {
			return nil, err
		}
		if failure = s.txn.Reason(); failure != nil {
			s.txn.Absolve()
			return failure, nil
		}
	}
}

// finishOnce is finish of a transaction as it is; retry is settle's. A READ ONLY one is collected too: it may have
// become READ WRITE behind our back.
func (s *Session) finishOnce() (failure *wire.SQLError, retry bool, err error) {
	if doom := s.host.Enter(PhaseRunning); doom != nil {
		return doom, true, s.rollbackServer()
	}
	if err := s.takeAhead(); err != nil {
		return nil, false, err
	}
	if len(s.later.unseen) > 0 {
		if over, failure, retry, err := s.commitUnseen(); over || err != nil {
			return failure, retry, err
		}
	}
	if !s.txn.Open() {
		failure := s.txn.Reason()
		s.txn.Absolve()
		return failure, true, nil
	}
	if len(s.later.adds) > 0 && !s.fits() {
		s.later.repeats()
		if err := s.catchUp(); err != nil {
			return nil, false, err
		}
		if !s.txn.Open() {
			failure := s.txn.Reason()
			s.txn.Absolve()
			return failure, true, nil
		}
	}
	c := s.ahead.found
	if !s.ahead.says(&s.txn) {
		if err := s.collect(&c, false); err != nil {
			return nil, false, err
		}
	}
	return s.settle(c)
}
