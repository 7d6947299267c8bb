package session

import (
	"fmt"

	"github.com/tuttidb/tutti/internal/wire"
)

// reply is what the backend answered to one request, up to its ReadyForQuery.
type reply struct {
	status byte
	failed *wire.ErrorFields // the first ErrorResponse
	parsed int               // ParseCompletes
	copied bool              // a COPY FROM STDIN took place
}

// quiet sends what is gathered for the backend and reads up to ReadyForQuery, passing
// nothing on but notices and parameter changes.
func (s *Session) quiet() (reply, error) {
	r, _, err := s.internal(false)
	return r, err
}

// query runs a query of Tutti's own and returns its rows in text form.
func (s *Session) query(sql string) ([][][]byte, error) {
	s.srvW.Append(wire.AppendQuery(nil, sql))
	r, rows, err := s.internal(true)
	if err == nil && r.failed != nil {
		err = fmt.Errorf("session: %s: %s", sql, r.failed.Message)
	}
	return rows, err
}

// internal is quiet that also gathers rows, copied.
func (s *Session) internal(want bool) (r reply, rows [][][]byte, err error) {
	if err := s.begun(); err != nil {
		return r, nil, err
	}
	for {
		f, err := s.srv.Next()
		if err != nil {
			return r, nil, fmt.Errorf("session: the backend's connection broke: %w", err)
		}
		switch f.Type {
		case wire.TypeReadyForQuery:
			r.status, err = wire.DecodeReadyForQuery(f.Body())
			return r, rows, err
		case wire.TypeErrorResponse:
			e, err := wire.DecodeErrorFields(f.Body())
			if err != nil {
				return r, nil, err
			}
			if r.failed == nil {
				r.failed = &e
			}
		case wire.TypeDataRow:
			if want {
				if rows, err = appendRow(rows, f.Body()); err != nil {
					return r, nil, err
				}
			}
		case wire.TypeParameterStatus, wire.TypeNotificationResponse, wire.TypeNoticeResponse:
			s.out.Append(f.Raw)
		}
	}
}

func appendRow(rows [][][]byte, body []byte) ([][][]byte, error) {
	row, err := wire.DecodeDataRow(nil, append([]byte(nil), body...))
	return append(rows, row), err
}

// begun flushes to the backend and reads the answer to our own BEGIN if it is under way.
func (s *Session) begun() error {
	if err := s.srvW.Flush(); err != nil {
		return fmt.Errorf("session: the backend's connection broke: %w", err)
	}
	if !s.prefix {
		return nil
	}
	s.prefix = false
	r, err := s.quiet()
	if err == nil && r.failed != nil {
		return fmt.Errorf("session: the backend refused to begin: %s", r.failed.Message)
	}
	return err
}

// relay sends what is gathered for the backend and passes its answer on, without the
// ReadyForQuery. extended says whether a COPY ends with a Sync.
func (s *Session) relay(extended bool) (r reply, err error) {
	if doom := s.host.Enter(PhaseRunning); doom != nil {
		s.doom = doom // told when the answer is complete
	}
	if err := s.begun(); err != nil {
		return r, err
	}
	for {
		done, err := s.passOne(&r)
		if done || err != nil {
			return r, err
		}
		if r.copied {
			if err := s.copyIn(&r, extended); err != nil {
				return r, err
			}
			return r, nil
		}
	}
}

// passOne reads one frame of the backend and passes it on; done at ReadyForQuery.
func (s *Session) passOne(r *reply) (done bool, err error) {
	f, err := s.srv.Next()
	if err != nil {
		return false, fmt.Errorf("session: the backend's connection broke: %w", err)
	}
	switch f.Type {
	case wire.TypeDataRow, wire.TypeCopyData:
		return false, s.emit(f)
	case wire.TypeReadyForQuery:
		r.status, err = wire.DecodeReadyForQuery(f.Body())
		return true, err
	case wire.TypeErrorResponse:
		e, err := wire.DecodeErrorFields(f.Body())
		if err != nil {
			return false, err
		}
		if r.failed == nil {
			r.failed = &e
		}
		if e.Code == wire.CodeQueryCanceled && s.doomed() {
			f.Raw = s.doom.Append(nil) // the cancel was ours
		}
		return false, s.emit(f)
	case wire.TypeParseComplete:
		r.parsed++
	case wire.TypeCopyInResponse:
		r.copied = true
	}
	return false, s.emit(f)
}

// doomed asks the node whether it has rolled this transaction back.
func (s *Session) doomed() bool {
	if s.doom == nil {
		s.doom = s.host.Enter(PhaseRunning)
	}
	return s.doom != nil
}

// emit passes a frame on to the client, or holds it back.
func (s *Session) emit(f wire.Frame) error {
	if s.holding {
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
	return s.pass(f.Raw)
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
	s.holding, s.spilled, s.held, s.complete = true, false, s.held[:0], 0
}

// spill passes on what is held: from here on the statement cannot be run again.
func (s *Session) spill() {
	s.out.Append(s.held)
	s.held, s.complete, s.spilled = s.held[:0], 0, true
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
