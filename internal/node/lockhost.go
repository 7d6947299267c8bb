package node

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tuttidb/tutti/internal/capture"
	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/locks"
	"github.com/tuttidb/tutti/internal/wire"
)

// lockSession is what one session has of advisory locks. Its goroutine puts requests into the order and answers
// the function that asks, one at a time: a newer command means that nobody waits for the older one.
type lockSession struct {
	l      *life
	g      *guard
	number uint64

	mu       sync.Mutex
	commands []lockCommand
	newest   uint64                // generation of the last one
	held     map[locks.Lock]uint64 // with the ordinal at which it was granted
	events   []engine.Lock
	closed   bool
	asking   bool // a request is under way
	lost     bool // the cluster has given its locks to others, or will
	fate     *wire.SQLError
	changed  chan struct{} // capacity 1

	last *lockCommand // whose answer the keeper still holds
	code int
}

// lockCommand is a request of a function, or what the session wants.
type lockCommand struct {
	generation uint64
	action     string
	pid        uint32 // of what asks
	number     uint32
	lock       locks.Lock
	done       chan struct{} // closed when a command of the session's own is carried out
	waits      bool          // the function is made to wait
}

// pidBits is how many bits of a session's number are those of its backend.
const pidBits = 22

func pidOf(number uint64) uint32 { return uint32(number & (1<<pidBits - 1)) }

const (
	// lockWaitAfter is how long a function asks again and again for an answer, before it is made to wait.
	lockWaitAfter = 5 * time.Millisecond
	// releaseWait bounds the wait for a release to be ordered, without a majority. It stays submitted.
	releaseWait = time.Second
	lastGrace   = 500 * time.Millisecond // for a client to be told that its locks are lost
)

// parseLock reads what a function asks.
func parseLock(message string) (c lockCommand, ok bool) {
	f := strings.Fields(message)
	if len(f) != 6 {
		return c, false
	}
	var n [5]uint64
	for i := range n {
		bits := 32
		if i == 0 { // who asks
			bits = 64
		}
		var err error
		if n[i], err = strconv.ParseUint(f[i+1], 10, bits); err != nil {
			return c, false
		}
	}
	c = lockCommand{action: f[0], lock: locks.Lock{Mode: locks.Mode(n[1]), Key: locks.Key{Form: uint8(n[2]), Class: uint32(n[3]), Object: uint32(n[4])}}}
	c.pid, c.number = capture.LockAsker(n[0])
	switch c.action {
	case "gaveall":
		return c, true
	case "take", "xtake", "try", "xtry", "gave":
		return c, (n[1] == 1 || n[1] == 2) && (n[2] == 1 || n[2] == 2)
	}
	return c, false
}

// Lock passes on what a function asks. What no function of ours has said is ignored.
func (h *host) Lock(message string) {
	c, ok := parseLock(message)
	if !ok {
		return
	}
	if h.advisory == nil {
		a := &h.n.advisory
		x := &lockSession{l: h.n, g: h.g, number: h.n.seq.Add(1)<<pidBits | uint64(h.g.pid), held: map[locks.Lock]uint64{}, changed: make(chan struct{}, 1)}
		h.advisory = x
		a.mu.Lock()
		a.sessions[x.number] = x
		a.mu.Unlock()
		a.wg.Go(x.run)
	}
	if c.pid != h.g.pid {
		h.n.advisory.wg.Go(func() { h.advisory.refuse(c) })
		return
	}
	h.advisory.put(c)
}

// refuse answers a parallel worker of the session's: several may ask at once, and their locks end before the
// statement does. What anybody else is said to ask is ignored.
func (x *lockSession) refuse(c lockCommand) {
	r, err := x.l.keeper.exec(context.Background(), capture.WorkerSQL(c.pid, x.g.pid))
	if err != nil || len(r[0].Rows) == 0 {
		return
	}
	x.keep(capture.LockAnswerSQL(c.pid, c.number, capture.LockUnavailable))
	select {
	case <-time.After(releaseWait):
	case <-x.l.done:
	}
	x.keep(capture.LockForgetSQL(c.pid, c.number, capture.LockUnavailable))
}

// SettleLocks has compared what the backend holds with what the cluster thinks.
func (h *host) SettleLocks(compare bool) {
	if h.advisory == nil {
		return
	}
	c := lockCommand{action: "read", done: make(chan struct{})}
	if compare {
		c.action = "settle"
	}
	h.advisory.put(c)
	select {
	case <-c.done:
	case <-time.After(2 * releaseWait):
	case <-h.n.done:
	}
}

// Fate is why the session's backend was ended.
func (h *host) Fate() *wire.SQLError {
	if h.advisory == nil {
		return nil
	}
	h.advisory.mu.Lock()
	defer h.advisory.mu.Unlock()
	return h.advisory.fate
}

