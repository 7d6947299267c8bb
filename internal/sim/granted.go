package sim

import (
	"github.com/tuttidb/tutti/internal/session"
	"github.com/tuttidb/tutti/internal/wire"
	"github.com/tuttidb/tutti/internal/writeset"
)

// tells is grants.Client of a production session.
type tells struct{ s *served }

func (c tells) Interrupted() *wire.SQLError { return c.s.interrupted() }
func (c tells) Wishes() bool                { return c.s.guard.wished }
func (c tells) PID() uint32                 { return c.s.slot }
func (c tells) Moves() (uint64, bool)       { return 0, false }

// begins says that a transaction is about to begin, before it waits for what it must see.
func (s *served) begins() {
	if s.grants != nil {
		s.grants.Begins()
	}
}

// beginsAgain comes behind begins.
func (s *served) beginsAgain() {
	if s.grants != nil {
		s.grants.BeginsAgain(s.failed)
	}
	s.failed = false
}

// blocked reports whether a lock blocks a transaction that would be blind.
func (s *served) blocked(ws *writeset.Writeset) bool {
	return s.grants != nil && s.m.w.definers.of(s.m).grants.Block(ws)
}

// passes waits until nothing blocks the transaction.
func (s *served) passes(ws *writeset.Writeset, limits session.Limits) *wire.SQLError {
	if s.grants == nil {
		return nil
	}
	began := s.m.w.now
	failure := s.grants.Pass(ws, limits)
	if failure == nil {
		s.m.w.definers.of(s.m).passes(s, ws, began, false)
	} else if failure.Code == wire.CodeSerializationFailure {
		s.m.w.stats.Waits.Lost++
		s.failed = true
	}
	return failure
}

// hasPassed is called when the order has decided about what has passed, or will not get it.
func (s *served) hasPassed() {
	if s.grants != nil {
		s.m.w.definers.of(s.m).decided(s)
		s.grants.Passed()
	}
}

// releases ends what the session's transaction has of locks.
func (s *served) releases() {
	if s.grants != nil {
		s.hasPassed()
		s.grants.End(0)
	}
}
