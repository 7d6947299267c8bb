package grants

import (
	"cmp"
	"time"

	"github.com/tuttidb/tutti/internal/admission"
	"github.com/tuttidb/tutti/internal/flow"
	"github.com/tuttidb/tutti/internal/intent"
	"github.com/tuttidb/tutti/internal/schemalock"
	"github.com/tuttidb/tutti/internal/session"
	"github.com/tuttidb/tutti/internal/wire"
	"github.com/tuttidb/tutti/internal/writeset"
)

// Client is what a session tells of itself while it waits.
type Client interface {
	// Interrupted is why the session's transaction waits in vain: it has lost, its client has cancelled that, or the
	// replica ends; nil if it does not. Calls that come later may say something else.
	Interrupted() *wire.SQLError
	// Wishes reports whether the client has cancelled what runs.
	Wishes() bool
	// PID is the session's backend.
	PID() uint32
	// Moves counts what the session does: it stays the same while a statement runs, or the client is silent. Silent is
	// the latter.
	Moves() (n uint64, silent bool)
}

// Session is one session's part in locks and turns. Its goroutine alone calls it.
type Session struct {
	client Client
	locks  *Locks
	turns  *Turns

	asked bool // it has asked for a lock

	rows      *Session // its turns at rows; nil for that one itself
	contended *contended

	wrote *writeset.Writeset // for which its last transaction was blocked; nil if it was not
	first bool               // it comes before the next lock
	turn  intent.Owner       // of its transaction; zero: it has none
	bars  bool               // its transaction has, or wants, intent.Bars
	ended uint64             // where the last one was ordered; zero: it was not
}

// Session makes one of a client; what it has begun ends with End and EndTurn.
func (g *Grants) Session(client Client) *Session {
	return &Session{client: client, locks: g.Locks, turns: g.Turns, rows: &Session{client: client, locks: g.rows},
		contended: g.contended}
}

// Pass comes before the session's transaction is handed to the order, and waits while another member's lock blocks it
// (H1). If it fails, the transaction must be rolled back; with 40001 it has lost and may run again, with another code
// the client has cancelled that, or its limits have come, or the replica ends. What has passed waits for Passed.
func (s *Session) Pass(ws *writeset.Writeset, limits session.Limits) *wire.SQLError {
	return s.pass(ws, s, limits)
}

// PassDefinition is Pass for a definition that takes its place in the order by itself. It has no locks in PostgreSQL
// yet, so it loses to nobody, and nothing is noted of it when it has passed.
func (s *Session) PassDefinition(extent *writeset.Writeset, limits session.Limits) *wire.SQLError {
	return s.pass(extent, nil, limits)
}

// pass has as wait, which is s or nil.
func (s *Session) pass(ws *writeset.Writeset, as schemalock.Session, limits session.Limits) (failure *wire.SQLError) {
	x := s.locks
	if blocks, _ := x.blocks(as, ws, 0); !blocks {
		if s.first {
			s.wrote = ws
		}
		return nil
	}
	x.o.Metrics.Flow.HeldBack.Add(1)
	defer x.o.Metrics.Waits.Begin(flow.WaitHeldBack).End()
	end := admission.NewDeadline(s.locks.o.Clock, limits, true)
	defer end.Wakes(x.o.Wake)()
	began := x.o.Clock.Now()
	s.wrote = ws
	if as == nil {
		x.with(func(k *schemalock.Locks, now int64) { k.Waits(now, ws, ws) })
		defer x.with(func(k *schemalock.Locks, now int64) { k.WaitsNo(now, ws, false) })
	}
	x.o.Await(func() bool {
		blocks, lost := x.blocks(as, ws, x.o.Clock.Now()-began)
		switch why := cmp.Or(s.client.Interrupted(), end.Passed()); {
		case why != nil: // also if nothing blocks by now: it may have failed the backend's transaction
			failure = why
		case !blocks:
		case lost && as != nil:
			failure = wire.Errorf(wire.CodeSerializationFailure,
				"could not serialize access due to concurrent update").
				WithHint("The transaction might succeed if retried.").
				WithDetail("A transaction of another node that has changed the schema was about to be ordered.")
		default:
			return false
		}
		return true
	})
	lost := failure != nil && failure.Code == wire.CodeSerializationFailure
	x.with(func(k *schemalock.Locks, now int64) { k.WaitsNo(now, as, lost) })
	return failure
}

// Passed says that the order has decided about what has passed, or will not get it.
func (s *Session) Passed() { s.locks.with(func(k *schemalock.Locks, _ int64) { k.Passed(s) }) }

// Begins says that a transaction is about to begin. If the last one was blocked, locks wait for this one.
func (s *Session) Begins() {
	if s.wrote != nil {
		s.locks.with(func(k *schemalock.Locks, _ int64) { k.ComesAgain(s) })
	}
}

// BeginsAgain comes behind Begins. If the last transaction was blocked, and has lost then, it waits for a moment while
// there is a lock of what that had written. If this one does the same again, the next lock waits for it: whoever
// changes a table again and again does not keep others from writing to it.
func (s *Session) BeginsAgain(lost bool) {
	ws, began := s.wrote, s.locks.o.Clock.Now()
	s.wrote, s.first = nil, false
	if ws == nil {
		return
	}
	x := s.locks
	defer x.with(func(k *schemalock.Locks, now int64) { k.WaitsNo(now, s, false) })
	if !lost {
		return
	}
	x.o.Await(func() bool {
		blocks, _ := x.blocks(s, ws, 0)
		s.first = !blocks
		late := x.o.Clock.Now()-began > time.Duration(schemalock.AgainMax)
		return s.first || late || s.client.Wishes() || x.o.Ending()
	})
	if s.first {
		x.with(func(k *schemalock.Locks, now int64) { k.Reserve(now, s) })
	}
}