// leaveLocks ends a session's part in advisory locks. A function that waits for an answer would not notice.
func (h *host) leaveLocks() {
	x := h.advisory
	if x == nil {
		return
	}
	x.mu.Lock()
	x.closed = true
	asking := x.asking || len(x.commands) > 0
	x.mu.Unlock()
	if asking {
		x.end()
	}
	x.wake()
}

// put hands the session's goroutine a command.
func (x *lockSession) put(c lockCommand) {
	x.mu.Lock()
	x.newest++
	c.generation = x.newest
	x.commands = append(x.commands, c)
	x.mu.Unlock()
	x.wake()
}

func (x *lockSession) wake() {
	signal(x.changed)
	x.l.gate.wake()
}

// note takes an event; called with the life's advisory locked.
func (x *lockSession) note(e engine.Lock) {
	x.mu.Lock()
	x.events = append(x.events, e)
	_, held := x.held[e.Event.Lock]
	x.lost = x.lost || held && e.Event.Outcome == locks.Lost
	lost := x.lost
	x.mu.Unlock()
	signal(x.changed)
	if lost {
		go x.lose()
	}
}

// asks reports whether a command is being carried out.
func (x *lockSession) asks() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.asking
}

// since is the ordinal at which the oldest lock was granted that the session holds; zero if it holds none.
func (x *lockSession) since() (oldest uint64) {
	if x == nil {
		return 0
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, o := range x.held {
		if oldest == 0 || o < oldest {
			oldest = o
		}
	}
	return oldest
}

// lose ends the session, because its locks are, or soon may be, somebody else's.
func (x *lockSession) lose() {
	x.mu.Lock()
	again := x.fate != nil
	x.lost, x.fate = true, errLocksLost()
	x.mu.Unlock()
	if again {
		return
	}
	x.l.log.Warn("a session is ended, because its advisory locks are lost", "pid", x.g.pid)
	x.end()
	time.AfterFunc(lastGrace, func() { _ = x.g.client.Close() }) // closed again by who accepted it
}

// end ends the session's backend.
func (x *lockSession) end() { x.l.endBackend(x.g.pid) }

// expired reports whether the session has lost its locks. If nobody has noticed in time, because the process
// stood still, nothing more may reach the client: somebody else may have them.
func (x *lockSession) expired() bool {
	x.mu.Lock()
	lost, none := x.lost, len(x.held) == 0
	x.mu.Unlock()
	if !lost && (none || !x.l.advisory.over(0)) {
		return false
	}
	if x.l.advisory.over(x.l.advisory.lease / 4) {
		_ = x.g.client.Close() // closed again by who accepted it
	}
	if !lost {
		go x.lose()
	}
	return true
}

// run is the goroutine.
func (x *lockSession) run() {
	for {
		x.mu.Lock()
		closed, more := x.closed, len(x.commands) > 0
		var c lockCommand
		if more {
			c = x.commands[0]
			x.commands = x.commands[1:]
		}
		x.asking = more
		x.mu.Unlock()
		switch {
		case closed:
			x.l.submitLock(&locks.Request{Action: locks.Leave, Session: x.number})
			x.l.advisory.mu.Lock()
			delete(x.l.advisory.sessions, x.number)
			x.l.advisory.mu.Unlock()
			x.forget()
			return
		case more:
			x.carryOut(&c)
		default:
			select {
			case <-x.changed:
			case <-x.l.done:
				return
			}
		}
	}
}

func (x *lockSession) carryOut(c *lockCommand) {
	x.forget()
	switch c.action {
	case "read":
	case "settle":
		x.settle()
	case "gave", "gaveall":
		x.settle()
		x.answer(c, capture.LockGranted)
	default:
		x.ask(c)
	}
	if c.done != nil {
		close(c.done)
	}
}

// stale reports whether nobody waits for the command any more.
func (x *lockSession) stale(c *lockCommand) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.closed || x.newest != c.generation
}

func (x *lockSession) keep(sql string) {
	if _, err := x.l.keeper.exec(context.Background(), sql); err != nil && !x.l.ending() {
		x.l.log.Warn("a function that takes an advisory lock could not be answered", "pid", x.g.pid, "error", err)
		go x.lose()
	}
}

// answer lets the function go on.
func (x *lockSession) answer(c *lockCommand, code int) {
	x.last, x.code = c, code
	x.keep(capture.LockAnswerSQL(x.g.pid, c.number, code))
}

// forget takes back the last answer: the function has read it, or never will.
func (x *lockSession) forget() {
	if x.last != nil {
		x.keep(capture.LockForgetSQL(x.g.pid, x.last.number, x.code))
		x.last = nil
	}
}

