package session

import (
	"strconv"
	"strings"

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

// read reads the client's next frame.
func (p *pause) read(in *wire.Reader, clock func() int64) (wire.Frame, error) {
	if !p.counts {
		return in.Next()
	}
	began := clock()
	f, err := in.Next()
	p.ms += clock() - began
	return f, err
}

// milliseconds reads a time as SHOW tells it.
func milliseconds(shown string) int64 {
	number := strings.TrimRight(shown, "abcdefghijklmnopqrstuvwxyz")
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil {
		return 0
	}
	return n * map[string]int64{"": 1, "ms": 1, "s": 1000, "min": 60_000, "h": 3_600_000,
		"d": 86_400_000}[shown[len(number):]]
}

// overdue makes the pipeline fail before the message that has just come if the client's pauses took too long.
func (s *Session) overdue() error {
	if !s.batch.pause.counts || s.batch.pause.ms < pauseMin || s.batch.skip || s.txn.Failed() {
		return nil
	}
	// a SELECT would take the transaction's one snapshot, and not between two groups
	r, rows, err := s.backend.ask("SHOW statement_timeout")
	if err != nil {
		return err
	}
	if r.failed != nil && r.status == wire.TxIdle { // a late cancel: it is asked with the next message
		return nil
	}
	if r.failed != nil {
		return s.tx.forsake(failureOf(r))
	}
	if most := milliseconds(string(rows[0][0])); most == 0 || s.batch.pause.ms < most {
		return nil
	}
	why := wire.Errorf(wire.CodeQueryCanceled, "canceling statement due to statement timeout")
	s.batch.pause = pause{}
	end := len(s.batch.bytes)
	s.batch.messages = append(s.batch.messages, message{typ: wire.TypeDescribe, start: end, end: end, err: why})
	return nil
}
