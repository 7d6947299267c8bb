package core

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

const (
	coreQueueMax = 4096 // operations and member frames waiting for the engine
	drainMax     = 512  // of them taken before the log is written once
)

// gatherMax is how long a leader lets proposals gather behind others that are under way. Within
// one site those arrive first; a longer way to the majority should not cost another round trip.
var gatherMax = metrics.Most(flow.WaitGather)

// gatherScarceMax is the same where processors are scarce, and members and the leader wait for all who write
// (engine.Options.GatherShare).
const gatherScarceMax = 5 * time.Millisecond

// memberFrame is a raft message of another member.
type memberFrame struct {
	from    uint32
	data    []byte
	relayed bool // another member has passed it on
}

// Options are what a core needs of its replica, and whom it tells what the engine says.
type Options struct {
	Log     *slog.Logger
	Metrics *metrics.Database
	Engine  *engine.Engine
	Disk    *raftlog.Log

	Member uint32
	Send   func(to uint32, data []byte) bool
	// Relay sends what is to be passed on (Core.Relay), Relayed what is being (Core.Relayed)
	Relay, Relayed func(to uint32, frame []byte) bool
	// Sites are the members that are at one site; nil: not all understand what is passed on, or there is no such site
	Sites   func() [][]uint32
	Aborted func(engine.Aborted)
	Locked  func([]engine.Lock)
	Fronts  func([]engine.Front)
	Moved   func(holes bool)            // the applied ordinal may have moved without a group
	Leave   func(*engine.Engine) uint32 // see peers.leave
	Reaches func(uint32) bool
	// Configures: all members understand changes of who votes
	Configures func() bool
	// Rule is by what who votes is decided, see engine.Voting.By
	Rule    func() (copies, goneTicks int)
	Members func() engine.List
	Survey  func() (scarce bool, stuck []uint32) // of processors and sessions, see engine.Scarce and engine.Stuck
}

// Core runs the engine. It is safe for concurrent use, but for Run.
type Core struct {
	o      Options
	engine *engine.Engine
	inbox  chan memberFrame
	ops    chan func(*engine.Engine)
	groups chan *engine.Group // capacity 1: the engine issues one at a time

	writes  chan ordering.Ready // to the writer; one at a time
	written chan error          // its answer; capacity 1
	writing bool
	issued  time.Time                 // the last group
	silent  int                       // ticks since a frame of another member came
	before  uint64                    // the ordinal at the last tick
	late    []ordering.Message        // of the Ready being carried out
	wanted  chan<- *engine.Checkpoint // who waits for one; nil: nobody

	term, vote uint64 // last written
	applied    atomic.Uint64
	ordinal    atomic.Uint64
	leader     atomic.Uint32
	voters     atomic.Pointer[[]uint32]
	readers    atomic.Pointer[[]uint32] // of the log: voters and others
	stopped    chan struct{}
}

// New makes a core, which does nothing yet.
func New(o Options) *Core {
	c := &Core{
		o: o, engine: o.Engine, inbox: make(chan memberFrame, coreQueueMax),
		ops: make(chan func(*engine.Engine), coreQueueMax), groups: make(chan *engine.Group, 1),
		stopped: make(chan struct{}), writes: make(chan ordering.Ready), written: make(chan error, 1),
	}
	c.voters.Store(&[]uint32{})
	c.readers.Store(&[]uint32{})
	return c
}

// Receive takes a frame of another member; a full inbox drops it, raft sends again.
func (c *Core) Receive(from uint32, data []byte) { c.receive(memberFrame{from: from, data: data}) }

func (c *Core) receive(m memberFrame) {
	select {
	case c.inbox <- m:
	default:
	}
}

// Do runs f with the engine on the core's goroutine. False if the core has stopped.
func (c *Core) Do(f func(*engine.Engine)) bool {
	select {
	case c.ops <- f:
		return true
	case <-c.stopped:
		return false
	}
}

// Call is Do that waits for f's end.
func (c *Core) Call(f func(*engine.Engine)) bool {
	done := make(chan struct{})
	if !c.Do(func(e *engine.Engine) { f(e); close(done) }) {
		return false
	}
	select {
	case <-done:
		return true
	case <-c.stopped:
		return false
	}
}

