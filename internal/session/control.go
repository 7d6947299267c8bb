package session

import (
	"strings"

	"github.com/tuttidb/tutti/internal/semantics"
	"github.com/tuttidb/tutti/internal/session/txn"
	"github.com/tuttidb/tutti/internal/wire"
)

// controls carries out the statements that are not the backend's: transaction commands, SHOW tutti.*, refusals, and
// what removes one of these that was prepared. It passes definitions on.
type controls struct {
	backend *backend
	out     *wire.Writer // to the client
	status  Status

	txn         *txn.Machine
	tx          *transaction
	block       *block
	levels      *levels
	sight       *sight
	listener    *listener
	named       *named
	retry       *retrying
	staying     *staying
	later       *later
	blocks      *blocks
	buffer      *buffer
	executing   *executing
	definitions *definitions
}

// run carries one of them out. Its answer has no ReadyForQuery.
func (c *controls) run(st semantics.Statement) (failedToo bool, err error) {
	if err := c.settle(st); err != nil {
		return true, err
	}
	if over, err := c.over(st); over || err != nil {
		return true, err
	}
	if ok, err := c.stays(st); !ok || err != nil {
		return true, err
	}
	if refused, err := c.executing.refused(&st, st.Text); refused || err != nil {
		return true, err
	}
	if st.Deallocates != "" {
		c.block.tag("DEALLOCATE")
		return false, nil
	}
	switch st.Kind {
	case semantics.Begin:
		return c.begin(st)
	case semantics.Commit:
		return c.commit(st)
	case semantics.Rollback:
		return c.rollback(st)
	case semantics.Definition:
		return c.definitions.run(st)
	case semantics.Tutti:
		return c.show(st, true)
	case semantics.Refused:
		return c.refused(st)
	}
	return c.setTransaction(st)
}

// settle comes before a statement. COMMIT ends a transaction that has lost as it is done again. What is no transaction
// command finds carried out what was put off; it may change who the session is, and cannot be done again.
func (c *controls) settle(st semantics.Statement) error {
	switch st.Kind {
	case semantics.Begin:
		if c.txn.Idle() || st.Modes == (semantics.Modes{}) {
			return nil
		}
	case semantics.Rollback:
		return nil
	case semantics.Commit:
		return c.retry.revive()
	}
	c.sight.lose()
	return c.blocks.caughtUp()
}

// stays comes before a statement with which its block cannot be done again. False: the block is lost.
func (c *controls) stays(st semantics.Statement) (ok bool, err error) {
	switch st.Kind {
	case semantics.Begin:
		c.retry.off = c.retry.off || !c.txn.Idle() && st.Modes != (semantics.Modes{})
		return true, nil
	case semantics.Commit, semantics.Rollback:
		return true, nil
	case semantics.Definition:
		if c.staying.from(&request{does: doing{defines: true}}) {
			if ok, err := c.staying.before(); !ok || err != nil {
				return false, err
			}
		}
	}
	c.retry.off = c.retry.off || !c.txn.Idle()
	return true, nil
}

// over reports whether there is no transaction any more for a statement. Then the client has been told so.
func (c *controls) over(st semantics.Statement) (bool, error) {
	if st.Kind != semantics.Rollback && c.block.tellDoom() {
		if st.Kind == semantics.Commit {
			c.block.reset()
		}
		return true, nil
	}
	if c.txn.Failed() && !st.Ends() {
		return true, c.block.fail(inFailedTransaction())
	}
	return false, nil
}

// show is SHOW tutti.*; describe says whether the client is yet to be told of its columns.
func (c *controls) show(st semantics.Statement, describe bool) (failedToo bool, err error) {
	r := c.status.Show(st.Name)
	return r.Err != nil, c.block.answer(r, describe)
}

// message answers a message about a statement that the session carries out itself.
func (c *controls) message(m *message) (failedToo bool, err error) {
	if m.err != nil {
		return true, c.block.fail(m.err)
	}
	st := m.of.statement
	switch m.typ {
	case wire.TypeParse:
		if st.Planned || c.txn.Failed() && !st.Ends() {
			return c.run(st)
		}
		c.named.unnamed.answered(m)
		c.out.Append(wire.AppendParseComplete(c.out.AvailableBuffer()))
	case wire.TypeBind:
		c.out.Append(wire.AppendBindComplete(c.out.AvailableBuffer()))
	case wire.TypeClose:
		c.out.Append(wire.AppendCloseComplete(c.out.AvailableBuffer()))
	case wire.TypeDescribe:
		c.describe(m)
	case wire.TypeExecute:
		if st.Kind == semantics.Tutti && !c.txn.Failed() {
			return c.showDescribed(st)
		}
		return c.run(st)
	}
	return false, nil
}

