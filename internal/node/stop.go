package node

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tuttidb/tutti/internal/advisory"
	"github.com/tuttidb/tutti/internal/core"
	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/guards"
	"github.com/tuttidb/tutti/internal/process"
	"github.com/tuttidb/tutti/internal/session"
	"github.com/tuttidb/tutti/internal/wire"
)

// A node that is told to stop goes through this, and says 57P01 to every client that it had:
//
//	drain  New clients are refused with 57P03. The lead of every order is handed over. Sessions end as soon as no
//	       transaction is open in them: idle ones at once, others behind the answer to their COMMIT, ROLLBACK or
//	       statement.
//	now    After drain_timeout, or when it is told so, the sessions that are left are ended wherever they are. Where
//	    the
//	       log decides on a COMMIT, the session waits for that, for a while; then its client is told that the outcome
//	       is unknown (40003).
//	end    The lives end, then PostgreSQL is stopped.

const (
	stopPoll = 5 * time.Millisecond
	// decideMax is how long a COMMIT that the log has yet to decide on holds the end up.
	decideMax = 2 * time.Second
)

// stops is how far a node has been told to stop.
type stops struct {
	refuses atomic.Bool   // new clients
	leaving atomic.Bool   // sessions end that have no transaction open
	begun   chan struct{} // closed when it shall stop
	now     chan struct{} // closed when it shall not wait for transactions any more
	begin   sync.Once
	hurry   sync.Once
}

func (s *stops) init() { s.begun, s.now = make(chan struct{}), make(chan struct{}) }

// Drain has the node stop, once its clients' transactions have ended, or drain_timeout is over.
func (n *Node) Drain() {
	n.stops.begin.Do(func() { close(n.stops.begun) })
}

// StopNow has the node stop without waiting for transactions.
func (n *Node) StopNow() {
	n.stops.hurry.Do(func() { close(n.stops.now) })
	n.Drain()
}

func (s *stops) hurried() bool {
	select {
	case <-s.now:
		return true
	default:
		return false
	}
}

// stop is the goroutine that waits until the node is told to stop, sees its clients off, and ends the lives by cancel.
func (n *Node) stop(ctx context.Context, cancel context.CancelFunc) {
	defer cancel()
	select {
	case <-ctx.Done():
		return
	case <-n.stops.begun:
	}
	n.stops.refuses.Store(true)
	patience := n.settled().Drain()
	if n.stops.hurried() {
		patience = 0
	}
	t := n.current()
	if t == nil {
		n.log.Info("stopping: there are no clients")
		return
	}
	defer t.settle()
	n.log.Info("stopping: clients are told to leave",
		"sessions", t.clients.Load(), "drain_timeout", patience)
	if patience > 0 && t.clients.Load() > 0 {
		t.handOver()
		n.stops.leaving.Store(true)
		for _, l := range t.all() {
			l.sessions.Hurry()
			for _, g := range l.sessions.All() {
				g.Poke()
			}
		}
		t.awaitClients(n.stops.now, patience, nil)
	}
	if left := t.clients.Load(); left > 0 {
		n.log.Warn("stopping: sessions are ended that have not left", "sessions", left)
		t.seeOff()
	}
}

// handOver hands the lead of every order over, so that nobody waits for another leader when this member ends, and its
// clients find one when they have moved.
func (t *tenure) handOver() {
	heirs := map[*life]uint32{}
	for _, l := range t.all() {
		l.order.core.Call(func(e *engine.Engine) {
			if heir := l.others.peers.Leave(e); heir != 0 {
				heirs[l] = heir
			}
		})
		_ = l.others.peers.TellAll() // nobody shall hand it back; the next gossip says it again
	}
	leads := func() bool {
		for l, heir := range heirs {
			if l.order.core.Leader() == l.config.Member && l.reaches(heir) {
				return true
			}
		}
		return false
	}
	for end := time.Now().Add(core.LeaveMax); leads() && time.Now().Before(end) && process.Sleep(t.ctx, stopPoll); {
	}
}

// awaitClients waits until no client is left, for most at most, or until hurry is closed. each is called again and
// again.
func (t *tenure) awaitClients(hurry <-chan struct{}, most time.Duration, each func()) {
	over := time.NewTimer(most)
	defer over.Stop()
	for t.clients.Load() > 0 {
		if each != nil {
			each()
		}
		select {
		case <-hurry:
			return
		case <-over.C:
			return
		case <-t.ctx.Done():
			return
		case <-time.After(stopPoll):
		}
	}
}

// settle waits, for a while, until all is in the order that sessions which have left had yet to say to the others:
// that their advisory locks are free, and what they have notified.
func (t *tenure) settle() {
	ctx, cancel := context.WithTimeout(t.ctx, advisory.ReleaseWait)
	defer cancel()
	for _, l := range t.all() {
		_ = l.notices.CatchUp(ctx) // or it is too late
		for !l.saidAll() && process.Sleep(ctx, stopPoll) {
		}
	}
}

// saidAll reports whether nothing waits to be put into the order, or is under way there, that sessions have said which
// are gone.
func (l *life) saidAll() bool {
	return l.notices.Settled() && l.advisory.Settled()
}

// seeOff ends the sessions that are left, but for those of whose COMMIT the log decides: these end by themselves.
func (t *tenure) seeOff() {
	began := time.Now()
	stuck := make(chan struct{}) // closed when nobody is left but who does not take his last words
	t.awaitClients(stuck, decideMax, func() {
		deciding := false
		for _, l := range t.all() {
			for _, g := range l.sessions.All() {
				if g.End(errShutdown()) == session.PhaseSubmitted {
					deciding = true
				} else if g.Terminates() {
					l.endBackend(g.PID())
				}
			}
		}
		if !deciding && time.Since(began) > guards.LastWordsMax {
			close(stuck)
		}
	})
}

// errShutdown is what PostgreSQL tells sessions of a server that is shut down, and errShutsDown what it tells who
// comes too late.
func errShutdown() *wire.SQLError {
	return wire.Fatalf(wire.CodeAdminShutdown, "terminating connection due to administrator command").
		WithHint("This member stops. Connect again, or to another member.")
}

func errShutsDown() *wire.SQLError {
	return wire.Fatalf(wire.CodeCannotConnectNow, "the database system is shutting down").
		WithHint("Connect to another member.")
}
