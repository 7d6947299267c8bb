package node

import (
	"net"
	"sync"
	"time"

	"github.com/tuttidb/tutti/internal/session"
	"github.com/tuttidb/tutti/internal/wire"
)

// guard is what the rest of the node may do to a running session: doom its transaction,
// cancel its statement, end it.
type guard struct {
	pid    uint32 // of its backend
	slot   uint32
	client net.Conn
	cancel func() // sends a cancel request to the backend
	wake   func() // makes it look at its doom if it waits at the gate

	mu    sync.Mutex
	phase session.Phase
	doom  *wire.SQLError
	poked bool
	seq   uint64 // of the submission under way
}

// enter is session.Host's Enter.
func (g *guard) enter(p session.Phase) *wire.SQLError {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.poked {
		g.poked = false
		// A failure shows at the next read.
		_ = g.client.SetReadDeadline(time.Time{})
	}
	if p == session.PhaseIdle {
		g.doom = nil
	}
	if g.doom != nil {
		return g.doom
	}
	g.phase = p
	return nil
}

// doomed reports whether the transaction has lost.
func (g *guard) doomed() *wire.SQLError {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.doom
}

// kill dooms the transaction if it can still be stopped by the session alone, and makes
// the session notice. It returns the phase it found.
func (g *guard) kill(why *wire.SQLError) session.Phase {
	g.mu.Lock()
	phase := g.phase
	fresh := g.doom == nil
	switch phase {
	case session.PhaseWaiting:
		g.doom = why
		g.poked = true
		_ = g.client.SetReadDeadline(time.Unix(1, 0))
	case session.PhaseRunning:
		if fresh {
			g.doom = why
		}
	}
	g.mu.Unlock()
	if phase == session.PhaseRunning {
		g.cancel()
		g.wake()
	}
	return phase
}

// cancelClient forwards a client's cancel request, unless the log already decides.
func (g *guard) cancelClient() {
	g.mu.Lock()
	running := g.phase == session.PhaseRunning || g.phase == session.PhaseIdle
	g.mu.Unlock()
	if running {
		g.cancel()
	}
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
