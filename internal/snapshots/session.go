package snapshots

import (
	"cmp"
	"time"

	"github.com/tuttidb/tutti/internal/flow"
	"github.com/tuttidb/tutti/internal/session"
	"github.com/tuttidb/tutti/internal/wire"
)

// Client is who a session is to its replica: its guard, mostly.
type Client interface {
	// Interrupted is why the session's transaction waits in vain: it has lost, its client has cancelled that, or the
	// replica ends; nil if it does not.
	Interrupted() *wire.SQLError
	Lost() *wire.SQLError
	Abort(why *wire.SQLError) (phase session.Phase, fresh bool, inWay time.Duration)
	// Hold begins what BreakOff may break off until Release, which reports whether that has happened.
	Hold()
	BreakOff()
	Release() (broken bool)
}

// Session is a session's prefix snapshots, and its part in SERIALIZABLE ones: it is session.Snapshots. Its goroutine
// alone calls it.
type Session struct {
	s                    *Serial
	client               Client
	open, running, alone bool

	safeSince time.Time // it waits for a safe snapshot, see EnterSafe
}

// Session is that of one client.
func (s *Serial) Session(c Client) *Session { return &Session{s: s, client: c} }

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
func (x *Session) EnterSnapshot() (uint64, *wire.SQLError) {
	o := &x.s.o
	wait := o.Waits.Begin(flow.WaitSnapshot)
	entered := o.Gate.Enter(func() bool { return x.client.Interrupted() != nil })
	wait.End()
	if !entered {
		return 0, cmp.Or(x.client.Interrupted(), o.Ends())
	}
	return o.Applied(), nil
}

// LeaveSnapshot opens the gate for the next group.
func (x *Session) LeaveSnapshot() { x.s.o.Gate.Leave() }

// EnterSafe is described in session.Snapshots.
func (x *Session) EnterSafe(try int) (base uint64, waits bool, doom *wire.SQLError) {
	o := &x.s.o
	defer o.Waits.Begin(flow.WaitSafe).End()
	if try == 0 {
		x.safeSince = time.Now()
	}
	if try > 0 {
		pause := time.NewTimer(min(safePauseMin<<min(try-1, 10), safePauseMax))
		select {
		case <-pause.C:
		case <-o.Done:
			pause.Stop()
		}
	}
	stop := func() bool { return x.client.Interrupted() != nil }
	x.client.Hold()
	if stop() || !o.Gate.EnterPatient(x, stop, x.client.BreakOff) {
		x.client.Release()
		return 0, false, cmp.Or(x.client.Interrupted(), o.Ends())
	}
	return o.Applied(), time.Since(x.safeSince) < safeMax, nil
}

// LeaveSafe ends EnterSafe, and reports whether it was broken off.
func (x *Session) LeaveSafe() (broken bool) {
	broken = x.client.Release()
	x.s.o.Gate.LeavePatient(x)
	return broken
}
