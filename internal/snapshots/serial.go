package snapshots

import (
	"context"
	"sync"
	"time"

	"github.com/tuttidb/tutti/internal/admission"
	"github.com/tuttidb/tutti/internal/flow"
	"github.com/tuttidb/tutti/internal/metrics"
	"github.com/tuttidb/tutti/internal/process"
	"github.com/tuttidb/tutti/internal/session"
	"github.com/tuttidb/tutti/internal/wire"
	"github.com/tuttidb/tutti/internal/writeset"
)

const (
	// aloneMax is how long a transaction waits to be alone; statements of others wait with it.
	aloneMax = 5 * time.Millisecond
	// idle is how long no SERIALIZABLE transaction was open when the order is told that there are none.
	idle = 5 * time.Second
)

// Options are what a replica's snapshots need of it.
type Options struct {
	Waits   *metrics.Waits
	Gate    *admission.Gate
	Applied func() uint64
	// Tell puts into the order whether this member runs SERIALIZABLE transactions; the channel is closed when it is
	// there. CatchUp waits until all is applied that is decided now.
	Tell    func(runs bool) (ordered <-chan struct{})
	CatchUp func()
	// Vouches is engine.Engine.Vouches, and what is decided by then.
	Vouches func(session.Submission) (loses, wins bool, decided uint64)
	// Patience is how long is waited for the order at most, NoMajority what is told then, Ends when the replica ends.
	Patience   func() time.Duration
	NoMajority func() *wire.SQLError
	Ends       func() *wire.SQLError
	Ending     func() bool
	Done       <-chan struct{}
	Go         func(func()) // which the replica waits for at its end
}

// Serial is what a replica has of SERIALIZABLE transactions. Their statements run side by side; one that is to be
// vouched for is alone from a last question to its backend to its COMMIT. Safe for concurrent use.
type Serial struct {
	o Options

	mu      sync.Mutex
	changed sync.Cond

	joined  bool                  // the order knows, and everything up to there is applied
	telling bool                  // it is being told something else, and must not be told a third thing before
	last    time.Time             // when one was last open
	open    map[*Session]struct{} // whose transaction has a snapshot, or is about to take it
	running int                   // of these, whose backend may be doing something
	alone   bool
	wants   bool // somebody does to be alone
}

// New makes what a replica has of them.
func New(o Options) *Serial {
	s := &Serial{o: o, open: map[*Session]struct{}{}}
	s.changed.L = &s.mu
	return s
}

// Wake has everybody who waits here look again.
func (s *Serial) Wake() {
	s.mu.Lock() // so that nobody is between looking and waiting
	s.mu.Unlock()
	s.changed.Broadcast()
}

// await waits until done is true, or stop, or for a while; called and returns with mu held. It reports done.
func (s *Serial) await(max time.Duration, done, stop func() bool) bool {
	over := time.Now().Add(max)
	t := time.AfterFunc(max, s.Wake)
	defer t.Stop()
	for !done() {
		if stop() || !time.Now().Before(over) {
			return false
		}
		s.changed.Wait()
	}
	return true
}

// join tells the order that there are SERIALIZABLE transactions (SN3).
func (s *Serial) join() {
	select {
	case <-s.o.Tell(true):
	case <-s.o.Done:
		return
	}
	s.o.CatchUp()
	s.mu.Lock()
	s.joined, s.telling, s.last = true, false, time.Now()
	s.mu.Unlock()
	s.changed.Broadcast()
}

// Run is the goroutine that tells the order when there are none any more.
func (s *Serial) Run(ctx context.Context) error {
	for process.Rest(ctx, idle/5) {
		s.leave(time.Now())
	}
	return nil
}

// leave tells it if that is so.
func (s *Serial) leave(now time.Time) {
	s.mu.Lock()
	leave := s.joined && len(s.open) == 0 && now.Sub(s.last) > idle
	if leave {
		s.joined, s.telling = false, true
	}
	s.mu.Unlock()
	if leave {
		s.o.Tell(false) // what is submitted later is ordered later
		s.mu.Lock()
		s.telling = false
		s.mu.Unlock()
		s.changed.Broadcast()
	}
}

// apart ends that somebody is alone.
func (s *Serial) apart() {
	s.mu.Lock()
	s.alone = false
	s.mu.Unlock()
	s.changed.Broadcast()
}

