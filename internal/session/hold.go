package session

import (
	"bytes"
	"slices"

	"github.com/tuttidb/tutti/internal/wire"
)

// emit passes a frame on to the client, or holds it back.
func (s *Session) emit(f wire.Frame) error {
	if !s.holding {
		if s.txn.Active() && s.redo.tell(f.Raw) {
			return nil
		}
		return s.pass(f.Raw)
	}
	if s.told.broken || announces(f.Type) && s.told.announced(f.Raw) {
		return nil
	}
	if f.Type == wire.TypeDataRow || f.Type == wire.TypeCopyData {
		if len(s.held)+len(f.Raw) > s.o.HoldBytesMax {
			s.spill()
		}
		if s.spilled && len(s.held) == 0 {
			return s.pass(f.Raw)
		}
	}
	if f.Type == wire.TypeCommandComplete {
		s.complete = len(s.held)
	}
	s.results = s.results || !announces(f.Type)
	s.held = append(s.held, f.Raw...)
	return nil
}

// announces reports whether a frame says nothing yet of what a statement did.
func announces(t byte) bool {
	switch t {
	case wire.TypeParseComplete, wire.TypeBindComplete, wire.TypeCloseComplete, wire.TypeParameterDescription,
		wire.TypeRowDescription, wire.TypeNoData:
		return true
	}
	return false
}

// told is what the client has seen of a statement that may still have to be run again: NOTICEs, and what
// announces its results. Another run does not repeat it.
type told struct {
	early   bool   // the client may be told
	head    []byte // whole frames that announce
	notices []byte // whole frames; lateBytesMax at most
	headAt  int    // where in head the present run is
	at      int    // where in notices it is
	broken  bool   // the present run announces something else
}

// begin is called before a statement's first run.
func (t *told) begin(early bool) { *t = told{early: early, head: t.head[:0], notices: t.notices[:0]} }

// again is called before each run.
func (t *told) again() { t.headAt, t.at, t.broken = 0, 0, false }

// announced reports whether an earlier run has announced the same.
func (t *told) announced(raw []byte) bool {
	rest := t.head[t.headAt:]
	if len(rest) == 0 {
		return false
	}
	t.broken = t.broken || !bytes.HasPrefix(rest, raw)
	t.headAt = min(t.headAt+len(raw), len(t.head))
	return true
}

// noticed reports whether an earlier run has told the same, and if not keeps it in mind.
func (t *told) noticed(raw []byte) bool {
	if bytes.HasPrefix(t.notices[t.at:], raw) {
		t.at += len(raw)
		return true
	}
	if t.at == len(t.notices) && t.at+len(raw) <= lateBytesMax {
		t.notices = append(t.notices, raw...)
		t.at = len(t.notices)
	}
	return false
}

// remark passes on a NOTICE. As PostgreSQL's, it leaves while the statement goes on, which may wait for a lock or
// tell how far it is; unless there are results before it.
func (s *Session) remark(f wire.Frame) error {
	if s.holding {
		if s.results || !s.told.early || s.told.broken {
			return s.emit(f)
		}
		if s.told.noticed(f.Raw) {
			return nil
		}
		s.told.head = append(s.told.head, s.held...)
		s.told.headAt = len(s.told.head)
		s.out.Append(s.held)
		s.held = s.held[:0]
	}
	if s.txn.Active() && s.redo.tell(f.Raw) {
		return nil
	}
	if err := s.pass(f.Raw); err != nil || s.srv.Buffered() {
		return err
	}
	return s.out.Flush()
}

// errAnnounced is told when a statement's results are not those that were announced, because a definition
// came between two runs.
func errAnnounced() *wire.SQLError {
	return errForgotten("the results of the statement were changed by a definition")
}

// notice passes on a notice of what we do at the end of a statement: with what is held, and where PostgreSQL commits
// before it says that a Query's statement is complete, before that.
func (s *Session) notice(raw []byte) {
	switch {
	case !s.holding && s.txn.Active() && s.redo.tell(raw):
	case !s.holding:
		s.out.Append(raw)
	case s.commitsFirst && s.complete >= 0:
		s.held = slices.Insert(s.held, s.complete, raw...)
		s.complete += len(raw)
	default:
		s.held = append(s.held, raw...)
	}
}

func (s *Session) pass(raw []byte) error {
	s.out.Append(raw)
	if s.out.Full() {
		return s.out.Flush()
	}
	return nil
}

// hold begins to hold results back.
func (s *Session) hold() {
	s.holding, s.spilled, s.held, s.complete = true, false, s.held[:0], -1
	s.results = false
	s.told.again()
}

// spill passes on what is held: from here on the statement cannot be run again.
func (s *Session) spill() {
	s.out.Append(s.held)
	s.held, s.complete, s.spilled = s.held[:0], -1, true
}

// release ends holding and passes on what is held.
func (s *Session) release() {
	s.spill()
	s.holding = false
	if cap(s.held) > s.o.HoldBytesMax {
		s.held = nil
	}
}

// drop ends holding and forgets what is held.
func (s *Session) drop() { s.held, s.holding = s.held[:0], false }
