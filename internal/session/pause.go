package session

import (
	"strconv"

	"github.com/tuttidb/tutti/internal/wire"
)

// pause is how long a client has paused between the messages of a pipeline, since the last Execute. PostgreSQL's
// statement_timeout counts that, but our backend gets the messages only when the client asks for answers.
type pause struct {
	counts bool // a message has come that is not executed yet
	ms     int64
}

// pauseMin, in milliseconds, is below what anybody has as statement_timeout.
const pauseMin = 10

// paused reads the client's next frame.
func (s *Session) paused() (wire.Frame, error) {
	if !s.pause.counts {
		return s.in.Next()
	}
	began := s.host.Clock()
	f, err := s.in.Next()
	s.pause.ms += s.host.Clock() - began
	return f, err
}

// timeoutMS asks for statement_timeout in milliseconds.
const timeoutMS = "SELECT (pg_catalog.date_part('epoch', pg_catalog.current_setting('statement_timeout')::pg_catalog.interval) OPERATOR(pg_catalog.*) 1000)::pg_catalog.int8"

// overdue makes the pipeline fail before the message that has just come if the client's pauses took too long.
func (s *Session) overdue() error {
	if !s.pause.counts || s.pause.ms < pauseMin || s.skip || s.block == failed {
		return nil
	}
	r, rows, err := s.ask(timeoutMS)
	if err != nil {
		return err
	}
	why := wire.Errorf(wire.CodeQueryCanceled, "canceling statement due to statement timeout")
	if r.failed != nil { // a late cancel
		why = failureOf(r)
	} else if max, err := strconv.ParseInt(string(rows[0][0]), 10, 64); err != nil || max == 0 || s.pause.ms < max {
		return err
	}
	s.pause = pause{}
	end := len(s.batchBytes)
	s.batch = append(s.batch, message{typ: wire.TypeDescribe, start: end, end: end, err: why})
	return nil
}
