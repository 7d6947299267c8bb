package advisory

import (
	"context"
	"io"
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

// Session is what one session has of advisory locks, whichever of its processes have taken them.
type Session struct {
	l      *Locks
	pid    uint32 // of its backend
	client io.Closer
	number uint64

	// settling is held from the look at what the processes hold until what they do not hold is given back: nobody must
	// be told meanwhile that the session has such a lock. It comes before all other locks.
	settling sync.Mutex

	mu        sync.Mutex
	askers    map[uint32]*asker     // by process: the backend's own, and those of parallel workers
	statement uint64                // how many are over
	held      map[locks.Lock]uint64 // with the ordinal at which it was granted
	under     map[locks.Lock]*asker // who has a request for it under way; there is one at most
	closed    bool
	lost      bool // the cluster has given its locks to others, or will
	fate      *wire.SQLError
}

// Command is a request of a function, or what the session wants.
type Command struct {
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
	// ReleaseWait bounds the wait for a release to be ordered, without a majority. It stays submitted.
	ReleaseWait = time.Second
	lastGrace   = 500 * time.Millisecond // for a client to be told that its locks are lost
)

// Parse reads what a function asks.
func Parse(message string) (c Command, ok bool) {
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
	c = Command{action: f[0], lock: locks.Lock{Mode: locks.Mode(n[1]),
		Key: locks.Key{Form: uint8(n[2]), Class: uint32(n[3]), Object: uint32(n[4])}}}
	c.pid, c.number = capture.LockAsker(n[0])
	switch c.action {
	case "gaveall":
		return c, true
	case "take", "xtake", "try", "xtry", "gave":
		return c, (n[1] == 1 || n[1] == 2) && (n[2] == 1 || n[2] == 2)
	}
	return c, false
}

// Lock passes on what a function asks, which is a parallel worker's if worker.
func (x *Session) Lock(c Command) (worker bool) {
	x.put(c)
	return c.pid != x.pid
}

// Await has compared what the backend holds with what the cluster thinks, if compare is set.
func (x *Session) Await(compare bool) {
	c := Command{action: "read", done: make(chan struct{})}
	if compare {
		c.action = "settle"
	}
	c.pid = x.pid
	x.put(c)
	select {
	case <-c.done:
	case <-time.After(2 * ReleaseWait):
	case <-x.l.o.Done:
	}
}

// Why is why the session's backend was ended, if it is because of its locks.
func (x *Session) Why() *wire.SQLError {
	if x == nil {
		return nil
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.fate
}

// Leave ends the session's part in advisory locks. A function that waits for an answer would not notice.
func (x *Session) Leave() {
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
func (x *Session) put(c Command) {
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
		a = &asker{x: x, pid: c.pid, statement: x.statement, changed: make(chan struct{}, 1),
			ended: make(chan struct{})}
		x.askers[c.pid] = a
		x.l.wg.Go(a.run)
	}
	a.newest++
	c.generation, c.statement = a.newest, x.statement
	a.commands = append(a.commands, c)
	x.mu.Unlock()
	x.wake()
}

// own begins what answers the backend. It goes on until the session ends.
func (x *Session) own() {
	x.put(Command{action: "read", pid: x.pid})
}

// wake has all processes' goroutines look again, wherever they wait.
func (x *Session) wake() {
	x.poke()
	x.l.o.Wake()
}

// poke is wake but for who waits at the gate.
func (x *Session) poke() {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, a := range x.askers {
		nudge(a.changed)
	}
}

// note takes an event; called with l locked.
func (x *Session) note(e engine.Lock) {
	x.mu.Lock()
	if a := x.under[e.Event.Lock]; a != nil {
		a.events = append(a.events, e)
		nudge(a.changed)
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
func (x *Session) asks() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.asksLocked()
}

func (x *Session) asksLocked() bool {
	for _, a := range x.askers {
		if a.asking || len(a.commands) > 0 {
			return true
		}
	}
	return false
}

// Since is the ordinal at which the oldest lock was granted that the session holds; zero if it holds none.
func (x *Session) Since() (oldest uint64) {
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
func (x *Session) lose() {
	x.mu.Lock()
	again := x.fate != nil
	x.lost, x.fate = true, ErrLocksLost()
	x.mu.Unlock()
	if again {
		return
	}
	x.l.o.Log.Warn("a session is ended, because its advisory locks are lost", "pid", x.pid)
	x.end()
	time.AfterFunc(lastGrace, func() { _ = x.client.Close() }) // closed again by who accepted it
}

// end ends the session's backend.
func (x *Session) end() { x.l.o.EndBackend(x.pid) }

// Expired reports whether the session has lost its locks. If nobody has noticed in time, because the process
// stood still, nothing more may reach the client: somebody else may have them.
func (x *Session) Expired() bool {
	x.mu.Lock()
	lost, none := x.lost, len(x.held) == 0
	x.mu.Unlock()
	if !lost && (none || !x.l.over(0)) {
		return false
	}
	if x.l.over(x.l.o.Lease / 4) {
		_ = x.client.Close() // closed again by who accepted it
	}
	if !lost {
		go x.lose()
	}
	return true
}

// settle gives back in the cluster what the session's processes do not hold any more.
func (x *Session) settle() {
	ordered := x.GiveBack()
	if ordered == nil {
		return
	}
	select {
	case <-ordered:
	case <-time.After(ReleaseWait):
	case <-x.l.o.Done:
	}
}

// GiveBack is settle without the wait for its place in the order.
func (x *Session) GiveBack() (ordered <-chan struct{}) {
	x.settling.Lock()
	defer x.settling.Unlock()
	native, err := x.l.keeper.Held(context.Background(), x.pid)
	if err != nil {
		if !x.l.o.Ending() {
			x.l.o.Log.Warn("a session's advisory locks cannot be read", "pid", x.pid, "error", err)
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
	_, ordered = x.l.submit(&r)
	return ordered
}

func (x *Session) keep(sql string) (result []*pgconn.Result, ok bool) {
	result, err := x.l.keeper.Exec(context.Background(), sql)
	if err != nil && !x.l.o.Ending() {
		x.l.o.Log.Warn("a function that takes an advisory lock could not be answered", "pid", x.pid, "error", err)
		go x.lose()
	}
	return result, err == nil
}

// nudge has who waits for c look again.
func nudge(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
