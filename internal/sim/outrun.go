package sim

import (
	"github.com/tuttidb/tutti/internal/certify"
	"github.com/tuttidb/tutti/internal/grants"
	"github.com/tuttidb/tutti/internal/session"
	"github.com/tuttidb/tutti/internal/writeset"
)

// holdsDefinitions adds what every definition holds, as the last of a writeset's keys (capture.DefinitionsKey).
func holdsDefinitions(ws *writeset.Writeset) {
	ws.Tables = append(ws.Tables, definitionsTable)
	ws.Keys = append(ws.Keys, writeset.Key{Hash: definitionsTable.Key, Mode: writeset.Update,
		Table: uint32(len(ws.Tables) - 1)})
}

// outrun reports whether a transaction with definitions has lost to nothing but that others came first. Then it is
// ordered once more, behind them, under its old number (node's host.Submit), but for one
// that the same has outrun before.
func (s *modelSession) outrun(v certify.Verdict) bool {
	if x := s.a.alone; x != nil && v.Reason == certify.KeyConflict && v.Key.Mode != writeset.Exclusive &&
		v.WinnerOrdinal <= x.seen { // what refers to a table is compared from before (C5)
		s.m.w.violation("a transaction with definitions lost to %d, and has seen what was applied up to %d",
			v.WinnerOrdinal, x.seen)
	}
	return s.a.alone != nil && !s.a.alone.locks && !s.a.repeat && s.state == sessionSubmitted &&
		v.Reason == certify.KeyConflict && v.Key.Hash == definitionsTable.Key && v.WinnerOrdinal > s.a.alone.outrun
}

// again orders a transaction once more that was outrun by what has an ordinal.
func (s *modelSession) again(by uint64) {
	sub := s.sub
	s.a.alone.outrun = by
	delete(s.m.submitted, s.seq)
	s.m.w.stats.Waits.Outrun++
	s.state = sessionRunning
	s.waitsIn(func() {
		dated := &session.Submission{}
		failure := s.grants.Alone(dated, grants.SeenMax)
		if !s.still() {
			return
		}
		if failure != nil {
			s.fail()
			return
		}
		if dated.Order > 0 {
			s.order, sub.Seen = dated.Order, dated.Seen
			s.a.alone.seen = s.m.engine.Applied()
		}
		sub.Held, sub.Order = s.held(), s.order
		s.hand(sub)
	})
}
