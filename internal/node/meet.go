package node

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/tuttidb/tutti/internal/capture"
	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/failure"
	"github.com/tuttidb/tutti/internal/halt"
	"github.com/tuttidb/tutti/internal/process"
	"github.com/tuttidb/tutti/internal/replay"
	"github.com/tuttidb/tutti/internal/writeset"
)

// Databases have orders of their own. A definition of what all of them share, of a role for instance, is ordered in the
// main database; but whether it works may depend on the others, and what comes later in theirs on it. So it meets them:
//
//	M1  It runs at a member when every other database there has come to the meeting: to the first item of its order
//	    that names this one or a later one. The number of a meeting is the definition's ordinal.
//	M2  A database that has come goes on when the main database's definition has run at its member.
//
// So the definition has the same place in every order at all members. Every member asks for the meeting when the
// definition is due there, so one that fails holds nobody up. What asks is a definition that changes no table: who has
// changed the schema, and has not seen it, loses. Meetings cannot wait for each other in a circle: the main database
// comes to them in the order of their numbers.

// meetAgain is after how long a meeting is asked for again: the item may have been out of date.
const meetAgain = 200 * time.Millisecond

// meets is how far a replica is with its meetings.
type meets struct {
	met     atomic.Uint64 // the last one to which it came
	through atomic.Uint64 // up to which the main database has everything, if that is more than what is applied
}

// meet waits until the other databases have come to a meeting (M1).
func (l *life) meet(ctx context.Context, number uint64) error {
	l.meets.through.Store(number - 1) // after a start the applied ordinal may be behind
	for _, other := range l.tenure.all() {
		if other == l {
			continue
		}
		if err := other.come(ctx, number); err != nil {
			return err
		}
	}
	return nil
}

// come waits until this database has come to a meeting, and sees to it that it does.
func (l *life) come(ctx context.Context, number uint64) error {
	var asked time.Time
	seq := uint64(0)
	for l.meets.met.Load() < number && !l.course.ending() {
		if h := l.course.halted.Load(); h != nil {
			return &failure.Fatal{Err: &halt.Waits{Database: l.id.database, Halt: h}}
		}
		if time.Since(asked) > meetAgain && l.resolved(seq) {
			ws, err := capture.Extent([]byte("[]"), false, false)
			if err != nil {
				return err
			}
			ws.Steps = []writeset.Step{{Definition: replay.EncodeMeeting(number)}}
			payload := ws.Append(nil)
			asked, seq = time.Now(), l.order.seq.Add(1)
			l.order.core.Do(func(e *engine.Engine) { // what finds no room is asked again
				e.Submit(engine.Submission{Kind: engine.KindStatement, Seq: seq, Base: l.order.core.Applied(),
					Payload: payload})
			})
		}
		if !process.Sleep(ctx, time.Millisecond) {
			return ctx.Err()
		}
	}
	return nil
}

// resolved reports whether a submission is no longer under way.
func (l *life) resolved(seq uint64) bool {
	over := true
	l.order.core.Call(func(e *engine.Engine) { over = !e.Undecided(seq) })
	return over
}

// attend is the other side: this database has come to a meeting, and waits for the main database (M2).
func (l *life) attend(ctx context.Context, number uint64) error {
	l.meets.met.Store(max(number, l.meets.met.Load()))
	for {
		main := l.tenure.life(mainGroup)
		if main != nil && max(main.order.core.Applied(), main.meets.through.Load()) >= number {
			return l.groupSettled()
		}
		if main != nil {
			if h := main.course.halted.Load(); h != nil {
				return &failure.Fatal{Err: &halt.Waits{Database: main.id.database, Halt: h}}
			}
		}
		if !process.Sleep(ctx, time.Millisecond) {
			return ctx.Err()
		}
	}
}
