package session

import (
	"github.com/tuttidb/tutti/internal/semantics"
	"github.com/tuttidb/tutti/internal/wire"
)

// simple answers a Query message: one statement, or several as one implicit transaction.
func (s *Session) simple(f wire.Frame) error {
	sql, err := wire.DecodeQuery(f.Body())
	if err != nil {
		return s.badFrame(err)
	}
	s.abandon()
	list := s.cache.classify(sql)
	if len(list) == 1 {
		if _, err := s.statement(list[0], f.Raw, sql); err != nil {
			return err
		}
		return s.ready()
	}
	if err := s.several(list, f.Raw, sql); err != nil {
		return err
	}
	return s.ready()
}

// abandon forgets an extended-protocol batch that was not ended by a Sync.
func (s *Session) abandon() {
	s.batch, s.batchBytes, s.skip = s.batch[:0], s.batchBytes[:0], false
}

// statement runs one statement that came as a Query. raw is a whole Query frame of it.
func (s *Session) statement(st semantics.Statement, raw []byte, sql string) (failedToo bool, err error) {
	if st.Control() {
		return s.control(st)
	}
	r := request{frames: raw, sql: []string{sql}, settings: settingsOnly(st)}
	r.add(st)
	failedToo, err = s.execute(r)
	if err == nil && !failedToo {
		err = s.learn(st)
	}
	return failedToo, err
}

// settingsOnly reports whether a statement surely looks at no data, so that a transaction's
// snapshot may still be taken after it.
func settingsOnly(st semantics.Statement) bool {
	return st.Kind == semantics.InTransaction || st.Kind == semantics.Local || st.Kind == semantics.Empty
}

// learn notes what a successful statement changed about the session.
func (s *Session) learn(st semantics.Statement) error {
	switch {
	case st.Scope == semantics.ThisSession && st.Modes.Isolation != semantics.Unsaid:
		s.level = st.Modes.Isolation
	case st.Scope == semantics.ResetSession && s.block == idle:
		if err := s.askIsolation(); err != nil {
			return err
		}
	}
	if st.Kind == semantics.Temporary {
		s.hasTemp = true
	}
	if st.Forgets {
		clear(s.statements)
		s.appendPrepare()
		_, err := s.quiet()
		return err
	}
	return nil
}

// several runs a Query of more than one statement. Without transaction commands it is one
// implicit transaction and goes to the backend as it is; otherwise statement by statement.
func (s *Session) several(list []semantics.Statement, raw []byte, sql string) error {
	whole := true
	r := request{frames: raw, sql: []string{sql}}
	for _, st := range list {
		whole = whole && !st.Control() && st.Kind != semantics.Copy && st.Scope == semantics.NoScope && !st.Forgets && st.Kind != semantics.Temporary
		r.add(st)
	}
	if definitions(list) {
		_, err := s.define(sql)
		return err
	}
	if s.block == idle && mixesDefinitions(list) {
		return s.fail(refuseInBlock())
	}
	if whole {
		r.write = true // so that it is all or nothing
		_, err := s.execute(r)
		return err
	}
	return s.oneByOne(list)
}

// definitions reports whether all statements are DDL, which then are ordered as one.
func definitions(list []semantics.Statement) bool {
	for _, st := range list {
		if st.Kind != semantics.Definition {
			return false
		}
	}
	return true
}

// mixesDefinitions reports whether DDL stands beside other statements outside an explicit
// block, where PostgreSQL would run them as one transaction.
func mixesDefinitions(list []semantics.Statement) bool {
	for _, st := range list {
		if st.Kind == semantics.Begin {
			return false
		}
		if st.Kind == semantics.Definition {
			return true
		}
	}
	return false
}

// oneByOne runs the statements of one Query that controls transactions. What stands
// outside an explicit block is an implicit one, ended by the end of the Query.
func (s *Session) oneByOne(list []semantics.Statement) error {
	for _, st := range list {
		if s.block == idle && st.Kind != semantics.Local && !st.Control() {
			s.block, s.implicit = active, true
		}
		failedToo, err := s.statement(st, wire.AppendQuery(nil, st.Text), st.Text)
		if err != nil {
			return err
		}
		if failedToo {
			break
		}
	}
	return s.endImplicit()
}

// endImplicit commits or rolls back an implicit block, if there is one.
func (s *Session) endImplicit() error {
	if !s.implicit {
		return nil
	}
	var failure *wire.SQLError
	var err error
	s.tellDoom()
	switch {
	case s.block == failed:
		err = s.rollbackServer()
	case s.open:
		failure, err = s.finish()
	}
	if err != nil {
		return err
	}
	if failure != nil {
		s.out.Append(failure.Append(nil))
	}
	s.reset()
	return nil
}

// functionCall runs a FunctionCall message; the function may write.
func (s *Session) functionCall(f wire.Frame) error {
	s.abandon()
	if _, err := s.execute(request{frames: f.Raw, write: true}); err != nil {
		return err
	}
	return s.ready()
}
