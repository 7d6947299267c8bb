package node

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

// lockAsker answers one process of a session's that asks for advisory locks: its backend, or a parallel worker. Its goroutine
// carries out one command at a time: a newer one means that nobody waits for the older.
//
// A worker's is over with the statement, or soon after its worker.
type lockAsker struct {
	x         *lockSession
	pid       uint32
	statement uint64        // in which it began
	changed   chan struct{} // capacity 1
	ended     chan struct{} // closed behind its goroutine

	// With the session's lock.
	commands []lockCommand
	newest   uint64 // generation of the last one
	events   []engine.Lock
	asking   bool // a command is being carried out
	queued   bool // the request under way waits for another session
	gone     bool // the worker has ended

	// The goroutine's.
	last *lockCommand // whose answer the keeper still holds
	code int
	door *time.Timer  // the function that asks is made to wait
	look *time.Ticker // whether the worker has ended; nil for the backend
}

const (
	// lockWaitAfter is how long a function asks again and again for an answer, before it is made to wait.
	lockWaitAfter = 5 * time.Millisecond
	// workerLook is how often it is looked whether a parallel worker that has asked has ended, and its locks with it. The
	// statement may go on for long.
	workerLook = 100 * time.Millisecond
)

func (a *lockAsker) worker() bool { return a.pid != a.x.g.pid }

func (a *lockAsker) run() {
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
			case <-a.x.l.done:
				return
			}
		}
	}
}

// next takes a command. With over there will be none.
func (a *lockAsker) next() (c lockCommand, more, over bool) {
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
func (a *lockAsker) leave() {
	x := a.x
	if !a.worker() {
		a.awaitWorkers(math.MaxUint64)
		x.l.submitLock(&locks.Request{Action: locks.Leave, Session: x.number})
		x.l.advisory.mu.Lock()
		delete(x.l.advisory.sessions, x.number)
		x.l.advisory.mu.Unlock()
	}
	a.forget()
}

// awaitWorkers waits until no parallel worker of a statement before the given one, or of a session that is closed, is answered any more. Those
// of a statement that has begun meanwhile may wait for what the backend asks.
func (a *lockAsker) awaitWorkers(before uint64) {
	x := a.x
	x.mu.Lock()
	var workers []*lockAsker
	for _, w := range x.askers {
		if w != a && w.statement < before {
			workers = append(workers, w)
		}
	}
	x.mu.Unlock()
	for _, w := range workers {
		select {
		case <-w.ended:
		case <-x.l.done:
		}
	}
}

func (a *lockAsker) looks() <-chan time.Time {
	if a.look == nil {
		return nil
	}
	return a.look.C
}

// lookAfter gives back what a worker had that has ended.
func (a *lockAsker) lookAfter() {
	if !a.ours() {
		a.x.giveBack()
	}
}

// ours reports whether the process is one of the session's. A client can name any.
func (a *lockAsker) ours() bool {
	x := a.x
	if !a.worker() {
		return true
	}
	r, ok := x.keep(capture.WorkerSQL(a.pid, x.g.pid))
	gone := !ok || len(r[0].Rows) == 0
	x.mu.Lock()
	a.gone = gone
	x.mu.Unlock()
	return !gone
}

func (a *lockAsker) carryOut(c *lockCommand) {
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
		a.door = time.NewTimer(lockWaitAfter)
		a.ask(c)
		a.door.Stop()
	}
}

// stale reports whether nobody waits for the command any more.
func (a *lockAsker) stale(c *lockCommand) bool {
	x := a.x
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.closed || a.gone || a.newest != c.generation || x.statement != c.statement
}

// answer lets the function go on.
func (a *lockAsker) answer(c *lockCommand, code int) {
	a.last, a.code = c, code
	a.x.keep(capture.LockAnswerSQL(a.pid, c.number, code))
}

