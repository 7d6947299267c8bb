package session

import (
	"cmp"
	"errors"

	"github.com/tuttidb/tutti/internal/session/txn"
	"github.com/tuttidb/tutti/internal/wire"
)

// transaction is the backend's transaction: how it is opened, rolled back and committed.
type transaction struct {
	backend *backend
	steps   transactionSteps
	host    transactionHost

	txn        *txn.Machine
	levels     *levels
	collecting *collecting
	forms      *forms
	unnamed    *unnamed
	// what is of the transaction alone, and ends with it
	direct *direct
	schema *schema
	locks  *locks
	reads  *reads
	later  *later
	sight  *sight

	base  uint64 // ordinal that it has seen, see Submission
	ahead ahead
	stays bool // that it cannot be done again was said since it was opened
}

// transactionHost is what it needs of the node.
type transactionHost struct {
	Control
	Order
	Snapshots
	Deferred
	defers func() bool // see Definitions.Deferrable
}

// transactionSteps is what it needs of the collector.
type transactionSteps struct {
	Captures
	Steps
}

// undo rolls the backend back although the client did not ask for it; the client is told
// with its next statement. What the transaction wrote tells which key it lost.
func (t *transaction) undo(doom *wire.SQLError) error {
	if err := t.takeAhead(); err != nil {
		return err
	}
	if !t.txn.Open() {
		t.txn.Condemn(doom)
		return nil
	}
	c := t.collecting.appendCollect()
	if err := t.readCollect(&c); err != nil {
		return err
	}
	if c.ws != nil {
		if e := t.host.Explain(c.ws); e != nil {
			doom = e
		}
	}
	err := t.rollbackServer()
	t.txn.Condemn(doom)
	return err
}

// rollbackServer ends the backend's transaction, if there is one, without effects.
func (t *transaction) rollbackServer() error {
	if err := t.takeAhead(); err != nil || !t.txn.Open() {
		return err
	}
	for {
		t.backend.sendOwn(ownRollback)
		r, err := t.backend.quiet()
		if err == nil && r.status != wire.TxIdle && r.failed != nil && r.failed.Code == wire.CodeInvalidStatementName {
			t.backend.out.Append(wire.AppendQuery(nil, "ROLLBACK"))
			t.unnamed.owed = true
			r, err = t.backend.quiet()
		}
		if err != nil {
			return err
		}
		if r.status == wire.TxIdle {
			break
		}
		// A cancel meant for the statement before hit the ROLLBACK.
	}
	t.undone()
	return nil
}

// undone notes that the backend's transaction is gone.
func (t *transaction) undone() {
	t.txn.End()
	t.backend.prefix, t.ahead, *t.schema = 0, ahead{}, schema{}
	t.direct.end()
	t.later.end()
	if t.sight.within { // what it has told then may be gone with it
		t.sight.who, t.sight.asked, t.sight.within = "", false, false
	}
	t.host.Enter(PhaseIdle)
}

// readCollect reads its answer. A failure (a deferred constraint) has aborted the backend's
// transaction.
func (t *transaction) readCollect(c *collected) error {
	r, rows, err := t.backend.internal(true)
	if err != nil {
		return err
	}
	if r.failed != nil {
		if r.failed.Code == wire.CodeInvalidStatementName {
			return t.lostStatements(c)
		}
		c.failed = &wire.SQLError{ErrorFields: *r.failed}
		return nil
	}
	if t.collecting.returnedTooMuch(c) {
		return nil
	}
	return t.collecting.decode(c, rows, t.collecting.reread)
}

// lostStatements prepares the collect step again after something hidden (a function that
// ran DEALLOCATE ALL) removed it; the transaction is lost but may be repeated.
func (t *transaction) lostStatements(c *collected) error {
	c.failed = errForgotten(forgottenStatements)
	if err := t.rollbackServer(); err != nil {
		return err
	}
	t.backend.lost = true
	_, err := t.recover()
	return err
}