// LostError says that the order cannot be continued here.
type LostError struct{ ordering.Lost }

func (e *LostError) Error() string {
	return fmt.Sprintf("core: this member has the order up to entry %d of the log, member %d keeps it from entry %d on",
		e.Have, e.Leader, e.First)
}

// Run is the core's goroutine. It returns an error when the log cannot be written any more, and a
// LostError.
func (c *Core) Run(ctx context.Context) (err error) {
	defer close(c.stopped)
	defer c.lastWords(&err)
	c.configured()
	var writer sync.WaitGroup
	writer.Go(c.write)
	defer writer.Wait()
	defer close(c.writes)
	beat := newBeat()
	defer beat.timer.Stop()
	gathered, kept := c.newAlarm(flow.WaitGather, c.engine.Held), c.newAlarm(flow.WaitKept, c.engine.Kept)
	defer gathered.timer.Stop()
	defer kept.timer.Stop()
	for {
		if lost := c.engine.Lost(); lost != nil {
			return &LostError{*lost}
		}
		c.drainReady()
		if err := engine.Unread(c.engine); err != nil {
			return err
		}
		gathered.look(time.Time{})
		kept.look(c.issued)
		select {
		case <-ctx.Done():
			return c.depart()
		case <-beat.timer.C:
			scarce, stuck := c.o.Survey()
			if gathered.max = gatherMax; scarce {
				gathered.max = gatherScarceMax
			}
			v := engine.VotingOf(c.engine)
			v.By(c.o.Rule())
			v.May(c.o.Configures())
			v.Of(c.o.Members())
			engine.Sites(c.engine, c.o.Sites())
			for range beat.passed() {
				c.engine.Strain(scarce, stuck)
				c.engine.Tick()
				c.silent++
			}
			beat.next(c.quiet())
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

func (c *Core) newAlarm(wait flow.Wait, keeps func() bool) alarm {
	return alarm{timer: time.NewTimer(time.Hour), keeps: keeps, max: metrics.Most(wait), waits: &c.o.Metrics.Waits,
		wait: wait}
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
func (c *Core) lastWords(err *error) {
	p := recover()
	if p == nil {
		return
	}
	_, failed := c.o.Disk.FirstIndex()
	if failed == nil {
		panic(p)
	}
	*err = errLog(failed)
}

func errLog(err error) error {
	return fmt.Errorf("the log cannot be written, so this member stops: %w", err)
}

// Groups are what is to be carried out, one after the other.
func (c *Core) Groups() <-chan *engine.Group { return c.groups }

// Ordinal is the end of the order as far as this member knows it, Applied up to where it is in the database.
func (c *Core) Ordinal() uint64 { return c.ordinal.Load() }
func (c *Core) Applied() uint64 { return c.applied.Load() }

// Leader is the member that leads the order; zero if none is known.
func (c *Core) Leader() uint32 { return c.leader.Load() }

// Voters are who votes on the order, as far as this member knows; nobody before Run. The list must not be changed.
func (c *Core) Voters() []uint32 { return *c.voters.Load() }

// Readers lists who gets the log, as far as this member knows, those included who vote. The list must not be changed.
func (c *Core) Readers() []uint32 { return *c.readers.Load() }

// configured notes who votes and who gets the log.
func (c *Core) configured() {
	v := engine.VotingOf(c.engine)
	c.voters.Store(new(v.Voters()))
	c.readers.Store(new(v.Readers()))
}

// GroupDone tells the engine, on the core's goroutine, that the group is done.
func (c *Core) GroupDone(e *engine.Engine) {
	e.GroupDone()
	c.applied.Store(e.Applied())
}

// countGroup counts a group that is issued.
func (c *Core) countGroup(g *engine.Group) {
	t := &c.o.Metrics.Transactions
	t.Groups.Add(1)
	for i := range g.Tasks {
		switch {
		case g.Tasks[i].Local:
			t.Local.Add(1)
		case g.Tasks[i].Item.Kind != engine.KindNotify:
			t.Remote.Add(1)
		}
	}
}

// drainInputs takes what else is waiting, so that one write of the log serves all of it.
func (c *Core) drainInputs() {
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

func (c *Core) step(m memberFrame) {
	c.silent = 0
	c.o.Metrics.Log.Received.Add(1)
	if err := c.stepFrame(m); err != nil {
		c.o.Log.Warn("refused a member's message", "member", m.from, "error", err)
	}
}

// drainReady carries out what the engine has to do, up to a write of the log; the rest of that
// Ready follows once it is durable, and meanwhile the engine goes on taking inputs. What is
// committed is acted on at once: other members have it on disk.
func (c *Core) drainReady() {
	for !c.writing && c.engine.HasReady() {
		rd := c.engine.Ready()
		if engine.Unread(c.engine) != nil {
			return
		}
		c.ordinal.Store(c.engine.Ordinal()) // before anybody is told what comes of it
		c.sendAll(rd.Early)
		if len(rd.Configured) > 0 {
			c.configured()
			c.o.Log.Info("who votes has changed", "voters", c.Voters())
		}
		for _, a := range rd.Aborted {
			c.o.Metrics.Transactions.Aborted.Add(1)
			c.o.Aborted(a)
		}
		if len(rd.Locks) > 0 {
			c.o.Locked(rd.Locks)
		}
		if len(rd.Fronts) > 0 {
			c.o.Fronts(rd.Fronts)
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
			c.o.Metrics.Member.Leaders.Add(1)
			c.o.Log.Info("the leader changed", "leader", v.Leader, "term", v.Term)
		}
		c.o.Metrics.Log.Batches.Store(c.engine.Figures().Batches)
	}
	if now := c.engine.Applied(); c.applied.Swap(now) != now {
		c.o.Moved(c.engine.Holes())
	}
}

// finish ends a Ready whose entries are durable (K1).
func (c *Core) finish() {
	c.sendAll(c.late)
	c.late, c.writing = nil, false
	c.engine.Advance()
	c.answerCheckpoint(c.engine)
}

// checkpoint returns the replicated state of a moment at which all of it is on disk; nil if the
// core stops first. One caller at a time.
func (c *Core) checkpoint() *engine.Checkpoint {
	got := make(chan *engine.Checkpoint, 1)
	c.Do(func(e *engine.Engine) {
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
func (c *Core) answerCheckpoint(e *engine.Engine) {
	if c.wanted == nil {
		return
	}
	if p, ok := e.Checkpoint(); ok {
		c.wanted <- p
		c.wanted = nil
	}
}

func (c *Core) sendAll(messages []ordering.Message) {
	c.o.Metrics.Log.Sent.Add(uint64(len(messages)))
	for i := range messages {
		if !c.send(&messages[i]) {
			c.unsent(&messages[i])
		}
	}
}

// persists reports whether a Ready has something that must be on disk before Late may leave
// (K1). A commit index alone is not written: it follows from the log.
func (c *Core) persists(rd ordering.Ready) bool {
	hs := rd.HardState
	if hs != nil && (hs.GetTerm() != c.term || hs.GetVote() != c.vote) {
		c.term, c.vote = hs.GetTerm(), hs.GetVote()
		return true
	}
	return len(rd.Entries)+len(rd.Configured) > 0
}

// write is the goroutine that waits for the disk.
func (c *Core) write() {
	for rd := range c.writes {
		// The frames that need not wait for the disk go first: with one processor, their
		// sender would wait until the runtime notices that this system call takes long.
		runtime.Gosched()
		began := time.Now()
		err := c.o.Disk.Append(rd.HardState, rd.Entries, rd.Sync)
		for _, now := range rd.Configured {
			if err == nil {
				err = c.o.Disk.SetConfState(now.Index, now.State)
			}
		}
		if err != nil {
			err = errLog(err)
		}
		c.o.Metrics.Log.Entries.Add(uint64(len(rd.Entries)))
		if rd.Sync {
			c.o.Metrics.Log.Syncs.Add(1)
			c.o.Metrics.Log.SyncTime.Observe(time.Since(began))
		}
		c.written <- err
	}
}
