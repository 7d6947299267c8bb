package replay

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tuttidb/tutti/internal/database/catalog"
	"github.com/tuttidb/tutti/internal/database/link"
	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/failure"
	"github.com/tuttidb/tutti/internal/process"
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
//	    has definitions of its own and did not wait for that end in its turn (TU2 of grants): its base says that it
//	    has seen the definition, and it has not.
//	L4  It runs in one snapshot, of what was ordered before it: what it reads besides is the same at every member.
//	    After a start it is not, so only code of users that is immutable may run in it (semantics.Long), or it is
//	    ordered again.
//
// That is each member's own decision: the order, and what is certified, do not know of it.

const (
	longAfter = 400 * time.Millisecond // a definition that takes so long becomes a long one
	// LongInterval is how often one is looked at that cannot become one yet, and who blocks one is looked for.
	LongInterval = 50 * time.Millisecond
	// BlockedAfter is for how long something is carried out until who blocks it is looked for.
	BlockedAfter = 3 * time.Millisecond
)

// JobOptions are what the definition jobs and detachments of a replica need of it.
type JobOptions struct {
	Log        *slog.Logger
	ConnString string // of the local database
	Applier    *Applier
	Monitor    *link.Monitor
	Streaming  *Streaming
	Backends   *Backends

	// Watch has somebody look who blocks them, and Shown names the definition for which a group waits.
	Watch func()
	Shown func(engine.Task)
	// Described takes the tables as a definition has left them.
	Described func(*catalog.Tables)
	// Answer tells the session that waits for a definition, if it is one of this member's.
	Answer func(*engine.Task, session.Result)
	// Seq is a new sequence, and TxID the transaction of this life with one.
	Seq  func() uint64
	TxID func(seq uint64) writeset.TxID
	// Define has a definition ordered. Complete is up to where everything is visible.
	Define   func(writeset.TxID, session.Definition) session.Result
	Complete func() uint64
	// Unblock has those lose who block a backend. It has been blocked for so long.
	Unblock func(ctx context.Context, backend uint32, blocked time.Duration) error

	Background   func(func())
	Opened, Done <-chan struct{}

	// Group is the order's; Vain is the process's.
	Group uint64
	Vain  *Vain
}

// Vain is which definitions went on beside what follows them, and turned out to be none that can be carried out here.
// The next life does not serve before it has tried again, and so halts (HA1). It is safe for concurrent use; the zero
// value is ready.
type Vain struct {
	mu      sync.Mutex
	entries map[[2]uint64]bool // by group and ordinal
}

func (v *Vain) note(group, ordinal uint64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.entries == nil {
		v.entries = map[[2]uint64]bool{}
	}
	v.entries[[2]uint64{group, ordinal}] = true
}

func (v *Vain) has(group, ordinal uint64) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.entries[[2]uint64{group, ordinal}]
}

// Jobs are the definitions that a replica carries out. All methods but Cancel and those of longs are the executor's.
type Jobs struct {
	longs
	o    JobOptions
	long *Job // the definition that goes on beside groups, or nil

	afterwards func() // what is done once the definition's group counts as applied
}

// NewJobs makes one that has nothing to do.
func NewJobs(o JobOptions) *Jobs {
	x := &Jobs{o: o}
	x.ends.L = &x.mu
	return x
}

// Backends are the sessions with which the executor carries out what it does. Safe for concurrent use.
type Backends struct {
	Busy    atomic.Uint32 // the one that is at work
	Curtain atomic.Uint32 // that of the curtain that is drawn, or zero
}

// Instead has another backend be the one that is at work, until over is called.
func (b *Backends) Instead(pid uint32) (over func()) {
	was := b.Busy.Swap(pid)
	return func() { b.Busy.Store(was) }
}

// newJob is a definition that begins now: d, or the steps of a task.
func newJob(t engine.Task, last uint64, d *session.Definition) *Job {
	return &Job{Task: t, Last: last, Free: time.Now(), Definition: d, Kind: JobKind(&t, d),
		Kept: make(chan struct{}), Done: make(chan struct{})}
}

// Long is when the definition that goes on beside groups is over, or its curtain is down too early; neither if there
// is none.
func (x *Jobs) Long() (over <-chan struct{}, down <-chan error) {
	if x.long == nil {
		return nil, nil
	}
	return x.long.Done, x.long.Curtain.Down()
}

