package guards

import (
	"context"
	"errors"
	"net"
	"os"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tuttidb/tutti/internal/session"
	"github.com/tuttidb/tutti/internal/wire"
)

var (
	lost  = wire.Errorf(wire.CodeSerializationFailure, "lost")
	ended = wire.Fatalf(wire.CodeAdminShutdown, "ended")
)

// phases are all that a session can be in.
var phases = []session.Phase{session.PhaseIdle, session.PhaseWaiting, session.PhaseRunning, session.PhaseSubmitted}

// guarded is a session that is guarded, with both ends of its connections.
type guarded struct {
	*Guard
	client, backend net.Conn // the other ends
	cancels, wakes  atomic.Int32
	withdrawn       atomic.Uint64
	cancelling      chan struct{} // if not nil, a cancel is under way until something is sent
}

func guard(t *testing.T, pid uint32) *guarded {
	x := &guarded{}
	client, backend := net.Conn(nil), net.Conn(nil)
	client, x.client = net.Pipe()
	backend, x.backend = net.Pipe()
	t.Cleanup(func() {
		for _, c := range []net.Conn{client, backend, x.client, x.backend} {
			c.Close()
		}
	})
	x.Guard = New(Options{PID: pid, Slot: pid + 1, Client: client, Backend: backend, Withdraw: x.withdrawn.Store,
		Wake: func() { x.wakes.Add(1) },
		Cancel: func() {
			if x.cancels.Add(1); x.cancelling != nil {
				<-x.cancelling
			}
		}})
	return x
}

// enter fails if a phase cannot be entered.
func (x *guarded) enter(t *testing.T, p session.Phase) {
	t.Helper()
	if e := x.Enter(p); e != nil {
		t.Fatalf("phase %d begins with %v", p, e)
	}
}

// poked reports whether a read from the client times out.
func (x *guarded) poked() bool {
	go x.client.Write([]byte{1})
	_, err := x.Client().Read(make([]byte, 1))
	return errors.Is(err, os.ErrDeadlineExceeded)
}

// TestAbort (GU1, GU3): in each phase, whether a transaction loses, its session looks up, and its statement is
// cancelled; what is idle again has lost nothing.
func TestAbort(t *testing.T) {
	for _, p := range phases {
		x := guard(t, 1)
		x.enter(t, p)
		loses := p == session.PhaseWaiting || p == session.PhaseRunning
		phase, fresh, _ := x.Abort(lost)
		if phase != p || fresh != loses || (x.Lost() == lost) != loses || (x.wakes.Load() == 1) != loses {
			t.Errorf("in phase %d it is in phase %d, fresh %v, has lost by %v, was woken %d times", p, phase, fresh,
				x.Lost(), x.wakes.Load())
		}
		if n := x.cancels.Load(); (n == 1) != (p == session.PhaseRunning) {
			t.Errorf("in phase %d it is cancelled %d times", p, n)
		}
		if poked := x.poked(); poked != loses {
			t.Errorf("in phase %d it looks up: %v", p, poked)
		}
		if e := x.Enter(session.PhaseSubmitted); (e == lost) != loses {
			t.Errorf("behind phase %d, a COMMIT is told %v", p, e)
		}
		if loses && x.poked() {
			t.Errorf("it looks up again behind phase %d", p)
		}
		x.enter(t, session.PhaseIdle)
		if x.enter(t, session.PhaseWaiting); x.Lost() != nil {
			t.Errorf("the next transaction has lost by %v", x.Lost())
		}
	}
}

// TestStatementOfALoserIsCancelled (GU1): a transaction loses while its client is silent, and the client's next
// statement is on its way already. It runs into the executor's locks; only a cancel ends that.
func TestStatementOfALoserIsCancelled(t *testing.T) {
	x := guard(t, 1)
	x.enter(t, session.PhaseWaiting)
	x.Abort(lost)
	if e := x.Enter(session.PhaseRunning); e != lost {
		t.Fatalf("the statement begins with %v", e)
	}
	const told = 20 * time.Millisecond
	time.Sleep(told)
	phase, fresh, inWay := x.Abort(wire.Errorf(wire.CodeSerializationFailure, "another"))
	if fresh || phase != session.PhaseRunning || x.cancels.Load() != 1 || inWay < told || x.Lost() != lost {
		t.Errorf("the statement blocks the executor: phase %d, %d cancels, for %v, by %v", phase, x.cancels.Load(),
			inWay, x.Lost())
	}
	x.enter(t, session.PhaseIdle)
	if _, _, inWay := x.Abort(lost); inWay >= told {
		t.Errorf("the next transaction has been in the way for %v, as the one before it was", inWay)
	}
}

