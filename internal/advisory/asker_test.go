package advisory

import (
	"testing"
	"time"
)

// TestAwaitWorkers: the end of a statement is settled when its parallel workers are not answered any more. If that
// takes so long that the session has gone on, it is not the workers of the next statement that are waited for: they may
// wait for their backend.
func TestAwaitWorkers(t *testing.T) {
	earlier, later := make(chan struct{}), make(chan struct{})
	x := &Session{pid: 1, l: &Locks{o: Replica{Done: make(chan struct{})}}}
	own := &asker{x: x, pid: 1}
	x.askers = map[uint32]*asker{1: own, 2: {x: x, pid: 2, statement: 4, ended: earlier},
		3: {x: x, pid: 3, statement: 5, ended: later}}
	done := make(chan struct{})
	go func() {
		own.awaitWorkers(5)
		close(done)
	}()
	select {
	case <-done:
		t.Fatal("a worker of the statement that is over was not waited for")
	case <-time.After(20 * time.Millisecond):
	}
	close(earlier)
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		t.Fatal("a worker of the next statement is waited for")
	}
}
