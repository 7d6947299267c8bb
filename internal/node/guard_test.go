package node

import (
	"net"
	"testing"
	"time"

	"github.com/tuttidb/tutti/internal/session"
	"github.com/tuttidb/tutti/internal/wire"
)

// TestDoomedStatementIsCancelled: a transaction is doomed while its client is silent, and the
// client's next statement is on its way already. It runs into the executor's locks; only a
// cancel ends that.
func TestDoomedStatementIsCancelled(t *testing.T) {
	client, other := net.Pipe()
	defer client.Close()
	defer other.Close()
	cancels := 0
	g := newGuard(1, 1, client, func() { cancels++ }, func() {})
	lost := wire.Errorf(wire.CodeSerializationFailure, "lost")
	if doom := g.enter(session.PhaseWaiting); doom != nil {
		t.Fatal(doom)
	}
	if phase, fresh, _ := g.kill(lost); !fresh || phase != session.PhaseWaiting || cancels != 0 {
		t.Fatalf("doomed in phase %d with %d cancels", phase, cancels)
	}
	if doom := g.enter(session.PhaseRunning); doom != lost {
		t.Fatalf("the statement begins with %v", doom)
	}
	const told = 20 * time.Millisecond
	time.Sleep(told)
	if phase, fresh, inWay := g.kill(lost); fresh || phase != session.PhaseRunning || cancels != 1 || inWay < told {
		t.Errorf("the statement blocks the executor: phase %d, %d cancels, for %v", phase, cancels, inWay)
	}
	if doom := g.enter(session.PhaseIdle); doom != nil || g.doomed() != nil {
		t.Errorf("the transaction is over, but doomed with %v", doom)
	}
	if _, _, inWay := g.kill(lost); inWay >= told {
		t.Errorf("the next transaction has been in the way for %v, as the one before it was", inWay)
	}
}
