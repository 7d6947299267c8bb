package admission

import (
	"time"

	"github.com/tuttidb/tutti/internal/wire"
)

// Deadline is when a session's wait for others ends by its client's settings, and what the client is told then. The
// zero value never comes.
type Deadline struct {
	at  time.Time
	why *wire.SQLError
}

// NewDeadline is that of a wait that begins now. Limits are those of the session (session.Limits); nil: none. Locks
// says that the wait is one for others, as for a lock.
func NewDeadline(limits func(locks bool) (most int64, why *wire.SQLError), locks bool) Deadline {
	if limits == nil {
		return Deadline{}
	}
	most, why := limits(locks)
	if most == 0 {
		return Deadline{}
	}
	return Deadline{time.Now().Add(time.Duration(most) * time.Millisecond), why}
}

// Passed is what the client is told if the deadline has come; nil if it has not.
func (d Deadline) Passed() *wire.SQLError {
	if d.at.IsZero() || time.Now().Before(d.at) {
		return nil
	}
	return d.why
}

// Left is the time until it comes, and what the client is told then; nil if it never comes.
func (d Deadline) Left() (left time.Duration, why *wire.SQLError) {
	if d.at.IsZero() {
		return 0, nil
	}
	return time.Until(d.at), d.why
}

// Wakes calls f when the deadline comes, unless stop is called before.
func (d Deadline) Wakes(f func()) (stop func()) {
	if d.at.IsZero() {
		return func() {}
	}
	timer := time.AfterFunc(time.Until(d.at), f)
	return func() { timer.Stop() }
}