// describe tells the client what such a statement returns.
func (c *controls) describe(m *message) {
	if m.kind == 'S' {
		c.out.Append(wire.AppendParameterDescription(c.out.AvailableBuffer(), nil))
	}
	if m.of.statement.Kind == semantics.Tutti {
		c.out.Append(wire.AppendRowDescription(nil, columns(c.status.ShowColumns(m.of.statement.Name))))
		return
	}
	c.out.Append(wire.AppendNoData(c.out.AvailableBuffer()))
}

// showDescribed is SHOW tutti.* whose client has been told of its columns, or does not want to know. It looks at
// nothing that was put off, but what the client relies on cannot wait for it.
func (c *controls) showDescribed(st semantics.Statement) (failedToo bool, err error) {
	if c.later.relied {
		if err := c.blocks.caughtUp(); err != nil {
			return true, err
		}
	}
	c.retry.off = c.retry.off || !c.txn.Idle()
	return c.show(st, false)
}

// refused tells why a statement is not carried out. If what it names is not there, this is PostgreSQL's reason, and
// comes first. What would have ended the block has, as when PostgreSQL
// refuses it.
func (c *controls) refused(st semantics.Statement) (bool, error) {
	refusal := wire.Errorf(st.Refusal.Code, "%s", st.Refusal.Message).WithHint("%s", st.Refusal.Hint)
	if st.Alone != "" && !c.txn.Idle() {
		refusal = wire.Errorf(wire.CodeActiveTransaction, "%s cannot run inside a transaction block", st.Alone)
	}
	if st.Undoes && c.txn.Idle() {
		c.block.warn(wire.CodeNoActiveTransaction, "there is no transaction in progress")
		c.block.tag("ROLLBACK")
		return false, nil
	}
	if st.Undoes && c.txn.Active() && !c.txn.Implicit() {
		own, err := c.unprepared()
		if own != nil {
			refusal = own
		}
		if err == nil {
			err = c.tx.rollbackServer()
		}
		if err != nil {
			return true, err
		}
		c.block.reset()
		return true, c.block.fail(refusal)
	}
	if !c.txn.Idle() || len(st.Relations) == 0 {
		return true, c.block.fail(refusal)
	}
	missing, err := c.missing(st.Relations[0])
	if missing != nil {
		refusal = missing
	}
	if err != nil {
		return true, err
	}
	return true, c.block.fail(refusal)
}

// unprepared is PostgreSQL's own reason why the transaction cannot be prepared, as that it has used temporary objects;
// nil if it has none. It is asked with a name that is too long for it in any case.
func (c *controls) unprepared() (*wire.SQLError, error) {
	if err := c.tx.takeAhead(); err != nil || !c.txn.Open() {
		return nil, err
	}
	r, _, err := c.backend.ask("PREPARE TRANSACTION '" + strings.Repeat("x", 200) + "'")
	if err == nil && r.status == wire.TxIdle {
		c.tx.undone()
	}
	if err != nil || r.failed == nil || r.failed.Code == wire.CodeInvalidParameterValue {
		return nil, err
	}
	return failureOf(r), nil
}

// missing is PostgreSQL's error if there is no relation of this name, as it was written; nil if there is one.
func (c *controls) missing(relation string) (*wire.SQLError, error) {
	r, rows, err := c.backend.ask("SELECT pg_catalog.to_regclass(" + quoted(relation) + ") IS NULL")
	if err != nil || r.failed != nil || string(rows[0][0]) != "t" {
		return nil, err
	}
	return wire.Errorf(wire.CodeUndefinedTable, "relation \"%s\" does not exist",
		strings.ReplaceAll(relation, `"`, "")), nil
}