// forget takes back the last answer: the function has read it, or never will.
func (a *lockAsker) forget() {
	if a.last != nil {
		a.x.keep(capture.LockForgetSQL(a.pid, a.last.number, a.code))
		a.last = nil
	}
}

// ask puts a request for a lock into the order and answers when its fate is known. A lock counts when
// everything ordered before it is in the database.
func (a *lockAsker) ask(c *lockCommand) {
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
	seq, ordered := x.l.submitLock(&r)
	outcome, at := a.await(c, ordered)
	if outcome == locks.Granted {
		x.l.gate.await(func() bool { return x.l.core.applied.Load() >= at || x.l.ending() || a.stale(c) })
		x.l.advisory.extend(began)
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

func (c *lockCommand) tries() bool { return strings.HasSuffix(c.action, "try") }

// turn waits until no other process of the session's asks for the lock. It returns what there is to answer without
// a request of one's own; Queued means that nobody waits for that any more.
func (a *lockAsker) turn(c *lockCommand) locks.Outcome {
	x := a.x
	for !a.stale(c) && !x.l.ending() {
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
func (a *lockAsker) yield(c *lockCommand) {
	a.x.mu.Lock()
	delete(a.x.under, c.lock)
	a.x.mu.Unlock()
	a.x.wake()
}

// pause waits until something may have changed.
func (a *lockAsker) pause(c *lockCommand, over <-chan time.Time) (isOver bool) {
	select {
	case <-a.changed:
	case <-a.door.C:
		a.hold(c)
	case <-a.looks():
		a.ours()
	case <-over:
		return true
	case <-a.x.l.done:
	}
	return false
}

// begin makes a lock that was granted the session's, as soon as it is certain for how long it will be: the
// grant may be old. False if nobody waits for it any more, or it is lost already.
func (a *lockAsker) begin(c *lockCommand, at uint64) bool {
	x := a.x
	for !a.stale(c) && !x.l.ending() {
		over := x.l.advisory.over(0)
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
func (a *lockAsker) reply(c *lockCommand, code int) {
	a.answer(c, code)
	a.release(c)
}

// release ends the function's wait.
func (a *lockAsker) release(c *lockCommand) {
	if c.waits {
		c.waits = false
		a.x.keep(capture.LockGoSQL(a.pid, c.number))
	}
}

// hold makes the function wait for the reply. Where the function is about to look it fails, and is tried again: else the
// function would look on without an end, and lock_timeout would never come.
func (a *lockAsker) hold(c *lockCommand) {
	if c.waits {
		return
	}
	r, ok := a.x.keep(capture.LockWaitSQL(a.pid, c.number))
	c.waits = ok && string(r[0].Rows[0][0]) == "t"
	if ok && !c.waits {
		a.door.Reset(lockWaitAfter)
	}
}

// await waits for the fate of a request. Queued means that nobody waits for it any more, or that there is no
// majority.
func (a *lockAsker) await(c *lockCommand, ordered <-chan struct{}) (outcome locks.Outcome, at uint64) {
	x := a.x
	over, stop := x.l.patience()
	defer stop()
	defer x.l.metrics.Waits.Begin(flow.WaitAdvisory).End()
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
		case a.stale(c), x.l.ending():
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

// giveUp takes back a request. What it may yet be granted is given back, and nothing more is asked for that lock until that
// has its place: an event of this request could be taken for one of the next.
func (a *lockAsker) giveUp(c *lockCommand, seq uint64) {
	x := a.x
	stale := a.stale(c)
	if !x.l.withdrawLock(seq) {
		_, ordered := x.l.submitLock(&locks.Request{Action: locks.Release, Session: x.number, Locks: []locks.Lock{c.lock}})
		if !stale {
			a.reply(c, capture.LockUnavailable)
		}
		select {
		case <-ordered:
		case <-x.l.done:
		}
	} else if !stale {
		a.reply(c, capture.LockUnavailable)
	}
	a.release(c)
	if !stale {
		x.l.metrics.Limits.Timeout.Add(1)
	}
}
