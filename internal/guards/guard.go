package guards

import (
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tuttidb/tutti/internal/session"
	"github.com/tuttidb/tutti/internal/wire"
)

// LastWordsMax is how long clients have to take what they are told when their session ends.
const LastWordsMax = time.Second

// Options are a session as its guard needs it.
type Options struct {
	PID             uint32 // of its backend
	Slot            uint32
	Client, Backend net.Conn
	// Cancel cancels what the backend executes; it returns when the signal is sent.
	Cancel func()
	// Wake makes the session look whether its transaction has lost if it waits at the gate.
	Wake func()
	// Coming counts sessions of which a transaction may come soon; nil: nobody does.
	Coming *atomic.Int32
	// Withdraw takes a submission back on the client's wish, if it is not proposed yet.
	Withdraw func(seq uint64)
}

// Guard guards one session. Safe for concurrent use.
type Guard struct {
	o Options

	mu        sync.Mutex
	quiet     sync.Cond // cancels is zero
	phase     session.Phase
	began     time.Time // when it last became PhaseRunning
	lost      *wire.SQLError
	inWay     time.Time // since when it should let go of what it has; zero: it need not
	poked     bool
	cancels   int    // under way
	define    func() // cancels the definition under way; nil if there is none
	seq       uint64 // of the submission under way
	entered   uint64 // phases
	idled     uint64 // entered when the session was last nudged
	hears     bool   // the session hears its backend
	coming    coming
	cancelled wish
	broken    bool // what the session waits for was broken off, see BreakOff
	left      chan struct{}
	why       *wire.SQLError  // why the session is ended, see End
	orphan    <-chan struct{} // see Orphaned

	terminated atomic.Bool // its backend is ended for that
}

// wish is the client's to cancel.
type wish struct {
	made    bool // what runs in this phase
	resumes bool // what runs is being done again, in several phases
	again   bool // that, meanwhile
	late    bool // it came while the log decided
}

// New makes one of a session that begins.
func New(o Options) *Guard {
	g := &Guard{o: o, coming: newComing(o.Coming, time.Now())}
	g.quiet.L = &g.mu
	return g
}

// PID is the session's backend, Slot the number of its marker row, Client the connection to its client.
func (g *Guard) PID() uint32      { return g.o.PID }
func (g *Guard) Slot() uint32     { return g.o.Slot }
func (g *Guard) Client() net.Conn { return g.o.Client }

// Orphaned says that the session has given its submission up: decided is closed when the log has decided on it. Until
// then the slot may not be used again, or its marker row would tell less than the database holds.
func (g *Guard) Orphaned(decided <-chan struct{}) {
	g.mu.Lock()
	g.orphan = decided
	g.mu.Unlock()
}

// Orphan is the decided of Orphaned; nil if the session has given nothing up.
func (g *Guard) Orphan() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.orphan
}

// Terminates reports whether its backend is to be ended with the session: true once.
func (g *Guard) Terminates() bool { return g.terminated.CompareAndSwap(false, true) }

// Enter is session.Control's Enter. A phase in which a cancel meant for the last statement
// would hit the next one, or the COMMIT, begins only when no cancel is under way.
func (g *Guard) Enter(p session.Phase) *wire.SQLError {
	g.mu.Lock()
	defer g.mu.Unlock()
	for p != session.PhaseRunning && g.cancels > 0 {
		g.quiet.Wait()
	}
	g.entered++
	g.cancelled.made = false
	if p == session.PhaseRunning {
		g.began = time.Now()
	}
	if p == session.PhaseSubmitted {
		g.cancelled.late = false
		g.coming.submit()
	}
	if g.poked {
		g.poked = false
		// A failure shows at the next read.
		_ = g.o.Client.SetReadDeadline(time.Time{})
	}
	if p == session.PhaseIdle {
		g.lost = g.why
	}
	if g.lost != nil {
		if p == session.PhaseRunning {
			g.phase = p // its statement may be on its way nonetheless, and wait for the executor
		}
		return g.lost
	}
	g.phase, g.inWay = p, time.Time{}
	return nil
}

