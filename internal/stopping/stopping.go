package stopping

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tuttidb/tutti/internal/guards"
	"github.com/tuttidb/tutti/internal/wire"
)

const (
	// Poll is between two looks at who is still there.
	Poll = 5 * time.Millisecond
	// DecideMax is how long a COMMIT that the log has yet to decide on holds the end up.
	DecideMax = 2 * time.Second
)

// House is what has the clients.
type House interface {
	// Clients are those that have not left.
	Clients() int64
	// HandOver hands the lead of every order over. Dismiss makes every session look whether it may go on.
	HandOver()
	Dismiss()
	// End ends the sessions that are left, and reports whether the log still decides on a transaction of some of them.
	End() (deciding bool)
	// Needed reports whether the other members cannot go on without this one yet, and are about to be able to.
	Needed() bool
	// Settle waits for a while until what sessions which have left had to say to the other members is said.
	Settle()
	// Gone is closed when there is nobody left to wait for.
	Gone() <-chan struct{}
}

// Stops is how far a node has been told to stop. Safe for concurrent use.
type Stops struct {
	refuses atomic.Bool   // new clients
	leaving atomic.Bool   // sessions end that have no transaction open
	begun   chan struct{} // closed when it shall stop
	now     chan struct{} // closed when it shall not wait for transactions any more
	begin   sync.Once
	hurry   sync.Once
}

// New makes that of a node that goes on.
func New() *Stops { return &Stops{begun: make(chan struct{}), now: make(chan struct{})} }

// Refuses reports whether new clients are refused, Leaving whether sessions end that have no transaction open.
func (s *Stops) Refuses() bool { return s.refuses.Load() }

// Leaving is described at Refuses.
func (s *Stops) Leaving() bool { return s.leaving.Load() }

// Drain has the node stop, once its clients' transactions have ended, or drain_timeout is over.
func (s *Stops) Drain() {
	s.begin.Do(func() { close(s.begun) })
}

// StopNow has the node stop without waiting for transactions.
func (s *Stops) StopNow() {
	s.hurry.Do(func() { close(s.now) })
	s.Drain()
}

func (s *Stops) hurried() bool {
	select {
	case <-s.now:
		return true
	default:
		return false
	}
}

// Run waits until the node is told to stop, and sees its clients off; house gives nil if there are none. The node may
// end when it returns. It returns as well when ctx ends.
func (s *Stops) Run(ctx context.Context, log *slog.Logger, drain func() time.Duration, house func() House) {
	select {
	case <-ctx.Done():
		return
	case <-s.begun:
	}
	s.refuses.Store(true)
	patience := drain()
	if s.hurried() {
		patience = 0
	}
	h := house()
	if h == nil {
		log.Info("stopping: there are no clients")
		return
	}
	defer h.Settle()
	until := time.Now().Add(patience)
	log.Info("stopping: clients are told to leave", "sessions", h.Clients(), "drain_timeout", patience)
	if patience > 0 && h.Clients() > 0 {
		h.HandOver()
		s.leaving.Store(true)
		h.Dismiss()
		await(h, s.now, patience, nil)
	}
	if left := h.Clients(); left > 0 {
		log.Warn("stopping: sessions are ended that have not left", "sessions", left)
		seeOff(h)
	}
	s.stay(h, until)
}

// stay waits until the other members can go on without this one.
func (s *Stops) stay(h House, until time.Time) {
	over := time.NewTimer(time.Until(until))
	defer over.Stop()
	for h.Needed() {
		select {
		case <-s.now:
			return
		case <-over.C:
			return
		case <-h.Gone():
			return
		case <-time.After(Poll):
		}
	}
}

// await waits until no client is left, for most at most, or until hurry is closed. each is called again and again.
func await(h House, hurry <-chan struct{}, most time.Duration, each func()) {
	over := time.NewTimer(most)
	defer over.Stop()
	for h.Clients() > 0 {
		if each != nil {
			each()
		}
		select {
		case <-hurry:
			return
		case <-over.C:
			return
		case <-h.Gone():
			return
		case <-time.After(Poll):
		}
	}
}

// seeOff ends the sessions that are left, but for those of whose COMMIT the log decides: these end by themselves.
func seeOff(h House) {
	began := time.Now()
	stuck := make(chan struct{}) // closed when nobody is left but who does not take his last words
	await(h, stuck, DecideMax, func() {
		if deciding := h.End(); !deciding && time.Since(began) > guards.LastWordsMax {
			close(stuck)
		}
	})
}

// Shutdown is what PostgreSQL tells sessions of a server that is shut down, and TooLate what it tells who comes then.
func Shutdown() *wire.SQLError {
	return wire.Fatalf(wire.CodeAdminShutdown, "terminating connection due to administrator command").
		WithHint("This member stops. Connect again, or to another member.")
}

// TooLate is described at Shutdown.
func TooLate() *wire.SQLError {
	return wire.Fatalf(wire.CodeCannotConnectNow, "the database system is shutting down").
		WithHint("Connect to another member.")
}