// Busy reports whether a definition goes on beside groups.
func (x *Jobs) Busy() bool { return x.long != nil }

// Task is that of the definition that goes on beside groups.
func (x *Jobs) Task() engine.Task { return x.long.Task }

// Settled is called once the group of a definition counts as applied.
func (x *Jobs) Settled() {
	if f := x.afterwards; f != nil {
		x.afterwards = nil
		f()
	}
}

// CarryOut has the definer carry out a definition, d or the steps of a task. It returns when that is done, with the
// definition's result, or when it has become long; then over is false.
func (x *Jobs) CarryOut(ctx context.Context, last uint64, t engine.Task, d *session.Definition) (r session.Result,
	over bool, err error) {
	g := newJob(t, last, d)
	x.o.Applier.Begun.Store(max(last, x.o.Applier.Begun.Load()))
	x.begin(ctx, g)
	defer x.o.Backends.Instead(x.o.Applier.Definer.Conn.PID())()
	for wait := longAfter; ; wait = LongInterval {
		timer := time.NewTimer(wait)
		select {
		case <-g.Done:
			timer.Stop()
			return g.Result, true, x.finish(ctx, g)
		case <-timer.C:
		}
		if g.Kind == semantics.NotLong {
			<-g.Done
			return g.Result, true, x.finish(ctx, g)
		}
		held, working, err := x.o.Monitor.Holds(ctx, x.o.Applier.Definer.Conn.PID())
		if err != nil {
			return r, false, err
		}
		if working && g.Kind == semantics.LongAttached {
			if working, err = x.drawCurtain(ctx, g); err != nil {
				return r, false, err
			}
		}
		if !working || !g.Leave() {
			continue
		}
		g.Hold(held)
		if err := x.o.Applier.Keep(ctx, last, &t); err != nil {
			return r, false, err
		}
		close(g.Kept)
		x.add(g)
		x.long = g
		x.o.Log.Info("a definition goes on beside what is ordered after it", "ordinal", t.Ordinal, "transaction",
			t.Item.ID.String())
		x.o.Watch()
		return r, false, nil
	}
}

