package node

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/tuttidb/tutti/internal/advisory"
	"github.com/tuttidb/tutti/internal/bootstrap"
	"github.com/tuttidb/tutti/internal/config"
	"github.com/tuttidb/tutti/internal/core"
	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/process"
	"github.com/tuttidb/tutti/internal/replica"
	"github.com/tuttidb/tutti/internal/session"
	"github.com/tuttidb/tutti/internal/stopping"
)

// house is stopping.House of a server session.
type house struct{ t *tenure }

// Drain has the node stop, once its clients' transactions have ended, or drain_timeout is over.
func (n *Node) Drain() { n.stops.Drain() }

// StopNow has the node stop without waiting for transactions.
func (n *Node) StopNow() { n.stops.StopNow() }

// Obey has the node do what the process's signals say, from now on (stopping.Stops.Obey).
func (n *Node) Obey(load func() (*config.Config, error), level *slog.LevelVar) {
	n.stops.Obey(n.log, func() { n.again(load, level) })
}

// stop is the goroutine that waits until the node is told to stop, sees its clients off, and ends the lives by cancel.
func (n *Node) stop(ctx context.Context, cancel context.CancelFunc) {
	defer cancel()
	n.stops.Run(ctx, n.log, func() time.Duration { return n.settled().Drain() }, func() stopping.House {
		if t := n.current(); t != nil {
			return house{t}
		}
		return nil
	})
}

// Clients, Dismiss, End and Gone are described in stopping.House.
func (x house) Clients() int64 { return x.t.clients.Load() }

func (x house) Dismiss() {
	for _, l := range x.t.all() {
		l.sessions.Hurry()
		for _, g := range l.sessions.All() {
			g.Poke()
		}
	}
}

func (x house) End() (deciding bool) {
	for _, l := range x.t.all() {
		for _, g := range l.sessions.All() {
			if g.End(stopping.Shutdown()) == session.PhaseSubmitted {
				deciding = true
			} else if g.Terminates() {
				l.endBackend(g.PID())
			}
		}
	}
	return deciding
}

func (x house) Gone() <-chan struct{} { return x.t.ctx.Done() }

// HandOver hands the lead of every order over, so that nobody waits for another leader when this member ends, and its
// clients find one when they have moved.
func (x house) HandOver() {
	heirs := map[*life]uint32{}
	for _, l := range x.t.all() {
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
	end := time.Now().Add(core.LeaveMax)
	for leads() && time.Now().Before(end) && process.Sleep(x.t.ctx, stopping.Poll) {
	}
}

// Needed reports whether this member alone decides in some database, or one of two, where one copy is enough, and
// another one can take its place: it votes as soon as it has all, leads, and then this one is needed no longer (quorum
// Q9).
func (x house) Needed() bool {
	return slices.ContainsFunc(x.t.all(), func(l *life) bool {
		voters := l.order.core.Voters()
		return l.config.Copies() == 1 && len(voters) <= 2 && slices.Contains(voters, l.config.Member) &&
			x.t.standing.Understand(bootstrap.Roles) && l.succeeded()
	})
}

// succeeded reports whether another member is there, stays, and may vote.
func (l *life) succeeded() bool {
	return slices.ContainsFunc(l.others.peers.All(), func(m uint32) bool {
		s, alive := l.others.peers.Get(m)
		stays := s.State == replica.Synced || s.State == replica.CatchingUp || s.State == replica.NoLeader
		return alive && stays && m != l.config.Member && l.config.MayVote(m)
	})
}

// Settle waits, for a while, until all is in the order that sessions which have left had yet to say to the others:
// that their advisory locks are free, and what they have notified.
func (x house) Settle() {
	ctx, cancel := context.WithTimeout(x.t.ctx, advisory.ReleaseWait)
	defer cancel()
	for _, l := range x.t.all() {
		_ = l.notices.CatchUp(ctx) // or it is too late
		for !l.saidAll() && process.Sleep(ctx, stopping.Poll) {
		}
	}
}

// saidAll reports whether nothing waits to be put into the order, or is under way there, that sessions have said which
// are gone.
func (l *life) saidAll() bool {
	return l.notices.Settled() && l.advisory.Settled()
}