// settle gives back in the cluster what the backend does not hold any more.
func (x *lockSession) settle() {
	native, err := x.l.keeper.held(context.Background(), x.g.pid)
	if err != nil {
		if !x.l.ending() {
			x.l.log.Warn("a session's advisory locks cannot be read", "pid", x.g.pid, "error", err)
		}
		return
	}
	r := locks.Request{Action: locks.Release, Session: x.number}
	x.mu.Lock()
	for k := range x.held {
		if !native[k] {
			r.Locks = append(r.Locks, k)
			delete(x.held, k)
		}
	}
	x.mu.Unlock()
	if len(r.Locks) == 0 {
		return
	}
	_, ordered := x.l.submitLock(&r)
	select {
	case <-ordered:
	case <-time.After(releaseWait):
	case <-x.l.done:
	}
}

// ask puts a request for a lock into the order and answers when its fate is known. A lock counts when
// everything ordered before it is in the database.
func (x *lockSession) ask(c *lockCommand) {
	x.mu.Lock()
	_, held := x.held[c.lock]
	x.events = nil
	x.mu.Unlock()
	if held {
		x.answer(c, capture.LockGranted)
		return
	}
	r := locks.Request{Action: locks.Take, Session: x.number, Locks: []locks.Lock{c.lock}}
	if strings.HasSuffix(c.action, "try") {
		r.Action = locks.Try
	}
	began := time.Now()
	seq, ordered := x.l.submitLock(&r)
	outcome, at := x.await(c, seq, ordered)
	if outcome == locks.Granted {
		x.l.gate.await(func() bool { return x.l.core.applied.Load() >= at || x.l.ending() || x.stale(c) })
		x.l.advisory.extend(began)
		if x.begin(c, at) {
			x.reply(c, capture.LockGranted)
			return
		}
		outcome = locks.Queued
	}
	switch outcome {
	case locks.Busy:
		x.reply(c, capture.LockBusy)
	case locks.Deadlock:
		x.reply(c, capture.LockDeadlock)
	case locks.Lost:
		x.reply(c, capture.LockUnavailable)
	default:
		x.giveUp(c, seq)
	}
}

// begin makes a lock that was granted the session's, as soon as it is certain for how long it will be: the
// grant may be old. False if nobody waits for it any more, or it is lost already.
func (x *lockSession) begin(c *lockCommand, at uint64) bool {
	for !x.stale(c) && !x.l.ending() {
		over := x.l.advisory.over(0)
		x.mu.Lock()
		lost := slices.ContainsFunc(x.events, func(e engine.Lock) bool { return e.Event.Outcome == locks.Lost })
		if !over && !lost {
			x.held[c.lock] = at
		}
		x.mu.Unlock()
		if !over || lost {
			return !lost
		}
		select {
		case <-x.changed:
		case <-x.l.done:
		}
	}
	return false
}

// reply is answer to a function that may have been made to wait.
func (x *lockSession) reply(c *lockCommand, code int) {
	x.answer(c, code)
	x.release(c)
}

// release ends the function's wait.
func (x *lockSession) release(c *lockCommand) {
	if c.waits {
		c.waits = false
		x.keep(capture.LockGoSQL(x.g.pid, c.number))
	}
}

// hold makes the function wait for the reply.
func (x *lockSession) hold(c *lockCommand) {
	if !c.waits {
		c.waits = true
		x.keep(capture.LockWaitSQL(x.g.pid, c.number))
	}
}

// await waits for the fate of a request. Queued means that nobody waits for it any more, or that there is no
// majority.
func (x *lockSession) await(c *lockCommand, seq uint64, ordered <-chan struct{}) (outcome locks.Outcome, at uint64) {
	door := time.NewTimer(lockWaitAfter)
	defer door.Stop()
	over, stop := x.l.patience()
	defer stop()
	for {
		x.mu.Lock()
		for _, e := range x.events {
			if e.Event.Lock == c.lock && e.Event.Outcome != locks.Queued {
				outcome, at = e.Event.Outcome, e.Ordinal
			}
		}
		x.events = nil
		x.mu.Unlock()
		switch {
		case outcome != 0:
			return outcome, at
		case x.stale(c):
			return locks.Queued, 0
		}
		select {
		case <-x.changed:
		case <-door.C:
			x.hold(c)
		case <-over:
			select {
			case <-ordered:
				over = nil // it waits for somebody, not for a majority
			default:
				return locks.Queued, 0
			}
		case <-x.l.done:
			return locks.Queued, 0
		}
	}
}

// giveUp takes back a request. What it may yet be granted is given back, and nothing more is asked until that
// has its place: an event of this request could be taken for one of the next.
func (x *lockSession) giveUp(c *lockCommand, seq uint64) {
	stale := x.stale(c)
	if !x.l.withdrawLock(seq) {
		_, ordered := x.l.submitLock(&locks.Request{Action: locks.Release, Session: x.number, Locks: []locks.Lock{c.lock}})
		if !stale {
			x.reply(c, capture.LockUnavailable)
		}
		select {
		case <-ordered:
		case <-x.l.done:
		}
	} else if !stale {
		x.reply(c, capture.LockUnavailable)
	}
	x.release(c)
	if !stale {
		x.l.reached.timeout.Add(1)
	}
}
