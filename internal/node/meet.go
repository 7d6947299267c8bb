package node

import (
	"context"

	"github.com/tuttidb/tutti/internal/capture"
	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/meetings"
	"github.com/tuttidb/tutti/internal/replay"
	"github.com/tuttidb/tutti/internal/writeset"
)

// meetingsOf is a replica as its meetings need it; its core need not be there yet.
func meetingsOf(l *life) meetings.Options {
	return meetings.Options{
		Database: l.id.database, Applied: func() uint64 { return l.order.core.Applied() }, Halted: l.course.halted.Load,
		Ending: l.course.ending, Ask: func(number uint64) (uint64, error) { return askMeeting(l, number) },
		UnderWay: func(seq uint64) bool { return !l.resolved(seq) },
	}
}

// askMeeting puts a word into a database's order that names a meeting.
func askMeeting(l *life, number uint64) (seq uint64, err error) {
	ws, err := capture.Extent([]byte("[]"), false, false)
	if err != nil {
		return 0, err
	}
	ws.Steps = []writeset.Step{{Definition: replay.EncodeMeeting(number)}}
	payload := ws.Append(nil)
	seq = l.order.seq.Add(1)
	l.order.core.Do(func(e *engine.Engine) {
		e.Submit(engine.Submission{Kind: engine.KindStatement, Seq: seq, Base: l.order.core.Applied(),
			Payload: payload})
	})
	return seq, nil
}

// meeting is executor.Meetings of a replica.
type meeting struct{ l *life }

// Hold waits until the other databases have come to a meeting of this one.
func (x meeting) Hold(ctx context.Context, number uint64) error {
	l := x.l
	var others []*meetings.Meetings
	for _, other := range l.tenure.all() {
		if other != l {
			others = append(others, other.meetings)
		}
	}
	return l.meetings.Hold(ctx, number, others)
}

// Attend is the other side, when this database has come to it.
func (x meeting) Attend(ctx context.Context, number uint64) error {
	return x.l.meetings.Attend(ctx, number, func() *meetings.Meetings {
		if main := x.l.tenure.life(mainGroup); main != nil {
			return main.meetings
		}
		return nil
	})
}

// resolved reports whether a submission is no longer under way.
func (l *life) resolved(seq uint64) bool {
	over := true
	l.order.core.Call(func(e *engine.Engine) { over = !e.Undecided(seq) })
	return over
}
