package admission

import (
	"time"

	"github.com/tuttidb/tutti/internal/wire"
)

// Deadline is when a session's wait for others ends by its client's settings, and what the client is told then. The
// zero value never comes.
type Deadline struct {
	clock Clock
	at    time.Duration
	why   *wire.SQLError
}

// NewDeadline is that of a wait that begins now. Limits are those of the session (session.Limits); nil: none. Locks
// says that the wait is one for others, as for a lock.
func NewDeadline(clock Clock, limits func(locks bool) (most int64, why *wire.SQLError), locks bool) Deadline {
	if limits == nil {
		return Deadline{}
	}
	most, why := limits(locks)
	if most == 0 {
		return Deadline{}
	}
	return Deadline{clock, clock.Now() + time.Duration(most)*time.Millisecond, why}
}

// Passed is what the client is told if the deadline has come; nil if it has not.
func (d Deadline) Passed() *wire.SQLError {
	if d.clock == nil || d.clock.Now() < d.at {
		return nil
	}
	return d.why
}

// Left is the time until it comes, and what the client is told then; nil if it never comes.
func (d Deadline) Left() (left time.Duration, why *wire.SQLError) {
	if d.clock == nil {
		return 0, nil
	}
	return d.at - d.clock.Now(), d.why
}

// Wakes calls f when the deadline comes, unless stop is called before.
func (d Deadline) Wakes(f func()) (stop func()) {
	if d.clock == nil {
		return func() {}
	}
	return d.clock.After(d.at-d.clock.Now(), f)
}