// Moves counts the phases; silent reports whether the session waits for its client in this one.
func (g *Guard) Moves() (n uint64, silent bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.entered, g.phase == session.PhaseWaiting || g.phase == session.PhaseIdle
}

// Lost is why the transaction has lost; nil if it has not.
func (g *Guard) Lost() *wire.SQLError {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.lost
}

// Abort has the transaction lose if it can still be stopped by the session alone, and makes
// the session notice. It returns the phase it found, whether the transaction had not lost before, and for how long it
// has been told so in this phase.
func (g *Guard) Abort(why *wire.SQLError) (phase session.Phase, fresh bool, inWay time.Duration) {
	g.mu.Lock()
	if phase = g.phase; g.inWay.IsZero() {
		g.inWay = time.Now()
	}
	inWay = time.Since(g.inWay)
	fresh = g.lost == nil && (phase == session.PhaseWaiting || phase == session.PhaseRunning)
	switch phase {
	case session.PhaseWaiting:
		g.lost = why
		g.pokeLocked()
	case session.PhaseRunning:
		if fresh {
			g.lost = why
		}
		g.pokeLocked() // it may wait for the data of a COPY, where no cancel reaches the backend
	}
	if phase == session.PhaseRunning {
		g.interrupt()
	}
	g.mu.Unlock()
	if phase == session.PhaseRunning || phase == session.PhaseWaiting { // see session.Snapshots.SerialRuns
		g.o.Wake()
	}
	return phase, fresh, inWay
}

// End ends the session, whose client is told why, wherever it is: but while the log decides on its transaction, or
// definition, which cannot be broken off then; it returns PhaseSubmitted. Otherwise what its backend does must be
// ended as well.
func (g *Guard) End(why *wire.SQLError) session.Phase {
	g.mu.Lock()
	phase := g.phase
	if g.define != nil {
		phase = session.PhaseSubmitted
	}
	if phase != session.PhaseSubmitted && g.why == nil {
		g.why, g.lost = why, why
		g.pokeLocked()
		// A failure shows at the next write. Who does not take his results must not hold the end up.
		_ = g.o.Client.SetWriteDeadline(time.Now().Add(LastWordsMax))
	}
	g.mu.Unlock()
	if phase != session.PhaseSubmitted {
		g.o.Wake()
	}
	return phase
}

// Ended is why the session was ended; nil if it was not.
func (g *Guard) Ended() *wire.SQLError {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.why
}

// Runs is for how long the backend has executed a statement; zero if it does not.
func (g *Guard) Runs() time.Duration { return g.runs(time.Now()) }

func (g *Guard) runs(now time.Time) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.phase != session.PhaseRunning {
		return 0
	}
	return now.Sub(g.began)
}

// look is the same; it also looks whether the session has rested for long.
func (g *Guard) look(now time.Time) time.Duration {
	g.mu.Lock()
	g.coming.look(now)
	g.mu.Unlock()
	return g.runs(now)
}

// Poke makes a read from the client that is under way, or the next one, time out; Enter
// takes that back.
func (g *Guard) Poke() {
	g.mu.Lock()
	g.pokeLocked()
	g.mu.Unlock()
}

func (g *Guard) pokeLocked() {
	g.poked = true
	// A failure shows at the next read.
	_ = g.o.Client.SetReadDeadline(time.Unix(1, 0))
}

// hear notes whether the session hears what its backend says unasked.
func (g *Guard) hear(on bool) {
	g.mu.Lock()
	g.hears = on
	g.mu.Unlock()
}

// nudge makes a session that has waited for its client since the last nudge hear its backend.
func (g *Guard) nudge() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.phase <= session.PhaseWaiting && !g.hears && g.idled == g.entered {
		g.pokeLocked()
	}
	g.idled = g.entered
}

// interrupt cancels the running statement; called and returns with mu held.
func (g *Guard) interrupt() {
	if g.left != nil {
		g.interruptUntilLeft()
		return
	}
	g.cancels++
	g.mu.Unlock()
	g.o.Cancel()
	g.mu.Lock()
	g.cancels--
	if g.cancels == 0 {
		g.quiet.Broadcast()
	}
}