// begin has the definer begin with it.
func (x *Jobs) begin(ctx context.Context, g *Job) {
	a := x.o.Applier.Definer
	a.Tables, a.Job = x.o.Applier.Tables, g
	x.o.Background(func() {
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
func (x *Jobs) finish(ctx context.Context, g *Job) error {
	if g.Err != nil {
		return g.Err
	}
	x.o.Applier.Tables, x.o.Applier.Definer.Job = x.o.Applier.Definer.Tables, nil
	x.o.Described(x.o.Applier.Tables)
	x.o.Streaming.GiveWay() // what it began with is not so any more
	return x.o.Applier.Forget(ctx)
}

// Beside waits for the long definition, if there is one, before a group that must not go on beside it (L2). locals
// ends what sessions of this member commit.
func (x *Jobs) Beside(ctx context.Context, group *engine.Group, locals func() error) error {
	g := x.long
	if g == nil {
		return nil
	}
	if !g.Over() {
		if !g.holdsUp(group.Tasks) {
			return nil
		}
		x.o.Shown(g.Task)
		defer x.o.Backends.Instead(x.o.Applier.Definer.Conn.PID())()
		<-g.Done
		if err := locals(); err != nil {
			return err
		}
	}
	return x.End(ctx)
}

// holdsUp reports whether a group must not be carried out beside it (L2).
func (g *Job) holdsUp(tasks []engine.Task) bool {
	return slices.ContainsFunc(tasks, func(t engine.Task) bool {
		switch t.Item.Kind {
		case engine.KindCertified:
			return g.Touches(t.Writeset)
		case engine.KindStatement:
			return true
		case engine.KindCheck:
			return len(t.Item.Payload) == 0 // a part of an audit is left out
		}
		return false
	})
}

// End is called by the executor when the long definition is over.
func (x *Jobs) End(ctx context.Context) error {
	g := x.long
	if err := x.finish(ctx, g); err != nil {
		if failure.Lasting(err) {
			x.o.Vain.note(x.o.Group, g.Task.Ordinal)
		}
		return err
	}
	x.long = nil
	x.end()
	x.o.Log.Info("the definition is carried out", "ordinal", g.Task.Ordinal, "transaction", g.Task.Item.ID.String())
	x.o.Answer(&g.Task, g.Result)
	return nil
}

// Resume begins anew with what was under way when the last life ended (L1).
func (x *Jobs) Resume(ctx context.Context) error {
	tasks, err := x.o.Applier.Pending(ctx)
	if err != nil {
		return err
	}
	for _, t := range tasks {
		var d *session.Definition
		if t.Item.Kind == engine.KindStatement {
			definition, _, err := DecodeDefinition(t.Writeset.Steps[0].Definition)
			if err != nil {
				return &failure.Fatal{Err: err}
			}
			d = &definition
		}
		g := newJob(t, t.Ordinal, d)
		kind := g.Kind
		g.Anew, g.Beside, g.Kind = true, true, semantics.NotLong // it has no snapshot that it shares with others
		close(g.Kept)
		x.o.Log.Info("a definition was not carried out", "ordinal", t.Ordinal, "transaction", t.Item.ID.String())
		if kind == semantics.LongSnapshot {
			x.o.Background(func() { x.orderAgain(ctx, g) })
			continue
		}
		if kind == semantics.LongAttached || x.o.Vain.has(x.o.Group, t.Ordinal) { // before anybody reads
			x.begin(ctx, g)
			<-g.Done
			if err := x.finish(ctx, g); err != nil {
				return fmt.Errorf("the definition of entry %d: %w", t.Ordinal, err)
			}
			continue
		}
		if !g.Concurrent() {
			g.Kind = semantics.LongNamed // it has no locks yet
			g.Hold(nil)
		}
		x.add(g)
		x.long = g
		x.begin(ctx, g)
		x.o.Watch()
	}
	return nil
}

// orderAgain has a definition ordered once more, so that all members carry it out at one place: it cannot read what it
// should have read any more.
func (x *Jobs) orderAgain(ctx context.Context, g *Job) {
	select {
	case <-x.o.Opened:
	case <-x.o.Done:
		return
	}
	d := *g.Definition
	for d.Extent = g.Task.Writeset; process.Sleep(ctx, LongInterval); {
		d.Base = x.o.Complete()
		r := x.o.Define(x.o.TxID(x.o.Seq()), d)
		if r.Err != nil {
			x.o.Log.Warn("a definition that was ordered again has failed", "error", r.Err)
			switch r.Err.Code {
			case wire.CodeTuttiOutdated, wire.CodeCannotConnectNow:
				continue
			case wire.CodeStatementUnknown:
				return // it is still pending at the next start
			}
		}
		if _, err := x.o.Monitor.Exec(ctx, fmt.Sprintf("INSERT INTO tutti.pending (ordinal, done, item) VALUES (%d, "+
			"true, '') ON CONFLICT DO NOTHING", g.Task.Ordinal)); err != nil {
			x.o.Log.Warn("a definition is ordered again at the next start, once more", "error", err)
		}
		return
	}
}

// BuildConcurrently has the definer carry out CREATE INDEX CONCURRENTLY, as PostgreSQL does: in several transactions,
// of which each waits for who could not see it. Its place in the order is where it begins, and it is long from there
// (L1), without holding any table: an index that is not unique means nothing to what is captured and applied. It gives
// way to everything: what waits for it and cannot go on breaks it off, and it begins again.
func (x *Jobs) BuildConcurrently(ctx context.Context, last uint64, t engine.Task, d session.Definition) error {
	g := newJob(t, last, &d)
	g.Kind, g.Beside = semantics.LongFree, true
	x.o.Applier.Begun.Store(last)
	if err := x.o.Applier.Keep(ctx, last, &t); err != nil {
		return err
	}
	close(g.Kept)
	x.add(g)
	x.long = g
	x.o.Log.Info("an index is built beside what is ordered after it", "ordinal", t.Ordinal, "index", d.Index.Name)
	x.begin(ctx, g)
	x.o.Watch()
	return nil
}

// Cancel gives up an index that is built CONCURRENTLY here, if it is that of a transaction. Any goroutine may call it.
func (x *Jobs) Cancel(id writeset.TxID) {
	if g := x.Under(); g != nil && g.Concurrent() && g.Task.Item.ID == id {
		g.Unwanted.Store(true)
		x.o.Monitor.Cancel(x.o.Log, x.o.Applier.Definer.Conn.PID())
	}
}
