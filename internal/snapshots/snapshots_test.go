package snapshots

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tuttidb/tutti/internal/admission"
	"github.com/tuttidb/tutti/internal/metrics"
	"github.com/tuttidb/tutti/internal/session"
	"github.com/tuttidb/tutti/internal/wire"
	"github.com/tuttidb/tutti/internal/writeset"
)

var (
	lost       = wire.Errorf(wire.CodeSerializationFailure, "lost")
	noMajority = wire.Errorf(wire.CodeCannotConnectNow, "no majority")
)

// client is a session's guard, as far as a test needs it.
type client struct {
	interrupted atomic.Pointer[wire.SQLError]
	held        bool
	broken      atomic.Bool
}

func (c *client) Interrupted() *wire.SQLError { return c.interrupted.Load() }
func (c *client) Lost() *wire.SQLError        { return c.interrupted.Load() }
func (c *client) Abort(why *wire.SQLError) (session.Phase, bool, time.Duration) {
	c.interrupted.Store(why)
	return session.PhaseWaiting, true, 0
}
func (c *client) Hold()     { c.held = true; c.broken.Store(false) }
func (c *client) BreakOff() { c.broken.Store(true) }
func (c *client) Release() bool {
	c.held = false
	return c.broken.Load()
}

// replica is one whose order answers when the test lets it.
type replica struct {
	*Serial
	gate              *admission.Gate
	mu                sync.Mutex
	told              []bool
	ordered           chan struct{}
	applied, decided  atomic.Uint64
	loses, wins, ends atomic.Bool
	caughtUp          atomic.Bool
	patience          time.Duration
	running           sync.WaitGroup
	done              chan struct{}
	waits             metrics.Waits
}

func newReplica() *replica {
	r := &replica{gate: admission.NewGate(), ordered: make(chan struct{}), patience: 10 * time.Second,
		done: make(chan struct{})}
	r.Serial = New(Options{
		Waits: &r.waits, Gate: r.gate, Applied: r.applied.Load,
		Tell: func(runs bool) <-chan struct{} {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.told = append(r.told, runs)
			return r.ordered
		},
		CatchUp: func() { r.caughtUp.Store(true) },
		Vouches: func(session.Submission) (bool, bool, uint64) {
			return r.loses.Load(), r.wins.Load(), r.decided.Load()
		},
		Patience: func() time.Duration { return r.patience }, NoMajority: func() *wire.SQLError { return noMajority },
		Ends: func() *wire.SQLError { return lost }, Ending: r.ends.Load, Done: r.done, Go: r.running.Go,
	})
	return r
}

// tells is what the order was told.
func (r *replica) tells() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.told)
}

// opened gives sessions with a SERIALIZABLE transaction each; nothing runs in them.
func (r *replica) opened(t *testing.T, clients ...*client) (all []*Session) {
	t.Helper()
	if r.tells() == 0 {
		close(r.ordered)
	}
	for _, c := range clients {
		x := r.Session(c)
		if e := x.SerialBegin(); e != nil {
			t.Fatal(e)
		}
		if e := x.SerialRuns(false); e != nil {
			t.Fatal(e)
		}
		all = append(all, x)
	}
	return all
}

// until waits until something is so.
func until(t *testing.T, what string, so func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !so(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal(what)
		}
	}
}

// goes reports whether f returns soon.
func goes(f func()) (over chan struct{}, soon bool) {
	over = make(chan struct{})
	go func() { f(); close(over) }()
	select {
	case <-over:
		return over, true
	case <-time.After(30 * time.Millisecond):
		return over, false
	}
}

// TestPrefix: no group begins while a snapshot is taken, and none is taken within a group (SN1). Who is interrupted
// takes none.
func TestPrefix(t *testing.T) {
	r, c := newReplica(), &client{}
	x := r.Session(c)
	r.applied.Store(7)
	if base, e := x.EnterSnapshot(); base != 7 || e != nil {
		t.Fatalf("it sees up to %d, %v", base, e)
	}
	closed, soon := goes(r.gate.Close)
	if soon {
		t.Error("a group begins while a snapshot is taken")
	}
	x.LeaveSnapshot()
	<-closed
	var refused *wire.SQLError
	entered, soon := goes(func() { _, refused = x.EnterSnapshot() })
	if soon {
		t.Error("a snapshot is taken within a group")
	}
	c.interrupted.Store(lost)
	r.gate.Wake()
	if <-entered; refused != lost {
		t.Errorf("who has lost is told %v", refused)
	}
}

// TestSafe: a wait for a safe snapshot is broken off by a group, which says so (SN2), and is tried again behind it.
func TestSafe(t *testing.T) {
	r, c := newReplica(), &client{}
	x := r.Session(c)
	if _, waits, e := x.EnterSafe(0); e != nil || !waits || !c.held {
		t.Fatalf("waits %v, held %v, %v", waits, c.held, e)
	}
	closed, _ := goes(r.gate.Close)
	until(t, "the group does not break it off", c.broken.Load)
	if !x.LeaveSafe() || c.held {
		t.Error("that it was broken off is not told")
	}
	<-closed
	r.gate.Open(false)
	x.safeSince = time.Now().Add(-safeMax)
	began := time.Now()
	if _, waits, e := x.EnterSafe(3); e != nil || waits || time.Since(began) < safePauseMin<<2 {
		t.Errorf("after too long a time it waits %v, %v, after %s", waits, e, time.Since(began))
	}
	if x.LeaveSafe() {
		t.Error("it was broken off by nobody")
	}
	c.interrupted.Store(lost)
	if _, _, e := x.EnterSafe(0); e != lost || c.held {
		t.Errorf("who has lost is told %v, and is held: %v", e, c.held)
	}
}

