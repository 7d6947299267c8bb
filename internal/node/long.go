package node

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/failure"
	"github.com/tuttidb/tutti/internal/process"
	"github.com/tuttidb/tutti/internal/replay"
	"github.com/tuttidb/tutti/internal/semantics"
	"github.com/tuttidb/tutti/internal/session"
	"github.com/tuttidb/tutti/internal/wire"
	"github.com/tuttidb/tutti/internal/writeset"
)

// A definition that reads or writes a large table, as CREATE INDEX does, may take long. What is ordered after it does
// not wait for it at a member, unless it has to. It is then long:
//
//	L1  The transaction that moves the progress over it puts it into tutti.pending, its own adds there that it is
//	    done: it does not see the other row, see L4. What a start finds to be not done is carried out anew.
//	L2  While it runs, whatever writes to a table that it holds waits, and so does another definition, a check, and a
//	    transaction with definitions.
//	L3  A transaction of this member that began before it ended loses if it has written to a table that it holds, or
//	    has definitions of its own: its base says that it has seen the definition, and it has not.
//	L4  It runs in one snapshot, of what was ordered before it: what it reads besides is the same at every member.
//	    After a start it is not, so only code of users that is immutable may run in it (semantics.Long), or it is
//	    ordered again.
//
// That is each member's own decision: the order, and what is certified, do not know of it.

const (
	longAfter    = 400 * time.Millisecond // a definition that takes so long becomes a long one
	longInterval = 50 * time.Millisecond  // how often one is looked at that cannot become one yet
	longsMax     = 64                     // ended ones that are remembered, see L3
)

// longs is what sessions have to know of long definitions (L3).
type longs struct {
	mu    sync.Mutex
	began uint64        // how many there were
	ended uint64        // how many of them have ended: all but one, or all
	last  []*replay.Job // the latest of them
	ends  sync.Cond
}

func (l *longs) init() { l.ends.L = &l.mu }

// add is called before anything that is ordered after it can be seen.
func (l *longs) add(g *replay.Job) {
	l.mu.Lock()
	l.began++
	g.Number = l.began
	if len(l.last) == longsMax {
		l.last = slices.Delete(l.last, 0, 1)
	}
	l.last = append(l.last, g)
	l.mu.Unlock()
}

// end is called when the tables are known as it has left them.
func (l *longs) end() {
	l.mu.Lock()
	l.ended = l.began
	l.mu.Unlock()
	l.ends.Broadcast()
}

// wake makes who awaits look at its stop function again.
func (l *longs) wake() {
	l.mu.Lock() // so that nobody is between looking and waiting
	l.mu.Unlock()
	l.ends.Broadcast()
}

// seen is how many a transaction that begins now has seen.
func (l *longs) seen() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ended
}

// under is the one that goes on, or nil.
func (l *longs) under() *replay.Job {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended == l.began {
		return nil
	}
	return l.last[len(l.last)-1]
}

// await waits until none goes on, or stop is true.
func (l *longs) await(stop func() bool) { l.awaitUpTo(math.MaxUint64, stop) }

// awaitUpTo is await for those up to a number.
func (l *longs) awaitUpTo(number uint64, stop func() bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.ended < min(number, l.began) && !stop() {
		l.ends.Wait()
	}
}

// awaitLong waits for the end of one, but not for ever: its client may have given up.
func (l *life) awaitLong(g *replay.Job) {
	timeout := time.NewTimer(longPatience)
	defer timeout.Stop()
	select {
	case <-g.Done:
		l.longs.awaitUpTo(g.Number, l.ending) // the next may be under way already
	case <-l.done:
	case <-timeout.C:
	}
}

// missed is one that a transaction has not seen and should have; nil if there is none.
func (l *longs) missed(seen uint64, ws *writeset.Writeset) *replay.Job {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.began - seen
	if n > uint64(len(l.last)) {
		return l.last[0]
	}
	for _, g := range l.last[uint64(len(l.last))-n:] {
		if g.Touches(ws) {
			return g
		}
	}
	return nil
}