// forgotten has all lose but one whose rows come from the log, once these are applied (SN5).
func (s *Serial) forgotten(but *Session, id writeset.TxID, applied <-chan struct{}) {
	select {
	case <-applied:
	case <-s.o.Done:
	}
	s.mu.Lock()
	var others []*Session
	for x := range s.open {
		if x != but {
			others = append(others, x)
		}
	}
	s.mu.Unlock()
	for _, x := range others {
		x.client.Abort(wire.Errorf(wire.CodeSerializationFailure,
			"could not serialize access due to read/write dependencies among transactions").
			WithDetail("The backend of transaction %s ended before it had committed there.", id).
			WithHint("The transaction might succeed if retried."))
	}
	s.apart()
}

// wait is await for a session, and says why it was in vain.
func (x *Session) wait(max time.Duration, done func() bool) *wire.SQLError {
	if !done() {
		defer x.s.o.Waits.Begin(flow.WaitSerial).End()
	}
	if x.s.await(max, done, func() bool { return x.client.Interrupted() != nil }) {
		return nil
	}
	if why := x.client.Interrupted(); why != nil {
		return why
	}
	return x.s.o.NoMajority()
}

// SerialBegin waits until the order knows that this member runs SERIALIZABLE transactions.
func (x *Session) SerialBegin() *wire.SQLError {
	s := x.s
	s.mu.Lock()
	defer s.mu.Unlock()
	ready := func() bool {
		if !s.joined && !s.telling {
			s.telling = true
			s.o.Go(s.join)
		}
		return s.joined && !s.alone && !s.wants
	}
	if e := x.wait(s.o.Patience(), ready); e != nil {
		return e
	}
	s.open[x] = struct{}{}
	s.running++
	x.open, x.running = true, true
	return nil
}

// SerialRuns says whether the backend may be doing something in a SERIALIZABLE transaction.
func (x *Session) SerialRuns(on bool) *wire.SQLError {
	if !x.open || x.running == on {
		return nil
	}
	s := x.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if !on {
		x.rest()
		return nil
	}
	if e := x.wait(s.o.Patience(), func() bool { return !s.alone && !s.wants }); e != nil {
		return e
	}
	s.running++
	x.running = true
	return nil
}

// rest is called with mu held.
func (x *Session) rest() {
	if x.running {
		x.running = false
		x.s.running--
		x.s.changed.Broadcast()
	}
}

// End notes that the session has no SERIALIZABLE transaction any more.
func (x *Session) End() {
	if !x.open {
		return
	}
	s := x.s
	s.mu.Lock()
	defer s.mu.Unlock()
	x.rest()
	x.open = false
	delete(s.open, x)
	s.last = time.Now()
}

// SerialAlone reports whether the session's transaction is alone now, because it would lose otherwise and may win. What
// it may be left to the backend is then settled in the engine.
func (x *Session) SerialAlone(sub session.Submission) bool {
	if !x.open || !x.vouches(sub) {
		return false
	}
	s := x.s
	s.mu.Lock()
	defer s.mu.Unlock()
	x.rest()
	if s.alone || s.wants { // with many of them, everybody would wait for a majority again and again
		return false
	}
	s.wants = true
	s.alone = x.wait(aloneMax, func() bool { return s.running == 0 }) == nil
	s.wants, x.alone = false, s.alone
	s.changed.Broadcast()
	return x.alone
}

// vouches asks the engine, once everything that is decided is applied, if need be.
func (x *Session) vouches(sub session.Submission) bool {
	o := &x.s.o
	for {
		loses, wins, decided := o.Vouches(sub)
		stop := func() bool { return x.client.Lost() != nil || o.Ending() }
		if wins || !loses || stop() || o.Applied() >= decided {
			return wins
		}
		o.Gate.Await(func() bool { return o.Applied() >= decided || stop() })
	}
}

// SerialApart ends SerialAlone.
func (x *Session) SerialApart() {
	if x.alone {
		x.alone = false
		x.s.apart()
	}
}

// Decided ends it, too, once it is certain what became of a transaction that was vouched for. If its rows come from the
// log, it has ended before they are applied.
func (x *Session) Decided(id writeset.TxID, fromLog bool, applied <-chan struct{}) {
	if !x.alone {
		return
	}
	x.alone = false
	if !fromLog {
		x.s.apart()
		return
	}
	x.s.o.Go(func() { x.s.forgotten(x, id, applied) })
}
