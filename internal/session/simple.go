package session

import (
	"github.com/tuttidb/tutti/internal/semantics"
	"github.com/tuttidb/tutti/internal/wire"
)

// simple answers a Query message: one statement, or several as one implicit transaction.
func (s *Session) simple(f wire.Frame) error {
	sql, unread := wire.DecodeQuery(f.Body())
	ignored, err := s.finishBatch()
	if ignored || err != nil {
		return err
	}
	s.named.unnamed.removed(s.named.statements)
	raw := f.Raw
	if told := s.texts.told(sql); told != sql {
		raw = wire.AppendQuery(nil, told)
	}
	list, e := s.texts.classify(sql)
	if unread != nil {
		err = s.block.fail(protocolError(unread))
	} else if e != nil {
		err = s.block.fail(e)
	} else if len(list) == 1 {
		_, err = s.statement(list[0], raw, sql)
	} else {
		err = s.several(list, raw, sql)
	}
	if err == nil {
		err = s.endImplicit()
	}
	if err != nil {
		return err
	}
	return s.ready()
}

// finishBatch runs an extended-protocol batch that was not ended by a Sync. After an error
// everything up to the Sync is ignored.
func (s *Session) finishBatch() (ignored bool, err error) {
	if len(s.batch.messages) > 0 {
		err = s.process(false)
	}
	return s.batch.skip, err
}

// expose refuses what a function has prepared, or declared, under a comment of ours, if m is about that.
func (s *Session) expose(m *message) error {
	if !m.hidden || m.err != nil {
		return nil
	}
	if err := s.tx.takeAhead(); err != nil || s.txn.Failed() || s.txn.Reason() != nil { // then nothing is run
		return err
	}
	m.hidden = false
	of, name := "pg_cursor", m.name
	if m.typ == wire.TypeBind {
		of, name = "pg_prepared_statement", m.statement
	}
	if s.txn.Active() {
		if err := s.tx.ensureOpen(true); err != nil {
			return err
		}
	}
	r, rows, err := s.backend.ask("SELECT FROM pg_catalog." + of + "() WHERE name OPERATOR(pg_catalog.=) " +
		quoted(name) + " AND pg_catalog.starts_with(statement, " + quoted(s.o.Collector.Mark()) + ")")
	if err == nil && r.failed == nil && len(rows) > 0 {
		m.err = s.texts.forged(s.o.Collector.Mark())
	}
	return err
}

// statement runs one statement that came as a Query. raw is a whole Query frame of it.
func (s *Session) statement(st semantics.Statement, raw []byte, sql string) (failedToo bool, err error) {
	if st.Control() || s.named.deallocates(st) {
		failedToo, err = s.controls.run(st)
		if err == nil && !failedToo {
			delete(s.named.statements, st.Deallocates)
		}
		return failedToo, err
	}
	if st.Savepoint() && s.txn.Outside() {
		return true, s.block.fail(errOutside(st))
	}
	if refused, err := s.executing.refused(&st, sql); refused || err != nil {
		return true, err
	}
	r := request{frames: raw, sql: []string{sql}, does: doing{settings: settingsOnly(st)}}
	r.does.add(st)
	s.reads.reading(&r, st.Text, nil)
	if st.Notes {
		r.does.defines, r.does.notes = true, []string{st.Text}
	}
	if l := s.locks.follows(st, s.named.statements[st.Executes]); l != nil {
		r.answer.locks = []*semantics.RowLocks{l}
		if l == st.Locks { // not EXECUTE of a statement that is followed
			r.frames = wire.AppendQuery(nil, l.Text)
			r.answer.locked = []lockedRow{{name: l.Row}}
		}
	} else if s.texts.marks(st, sql) {
		r.marked = true
		r.frames = wire.AppendQuery(nil, s.o.Collector.BulkMark()+sql)
		r.answer.shifts = []int32{-int32(len(s.o.Collector.BulkMark()))}
	} else {
		r.way.direct, r.way.glance = s.batch.literally(st, sql)
	}
	var rep reply
	failedToo, err = s.executing.execute(r, &rep)
	if err == nil && !failedToo {
		delete(s.named.statements, st.Deallocates) // another one may get the name unseen, by PREPARE
		err = s.learn(st)
	}
	return failedToo, err
}

