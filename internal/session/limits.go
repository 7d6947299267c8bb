package session

import "github.com/tuttidb/tutti/internal/wire"

// Limits tells how long a statement or a COMMIT may wait from now on, in milliseconds, 0 for any time and less than 0
// for none, and what the client is told after that. Locks says that it waits for others as for a lock: lock_timeout
// counts, too. It asks the backend, which must be idle; who does not wait does not call it. Nil says that the backend
// cannot be asked.
type Limits func(locks bool) (most int64, why *wire.SQLError)

// waitLimits is the Limits of its session.
func (b *backend) waitLimits(locks bool) (most int64, why *wire.SQLError) {
	r, rows, err := b.ask("SHOW lock_timeout", "SHOW statement_timeout")
	switch {
	case err != nil || r.failed == nil && len(rows) != 2: // a broken backend shows at its next use
		return 0, nil
	case r.failed != nil: // a cancel: its transaction is aborted
		return -1, failureOf(r)
	case !locks:
		return patience("0", string(rows[1][0]))
	}
	return patience(string(rows[0][0]), string(rows[1][0]))
}
