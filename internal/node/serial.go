package node

import (
	"context"
	"sync"
	"time"

	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/flow"
	"github.com/tuttidb/tutti/internal/guards"
	"github.com/tuttidb/tutti/internal/process"
	"github.com/tuttidb/tutti/internal/session"
	"github.com/tuttidb/tutti/internal/wire"
)

const (
	// serialAloneMax is how long a transaction waits to be alone; statements of others wait with it.
	serialAloneMax = 5 * time.Millisecond
	// serialIdle is how long no SERIALIZABLE transaction was open when the order is told that there are none.
	serialIdle = 5 * time.Second
)

// serial is the part of a life that deals with SERIALIZABLE transactions (decision 0034). The order knows whether a
// member runs some. Their statements run side by side; one that is to be vouched for is alone from a last question to
// its backend to its COMMIT.
type serial struct {
	mu      sync.Mutex
	changed sync.Cond

	joined  bool                       // the order knows, and everything up to there is applied
	telling bool                       // it is being told something else, and must not be told a third thing before
	last    time.Time                  // when one was last open
	open    map[*guards.Guard]struct{} // sessions whose transaction has a snapshot, or is about to take it
	running int                        // of these, whose backend may be doing something
	alone   bool
	wants   bool // somebody does to be alone
}

func (s *serial) init() {
	s.changed.L = &s.mu
	s.open = map[*guards.Guard]struct{}{}
}

func (s *serial) wake() {
	s.mu.Lock() // so that nobody is between looking and waiting
	s.mu.Unlock()
	s.changed.Broadcast()
}

// await waits until done is true, or stop, or for a while; called and returns with mu held. It reports done.
func (s *serial) await(max time.Duration, done, stop func() bool) bool {
	over := time.Now().Add(max)
	t := time.AfterFunc(max, s.wake)
	defer t.Stop()
	for !done() {
		if stop() || !time.Now().Before(over) {
			return false
		}
		s.changed.Wait()
	}
	return true
}

// snapshots is session.Snapshots: a session's prefix snapshots, and its part in SERIALIZABLE ones.
type snapshots struct {
	h                    *host
	open, running, alone bool

	safeSince time.Time // it waits for a safe snapshot, see EnterSafe
}

// wait is await for a session, and says why it was in vain.
func (x *snapshots) wait(max time.Duration, done func() bool) *wire.SQLError {
	h, s := x.h, &x.h.n.serial
	if !done() {
		defer h.n.metrics.Waits.Begin(flow.WaitSerial).End()
	}
	if s.await(max, done, func() bool { return h.Interrupted() != nil }) {
		return nil
	}
	if why := h.Interrupted(); why != nil {
		return why
	}
	return h.n.patience.errNoMajority("the transaction")
}

// SerialBegin waits until the order knows that this member runs SERIALIZABLE transactions.
func (x *snapshots) SerialBegin() *wire.SQLError {
	h, s := x.h, &x.h.n.serial
	s.mu.Lock()
	defer s.mu.Unlock()
	ready := func() bool {
		if !s.joined && !s.telling {
			s.telling = true
			h.n.background.Go(h.n.joinSerial)
		}
		return s.joined && !s.alone && !s.wants
	}
	if e := x.wait(h.n.patience.max(), ready); e != nil {
		return e
	}
	s.open[h.g] = struct{}{}
	s.running++
	x.open, x.running = true, true
	return nil
}

// SerialRuns says whether the backend may be doing something in a SERIALIZABLE transaction.
func (x *snapshots) SerialRuns(on bool) *wire.SQLError {
	if !x.open || x.running == on {
		return nil
	}
	h, s := x.h, &x.h.n.serial
	s.mu.Lock()
	defer s.mu.Unlock()
	if !on {
		x.rest()
		return nil
	}
	if e := x.wait(h.n.patience.max(), func() bool { return !s.alone && !s.wants }); e != nil {
		return e
	}
	s.running++
	x.running = true
	return nil
}

// rest is called with mu held.
func (x *snapshots) rest() {
	if x.running {
		x.running = false
		x.h.n.serial.running--
		x.h.n.serial.changed.Broadcast()
	}
}

// end notes that the session has no SERIALIZABLE transaction any more.
func (x *snapshots) end() {
	if !x.open {
		return
	}
	h, s := x.h, &x.h.n.serial
	s.mu.Lock()
	defer s.mu.Unlock()
	x.rest()
	x.open = false
	delete(s.open, h.g)
	s.last = time.Now()
}