// errOutside is told where a statement acts in the client's blocks alone.
func errOutside(st semantics.Statement) *wire.SQLError {
	e := wire.Errorf(wire.CodeNoActiveTransaction, "%s can only be used in transaction blocks", st.Tag)
	e.Routine = "CheckTransactionBlock" // PostgreSQL's
	return e
}

// settingsOnly reports whether a statement surely looks at no data, so that a transaction's
// snapshot may still be taken after it, unless it takesSnapshot.
func settingsOnly(st semantics.Statement) bool {
	return st.Kind == semantics.InTransaction || st.Kind == semantics.Local || st.Kind == semantics.Empty
}

// takesSnapshot reports whether PostgreSQL takes a snapshot for a statement that may be settingsOnly: DEALLOCATE,
// DISCARD, LOAD, and what maintains tables.
func takesSnapshot(st semantics.Statement) bool {
	return st.Kind == semantics.Local && (st.Sticky || st.Maintains())
}

// learn notes what a successful statement changed about the session.
func (s *Session) learn(st semantics.Statement) error {
	if st.Scope == semantics.ThisSession && st.Modes.Isolation != semantics.Unsaid ||
		st.Scope == semantics.ResetSession || st.Scope == semantics.ResetAll {
		s.levels.stale = true // asked when it is needed: a rollback would take it back
	}
	if st.Scope == semantics.ResetAll && s.txn.Open() {
		s.tx.direct.reopened() // tutti.tx is taken back, too
	}
	s.advisory.stale = s.advisory.used && (s.advisory.stale || st.Undoes || st.Forgets)
	if st.Forgets {
		s.named.forget()
		s.forms.forget()
		s.backend.prepare()
		_, err := s.backend.quiet()
		return err
	}
	return nil
}

// several runs a Query of more than one statement. Without transaction commands it is one
// implicit transaction and goes to the backend as it is; otherwise statement by statement.
func (s *Session) several(list []semantics.Statement, raw []byte, sql string) error {
	whole := !s.texts.misread(sql)
	r := request{frames: raw, sql: []string{sql}}
	for _, st := range list {
		whole = whole && !st.Control() && st.Kind != semantics.Copy && st.Scope == semantics.NoScope && !st.Forgets &&
			st.Deallocates == "" && !st.Notes && !st.Locks.Followed() && !st.Savepoint()
		r.does.add(st)
		s.reads.reading(&r, st.Text, nil)
	}
	if whole {
		r.does.write = true // so that it is all or nothing
		var rep reply
		_, err := s.executing.execute(r, &rep)
		return err
	}
	return s.oneByOne(list)
}

// oneByOne runs the statements of one Query that controls transactions. What stands
// outside an explicit block is an implicit one, ended by the end of the Query.
func (s *Session) oneByOne(list []semantics.Statement) error {
	defer func() { s.relaying.shift = 0 }()
	escape := s.texts.escape
	for _, st := range list {
		if s.texts.escape && !escape && readOtherwise(st.Text) {
			return s.block.fail(errBackslash())
		}
		if s.txn.Idle() && (!st.Control() || st.Kind == semantics.Definition ||
			st.Kind == semantics.Commit || st.Kind == semantics.Rollback ||
			st.Scope == semantics.ThisTransaction) {
			s.txn.Begin(false)
		}
		if st.Kind == semantics.Local && st.Alone != "" {
			return s.block.fail(wire.Errorf(wire.CodeActiveTransaction, "%s cannot run inside a transaction block",
				st.Alone))
		}
		s.relaying.shift = int32(st.Before)
		failedToo, err := s.statement(st, wire.AppendQuery(nil, st.Text), st.Text)
		if err != nil || failedToo {
			return err
		}
	}
	return nil
}

// endImplicit commits or rolls back an implicit block, if there is one.
func (s *Session) endImplicit() error {
	if !s.txn.Implicit() {
		return nil
	}
	var failure *wire.SQLError
	var err error
	s.block.tellDoom()
	switch {
	case s.txn.Failed():
		err = s.tx.rollbackServer()
	case s.txn.Open():
		failure, err = s.blocks.finish()
	}
	if err != nil {
		return err
	}
	s.block.reset()
	if failure != nil {
		return s.block.fail(failure)
	}
	return nil
}
