package session

import "github.com/tuttidb/tutti/internal/wire"

// emit passes a frame on to the client, or holds it back.
func (s *Session) emit(f wire.Frame) error {
	if !s.holding {
		return s.pass(f.Raw)
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
	s.held = append(s.held, f.Raw...)
	return nil
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