// missedError is told to a transaction that loses by L3.
func (l *life) missedError(g *replay.Job) *wire.SQLError {
	id := g.Task.Item.ID
	return wire.Errorf(wire.CodeSerializationFailure,
		concurrentUpdate).WithHint("The transaction might succeed if retried.").
		WithDetail("A schema change, transaction %s of node %s, was carried out here while this transaction was open.",
			id, l.name(id.Member))
}

// carryOut has the definer carry out a definition, d or the steps of a task. It returns when that is done, with the
// definition's result, or when it has become long; then over is false.
func (l *life) carryOut(ctx context.Context, last uint64, t engine.Task, d *session.Definition) (r session.Result,
	over bool, err error) {
	g := &replay.Job{Task: t, Last: last, Free: time.Now(), Definition: d, Kind: replay.JobKind(&t, d),
		Kept: make(chan struct{}), Done: make(chan struct{})}
	l.applier.Begun.Store(max(last, l.applier.Begun.Load()))
	l.begin(ctx, g)
	defer l.running.instead(l.applier.Definer.Conn.PID())()
	for wait := longAfter; ; wait = longInterval {
		timer := time.NewTimer(wait)
		select {
		case <-g.Done:
			timer.Stop()
			return g.Result, true, l.finish(ctx, g)
		case <-timer.C:
		}
		if g.Kind == semantics.NotLong {
			<-g.Done
			return g.Result, true, l.finish(ctx, g)
		}
		held, working, err := l.monitor.Holds(ctx, l.applier.Definer.Conn.PID())
		if err != nil {
			return r, false, err
		}
		if working && g.Kind == semantics.LongAttached {
			if working, err = l.drawCurtain(ctx, g); err != nil {
				return r, false, err
			}
		}
		if !working || !g.Leave() {
			continue
		}
		g.Hold(held)
		if err := l.applier.Keep(ctx, last, &t); err != nil {
			return r, false, err
		}
		close(g.Kept)
		l.longs.add(g)
		l.long = g
		l.log.Info("a definition goes on beside what is ordered after it", "ordinal", t.Ordinal, "transaction",
			t.Item.ID.String())
		l.running.watch()
		return r, false, nil
	}
}

// begin has the definer begin with it.
func (l *life) begin(ctx context.Context, g *replay.Job) {
	a := l.applier.Definer
	a.Tables, a.Job = l.applier.Tables, g
	l.background.Go(func() {
		defer close(g.Done)
		if g.Concurrent() {
			if g.Result, g.Err = a.Concurrently(ctx, g.Definition, g.Anew); g.Err == nil {
				g.Err = a.NoteDone(ctx, g.Last)
			}
		} else if g.Definition != nil {
			g.Result, g.Err = a.Define(ctx, g.Last, g.Task, *g.Definition)
		} else {
			g.Err = a.ApplySteps(ctx, g.Last, g.Task)
		}
	})
}

// finish takes over what the definer knows of the tables.
func (l *life) finish(ctx context.Context, g *replay.Job) error {
	if g.Err != nil {
		return g.Err
	}
	l.applier.Tables, l.applier.Definer.Job = l.applier.Definer.Tables, nil
	l.tables.Store(l.applier.Tables)
	l.streaming.GiveWay() // what it began with is not so any more
	return l.applier.Forget(ctx)
}