// settle orders a collected transaction and ends the backend's. It returns nil if the
// transaction is committed, else what to tell the client; retry says it may be run again.
func (t *transaction) settle(c collected) (failure *wire.SQLError, retry bool, err error) {
	if err := t.collecting.complete(&c); err != nil {
		return nil, false, err
	}
	if c.failed != nil {
		if doom := t.host.Enter(PhaseRunning); doom != nil {
			c.failed, retry = doom, true
		}
		return c.failed, retry, t.rollbackServer()
	}
	if c.ws == nil || c.ws.Empty() {
		return t.commitLocal()
	}
	sub, refused, retry, err := t.collecting.submission(&c, t.base)
	if err != nil {
		return nil, false, err
	}
	if refused != nil {
		t.host.SerialApart()
		return refused, retry, t.rollbackServer()
	}
	t.txn.Submit()
	d := submit(t.host, sub)
	if !d.Commit {
		err := t.rollbackServer()
		if err != nil && !d.Retry {
			t.backend.fatal = d.Err // not the backend's last words, which say that nothing was committed
		}
		return d.Err, d.Retry, err
	}
	t.txn.Decide()
	r, rows, err := t.commitServer(&c)
	ok := err == nil && r.failed == nil && r.tag == "COMMIT"
	if ok && len(c.adds) > 0 {
		order, err := c.added(rows)
		t.host.Added(c.seq, order, err)
	}
	t.host.Committed(c.seq, ok)
	// Committed has put the rows into the database if the backend could not (S2), and the log
	// has decided: the client is told so even if the backend broke, which shows at its next use.
	t.txn.End()
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
func (t *transaction) order(sub Submission, must bool) (Decision, bool) {
	t.txn.Order()
	defer t.txn.Ordered()
	return t.host.Blind(sub, must)
}

// commitServer commits what the log has decided, or what wrote nothing, with its mark.
func (t *transaction) commitServer(c *collected) (reply, [][][]byte, error) {
	marks := 0
	if !c.marked && c.ws != nil {
		marks = len(c.adds) + 1
		all := make([]postponed, len(c.adds))
		for i := range all {
			all[i] = c.adds[i].postponed
		}
		t.direct.appendPostponed(all)
		if planted == "direct-unmarked" {
			marks--
		} else {
			t.backend.out.Append(t.steps.AppendMark(t.backend.out.AvailableBuffer(), c.slot, c.incarnation, c.seq))
		}
	}
	t.backend.sendCommit(marks)
	t.unnamed.owed = true
	r, rows, err := t.backend.internal(len(c.adds) > 0)
	t.backend.skippable = 0
	if r.failed != nil && c.ws == nil { // the log has decided nothing, and a cancel may have been ours
		t.doomed()
	}
	if err == nil && r.failed != nil { // what was to remove the COMMIT has been skipped
		out := t.backend.out
		out.Append(wire.AppendSync(wire.AppendClose(out.AvailableBuffer(), 'S', t.backend.own(ownCommit))))
		_, err = t.backend.quiet()
	}
	if err == nil && r.status != wire.TxIdle {
		return r, nil, t.rollbackServer() // the mark failed; its rows come from the log
	}
	if err == nil {
		t.txn.End()
		t.host.Enter(PhaseIdle)
	}
	return r, rows, err
}

// commitLocal commits a transaction that wrote nothing replicated. A failure and retry are settle's.
func (t *transaction) commitLocal() (failure *wire.SQLError, retry bool, err error) {
	r, _, err := t.commitServer(&collected{marked: true})
	if err != nil || r.failed == nil {
		return nil, false, err
	}
	doom := t.txn.Reason()
	t.txn.Absolve()
	if planted == "local-commit-cancelled" {
		doom = nil
	}
	return cmp.Or(doom, failureOf(r)), doom != nil, nil
}

// doomed asks the node whether it has rolled this transaction back.
func (t *transaction) doomed() bool {
	if t.txn.Reason() == nil {
		t.txn.Condemn(t.host.Enter(PhaseRunning))
	}
	return t.txn.Reason() != nil
}

// recover makes the backend know our statements again after something hidden from us (a
// function that ran DEALLOCATE ALL) removed them: the BEGIN failed and what followed ran
// outside of any transaction, where it could read but not write. It reports whether that
// happened.
func (t *transaction) recover() (bool, error) {
	if !t.backend.lost {
		return false, nil
	}
	t.backend.lost, t.ahead = false, ahead{}
	t.txn.End()
	t.forms.forget()
	t.later.end()
	t.host.Enter(PhaseIdle)
	t.backend.prepare()
	_, err := t.backend.quiet()
	return true, err
}

// errForgotten is told when a transaction is lost for a reason that will not come again.
func errForgotten(why string) *wire.SQLError {
	return wire.Errorf(wire.CodeSerializationFailure, "%s", why).WithHint("Retry the transaction.")
}

// forgottenStatements is why a transaction is lost whose session had to prepare its statements again.
const forgottenStatements = "a function removed the session's prepared statements"

// collect finds out what the transaction has written. asked says that the collect step is sent.
func (t *transaction) collect(c *collected, asked bool) (err error) {
	if !asked {
		if t.alone() {
			*c, err = t.collecting.takeDirect()
			t.later.takeAdds(c)
			return err
		}
		*c = t.collecting.appendCollect()
	}
	if err := t.readCollect(c); err != nil || !c.unfollowed {
		return err
	}
	if c.failed, err = t.follow(); err != nil || c.failed != nil {
		c.again = c.failed != nil && racing(c.failed.Code)
		return err
	}
	*c = t.collecting.appendCollect()
	if err := t.readCollect(c); err != nil || !c.unfollowed {
		return err
	}
	return errors.New("session: definitions were noted and not followed up")
}

// forsake ends a transaction in which something of the session's own has failed. The client is told with its next
// statement.
func (t *transaction) forsake(why *wire.SQLError) error {
	doom := t.host.Enter(PhaseRunning)
	if doom == nil {
		doom = why
	}
	err := t.rollbackServer()
	t.txn.Condemn(doom)
	return err
}

// alone reports whether the direct statements' rows are all there is to collect, and nothing is
// deferred: they defer nothing themselves.
func (t *transaction) alone() bool {
	return t.txn.Open() && t.direct.clean && (t.direct.pure || !t.host.defers())
}

// reopen lets a transaction write again that was collected ahead of another statement, see adjust.
func (t *transaction) reopen() {
	if !t.txn.Collected() {
		return
	}
	t.txn.Reopen()
	t.direct.reopened()
	t.ahead = ahead{}
}