// SerialAlone reports whether the session's transaction is alone now, because it would lose otherwise and may win. What
// it may be left to the backend is then settled in the engine.
func (x *snapshots) SerialAlone(sub session.Submission) bool {
	if !x.open || !x.vouches(&sub) {
		return false
	}
	s := &x.h.n.serial
	s.mu.Lock()
	defer s.mu.Unlock()
	x.rest()
	if s.alone || s.wants { // with many of them, everybody would wait for a majority again and again
		return false
	}
	s.wants = true
	s.alone = x.wait(serialAloneMax, func() bool { return s.running == 0 }) == nil
	s.wants, x.alone = false, s.alone
	s.changed.Broadcast()
	return x.alone
}

// vouches asks the engine, once everything that is decided is applied, if need be.
func (x *snapshots) vouches(sub *session.Submission) bool {
	h := x.h
	s := engine.Submission{Kind: engine.KindCertified, Seq: sub.Seq, Snapshot: sub.Snapshot, Base: sub.Base,
		Writeset: sub.Writeset}
	for {
		loses, yes, decided := false, false, uint64(0)
		h.n.core.Call(func(e *engine.Engine) {
			loses, yes = e.Vouches(s)
			decided = e.Ordinal()
		})
		stop := func() bool { return h.g.Lost() != nil || h.n.ending() }
		if yes || !loses || stop() || h.n.core.Applied() >= decided {
			return yes
		}
		h.n.gate.Await(func() bool { return h.n.core.Applied() >= decided || stop() })
	}
}

// SerialApart ends SerialAlone.
func (x *snapshots) SerialApart() {
	if !x.alone {
		return
	}
	x.alone = false
	x.h.n.serial.apart()
}

// apart ends that somebody is alone.
func (s *serial) apart() {
	s.mu.Lock()
	s.alone = false
	s.mu.Unlock()
	s.changed.Broadcast()
}

// decided ends it, too, once it is certain what became of a transaction that was vouched for. If its rows come
// from the log, the local database has forgotten who read what it wrote: whatever SERIALIZABLE is open must lose.
func (x *snapshots) decided(w *waiter, lost bool) {
	if !x.alone {
		return
	}
	x.alone = false
	h, l := x.h, x.h.n
	if !lost {
		l.serial.apart()
		return
	}
	l.background.Go(func() {
		select {
		case <-w.applied:
		case <-l.done:
		}
		l.serial.mu.Lock()
		var others []*guards.Guard
		for g := range l.serial.open {
			if g != h.g {
				others = append(others, g)
			}
		}
		l.serial.mu.Unlock()
		for _, g := range others {
			g.Abort(wire.Errorf(wire.CodeSerializationFailure,
				"could not serialize access due to read/write dependencies among transactions").
				WithDetail("The backend of transaction %s ended before it had committed there.",
					l.txid(w.sub.Seq)).WithHint("The transaction might succeed if retried."))
		}
		l.serial.apart()
	})
}

// submitSerial tells the order whether this member runs SERIALIZABLE transactions.
func (l *life) submitSerial(runs bool) (ordered <-chan struct{}) {
	payload := []byte{0}
	if runs {
		payload[0] = 1
	}
	seq := l.seq.Add(1)
	ordered = l.advisory.Place(seq)
	l.core.Order(l.context, engine.Submission{Kind: engine.KindSerial, Seq: seq, Payload: payload})
	return ordered
}

func (l *life) joinSerial() {
	select {
	case <-l.submitSerial(true):
	case <-l.done:
		return
	}
	l.catchUp()
	l.serial.mu.Lock()
	l.serial.joined, l.serial.telling, l.serial.last = true, false, time.Now()
	l.serial.mu.Unlock()
	l.serial.changed.Broadcast()
}

// leaveSerial is the goroutine that tells the order when there are none any more.
func (l *life) leaveSerial(ctx context.Context) error {
	for process.Rest(ctx, serialIdle/5) {
		s := &l.serial
		s.mu.Lock()
		leave := s.joined && len(s.open) == 0 && time.Since(s.last) > serialIdle
		if leave {
			s.joined, s.telling = false, true
		}
		s.mu.Unlock()
		if leave {
			l.submitSerial(false) // what is submitted later is ordered later
			s.mu.Lock()
			s.telling = false
			s.mu.Unlock()
			s.changed.Broadcast()
		}
	}
	return nil
}
