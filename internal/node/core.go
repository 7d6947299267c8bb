package node

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/flow"
	"github.com/tuttidb/tutti/internal/metrics"
	"github.com/tuttidb/tutti/internal/ordering"
	"github.com/tuttidb/tutti/internal/raftlog"
)

// tick is the engine's unit of time. Elections start after 10 to 20 ticks without a leader.
const tick = 50 * time.Millisecond

const (
	coreQueueMax = 4096 // operations and member frames waiting for the engine
	drainMax     = 512  // of them taken before the log is written once
)

// gatherMax is how long a leader lets proposals gather behind others that are under way. Within
// one site those arrive first; a longer way to the majority should not cost another round trip.
var gatherMax = most(flow.WaitGather)

// gatherScarceMax is the same where processors are scarce, and members and the leader wait for all who write
// (engine.Options.GatherShare).
const gatherScarceMax = 5 * time.Millisecond

// memberFrame is a raft message of another member.
type memberFrame struct {
	from uint32
	data []byte
}

// coreOptions are what a core needs of its replica, and whom it tells what the engine says.
type coreOptions struct {
	log     *slog.Logger
	metrics *metrics.Database
	engine  *engine.Engine
	disk    *raftlog.Log

	send    func(to uint32, data []byte) bool
	aborted func(engine.Aborted)
	locked  func([]engine.Lock)
	fronts  func([]engine.Front)
	moved   func(holes bool)            // the applied ordinal may have moved without a group
	leave   func(*engine.Engine) uint32 // see peers.leave
	reaches func(uint32) bool
	survey  func() (scarce bool, stuck []uint32) // of processors and sessions, see engine.Scarce and engine.Stuck
}

// core runs the engine.
type core struct {
	o      coreOptions
	engine *engine.Engine
	inbox  chan memberFrame
	ops    chan func(*engine.Engine)
	groups chan *engine.Group // capacity 1: the engine issues one at a time

	writes  chan ordering.Ready // to the writer; one at a time
	written chan error          // its answer; capacity 1
	writing bool
	issued  time.Time                 // the last group
	late    []ordering.Message        // of the Ready being carried out
	wanted  chan<- *engine.Checkpoint // who waits for one; nil: nobody

	term, vote uint64 // last written
	applied    atomic.Uint64
	ordinal    atomic.Uint64
	leader     atomic.Uint32
	stopped    chan struct{}
}

func newCore(o coreOptions) *core {
	return &core{
		o: o, engine: o.engine, inbox: make(chan memberFrame, coreQueueMax),
		ops: make(chan func(*engine.Engine), coreQueueMax), groups: make(chan *engine.Group, 1),
		stopped: make(chan struct{}), writes: make(chan ordering.Ready), written: make(chan error, 1),
	}
}

// receive takes a frame of another member; a full inbox drops it, raft sends again.
func (c *core) receive(from uint32, data []byte) {
	select {
	case c.inbox <- memberFrame{from, data}:
	default:
	}
}

// do runs f with the engine on the core's goroutine. False if the core has stopped.
func (c *core) do(f func(*engine.Engine)) bool {
	select {
	case c.ops <- f:
		return true
	case <-c.stopped:
		return false
	}
}

// call is do that waits for f's end.
func (c *core) call(f func(*engine.Engine)) bool {
	done := make(chan struct{})
	if !c.do(func(e *engine.Engine) { f(e); close(done) }) {
		return false
	}
	select {
	case <-done:
		return true
	case <-c.stopped:
		return false
	}
}

// lostError says that the order cannot be continued here.
type lostError struct{ ordering.Lost }

func (e *lostError) Error() string {
	return fmt.Sprintf("node: this member has the order up to entry %d of the log, member %d keeps it from entry %d on",
		e.Have, e.Leader, e.First)
}

// run is the core's goroutine. It returns an error when the log cannot be written any more, and a
// lostError.
func (c *core) run(ctx context.Context) (err error) {
	defer close(c.stopped)
	defer c.lastWords(&err)
	var writer sync.WaitGroup
	writer.Go(c.write)
	defer writer.Wait()
	defer close(c.writes)
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	gathered, kept := c.newAlarm(flow.WaitGather, c.engine.Held), c.newAlarm(flow.WaitKept, c.engine.Kept)
	defer gathered.timer.Stop()
	defer kept.timer.Stop()
	for {
		if lost := c.engine.Lost(); lost != nil {
			return &lostError{*lost}
		}
		c.drainReady()
		gathered.look(time.Time{})
		kept.look(c.issued)
		select {
		case <-ctx.Done():
			return c.depart()
		case <-ticker.C:
			scarce, stuck := c.o.survey()
			c.engine.Strain(scarce, stuck)
			if gathered.max = gatherMax; scarce {
				gathered.max = gatherScarceMax
			}
			c.engine.Tick()
		case m := <-c.inbox:
			c.step(m)
		case f := <-c.ops:
			f(c.engine)
		case err := <-c.written:
			if err != nil {
				return err
			}
			c.finish()
		case <-gathered.timer.C:
			gathered.rang()
			c.engine.Release()
		case <-kept.timer.C:
			kept.rang()
			c.engine.Issue()
		}
		c.drainInputs()
	}
}

// alarm rings when something that the engine keeps back has waited long enough.
type alarm struct {
	timer *time.Timer
	keeps func() bool
	max   time.Duration
	set   bool
	waits *metrics.Waits
	wait  flow.Wait
	since metrics.Waiting // while it is set
}

func (c *core) newAlarm(wait flow.Wait, keeps func() bool) alarm {
	return alarm{timer: time.NewTimer(time.Hour), keeps: keeps, max: most(wait), waits: &c.o.metrics.Waits, wait: wait}
}

