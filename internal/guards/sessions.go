package guards

import (
	"context"
	"maps"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tuttidb/tutti/internal/process"
	"github.com/tuttidb/tutti/internal/wire"
)

// connKind is what is at the other end of a connection.
type connKind uint8

const (
	toStranger connKind = iota // a client that is logging in
	toClient
	toBackend
)

// Sessions are the running clients of one replica, by backend pid, with their marker slots. Safe for concurrent use.
type Sessions struct {
	// Coming are those of which a transaction may come soon.
	Coming atomic.Int32

	mu    sync.Mutex
	byPID map[uint32]*Guard
	conns map[net.Conn]connKind
	free  []uint32
	max   int
	over  bool
	wg    sync.WaitGroup
}

// NewSessions makes a list of none, of max at most.
func NewSessions(max int) *Sessions {
	s := &Sessions{byPID: map[uint32]*Guard{}, conns: map[net.Conn]connKind{}, max: max}
	for i := max; i > 0; i-- {
		s.free = append(s.free, uint32(i))
	}
	return s
}

// Admit takes a slot; zero when all are taken, or the replica is over.
func (s *Sessions) Admit(conn net.Conn) uint32 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over || len(s.free) == 0 {
		return 0
	}
	slot := s.free[len(s.free)-1]
	s.free = s.free[:len(s.free)-1]
	s.conns[conn] = toStranger
	s.wg.Add(1)
	return slot
}

// Taken is how many sessions hold a slot.
func (s *Sessions) Taken() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.max - len(s.free)
}

// Register adds a session that has logged in, and the connection to its client.
func (s *Sessions) Register(g *Guard, conn net.Conn) {
	s.mu.Lock()
	s.byPID[g.o.PID] = g
	s.conns[conn] = toClient
	s.mu.Unlock()
}

// Hurry has those who are logging in do so soon, or go.
func (s *Sessions) Hurry() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c, kind := range s.conns {
		if kind == toStranger {
			_ = c.SetReadDeadline(time.Now().Add(LastWordsMax)) // a failure shows at the next read
		}
	}
}

// All lists the sessions.
func (s *Sessions) All() []*Guard {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.byPID))
}

// stuckAfter is after how long a session that waits for its backend is stuck: most statements of short transactions
// take less, and most waits for a lock longer.
const stuckAfter = 2 * time.Millisecond

// Stuck lists the slots of the sessions that are, and forgets those of Coming that have rested for long.
func (s *Sessions) Stuck(now time.Time) (slots []uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, g := range s.byPID { // order-free: they are counted
		if g.look(now) > stuckAfter {
			slots = append(slots, g.o.Slot)
		}
	}
	return slots
}

// Track adds a connection to a backend, which ends with the replica; false if it is over already.
func (s *Sessions) Track(conn net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.over {
		s.conns[conn] = toBackend
	}
	return !s.over
}

// Leave gives a slot back when nothing is left of its session; g is nil if it was not registered.
func (s *Sessions) Leave(conns []net.Conn, slot uint32, g *Guard) {
	if g != nil {
		g.leave()
	}
	s.mu.Lock()
	for _, c := range conns {
		delete(s.conns, c)
	}
	if g != nil {
		delete(s.byPID, g.o.PID)
	}
	s.free = append(s.free, slot)
	s.mu.Unlock()
	s.wg.Done()
}

// EndAll ends the sessions: they lose their backends, and their clients are told why. Who has not taken that in time
// loses the connection.
func (s *Sessions) EndAll(why *wire.SQLError) (stop func() bool) {
	for _, g := range s.All() {
		g.End(why)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
	for c, kind := range s.conns {
		if kind == toBackend {
			_ = c.Close()
		}
	}
	return time.AfterFunc(LastWordsMax, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		for c := range s.conns {
			_ = c.Close() // closed again by who accepted it
		}
	}).Stop
}

// Wait waits until all slots were given back.
func (s *Sessions) Wait() { s.wg.Wait() }

// Of is the session of a backend; nil if it is none of them.
func (s *Sessions) Of(pid uint32) *Guard {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.byPID[pid]
}

// nudgeInterval is after how long, or twice as long, a session's silence is taken for one that may last. Hearing the
// backend costs a session that does not listen some microseconds at its next statement. Until it is heard nobody knows
// that it has ended, and drivers' pools want to.
const nudgeInterval = 50 * time.Millisecond

// Nudge makes silent sessions hear their backends, until ctx ends.
func (s *Sessions) Nudge(ctx context.Context) error {
	for process.Rest(ctx, nudgeInterval) {
		for _, g := range s.All() {
			g.nudge()
		}
	}
	return nil
}
