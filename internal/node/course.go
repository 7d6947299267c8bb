package node

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tuttidb/tutti/internal/peers"
)

// course is how far a replica has come: it is opened, becomes ready or is halted, and ends.
type course struct {
	began      time.Time
	context    context.Context // ends with it
	stop       func()          // ends it
	dismissed  atomic.Bool     // it ends because its database does, or changes its name: at all members
	ready      atomic.Bool
	adopted    atomic.Bool                // its database came as a copy, and is this member's own now
	opened     chan struct{}              // closed when it becomes ready
	halted     atomic.Pointer[peers.Halt] // see package halt
	halting    chan struct{}              // closed when it is halted
	done       chan struct{}              // closed when it begins to end
	ended      chan struct{}              // closed when nothing of it is left
	background sync.WaitGroup             // for which its end waits
}

func newCourse() *course {
	return &course{began: time.Now(), opened: make(chan struct{}), halting: make(chan struct{}),
		done: make(chan struct{}), ended: make(chan struct{})}
}

// serves says that everything is applied that was committed before the replica began.
func (c *course) serves() {
	c.ready.Store(true)
	close(c.opened)
}

// halts says that an entry of the order cannot be carried out.
func (c *course) halts(h *peers.Halt) {
	c.halted.Store(h)
	close(c.halting)
}

// ending reports whether it is over.
func (c *course) ending() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}