// TestEnd (GU4): a session is ended in all phases but where the log decides, on a definition as well; it stays so.
func TestEnd(t *testing.T) {
	for _, p := range phases {
		x := guard(t, 1)
		x.enter(t, p)
		x.Defining(func() {})
		if got := x.End(ended); got != session.PhaseSubmitted || x.Ended() != nil {
			t.Errorf("in phase %d it is ended while it defines something", p)
		}
		x.Defining(nil)
		ends := p != session.PhaseSubmitted
		if got := x.End(ended); got != p || (x.Ended() == ended) != ends || (x.wakes.Load() == 1) != ends {
			t.Errorf("in phase %d it is in phase %d, ended by %v, woken %d times", p, got, x.Ended(), x.wakes.Load())
		}
		if poked := x.poked(); poked != ends {
			t.Errorf("in phase %d it looks up: %v", p, poked)
		}
		if x.End(lost); ends && x.Ended() != ended {
			t.Errorf("it is ended twice, the second time by %v", x.Ended())
		}
		if e := x.Enter(session.PhaseIdle); ends && e != ended {
			t.Errorf("behind phase %d it goes on, told %v", p, e)
		}
		if !x.Terminates() || x.Terminates() {
			t.Error("its backend is not ended once")
		}
	}
	(*Guard)(nil).Defining(nil) // of nobody
}

// TestCancelClient: what a client's wish to cancel does in each phase, and who knows of it.
func TestCancelClient(t *testing.T) {
	for _, p := range phases {
		x := guard(t, 1)
		defined := 0
		x.enter(t, p)
		x.Submitted(7)
		x.Defining(func() { defined++ })
		x.CancelClient()
		running, submitted := p == session.PhaseRunning, p == session.PhaseSubmitted
		if (x.cancels.Load() == 1) != running || x.Wishes() != running || x.Cancelled() != running || defined != 1 ||
			(x.wakes.Load() == 1) != running || (x.withdrawn.Load() == 7) != submitted || x.Submission() != 7 {
			t.Errorf("in phase %d: %d cancels, wishes %v, defining was cancelled %d times, %d withdrawn", p,
				x.cancels.Load(), x.Wishes(), defined, x.withdrawn.Load())
		}
		x.enter(t, session.PhaseRunning)
		if x.Wishes() {
			t.Errorf("a wish in phase %d is one in the next phase, too", p)
		}
		if x.CancelLate(); x.cancels.Load() != 1 && (running || submitted) || x.cancels.Load() > 1 {
			t.Errorf("in phase %d it was late, and then there are %d cancels", p, x.cancels.Load())
		}
		if x.CancelLate(); x.cancels.Load() > 1 {
			t.Errorf("it is late twice in phase %d", p)
		}
	}
	x := guard(t, 1)
	x.enter(t, session.PhaseSubmitted)
	x.CancelClient()
	x.enter(t, session.PhaseSubmitted)
	if x.CancelLate(); x.cancels.Load() != 0 {
		t.Error("a wish of the last transaction's counts for the next")
	}
	x.enter(t, session.PhaseWaiting)
	if x.Cancel(); x.cancels.Load() != 0 {
		t.Error("it is cancelled, and nothing runs")
	}
	x.enter(t, session.PhaseRunning)
	if x.Cancel(); x.cancels.Load() != 1 || x.Wishes() {
		t.Error("it is not cancelled, or the client has wished that")
	}
}

// TestResuming: while something is run again, a client's wish counts in all phases, and one from before does.
func TestResuming(t *testing.T) {
	x := guard(t, 1)
	x.enter(t, session.PhaseRunning)
	x.CancelClient()
	if x.Resuming(true); !x.Cancelled() {
		t.Error("a wish is forgotten when it begins")
	}
	x.enter(t, session.PhaseWaiting)
	if !x.Cancelled() {
		t.Error("a wish is forgotten in the next phase")
	}
	if x.Resuming(false); x.Cancelled() {
		t.Error("a wish counts when it is over")
	}
	x.Resuming(true)
	if x.CancelClient(); !x.Cancelled() {
		t.Error("a wish does not count where nothing runs")
	}
}

// TestCancelsHitNobodyElse (GU2): a phase that a cancel of the last statement would hit begins when none is under way.
func TestCancelsHitNobodyElse(t *testing.T) {
	for _, p := range phases {
		x := guard(t, 1)
		x.enter(t, session.PhaseRunning)
		x.cancelling = make(chan struct{})
		go x.CancelClient()
		for x.cancels.Load() == 0 {
			time.Sleep(time.Millisecond)
		}
		begins := make(chan struct{})
		go func() { x.Enter(p); close(begins) }()
		select {
		case <-begins:
			if p != session.PhaseRunning {
				t.Errorf("phase %d begins while a cancel is under way", p)
			}
		case <-time.After(20 * time.Millisecond):
			if p == session.PhaseRunning {
				t.Error("the next statement waits for a cancel")
			}
		}
		x.cancelling <- struct{}{}
		<-begins
	}
}

