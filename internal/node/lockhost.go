package node

import (
	"cmp"
	"context"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tuttidb/tutti/internal/capture"
	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/locks"
	"github.com/tuttidb/tutti/internal/wire"
)

// lockSession is what one session has of advisory locks, whichever of its processes have taken them.
type lockSession struct {
	l      *life
	g      *guard
	number uint64

	// settling is held from the look at what the processes hold until what they do not hold is given back: nobody must be told
	// meanwhile that the session has such a lock. It comes before all other locks.
	settling sync.Mutex

	mu        sync.Mutex
	askers    map[uint32]*lockAsker     // by process: the backend's own, and those of parallel workers
	statement uint64                    // how many are over
	held      map[locks.Lock]uint64     // with the ordinal at which it was granted
	under     map[locks.Lock]*lockAsker // who has a request for it under way; there is one at most
	closed    bool
	lost      bool // the cluster has given its locks to others, or will
	fate      *wire.SQLError
}

// lockCommand is a request of a function, or what the session wants.
type lockCommand struct {
	generation uint64
	statement  uint64
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
	// askersMax is how many processes of a session are answered at a time, and commandsMax how many commands of one are
	// remembered. A process asks for one thing at a time, and PostgreSQL has at most 1024 parallel workers.
	askersMax   = 1 + 1024
	commandsMax = 64
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
func (h *host) Lock(message string) (worker bool) {
	c, ok := parseLock(message)
	if !ok {
		return false
	}
	if h.advisory == nil {
		a := &h.n.advisory
		x := &lockSession{l: h.n, g: h.g, number: h.n.seq.Add(1)<<pidBits | uint64(h.g.pid),
			askers: map[uint32]*lockAsker{}, held: map[locks.Lock]uint64{}, under: map[locks.Lock]*lockAsker{}}
		h.advisory = x
		a.mu.Lock()
		a.sessions[x.number] = x
		a.mu.Unlock()
		x.own()
	}
	h.advisory.put(c)
	return c.pid != h.g.pid
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
	c.pid = h.g.pid
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
		return h.g.ended()
	}
	h.advisory.mu.Lock()
	defer h.advisory.mu.Unlock()
	return cmp.Or(h.advisory.fate, h.g.ended())
}

// leaveLocks ends a session's part in advisory locks. A function that waits for an answer would not notice.
func (h *host) leaveLocks() {
	x := h.advisory
	if x == nil {
		return
	}
	x.mu.Lock()
	x.closed = true
	asking := x.asksLocked()
	x.mu.Unlock()
	if asking {
		x.end()
	}
	x.wake()
}

// put hands a process's goroutine a command.
func (x *lockSession) put(c lockCommand) {
	x.mu.Lock()
	if c.done != nil {
		x.statement++
	}
	a := x.askers[c.pid]
	if c.done == nil && (a == nil && len(x.askers) >= askersMax || a != nil && len(a.commands) >= commandsMax) {
		x.mu.Unlock() // a client makes these up: who asks waits for the answer
		return
	}
	if a == nil {
		a = &lockAsker{x: x, pid: c.pid, statement: x.statement, changed: make(chan struct{}, 1), ended: make(chan struct{})}
		x.askers[c.pid] = a
		x.l.advisory.wg.Go(a.run)
	}
	a.newest++
	c.generation, c.statement = a.newest, x.statement
	a.commands = append(a.commands, c)
	x.mu.Unlock()
	x.wake()
}

// own begins what answers the backend. It goes on until the session ends.
func (x *lockSession) own() {
	x.put(lockCommand{action: "read", pid: x.g.pid})
}

// wake has all processes' goroutines look again, wherever they wait.
func (x *lockSession) wake() {
	x.poke()
	x.l.gate.wake()
}

// poke is wake but for who waits at the gate.
func (x *lockSession) poke() {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, a := range x.askers {
		signal(a.changed)
	}
}

// note takes an event; called with the life's advisory locked.
func (x *lockSession) note(e engine.Lock) {
	x.mu.Lock()
	if a := x.under[e.Event.Lock]; a != nil {
		a.events = append(a.events, e)
		signal(a.changed)
	}
	_, held := x.held[e.Event.Lock]
	x.lost = x.lost || held && e.Event.Outcome == locks.Lost
	lost := x.lost
	x.mu.Unlock()
	if lost {
		go x.lose()
	}
}

// asks reports whether a command is being carried out.
func (x *lockSession) asks() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.asksLocked()
}

func (x *lockSession) asksLocked() bool {
	for _, a := range x.askers {
		if a.asking || len(a.commands) > 0 {
			return true
		}
	}
	return false
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

// settle gives back in the cluster what the session's processes do not hold any more.
func (x *lockSession) settle() {
	ordered := x.giveBack()
	if ordered == nil {
		return
	}
	select {
	case <-ordered:
	case <-time.After(releaseWait):
	case <-x.l.done:
	}
}

// giveBack is settle without the wait for its place in the order.
func (x *lockSession) giveBack() (ordered <-chan struct{}) {
	x.settling.Lock()
	defer x.settling.Unlock()
	native, err := x.l.keeper.Held(context.Background(), x.g.pid)
	if err != nil {
		if !x.l.ending() {
			x.l.log.Warn("a session's advisory locks cannot be read", "pid", x.g.pid, "error", err)
		}
		return nil
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
		return nil
	}
	_, ordered = x.l.submitLock(&r)
	return ordered
}

func (x *lockSession) keep(sql string) (result []*pgconn.Result, ok bool) {
	result, err := x.l.keeper.Exec(context.Background(), sql)
	if err != nil && !x.l.ending() {
		x.l.log.Warn("a function that takes an advisory lock could not be answered", "pid", x.g.pid, "error", err)
		go x.lose()
	}
	return result, err == nil
}
