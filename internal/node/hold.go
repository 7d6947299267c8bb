package node

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/tuttidb/tutti/internal/capture"
	"github.com/tuttidb/tutti/internal/flow"
	"github.com/tuttidb/tutti/internal/schemalock"
	"github.com/tuttidb/tutti/internal/semantics"
	"github.com/tuttidb/tutti/internal/session"
	"github.com/tuttidb/tutti/internal/wire"
	"github.com/tuttidb/tutti/internal/writeset"
)

// Hold has the other members hold back what they would write to the tables of an extent. The client's wish to cancel
// that, its limits, and that the transaction has lost meanwhile, are errors.
func (h *host) Hold(extent *writeset.Writeset, limits session.Limits) *wire.SQLError {
	want := schemalock.Tables{All: extent.Barrier}
	for _, t := range extent.Tables {
		want.Keys = append(want.Keys, t.Key)
	}
	wish, end := holdWish{most: holdPatience}, deadlineOf(limits, true)
	if why := end.passed(); why != nil {
		return cmp.Or(h.interrupted(), why)
	}
	if left := time.Until(end.at); end.why != nil && left < holdPatience {
		wish.most, wish.must = left, true
	}
	late, failure := h.hold(want, wish)
	if late {
		failure = cmp.Or(failure, end.why)
	}
	return failure
}

// HoldTables is Hold for LOCK TABLE, which waits for other members' sessions that have locked the same tables for most
// milliseconds, or without limit if that is zero. Late: it was not enough, or the statement says NOWAIT.
func (h *host) HoldTables(lock *semantics.TableLock, schemas []string, most int64) (late bool, failure *wire.SQLError) {
	r, err := h.n.monitor.Exec(context.Background(), capture.LockExtentSQL(lock.Relations, schemas))
	if err != nil {
		h.n.log.Debug("the tables that a session locks cannot be looked up; it goes on without a hold", "error", err)
		return false, nil
	}
	tables, err := capture.LockExtent(r[0].Rows[0][0], lock.Mode >= int32(writeset.ShareTable))
	if err != nil {
		h.n.log.Error("the tables that a session locks cannot be read", "error", err)
		return false, nil
	}
	var want schemalock.Tables
	for _, t := range tables {
		want.Keys = append(want.Keys, t.Key)
	}
	if len(want.Keys) == 0 {
		return false, nil
	}
	wish := holdWish{most: holdMax, patient: true, noWait: lock.NoWait}
	if most > 0 {
		limit := time.Duration(most) * time.Millisecond
		wish.most, wish.must = min(holdMax, limit), limit <= holdMax
	}
	return h.hold(want, wish)
}

// holdWish is how a hold is asked for.
type holdWish struct {
	most    time.Duration // that is waited for it; after that the transaction goes on without
	patient bool          // for who has it already, too
	must    bool          // it does not go on without it, unless a member cannot be heard
	noWait  bool
}

// hold asks for one. It is late if it must be given and was not.
func (h *host) hold(want schemalock.Tables, wish holdWish) (late bool, failure *wire.SQLError) {
	l := h.n
	answers := make(chan schemalock.Answer, holdAnswersMax)
	before, request, ask := l.holds.want(h, want, l.incarnation, answers)
	if !ask {
		return false, nil
	}
	defer l.holds.heard(request.Number)
	if before.Held { // two that have one, and want another, might wait for each other
		wish.most, wish.must = min(wish.most, holdPatience), wish.must && wish.most <= holdPatience
	}
	request.Patient, request.NoWait = wish.patient, wish.noWait
	deadline := time.Now().Add(wish.most)
	defer l.metrics.Waits.Begin(flow.WaitLock).End()
	stop := func() bool { return h.interrupted() != nil }
	var others []uint32
	for _, m := range l.config.Members {
		if m.Member != l.config.Member {
			others = append(others, m.Member)
		}
	}
	ordinal, end := gather(answers, request.Round, others,
		func(m uint32) (told, fresh bool) { return l.askHold(m, request) }, deadline, stop)
	for ; end == holdGiven && l.core.Applied() < ordinal; time.Sleep(holdInterval) {
		switch {
		case stop():
			end = holdStopped
		case time.Now().After(deadline):
			end = holdLate
		}
	}
	late = end == holdTaken && wish.noWait || end == holdLate && wish.must
	over := false
	l.holds.with(func(k *schemalock.Locks, _ int64) { over = k.Answered(h, before, end == holdGiven, late) })
	if over {
		l.tellHold(request.Number, schemalock.Request{Over: true})
	}
	if why := h.interrupted(); why != nil {
		return false, why
	}
	return late, nil
}

// GiveBack ends the hold that the session's transaction has, if it has one.
func (h *host) GiveBack() {
	var number uint64
	var tell bool
	h.n.holds.with(func(k *schemalock.Locks, _ int64) { number, tell = k.Release(h) })
	if tell {
		h.n.tellHold(number, schemalock.Request{Over: true})
	}
}

// want notes what a session wants to hold, and that answers come through a channel, until heard is called. There is
// nothing to ask for if it has that, or has given up.
func (x *holds) want(
	h *host, tables schemalock.Tables, life uint64, answers chan schemalock.Answer,
) (before schemalock.Before, request schemalock.Request, ask bool) {
	x.with(func(k *schemalock.Locks, _ int64) {
		if before, request, ask = k.Want(h, tables, life); ask {
			x.answers[request.Number] = answers
		}
	})
	return before, request, ask
}

// heard ends that answers about a hold are taken.
func (x *holds) heard(number uint64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.answers, number)
}

// holdEnd is how asking for a hold ends.
type holdEnd uint8

const (
	holdGiven   holdEnd = iota
	holdTaken           // a session of another member comes first, and it was asked not to wait
	holdLate            // a member has not given it
	holdStopped         // it is wanted no longer
)

// askHold asks a member. Told: it can be heard, and the word has left. Fresh: this member may not have heard of all
// others yet.
func (l *life) askHold(member uint32, request schemalock.Request) (told, fresh bool) {
	if l.peers.HaltedAt(member) != nil {
		return false, false // it has no sessions
	}
	_, alive := l.peers.Get(member)
	sent := l.sendHold(member, request)
	fresh = l.peers.Young()
	return sent && (alive || fresh), fresh
}

// gather asks the members that can be heard, again and again, and waits for their answers. It gives the last ordinal
// that one of them told.
func gather(
	answers <-chan schemalock.Answer, round uint64, members []uint32, ask func(member uint32) (told, fresh bool),
	deadline time.Time, stop func() bool,
) (ordinal uint64, end holdEnd) {
	var asked []uint32
	for _, m := range members {
		if told, fresh := ask(m); told || fresh {
			asked = append(asked, m)
		}
	}
	look := time.NewTicker(holdInterval)
	defer look.Stop()
	for again := time.Now().Add(holdRenewal); len(asked) > 0; {
		select {
		case a := <-answers:
			if a.Round != round {
				continue
			}
			if a.Taken {
				return 0, holdTaken
			}
			ordinal = max(ordinal, a.Ordinal)
			asked = slices.DeleteFunc(asked, func(m uint32) bool { return m == a.From })
		case now := <-look.C:
			switch {
			case stop():
				return 0, holdStopped
			case now.After(deadline):
				return 0, holdLate
			case now.After(again): // it, or the answer, may have been lost
				asked = slices.DeleteFunc(asked, func(m uint32) bool {
					told, _ := ask(m)
					return !told
				})
				again = now.Add(holdRenewal)
			}
		}
	}
	return ordinal, holdGiven
}