// quoted writes a string for PostgreSQL.
func quoted(s string) string {
	if strings.Contains(s, `\`) {
		return " E'" + strings.NewReplacer("'", "''", `\`, `\\`).Replace(s) + "'"
	}
	return "'" + strings.ReplaceAll(s, "'", "''") + "'"
}

func (c *controls) begin(st semantics.Statement) (bool, error) {
	if c.txn.Active() {
		return c.beginWithin(st)
	}
	if err := c.levels.refresh(); err != nil {
		return true, err
	}
	c.txn.Begin(true)
	c.levels.modes, c.sight.odd = st.Modes, st.Modes.Access != "" // it may write where the next one may not
	// PostgreSQL's queue keeps what a listener in a transaction has not heard, see pg_notification_queue_usage
	if c.listener.listens {
		if err := c.blocks.openEarly(); err != nil {
			return true, err
		}
	}
	c.block.tag(st.Tag)
	return false, nil
}

// beginWithin is BEGIN where there is a block. Behind other statements of the same Query or pipeline it takes them
// along, if it does not fail.
func (c *controls) beginWithin(st semantics.Statement) (bool, error) {
	if !c.txn.Implicit() {
		c.block.warn(wire.CodeActiveTransaction, "there is already a transaction in progress")
	}
	if st.Modes == (semantics.Modes{}) {
		c.block.tag(st.Tag)
	} else if failedToo, err := c.setModes(st, "SET TRANSACTION"+st.Modes.SQL()); failedToo || err != nil {
		return failedToo, err
	}
	if c.txn.Implicit() {
		c.txn.Promote()
	}
	return false, nil
}

// commit ends the block; a failed one is rolled back, as in PostgreSQL.
func (c *controls) commit(st semantics.Statement) (bool, error) {
	if told, err := c.outside(st); told || err != nil {
		return st.Chain, err
	}
	modes := c.levels.modes
	if c.txn.Failed() {
		if err := c.tx.rollbackServer(); err != nil {
			return true, err
		}
		c.block.endBlock(st.Chain, modes)
		c.block.tag("ROLLBACK")
		return false, nil
	}
	if c.txn.Open() || c.later.pending() {
		c.blocks.habits.committed()
		failure, err := c.blocks.finish()
		if err != nil {
			return true, err
		}
		if failure != nil {
			c.block.turns.told(failure)
			c.block.reset()
			return true, c.block.fail(failure)
		}
		c.buffer.sees()
	}
	c.block.endBlock(st.Chain, modes)
	c.block.tag(st.Tag)
	return false, nil
}

// outside answers a COMMIT or ROLLBACK without a BEGIN before it; in an implicit block that
// still ends it.
func (c *controls) outside(st semantics.Statement) (answered bool, err error) {
	if !c.txn.Idle() && !c.txn.Implicit() {
		return false, nil
	}
	if st.Chain {
		return true, c.block.fail(wire.Errorf(wire.CodeNoActiveTransaction,
			"%s AND CHAIN can only be used in transaction blocks", st.Tag))
	}
	c.block.warn(wire.CodeNoActiveTransaction, "there is no transaction in progress")
	if !c.txn.Idle() {
		return false, nil
	}
	c.block.tag(st.Tag)
	return true, nil
}

func (c *controls) rollback(st semantics.Statement) (bool, error) {
	if told, err := c.outside(st); told || err != nil {
		return st.Chain, err
	}
	modes := c.levels.modes
	if err := c.tx.rollbackServer(); err != nil {
		return true, err
	}
	c.block.endBlock(st.Chain, modes)
	c.block.tag(st.Tag)
	return false, nil
}

// setTransaction is SET TRANSACTION and its spellings.
func (c *controls) setTransaction(st semantics.Statement) (bool, error) {
	st.Tag = "SET"
	if c.txn.Idle() {
		return c.modesThere(st.Text, "")
	}
	return c.setModes(st, st.Text)
}

// setModes says how the transaction of a block runs, to the backend as sql. Before the backend's transaction is open it
// is noted; afterwards the backend decides whether it is too late.
func (c *controls) setModes(st semantics.Statement, sql string) (failedToo bool, err error) {
	if c.txn.Open() {
		failedToo, err = c.modesThere(sql, st.Tag)
	} else {
		c.block.tag(st.Tag)
	}
	if !failedToo && err == nil {
		c.levels.mergeModes(st.Modes)
	}
	return failedToo, err
}

// modesThere has the backend run what says how its transaction runs. The client is told the tag, if it is not empty.
func (c *controls) modesThere(sql, tag string) (failedToo bool, err error) {
	var rep reply
	r := request{frames: wire.AppendQuery(nil, sql), does: doing{settings: true}}
	r.answer.tag = tag
	return c.executing.execute(r, &rep)
}
