package advisory

import (
	"math"
	"slices"
	"strings"
	"time"

	"github.com/tuttidb/tutti/internal/capture"
	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/flow"
	"github.com/tuttidb/tutti/internal/locks"
)

// asker answers one process of a session's that asks for advisory locks: its backend, or a parallel worker. Its
// goroutine carries out one command at a time: a newer one means that nobody waits for the older.
//
// A worker's is over with the statement, or soon after its worker.
type asker struct {
	x         *Session
	pid       uint32
	statement uint64        // in which it began
	changed   chan struct{} // capacity 1
	ended     chan struct{} // closed behind its goroutine

	// With the session's lock.
	commands []Command
	newest   uint64 // generation of the last one
	events   []engine.Lock
	asking   bool // a command is being carried out
	queued   bool // the request under way waits for another session
	gone     bool // the worker has ended

	// The goroutine's.
	last *Command // whose answer the keeper still holds
	code int
	door *time.Timer  // the function that asks is made to wait
	look *time.Ticker // whether the worker has ended; nil for the backend
}

const (
	// waitAfter is how long a function asks again and again for an answer, before it is made to wait.
	waitAfter = 5 * time.Millisecond
	// workerLook is how often it is looked whether a parallel worker that has asked has ended, and its locks with it.
	// The statement may go on for long.
	workerLook = 100 * time.Millisecond
)

func (a *asker) worker() bool { return a.pid != a.x.pid }

func (a *asker) run() {
	defer close(a.ended)
	if a.worker() {
		a.look = time.NewTicker(workerLook)
		defer a.look.Stop()
	}
	for {
		c, more, over := a.next()
		switch {
		case over:
			a.leave()
			return
		case more:
			a.carryOut(&c)
		default:
			select {
			case <-a.changed:
			case <-a.looks():
				a.lookAfter()
			case <-a.x.l.o.Done:
				return
			}
		}
	}
}

// next takes a command. With over there will be none.
func (a *asker) next() (c Command, more, over bool) {
	x := a.x
	x.mu.Lock()
	defer x.mu.Unlock()
	more = len(a.commands) > 0
	a.asking = false
	if x.closed || a.worker() && !more && (a.gone || a.statement != x.statement) {
		if a.worker() {
			delete(x.askers, a.pid)
		}
		return c, false, true
	}
	if more {
		c, a.commands = a.commands[0], a.commands[1:]
		a.asking = true
	}
	return c, more, false
}

// leave is the last that a goroutine does. That of the backend is the session's last word: after those of its workers.
func (a *asker) leave() {
	x := a.x
	if !a.worker() {
		a.awaitWorkers(math.MaxUint64)
		x.l.submit(&locks.Request{Action: locks.Leave, Session: x.number})
		x.l.mu.Lock()
		delete(x.l.sessions, x.number)
		x.l.mu.Unlock()
	}
	a.forget()
}

// awaitWorkers waits until no parallel worker of a statement before the given one, or of a session that is closed, is
// answered any more. Those of a statement that has begun meanwhile may wait for what the backend asks.
func (a *asker) awaitWorkers(before uint64) {
	x := a.x
	x.mu.Lock()
	var workers []*asker
	for _, w := range x.askers {
		if w != a && w.statement < before {
			workers = append(workers, w)
		}
	}
	x.mu.Unlock()
	for _, w := range workers {
		select {
		case <-w.ended:
		case <-x.l.o.Done:
		}
	}
}

func (a *asker) looks() <-chan time.Time {
	if a.look == nil {
		return nil
	}
	return a.look.C
}

// lookAfter gives back what a worker had that has ended.
func (a *asker) lookAfter() {
	if !a.ours() {
		a.x.GiveBack()
	}
}

// ours reports whether the process is one of the session's. A client can name any.
func (a *asker) ours() bool {
	x := a.x
	if !a.worker() {
		return true
	}
	r, ok := x.keep(capture.WorkerSQL(a.pid, x.pid))
	gone := !ok || len(r[0].Rows) == 0
	x.mu.Lock()
	a.gone = gone
	x.mu.Unlock()
	return !gone
}

func (a *asker) carryOut(c *Command) {
	a.forget()
	switch {
	case c.done != nil:
		a.awaitWorkers(c.statement)
		if c.action == "settle" {
			a.x.settle()
		}
		close(c.done)
	case !a.ours() || c.action == "read":
	case c.action == "gave" || c.action == "gaveall":
		a.x.settle()
		a.answer(c, capture.LockGranted)
	default:
		a.door = time.NewTimer(waitAfter)
		a.ask(c)
		a.door.Stop()
	}
}

// stale reports whether nobody waits for the command any more.
func (a *asker) stale(c *Command) bool {
	x := a.x
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.closed || a.gone || a.newest != c.generation || x.statement != c.statement
}

// answer lets the function go on.
func (a *asker) answer(c *Command, code int) {
	a.last, a.code = c, code
	a.x.keep(capture.LockAnswerSQL(a.pid, c.number, code))
}

// forget takes back the last answer: the function has read it, or never will.
func (a *asker) forget() {
	if a.last != nil {
		a.x.keep(capture.LockForgetSQL(a.pid, a.last.number, a.code))
		a.last = nil
	}
}