// TestTheOrderKnows: a SERIALIZABLE transaction begins once the order knows and all is applied; it is told once,
// and told that there are none only when none was open for a while (SN3).
func TestTheOrderKnows(t *testing.T) {
	r := newReplica()
	first, second := r.Session(&client{}), r.Session(&client{})
	begun, soon := goes(func() { first.SerialBegin() })
	if soon {
		t.Error("it begins before the order knows")
	}
	also, _ := goes(func() { second.SerialBegin() })
	close(r.ordered)
	<-begun
	<-also
	if r.tells() != 1 || !r.caughtUp.Load() {
		t.Errorf("the order is told %v, and all is applied: %v", r.told, r.caughtUp.Load())
	}
	first.End()
	if r.leave(time.Now().Add(2 * idle)); r.tells() != 1 {
		t.Error("one is open, and the order is told that there is none")
	}
	second.End()
	if r.leave(time.Now()); r.tells() != 1 {
		t.Error("the order is told at once that there is none")
	}
	if r.leave(time.Now().Add(2 * idle)); r.tells() != 2 || r.told[1] {
		t.Errorf("the order is told %v", r.told)
	}
	if e := first.SerialBegin(); e != nil || r.tells() != 3 || !r.told[2] {
		t.Errorf("then it is told %v, %v", r.told, e)
	}
	first.End()
	r.running.Wait()
}

// TestInVain: who waits for the order in vain is told so, or why it was interrupted.
func TestInVain(t *testing.T) {
	r, c := newReplica(), &client{}
	r.patience = 20 * time.Millisecond
	if e := r.Session(c).SerialBegin(); e != noMajority {
		t.Errorf("it is told %v", e)
	}
	r.patience = time.Hour
	var e *wire.SQLError
	over, _ := goes(func() { e = r.Session(c).SerialBegin() })
	c.interrupted.Store(lost)
	r.Wake()
	if <-over; e != lost {
		t.Errorf("who has lost is told %v", e)
	}
	close(r.done)
	r.running.Wait()
}

// TestAlone: one is alone at a time, while nothing runs in others; what comes meanwhile waits (SN4).
func TestAlone(t *testing.T) {
	r := newReplica()
	all := r.opened(t, &client{}, &client{}, &client{})
	r.loses.Store(true)
	if all[0].SerialAlone(session.Submission{}) {
		t.Error("one is alone that cannot win")
	}
	r.wins.Store(true)
	if e := all[1].SerialRuns(true); e != nil {
		t.Fatal(e)
	}
	if all[0].SerialAlone(session.Submission{}) {
		t.Error("one is alone while something runs in another one")
	}
	if e := all[1].SerialRuns(false); e != nil {
		t.Fatal(e)
	}
	if !all[0].SerialAlone(session.Submission{}) {
		t.Fatal("nothing runs, and it is not alone")
	}
	if all[1].SerialAlone(session.Submission{}) {
		t.Error("two are alone")
	}
	ran, soon := goes(func() { all[2].SerialRuns(true) })
	began, also := goes(func() { r.Session(&client{}).SerialBegin() })
	if soon || also {
		t.Error("something runs, or begins, while one is alone")
	}
	all[0].SerialApart()
	<-ran
	<-began
	all[0].SerialApart() // once more, when another one may be
	r.running.Wait()
}

// TestVouchesOnceApplied: what loses as it is asks again once everything that is decided is applied.
func TestVouchesOnceApplied(t *testing.T) {
	r := newReplica()
	x := r.opened(t, &client{})[0]
	r.loses.Store(true)
	r.decided.Store(5)
	alone := false
	over, soon := goes(func() { alone = x.SerialAlone(session.Submission{}) })
	if soon {
		t.Error("it gives up before all is applied")
	}
	r.wins.Store(true)
	r.applied.Store(5)
	r.gate.Wake()
	if <-over; !alone {
		t.Error("it does not ask again")
	}
}

// TestForgotten: if rows of a transaction that was alone come from the log, whatever else is open loses once they are
// applied, and nobody goes on before (SN5). Else nobody loses.
func TestForgotten(t *testing.T) {
	for _, fromLog := range []bool{false, true} {
		r, own, other := newReplica(), &client{}, &client{}
		all := r.opened(t, own, other)
		r.wins.Store(true)
		if !all[0].SerialAlone(session.Submission{}) {
			t.Fatal("it is not alone")
		}
		applied := make(chan struct{})
		all[0].Decided(writeset.TxID{}, fromLog, applied)
		ran, soon := goes(func() { all[1].SerialRuns(true) })
		if soon == fromLog || other.Lost() != nil {
			t.Errorf("from the log %v: another one goes on %v, and has lost: %v", fromLog, soon, other.Lost())
		}
		close(applied)
		<-ran
		r.running.Wait()
		if (other.Lost() != nil) != fromLog || own.Lost() != nil {
			t.Errorf("from the log %v: others %v, its own %v", fromLog, other.Lost(), own.Lost())
		}
	}
}
