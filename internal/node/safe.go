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
	h.g.Hold()
	if stop() || !h.n.gate.EnterPatient(h.g, stop, h.g.BreakOff) {
		h.g.Release()
		return 0, false, cmp.Or(h.Interrupted(), errEnding())
	}
	return h.n.core.Applied(), time.Since(x.safeSince) < safeMax, nil
}

func (x *snapshots) LeaveSafe() (broken bool) {
	broken = x.h.g.Release()
	x.h.n.gate.LeavePatient(x.h.g)
	return broken
}
