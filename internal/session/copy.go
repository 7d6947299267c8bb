package session

import (
	"fmt"

	"github.com/tuttidb/tutti/internal/wire"
)

// copyIn moves a COPY FROM STDIN: the client's data to the backend on this goroutine, the
// backend's answers to the client beside it, up to ReadyForQuery. Results are no longer
// held back afterwards, because the client had to see the CopyInResponse; its
// CommandComplete still is.
func (s *Session) copyIn(r *reply, extended bool) error {
	if s.holding {
		s.spill()
	}
	if err := s.out.Flush(); err != nil {
		return err
	}
	var back error
	wait := s.host.Go(func() {
		for done := false; !done && back == nil; {
			done, back = s.passOne(r)
			if r.failed != nil && back == nil && !s.holding {
				back = s.out.Flush() // the client should stop sending
			}
		}
	})
	front := s.copyData(extended)
	if front != nil {
		// The client is gone: fail the COPY so that the backend answers and wait can end.
		s.srvW.Append(wire.AppendSync(wire.AppendCopyFail(nil, "the client's connection broke")))
		if err := s.srvW.Flush(); err != nil {
			front = fmt.Errorf("%w; the backend's as well: %w", front, err)
		}
	}
	wait()
	if front != nil {
		return front
	}
	return back
}

// copyData forwards the client's frames up to the end of its data.
func (s *Session) copyData(extended bool) error {
	for {
		f, err := s.in.Next()
		if isTimeout(err) {
			s.host.Enter(PhaseRunning) // a wake-up for a doom; the backend is being cancelled
			continue
		}
		if err != nil {
			return s.badFrame(err)
		}
		last := false
		switch f.Type {
		case wire.TypeCopyData:
			s.srvW.Append(f.Raw)
		case wire.TypeCopyDone, wire.TypeCopyFail:
			s.srvW.Append(f.Raw)
			last = true
		case wire.TypeFlush, wire.TypeSync:
			continue
		case wire.TypeTerminate:
			return errTerminate
		default:
			// The COPY failed and the client went on. The frame stays valid: nothing is read
			// before next hands it out again.
			s.unread = f
			s.srvW.Append(wire.AppendCopyFail(nil, "unexpected message type during COPY from stdin"))
			last = true
		}
		if last && extended {
			s.srvW.Append(wire.AppendSync(nil)) // the one sent with Execute was ignored
		}
		if last || s.srvW.Full() || !s.in.Buffered() {
			if err := s.srvW.Flush(); err != nil {
				return fmt.Errorf("session: the backend's connection broke: %w", err)
			}
		}
		if last {
			return nil
		}
	}
}
