package node

import (
	"cmp"
	"time"

	"github.com/tuttidb/tutti/internal/guards"
	"github.com/tuttidb/tutti/internal/session"
	"github.com/tuttidb/tutti/internal/wire"
)

// control is session.Control of a host, and grants.Client.
type control struct {
	*guards.Guard
	h *host
}

// Enter is described in session.Control.
func (c control) Enter(p session.Phase) *wire.SQLError { return c.h.Enter(p) }

// Interrupted is host.Interrupted.
func (c control) Interrupted() *wire.SQLError { return c.h.Interrupted() }

// Clock is the time since the replica began, in milliseconds.
func (c control) Clock() int64 { return time.Since(c.h.n.course.began).Milliseconds() }

// Fate is why the session's backend was ended.
func (c control) Fate() *wire.SQLError { return cmp.Or(c.h.advisory.Why(), c.Ended()) }

// Dismissed is why the session is to end once no transaction is open in it.
func (c control) Dismissed() *wire.SQLError {
	if c.h.n.node.stops.Leaving() || c.h.n.course.ending() {
		return c.h.n.errEnds()
	}
	return nil
}