// TestBreakOff (GU5): what may be broken off is cancelled again and again until it is over. Whether that was the node's
// wish is told, and not if it was the client's.
func TestBreakOff(t *testing.T) {
	for name, c := range map[string]struct {
		f      func(x *guarded)
		broken bool
	}{
		"nothing": {func(*guarded) {}, false}, "broken off": {func(x *guarded) { x.BreakOff() }, true},
		"the client's wish": {func(x *guarded) { x.CancelClient() }, false},
		"a loser":           {func(x *guarded) { x.Abort(lost) }, true},
	} {
		x := guard(t, 1)
		x.enter(t, session.PhaseRunning)
		x.Hold()
		c.f(x)
		for end := time.Now().Add(time.Second); name != "nothing" && x.cancels.Load() < 3 && time.Now().Before(end); {
			time.Sleep(time.Millisecond)
		}
		if broken := x.Release(); broken != c.broken {
			t.Errorf("%s: it was broken off: %v", name, broken)
		}
		n := x.cancels.Load()
		if time.Sleep(3 * breakOffAgain); x.cancels.Load() != n || (n >= 3) != (name != "nothing") {
			t.Errorf("%s: there are %d cancels, and %d when it is over", name, n, x.cancels.Load())
		}
		x.BreakOff()
		if time.Sleep(2 * breakOffAgain); x.cancels.Load() != n {
			t.Errorf("%s: it is broken off though it is over", name)
		}
	}
}

// TestBreakOffIsOver (GU5): however often it is broken off, one cancel is under way at a time, and it is over when that
// has left.
func TestBreakOffIsOver(t *testing.T) {
	x := guard(t, 1)
	x.enter(t, session.PhaseRunning)
	x.cancelling = make(chan struct{})
	x.Hold()
	x.BreakOff()
	x.BreakOff()
	x.Abort(lost)
	over := make(chan struct{})
	go func() { x.Release(); close(over) }()
	select {
	case <-over:
		t.Error("it is over while a cancel is under way")
	case <-time.After(2 * breakOffAgain):
	}
	if n := x.cancels.Load(); n != 1 {
		t.Errorf("%d cancels are under way", n)
	}
	close(x.cancelling)
	<-over
}

// TestBeside (GU3): when something ends that runs beside the session, the session looks up; so it does when its backend
// has said something, but not when it has stopped hearing it.
func TestBeside(t *testing.T) {
	x := guard(t, 1)
	goes := make(chan struct{})
	wait, over := x.Go(func() { <-goes })
	if over() || x.poked() {
		t.Error("it has ended")
	}
	close(goes)
	if wait(); !over() || !x.poked() {
		t.Error("it has ended, and the session does not look up")
	}
	x.enter(t, session.PhaseWaiting)
	hear := func() { x.o.Backend.Read(make([]byte, 1)) }
	stop, over := x.Watch(hear)
	x.nudge()
	if x.nudge(); over() || x.poked() {
		t.Error("it hears something, or is nudged to, and nothing was said")
	}
	if stop(); !over() || x.poked() {
		t.Error("it hears its backend still, or looks up for nothing")
	}
	stop, over = x.Watch(hear)
	x.backend.Write([]byte{1})
	for end := time.Now().Add(time.Second); !over() && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	if !over() || !x.poked() {
		t.Error("its backend has said something, and it does not look up")
	}
	stop()
	go x.backend.Write([]byte{1})
	if _, err := x.o.Backend.Read(make([]byte, 1)); err != nil {
		t.Errorf("afterwards its backend cannot be read: %v", err)
	}
	x.enter(t, session.PhaseWaiting)
	x.nudge()
	if x.nudge(); !x.poked() {
		t.Error("it hears its backend no longer, and is not nudged to")
	}
}