// beside waits for the long definition, if there is one, before a group that must not go on beside it (L2).
func (l *life) beside(ctx context.Context, group *engine.Group) error {
	g := l.long
	if g == nil {
		return nil
	}
	if !g.Over() {
		waits := false
		for i := range group.Tasks {
			switch t := &group.Tasks[i]; t.Item.Kind {
			case engine.KindCertified:
				waits = waits || g.Touches(t.Writeset)
			case engine.KindStatement:
				waits = true
			case engine.KindCheck:
				waits = waits || len(t.Item.Payload) == 0 // a part of an audit is left out
			}
		}
		if !waits {
			return nil
		}
		l.running.begin([]engine.Task{g.Task}, nil)
		defer l.running.instead(l.applier.Definer.Conn.PID())()
		<-g.Done
		if err := l.finishLocals(ctx, group); err != nil {
			return err
		}
	}
	return l.endLong(ctx)
}

// endLong is called by the executor when the long definition is over.
func (l *life) endLong(ctx context.Context) error {
	g := l.long
	if err := l.finish(ctx, g); err != nil {
		return err
	}
	l.long = nil
	l.longs.end()
	l.log.Info("the definition is carried out", "ordinal", g.Task.Ordinal, "transaction", g.Task.Item.ID.String())
	l.answer(&g.Task, g.Result)
	return nil
}

// answer tells the session that waits for a definition of this member's, if there is one.
func (l *life) answer(t *engine.Task, r session.Result) {
	if t.Item.ID.Member == l.config.Member && t.Item.ID.Incarnation == l.incarnation {
		if c, ok := l.definitions.Load(t.Item.ID.Seq); ok {
			c.(chan session.Result) <- r
		}
	}
}

// resume begins anew with what was under way when the last life ended (L1).
func (l *life) resume(ctx context.Context) error {
	tasks, err := l.applier.Pending(ctx)
	if err != nil {
		return err
	}
	for _, t := range tasks {
		g := &replay.Job{Task: t, Last: t.Ordinal, Anew: true, Free: time.Now(), Beside: true,
			Kept: make(chan struct{}), Done: make(chan struct{})}
		close(g.Kept)
		if t.Item.Kind == engine.KindStatement {
			d, _, err := replay.DecodeDefinition(t.Writeset.Steps[0].Definition)
			if err != nil {
				return &failure.Fatal{Err: err}
			}
			g.Definition = &d
		}
		l.log.Info("a definition was not carried out", "ordinal", t.Ordinal, "transaction", t.Item.ID.String())
		switch replay.JobKind(&t, g.Definition) {
		case semantics.LongSnapshot:
			l.background.Go(func() { l.orderAgain(ctx, g) })
			continue
		case semantics.LongAttached: // it must be there before anybody reads
			l.begin(ctx, g)
			<-g.Done
			if err := l.finish(ctx, g); err != nil {
				return err
			}
			continue
		}
		if !g.Concurrent() {
			g.Kind = semantics.LongNamed // it has no locks yet
			g.Hold(nil)
		}
		l.longs.add(g)
		l.long = g
		l.begin(ctx, g)
		l.running.watch()
	}
	return nil
}

// orderAgain has a definition ordered once more, so that all members carry it out at one place: it cannot read what it
// should have read any more.
func (l *life) orderAgain(ctx context.Context, g *replay.Job) {
	select {
	case <-l.opened:
	case <-l.done:
		return
	}
	d := *g.Definition
	for d.Extent = g.Task.Writeset; process.Sleep(ctx, longInterval); {
		d.Base = l.complete()
		r := l.define(d, nil)
		if r.Err != nil {
			l.log.Warn("a definition that was ordered again has failed", "error", r.Err)
			switch r.Err.Code {
			case wire.CodeTuttiOutdated, wire.CodeCannotConnectNow:
				continue
			case wire.CodeStatementUnknown:
				return // it is still pending at the next start
			}
		}
		if _, err := l.monitor.Exec(ctx, fmt.Sprintf("INSERT INTO tutti.pending (ordinal, done, item) VALUES (%d, "+
			"true, '') ON CONFLICT DO NOTHING", g.Task.Ordinal)); err != nil {
			l.log.Warn("a definition is ordered again at the next start, once more", "error", err)
		}
		return
	}
}
