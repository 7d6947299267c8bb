package node

import (
	"cmp"
	"time"

	"github.com/tuttidb/tutti/internal/flow"
	"github.com/tuttidb/tutti/internal/wire"
)

// A SERIALIZABLE READ ONLY DEFERRABLE transaction waits, while it takes its snapshot, until PostgreSQL finds that safe:
// until those SERIALIZABLE transactions of this member have ended that were open and may write. It does so at the gate,
// because the snapshot must be a prefix of the order, and no group waits for it: it is cancelled and takes another
// snapshot behind the group, which may have the end of a transaction for which it has waited.

const (
	safeMax      = 10 * time.Second     // then any snapshot will do
	safePauseMin = 2 * time.Millisecond // before the second try; each one makes a group wait for a cancel
	safePauseMax = 100 * time.Millisecond
	safeAgain    = 5 * time.Millisecond // after how long a cancel is repeated that may have come too early
)

// EnterSnapshot waits at the gate.
func (x *snapshots) EnterSnapshot() (uint64, *wire.SQLError) {
	h := x.h
	wait := h.n.metrics.Waits.Begin(flow.WaitSnapshot)
	entered := h.n.gate.Enter(func() bool { return h.Interrupted() != nil })
	wait.End()
	if !entered {
		return 0, cmp.Or(h.Interrupted(), errEnding())
	}
	return h.n.core.Applied(), nil
}

// LeaveSnapshot opens the gate for the next group.
func (x *snapshots) LeaveSnapshot() { x.h.n.gate.Leave() }

// EnterSafe is described in session.Snapshots.
func (x *snapshots) EnterSafe(try int) (base uint64, waits bool, doom *wire.SQLError) {
	h := x.h
	defer h.n.metrics.Waits.Begin(flow.WaitSafe).End()
	if try == 0 {
		x.safeSince = time.Now()
	}
	if try > 0 {
		pause := time.NewTimer(min(safePauseMin<<min(try-1, 10), safePauseMax))
		select {
		case <-pause.C:
		case <-h.n.done:
			pause.Stop()
		}
	}
	stop := func() bool { return h.Interrupted() != nil }
	h.g.hold()
	if stop() || !h.n.gate.EnterPatient(h.g, stop, h.g.breakOff) {
		h.g.release()
		return 0, false, cmp.Or(h.Interrupted(), errEnding())
	}
	return h.n.core.Applied(), time.Since(x.safeSince) < safeMax, nil
}

func (x *snapshots) LeaveSafe() (broken bool) {
	broken = x.h.g.release()
	x.h.n.gate.LeavePatient(x.h.g)
	return broken
}

// hold is called before something that may be broken off.
func (g *guard) hold() {
	g.mu.Lock()
	g.broken, g.left = false, make(chan struct{})
	g.mu.Unlock()
}

// breakOff cancels what the backend executes until release is called. It does not wait.
func (g *guard) breakOff() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.left != nil {
		g.interruptUntilLeft()
	}
}

// interruptUntilLeft is breakOff, called with mu held: one cancel might come before what it is meant for.
func (g *guard) interruptUntilLeft() {
	if g.broken {
		return
	}
	left := g.left
	g.broken = true
	g.cancels++
	go func() {
		for over := false; !over; {
			g.cancel()
			again := time.NewTimer(safeAgain)
			select {
			case <-left:
				over = true
			case <-again.C:
			}
			again.Stop()
		}
		g.mu.Lock()
		g.cancels--
		if g.cancels == 0 {
			g.quiet.Broadcast()
		}
		g.mu.Unlock()
	}()
}

// release ends hold once nothing is cancelled any more. It reports whether that was done, and not by the client.
func (g *guard) release() (broken bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.left)
	g.left = nil
	for g.cancels > 0 {
		g.quiet.Wait()
	}
	return g.broken && !g.cancelled.made
}

// wishes reports whether the client has asked to cancel what the session does.
func (g *guard) wishes() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.cancelled.made
}

// Resuming is session.Control's.
func (h *host) Resuming(on bool) {
	h.g.mu.Lock()
	defer h.g.mu.Unlock()
	h.g.cancelled.resumes, h.g.cancelled.again = on, on && h.g.cancelled.made
}

// Cancelled is session.Control's.
func (h *host) Cancelled() bool {
	h.g.mu.Lock()
	defer h.g.mu.Unlock()
	return h.g.cancelled.made || h.g.cancelled.again
}