// rang notes that the alarm is set no longer.
func (a *alarm) rang() {
	a.set = false
	a.since.End()
}

// look sets the alarm if something is kept back by now, and stops it if nothing is any more. The time counts from now,
// or from since, if that is a moment.
func (a *alarm) look(since time.Time) {
	keeps := a.keeps()
	if keeps == a.set {
		return
	}
	if !keeps {
		a.timer.Stop()
		a.rang()
		return
	}
	a.set, a.since = true, a.waits.Begin(a.wait)
	left := a.max
	if !since.IsZero() {
		left -= time.Since(since)
	}
	a.timer.Reset(left)
}

// lastWords turns a panic into the log's error, if there is one: raft knows no other answer when its
// storage fails, and it may ask between a failed write and that write's answer.
func (c *core) lastWords(err *error) {
	p := recover()
	if p == nil {
		return
	}
	_, failed := c.o.disk.FirstIndex()
	if failed == nil {
		panic(p)
	}
	*err = errLog(failed)
}

func errLog(err error) error {
	return fmt.Errorf("the log cannot be written, so this member stops: %w", err)
}

// drainInputs takes what else is waiting, so that one write of the log serves all of it.
func (c *core) drainInputs() {
	for range drainMax {
		select {
		case m := <-c.inbox:
			c.step(m)
		case f := <-c.ops:
			f(c.engine)
		default:
			return
		}
	}
}

func (c *core) step(m memberFrame) {
	c.o.metrics.Log.Received.Add(1)
	if err := c.engine.Step(m.from, m.data); err != nil {
		c.o.log.Warn("refused a member's message", "member", m.from, "error", err)
	}
}

// drainReady carries out what the engine has to do, up to a write of the log; the rest of that
// Ready follows once it is durable, and meanwhile the engine goes on taking inputs. What is
// committed is acted on at once: other members have it on disk.
func (c *core) drainReady() {
	for !c.writing && c.engine.HasReady() {
		rd := c.engine.Ready()
		c.ordinal.Store(c.engine.Ordinal()) // before anybody is told what comes of it
		c.sendAll(rd.Early)
		for _, a := range rd.Aborted {
			c.o.metrics.Transactions.Aborted.Add(1)
			c.o.aborted(a)
		}
		if len(rd.Locks) > 0 {
			c.o.locked(rd.Locks)
		}
		if len(rd.Fronts) > 0 {
			c.o.fronts(rd.Fronts)
		}
		if rd.Group != nil {
			c.countGroup(rd.Group)
			c.issued = time.Now()
			c.groups <- rd.Group
		}
		c.late = rd.Late
		if c.persists(rd.Ready) {
			c.writing = true
			c.writes <- rd.Ready
		} else {
			c.finish()
		}
		if v := c.engine.View(); c.leader.Swap(v.Leader) != v.Leader {
			c.o.metrics.Member.Leaders.Add(1)
			c.o.log.Info("the leader changed", "leader", v.Leader, "term", v.Term)
		}
		c.o.metrics.Log.Batches.Store(c.engine.Figures().Batches)
	}
	if now := c.engine.Applied(); c.applied.Swap(now) != now {
		c.o.moved(c.engine.Holes())
	}
}

// finish ends a Ready whose entries are durable (N1).
func (c *core) finish() {
	c.sendAll(c.late)
	c.late, c.writing = nil, false
	c.engine.Advance()
	c.answerCheckpoint(c.engine)
}

// checkpoint returns the replicated state of a moment at which all of it is on disk; nil if the
// core stops first. One caller at a time.
func (c *core) checkpoint() *engine.Checkpoint {
	got := make(chan *engine.Checkpoint, 1)
	c.do(func(e *engine.Engine) {
		c.wanted = got
		c.answerCheckpoint(e)
	})
	select {
	case p := <-got:
		return p
	case <-c.stopped:
		return nil
	}
}

// answerCheckpoint gives a checkpoint to who wants one, unless a write is under way; then it is
// asked again at its end.
func (c *core) answerCheckpoint(e *engine.Engine) {
	if c.wanted == nil {
		return
	}
	if p, ok := e.Checkpoint(); ok {
		c.wanted <- p
		c.wanted = nil
	}
}

func (c *core) sendAll(messages []ordering.Message) {
	c.o.metrics.Log.Sent.Add(uint64(len(messages)))
	for _, m := range messages {
		if !c.o.send(m.To, m.Data) {
			c.engine.Unreachable(m.To)
		}
	}
}

// persists reports whether a Ready has something that must be on disk before Late may leave
// (N1). A commit index alone is not written: it follows from the log.
func (c *core) persists(rd ordering.Ready) bool {
	hs := rd.HardState
	if hs != nil && (hs.GetTerm() != c.term || hs.GetVote() != c.vote) {
		c.term, c.vote = hs.GetTerm(), hs.GetVote()
		return true
	}
	return len(rd.Entries) > 0
}

// write is the goroutine that waits for the disk.
func (c *core) write() {
	for rd := range c.writes {
		// The frames that need not wait for the disk go first: with one processor, their
		// sender would wait until the runtime notices that this system call takes long.
		runtime.Gosched()
		began := time.Now()
		err := c.o.disk.Append(rd.HardState, rd.Entries, rd.Sync)
		if err != nil {
			err = errLog(err)
		}
		c.o.metrics.Log.Entries.Add(uint64(len(rd.Entries)))
		if rd.Sync {
			c.o.metrics.Log.Syncs.Add(1)
			c.o.metrics.Log.SyncTime.Observe(time.Since(began))
		}
		c.written <- err
	}
}