// TestNudge: a session that waits for its client from one nudge to the next looks up; one that has done something in
// between does not, nor one whose backend executes something.
func TestNudge(t *testing.T) {
	x := guard(t, 1)
	x.enter(t, session.PhaseWaiting)
	if x.nudge(); x.poked() {
		t.Error("it was silent for no time")
	}
	if x.nudge(); !x.poked() {
		t.Error("it is silent, and does not look up")
	}
	s := NewSessions(1)
	s.Register(x.Guard, x.Client())
	x.enter(t, session.PhaseWaiting)
	ctx, cancel := context.WithTimeout(context.Background(), 4*nudgeInterval)
	defer cancel()
	if err := s.Nudge(ctx); err != nil || !x.poked() {
		t.Errorf("nobody nudges it: %v", err)
	}
	for _, p := range []session.Phase{session.PhaseWaiting, session.PhaseRunning} {
		if x.enter(t, p); x.poked() {
			t.Errorf("it looks up in the next phase, %d", p)
		}
		x.nudge()
		if x.nudge(); x.poked() != (p == session.PhaseWaiting) {
			t.Errorf("in phase %d: it looks up %v", p, p != session.PhaseWaiting)
		}
	}
}

// TestOrphan: who waits for the end of what a session has given up knows when that is.
func TestOrphan(t *testing.T) {
	x := guard(t, 1)
	decided := make(chan struct{})
	if x.Orphan() != nil {
		t.Error("it has given up nothing")
	}
	x.Orphaned(decided)
	close(decided)
	<-x.Orphan()
}

// TestSlots (GU6): each session has a slot of its own, and of a backend is found until it leaves.
func TestSlots(t *testing.T) {
	s := NewSessions(2)
	a, b := guard(t, 10), guard(t, 20)
	one, two := s.Admit(a.Client()), s.Admit(b.Client())
	if one == 0 || two == 0 || one == two || s.Admit(nil) != 0 || s.Taken() != 2 {
		t.Fatalf("slots %d and %d, %d taken", one, two, s.Taken())
	}
	if s.Of(10) != nil {
		t.Error("it is there before it has logged in")
	}
	s.Register(a.Guard, a.Client())
	s.Register(b.Guard, b.Client())
	if s.Of(10) != a.Guard || s.Of(11) != nil || len(s.All()) != 2 {
		t.Error("one of two is not found")
	}
	a.enter(t, session.PhaseRunning)
	b.enter(t, session.PhaseWaiting)
	if stuck := s.Stuck(time.Now()); len(stuck) > 0 {
		t.Errorf("slots %d are stuck at once", stuck)
	}
	if stuck := s.Stuck(time.Now().Add(2 * stuckAfter)); !slices.Equal(stuck, []uint32{11}) {
		t.Errorf("slots %d are stuck", stuck)
	}
	s.Leave([]net.Conn{a.Client()}, one, a.Guard)
	if s.Of(10) != nil || s.Taken() != 1 || s.Admit(a.Client()) != one {
		t.Error("its slot is not free when it has left")
	}
	gone := make(chan struct{})
	go func() { s.Wait(); close(gone) }()
	s.Leave(nil, two, b.Guard)
	select {
	case <-gone:
		t.Error("all have left, and one is logging in")
	case <-time.After(20 * time.Millisecond):
	}
	s.Leave(nil, one, nil)
	<-gone
}

// TestEndAll (GU6): when the replica is over, sessions are told why and lose their backends, nobody is admitted, and
// who does not go loses the connection. Who is logging in must hurry before that.
func TestEndAll(t *testing.T) {
	s := NewSessions(3)
	a, stranger := guard(t, 10), guard(t, 20)
	s.Admit(a.Client())
	s.Admit(stranger.Client())
	s.Register(a.Guard, a.Client())
	if !s.Track(a.o.Backend) {
		t.Fatal("it is over")
	}
	a.enter(t, session.PhaseWaiting)
	s.Hurry()
	began := time.Now()
	if _, err := stranger.Client().Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) ||
		time.Since(began) < LastWordsMax/2 {
		t.Errorf("who is logging in is waited for %s: %v", time.Since(began), err)
	}
	if time.Sleep(10 * time.Millisecond); a.poked() {
		t.Error("who has logged in must hurry, too")
	}
	stop := s.EndAll(ended)
	defer stop()
	deaf := guard(t, 30) // one who does not take his last words
	deaf.enter(t, session.PhaseWaiting)
	deaf.End(ended)
	if a.Ended() != ended || s.Track(deaf.o.Backend) || s.Admit(nil) != 0 {
		t.Error("a session goes on, or somebody is admitted")
	}
	if _, kept := s.conns[deaf.o.Backend]; kept {
		t.Error("a backend is kept that came too late")
	}
	closing := time.Now()
	if _, err := a.backend.Read(make([]byte, 1)); err == nil || time.Since(closing) > LastWordsMax/2 {
		t.Errorf("it keeps its backend: %v", err)
	}
	if _, err := stranger.client.Read(make([]byte, 1)); err == nil || time.Since(began) < LastWordsMax {
		t.Errorf("its connection is kept, or closed at once: %v", err)
	}
	if _, err := deaf.Client().Write([]byte{1}); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("who does not take his last words is waited for: %v", err)
	}
}
