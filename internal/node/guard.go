package node

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tuttidb/tutti/internal/process"
	"github.com/tuttidb/tutti/internal/session"
	"github.com/tuttidb/tutti/internal/wire"
)

// guard is what the rest of the node may do to a running session: doom its transaction,
// cancel its statement, end it.
type guard struct {
	pid    uint32 // of its backend
	slot   uint32
	client net.Conn
	cancel func() // cancels what the backend executes; returns when the signal is sent
	wake   func() // makes it look at its doom if it waits at the gate
	// withdraw takes a submission back on the client's wish, if it is not proposed yet.
	withdraw func(seq uint64)
	// orphan, if not nil, is closed when the log has decided on a submission that was given
	// up: until then the slot may not be used again, or its marker row would tell less than
	// the database holds. Set before the session's last decision.
	orphan <-chan struct{}

	mu        sync.Mutex
	quiet     sync.Cond // cancels is zero
	phase     session.Phase
	began     time.Time // when it last became PhaseRunning
	doom      *wire.SQLError
	inWay     time.Time // since when it should let go of what it has; zero: it need not
	poked     bool
	cancels   int    // under way
	define    func() // cancels the definition under way; nil if there is none
	seq       uint64 // of the submission under way
	entered   uint64 // phases
	idled     uint64 // entered when the nudger last looked
	watched   bool   // the session hears its backend
	cancelled wish
	broken    bool // what the session waits for was broken off, see breakOff
	left      chan struct{}
	fate      *wire.SQLError // why the session is ended, see end

	terminated atomic.Bool // its backend is ended for that
}

// wish is the client's to cancel.
type wish struct {
	made    bool // what runs in this phase
	resumes bool // what runs is being done again, in several phases
	again   bool // that, meanwhile
	late    bool // it came while the log decided
}

func newGuard(pid, slot uint32, client net.Conn, cancel, wake func()) *guard {
	g := &guard{pid: pid, slot: slot, client: client, cancel: cancel, wake: wake}
	g.quiet.L = &g.mu
	return g
}

// enter is session.Control's Enter. A phase in which a cancel meant for the last statement
// would hit the next one, or the COMMIT, begins only when no cancel is under way.
func (g *guard) enter(p session.Phase) *wire.SQLError {
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
	}
	if g.poked {
		g.poked = false
		// A failure shows at the next read.
		_ = g.client.SetReadDeadline(time.Time{})
	}
	if p == session.PhaseIdle {
		g.doom = g.fate
	}
	if g.doom != nil {
		if p == session.PhaseRunning {
			g.phase = p // its statement may be on its way nonetheless, and wait for the executor
		}
		return g.doom
	}
	g.phase, g.inWay = p, time.Time{}
	return nil
}

// doomed reports whether the transaction has lost.
func (g *guard) doomed() *wire.SQLError {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.doom
}

// kill dooms the transaction if it can still be stopped by the session alone, and makes
// the session notice. It returns the phase it found, whether the transaction had not lost before, and for how long it
// has been told so in this phase.
func (g *guard) kill(why *wire.SQLError) (phase session.Phase, fresh bool, inWay time.Duration) {
	g.mu.Lock()
	if phase = g.phase; g.inWay.IsZero() {
		g.inWay = time.Now()
	}
	inWay = time.Since(g.inWay)
	fresh = g.doom == nil && (phase == session.PhaseWaiting || phase == session.PhaseRunning)
	switch phase {
	case session.PhaseWaiting:
		g.doom = why
		g.pokeLocked()
	case session.PhaseRunning:
		if fresh {
			g.doom = why
		}
		g.pokeLocked() // it may wait for the data of a COPY, where no cancel reaches the backend
	}
	if phase == session.PhaseRunning {
		g.interrupt()
	}
	g.mu.Unlock()
	if phase == session.PhaseRunning || phase == session.PhaseWaiting { // see snapshots.SerialRuns
		g.wake()
	}
	return phase, fresh, inWay
}

// end ends the session, whose client is told why, wherever it is: but while the log decides on its transaction, or
// definition, which cannot be broken off then; it returns PhaseSubmitted. Otherwise what its backend does must be
// ended as well.
func (g *guard) end(why *wire.SQLError) session.Phase {
	g.mu.Lock()
	phase := g.phase
	if g.define != nil {
		phase = session.PhaseSubmitted
	}
	if phase != session.PhaseSubmitted && g.fate == nil {
		g.fate, g.doom = why, why
		g.pokeLocked()
		// A failure shows at the next write. Who does not take his results must not hold the end up.
		_ = g.client.SetWriteDeadline(time.Now().Add(lastWordsMax))
	}
	g.mu.Unlock()
	if phase != session.PhaseSubmitted {
		g.wake()
	}
	return phase
}

// ended is why the session was ended; nil if it was not.
func (g *guard) ended() *wire.SQLError {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.fate
}

// poke makes a read from the client that is under way, or the next one, time out; enter
// takes that back.
func (g *guard) poke() {
	g.mu.Lock()
	g.pokeLocked()
	g.mu.Unlock()
}

func (g *guard) pokeLocked() {
	g.poked = true
	// A failure shows at the next read.
	_ = g.client.SetReadDeadline(time.Unix(1, 0))
}

// watch notes whether the session hears what its backend says unasked.
func (g *guard) watch(on bool) {
	g.mu.Lock()
	g.watched = on
	g.mu.Unlock()
}

// nudge makes a session that has waited for its client since the last nudge hear its backend.
func (g *guard) nudge() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.phase <= session.PhaseWaiting && !g.watched && g.idled == g.entered {
		g.pokeLocked()
	}
	g.idled = g.entered
}

// nudgeInterval is after how long a session's silence is taken for one that may last. Hearing the
// backend costs a session that does not listen some microseconds at its next statement.
const nudgeInterval = 150 * time.Millisecond

// nudge is the goroutine that looks for silent sessions.
func (l *life) nudge(ctx context.Context) error {
	for process.Rest(ctx, nudgeInterval) {
		for _, g := range l.sessions.all() {
			g.nudge()
		}
	}
	return nil
}

// interrupt cancels the running statement; called and returns with mu held.
func (g *guard) interrupt() {
	if g.left != nil {
		g.interruptUntilLeft()
		return
	}
	g.cancels++
	g.mu.Unlock()
	g.cancel()
	g.mu.Lock()
	g.cancels--
	if g.cancels == 0 {
		g.quiet.Broadcast()
	}
}

// cancelClient carries out a client's cancel request, unless nothing runs or the log
// already decides.
func (g *guard) cancelClient() {
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
		g.wake() // it may wait for the gate
	}
	if define != nil {
		define()
	}
	if phase == session.PhaseSubmitted && seq != 0 {
		g.withdraw(seq)
	}
}

// cancelRunning cancels what runs, and cancelLate does if a client wanted that while the log decided.
func (g *guard) cancelRunning() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.phase == session.PhaseRunning {
		g.interrupt()
	}
}

func (g *guard) cancelLate() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.cancelled.late {
		g.cancelled.late = false
		g.interrupt()
	}
}

// defining notes how the definition under way is cancelled; nil when it is over.
func (g *guard) defining(cancel func()) {
	if g == nil {
		return
	}
	g.mu.Lock()
	g.define = cancel
	g.mu.Unlock()
}

// submitted notes which submission the log decides on; zero when it has.
func (g *guard) submitted(seq uint64) {
	g.mu.Lock()
	g.seq = seq
	g.mu.Unlock()
}

func (g *guard) submission() uint64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.seq
}
