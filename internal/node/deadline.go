package node

import (
	"time"

	"github.com/tuttidb/tutti/internal/session"
	"github.com/tuttidb/tutti/internal/wire"
)

// deadline is when a session's wait for others ends by its client's settings, and what the client is told then. The
// zero value never comes.
type deadline struct {
	at  time.Time
	why *wire.SQLError
}

// deadlineOf is that of a wait that begins now; locks says that it is one for others, as for a lock.
func deadlineOf(limits session.Limits, locks bool) deadline {
	if limits == nil {
		return deadline{}
	}
	most, why := limits(locks)
	if most == 0 {
		return deadline{}
	}
	return deadline{time.Now().Add(time.Duration(most) * time.Millisecond), why}
}

// passed is what the client is told if the deadline has come.
func (d deadline) passed() *wire.SQLError {
	if d.at.IsZero() || time.Now().Before(d.at) {
		return nil
	}
	return d.why
}

// wakes calls f when the deadline comes, unless stop is called before.
func (d deadline) wakes(f func()) (stop func()) {
	if d.at.IsZero() {
		return func() {}
	}
	timer := time.AfterFunc(time.Until(d.at), f)
	return func() { timer.Stop() }
}