// CancelClient carries out a client's cancel request, unless nothing runs or the log
// already decides.
func (g *Guard) CancelClient() {
	g.mu.Lock()
	phase, seq, define := g.phase, g.seq, g.define
	g.cancelled.again = g.cancelled.resumes
	if phase == session.PhaseRunning {
		g.cancelled.made = true
		g.interrupt()
	}
	g.cancelled.late = phase == session.PhaseSubmitted
	g.mu.Unlock()
	if phase == session.PhaseRunning {
		g.o.Wake() // it may wait for the gate
	}
	if define != nil {
		define()
	}
	if phase == session.PhaseSubmitted && seq != 0 {
		g.o.Withdraw(seq)
	}
}

// Cancel cancels what the backend executes, and CancelLate does if a client wanted that while the log decided.
func (g *Guard) Cancel() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.phase == session.PhaseRunning {
		g.interrupt()
	}
}

func (g *Guard) CancelLate() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.cancelled.late {
		g.cancelled.late = false
		g.interrupt()
	}
}

// Defining notes how the definition under way is cancelled; nil when it is over.
func (g *Guard) Defining(cancel func()) {
	if g == nil {
		return
	}
	g.mu.Lock()
	g.define = cancel
	g.mu.Unlock()
}

// Submitted notes which submission the log decides on; zero when it has.
func (g *Guard) Submitted(seq uint64) {
	g.mu.Lock()
	g.seq = seq
	g.mu.Unlock()
}

// Submission is the one on which the log decides; zero if there is none.
func (g *Guard) Submission() uint64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.seq
}

// breakOffAgain is after how long a cancel is repeated that may have come too early.
const breakOffAgain = 5 * time.Millisecond

// Hold is called before something that may be broken off.
func (g *Guard) Hold() {
	g.mu.Lock()
	g.broken, g.left = false, make(chan struct{})
	g.mu.Unlock()
}

// BreakOff cancels what the backend executes until Release is called. It does not wait.
func (g *Guard) BreakOff() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.left != nil {
		g.interruptUntilLeft()
	}
}

// interruptUntilLeft is BreakOff, called with mu held: one cancel might come before what it is meant for.
func (g *Guard) interruptUntilLeft() {
	if g.broken {
		return
	}
	left := g.left
	g.broken = true
	g.cancels++
	go func() {
		for over := false; !over; {
			g.o.Cancel()
			again := time.NewTimer(breakOffAgain)
			select {
			case <-left:
				over = true
			case <-again.C:
			}
			again.Stop()
		}
		g.mu.Lock()
		g.cancels--
		if g.cancels == 0 {
			g.quiet.Broadcast()
		}
		g.mu.Unlock()
	}()
}

// Release ends Hold once nothing is cancelled any more. It reports whether that was done, and not by the client.
func (g *Guard) Release() (broken bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.left)
	g.left = nil
	for g.cancels > 0 {
		g.quiet.Wait()
	}
	return g.broken && !g.cancelled.made
}

// Wishes reports whether the client has asked to cancel what the session does.
func (g *Guard) Wishes() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.cancelled.made
}

// Resuming is described in session.Control, as Cancelled is, Go and Watch.
func (g *Guard) Resuming(on bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.cancelled.resumes, g.cancelled.again = on, on && g.cancelled.made
}

func (g *Guard) Cancelled() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.cancelled.made || g.cancelled.again
}

func (g *Guard) Go(f func()) (wait func(), over func() bool) {
	ended, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		f()
		close(ended)
		g.Poke()
	}()
	return func() { <-done }, func() bool {
		select {
		case <-ended:
			return true
		default:
			return false
		}
	}
}

func (g *Guard) Watch(f func()) (stop func(), over func() bool) {
	var stopped, ended atomic.Bool
	done := make(chan struct{})
	g.hear(true)
	go func() {
		defer close(done)
		f()
		ended.Store(true)
		if !stopped.Load() {
			g.Poke()
		}
	}()
	return func() {
		stopped.Store(true)
		if !ended.Load() {
			// A failure shows at the next read.
			_ = g.o.Backend.SetReadDeadline(time.Unix(1, 0))
		}
		<-done
		_ = g.o.Backend.SetReadDeadline(time.Time{})
		g.hear(false)
	}, ended.Load
}
