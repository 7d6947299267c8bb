package session

import (
	"errors"

	"github.com/tuttidb/tutti/internal/wire"
)

// leaves ends the session if its node wants that, between two transactions: what the client has sent of the next one
// was not looked at.
func (s *Session) leaves() error {
	if !s.txn.Idle() || s.txn.Open() || len(s.batch.messages) > 0 {
		return nil
	}
	if why := s.o.Host.Dismissed(); why != nil {
		return s.block.fail(why)
	}
	return nil
}

// Told reports whether the client has been told why Run has returned an error.
func Told(err error) bool {
	var e *wire.SQLError
	return errors.Is(err, errBackend) || errors.As(err, &e) && e.Severity == wire.SeverityFatal
}