// End says that the session's transaction has ended: its lock is over, if it has one. Ordinal is its place in the
// order, if it has committed, else zero.
func (s *Session) End(ordinal uint64) {
	s.ended = ordinal
	s.giveBack(true, ordinal)
	if s.rows.asked {
		s.rows.asked = false
		s.rows.giveBack(true, ordinal)
	}
}

// GiveBack ends the lock that the session's transaction has, if it has one.
func (s *Session) GiveBack() { s.giveBack(false, 0) }

func (s *Session) giveBack(ended bool, ordinal uint64) {
	var number uint64
	var tell bool
	s.locks.with(func(k *schemalock.Locks, _ int64) {
		if number, tell = k.Release(s); ended {
			k.Passed(s)
		}
	})
	if tell {
		s.locks.tell(number, schemalock.Request{Over: true, Ordinal: ordinal})
	}
}

// Hold asks for a lock of the tables of an extent, or of more than the transaction has, and goes on without if it takes
// too long. If it fails, the transaction has lost meanwhile, its client has cancelled that, or its limits have come.
func (s *Session) Hold(extent *writeset.Writeset, limits session.Limits) *wire.SQLError {
	want := schemalock.Tables{All: extent.Barrier}
	for _, t := range extent.Tables {
		want.Keys = append(want.Keys, t.Key)
	}
	w, end := wish{most: patience, what: flow.WaitLock}, admission.NewDeadline(s.locks.o.Clock, limits, true)
	if why := end.Passed(); why != nil {
		return cmp.Or(s.client.Interrupted(), why)
	}
	left, why := end.Left()
	if why != nil && left < patience {
		w.most, w.must = left, true
	}
	late, failure := s.hold(want, w)
	if late {
		failure = cmp.Or(failure, why)
	}
	return failure
}

// HoldTables asks for a lock of tables, by their keys, for LOCK TABLE, which waits for other members' sessions that
// have locked the same ones, for most milliseconds, or without limit if that is zero. Late: it was not enough, or
// another session has one of them and noWait says not to wait for that; the transaction has no more locks than before.
func (s *Session) HoldTables(keys []uint64, noWait bool, most int64) (late bool, failure *wire.SQLError) {
	if len(keys) == 0 {
		return false, nil
	}
	w := wish{most: blockedMax, patient: true, noWait: noWait, what: flow.WaitLock}
	if most > 0 {
		limit := time.Duration(most) * time.Millisecond
		w.most, w.must = min(blockedMax, limit), limit <= blockedMax
	}
	return s.hold(schemalock.Tables{Keys: keys}, w)
}

// wish is how a lock is asked for.
type wish struct {
	most    time.Duration // that is waited for it; after that the transaction goes on without
	patient bool          // for who has it already, too
	must    bool          // it does not go on without it, unless a member cannot be heard
	noWait  bool
	what    flow.Wait
}

// late reports whether a lock that is not granted leaves the transaction what it has.
func (w wish) late(end ending) bool {
	return end == taken && w.noWait || end == late && w.must || end == stopped && w.what == flow.WaitRow
}

// hold asks for a lock. It is late if it must be granted and was not.
func (s *Session) hold(want schemalock.Tables, w wish) (isLate bool, failure *wire.SQLError) {
	x := s.locks
	answers := newAnswers()
	before, request, ask := x.want(s, want, answers)
	if !ask {
		return false, nil
	}
	s.asked = true
	defer x.heard(request.Number)
	if before.Held { // two that have one, and want another, might wait for each other
		w.most, w.must = min(w.most, patience), w.must && w.most <= patience
	}
	request.Patient, request.NoWait = w.patient, w.noWait
	deadline := x.o.Clock.Now() + w.most
	defer x.o.Metrics.Waits.Begin(w.what).End()
	stop := func() bool { return s.client.Interrupted() != nil }
	ordinal, end := uint64(0), late
	if !before.Held || x.comesUp(want, deadline, stop) {
		ordinal, end = gather(x.o.Clock, answers, request.Round, x.others(),
			func(m uint32) (told, unheard bool) { return x.ask(m, request) }, deadline, stop)
	}
	if planted == "grant-not-seen" {
		ordinal = 0
	}
	for ; end == granted && x.o.Applied() < ordinal; x.o.Clock.Rest(interval, nil) { // H3
		switch {
		case stop():
			end = stopped
		case x.o.Clock.Now() > deadline:
			end = late
		}
	}
	isLate = w.late(end)
	over := false
	x.with(func(k *schemalock.Locks, _ int64) { over = k.Answered(s, before, end == granted, isLate) })
	if over {
		x.tell(request.Number, schemalock.Request{Over: true})
	}
	if why := s.client.Interrupted(); why != nil {
		return false, why
	}
	return isLate, nil
}

// comesUp waits until this member grants no lock of tables of which a session wants one that has another. False if that
// takes too long, or is wanted no longer.
func (x *Locks) comesUp(want schemalock.Tables, deadline time.Duration, stop func() bool) (ok bool) {
	for {
		applied, behind := x.o.Applied(), false
		x.with(func(k *schemalock.Locks, _ int64) { behind = k.Behind(applied, want) })
		if !behind {
			return true
		}
		if stop() || x.o.Clock.Now() > deadline {
			return false
		}
		x.o.Clock.Rest(interval, nil)
	}
}