// ask puts a request for a lock into the order and answers when its fate is known. A lock counts when
// everything ordered before it is in the database.
func (a *asker) ask(c *Command) {
	x := a.x
	outcome := a.turn(c)
	switch {
	case outcome == locks.Granted:
		a.reply(c, capture.LockGranted)
		return
	case outcome == locks.Busy:
		a.reply(c, capture.LockBusy)
		return
	case outcome != 0:
		a.release(c)
		return
	}
	defer a.yield(c)
	r := locks.Request{Action: locks.Take, Session: x.number, Locks: []locks.Lock{c.lock}}
	if c.tries() {
		r.Action = locks.Try
	}
	began := time.Now()
	seq, ordered := x.l.submit(&r)
	outcome, at := a.await(c, ordered)
	if outcome == locks.Granted {
		x.l.o.Await(func() bool { return x.l.o.Applied() >= at || x.l.o.Ending() || a.stale(c) })
		x.l.extend(began)
		if a.begin(c, at) {
			a.reply(c, capture.LockGranted)
			return
		}
		outcome = locks.Queued
	}
	switch outcome {
	case locks.Busy:
		a.reply(c, capture.LockBusy)
	case locks.Deadlock:
		a.reply(c, capture.LockDeadlock)
	case locks.Lost:
		a.reply(c, capture.LockUnavailable)
	default:
		a.giveUp(c, seq)
	}
}

func (c *Command) tries() bool { return strings.HasSuffix(c.action, "try") }

// turn waits until no other process of the session's asks for the lock. It returns what there is to answer without
// a request of one's own; Queued means that nobody waits for that any more.
func (a *asker) turn(c *Command) locks.Outcome {
	x := a.x
	for !a.stale(c) && !x.l.o.Ending() {
		x.settling.Lock()
		x.mu.Lock()
		_, held := x.held[c.lock]
		other := x.under[c.lock]
		queued := other != nil && other.queued
		if !held && other == nil {
			x.under[c.lock], a.events, a.queued = a, nil, false
		}
		x.mu.Unlock()
		x.settling.Unlock()
		switch {
		case held:
			return locks.Granted
		case other == nil:
			return 0
		case queued && c.tries():
			return locks.Busy
		}
		a.pause(c, nil)
	}
	return locks.Queued
}

// yield ends turn.
func (a *asker) yield(c *Command) {
	a.x.mu.Lock()
	delete(a.x.under, c.lock)
	a.x.mu.Unlock()
	a.x.wake()
}

// pause waits until something may have changed.
func (a *asker) pause(c *Command, over <-chan time.Time) (isOver bool) {
	select {
	case <-a.changed:
	case <-a.door.C:
		a.hold(c)
	case <-a.looks():
		a.ours()
	case <-over:
		return true
	case <-a.x.l.o.Done:
	}
	return false
}

// begin makes a lock that was granted the session's, as soon as it is certain for how long it will be: the
// grant may be old. False if nobody waits for it any more, or it is lost already.
func (a *asker) begin(c *Command, at uint64) bool {
	x := a.x
	for !a.stale(c) && !x.l.o.Ending() {
		over := x.l.over(0)
		x.settling.Lock()
		x.mu.Lock()
		lost := slices.ContainsFunc(a.events, func(e engine.Lock) bool { return e.Event.Outcome == locks.Lost })
		if !over && !lost {
			x.held[c.lock] = at
		}
		x.mu.Unlock()
		x.settling.Unlock()
		if !over || lost {
			return !lost
		}
		a.pause(c, nil)
	}
	return false
}

// reply is answer to a function that may have been made to wait.
func (a *asker) reply(c *Command, code int) {
	a.answer(c, code)
	a.release(c)
}

// release ends the function's wait.
func (a *asker) release(c *Command) {
	if c.waits {
		c.waits = false
		a.x.keep(capture.LockGoSQL(a.pid, c.number))
	}
}

// hold makes the function wait for the reply. Where the function is about to look it fails, and is tried again: else
// the function would look on without an end, and lock_timeout would never come.
func (a *asker) hold(c *Command) {
	if c.waits {
		return
	}
	r, ok := a.x.keep(capture.LockWaitSQL(a.pid, c.number))
	c.waits = ok && string(r[0].Rows[0][0]) == "t"
	if ok && !c.waits {
		a.door.Reset(waitAfter)
	}
}

// await waits for the fate of a request. Queued means that nobody waits for it any more, or that there is no
// majority.
func (a *asker) await(c *Command, ordered <-chan struct{}) (outcome locks.Outcome, at uint64) {
	x := a.x
	over, stop := x.l.o.Patience()
	defer stop()
	defer x.l.o.Waits.Begin(flow.WaitAdvisory).End()
	for {
		queued := false
		x.mu.Lock()
		for _, e := range a.events {
			if e.Event.Outcome != locks.Queued {
				outcome, at = e.Event.Outcome, e.Ordinal
			} else {
				a.queued, queued = true, true
			}
		}
		a.events = nil
		x.mu.Unlock()
		if queued {
			over = nil // it waits for somebody, not for a majority
			x.poke()   // see turn
		}
		switch {
		case outcome != 0:
			return outcome, at
		case a.stale(c), x.l.o.Ending():
			return locks.Queued, 0
		}
		if a.pause(c, over) {
			select {
			case <-ordered:
				over = nil
			default:
				return locks.Queued, 0
			}
		}
	}
}

// giveUp takes back a request. What it may yet be granted is given back, and nothing more is asked for that lock until
// that has its place: an event of this request could be taken for one of the next.
func (a *asker) giveUp(c *Command, seq uint64) {
	x := a.x
	stale := a.stale(c)
	if !x.l.withdraw(seq) {
		_, ordered := x.l.submit(&locks.Request{Action: locks.Release, Session: x.number, Locks: []locks.Lock{c.lock}})
		if !stale {
			a.reply(c, capture.LockUnavailable)
		}
		select {
		case <-ordered:
		case <-x.l.o.Done:
		}
	} else if !stale {
		a.reply(c, capture.LockUnavailable)
	}
	a.release(c)
	if !stale {
		x.l.o.TimedOut()
	}
}
