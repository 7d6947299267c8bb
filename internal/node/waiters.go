package node

import (
	"sync"

	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/guards"
	"github.com/tuttidb/tutti/internal/replica"
	"github.com/tuttidb/tutti/internal/session"
)

// waiter is a session that waits for the log's decision, and later tells how its commit
// went.
type waiter struct {
	guard     *guards.Guard
	sub       session.Submission
	decision  chan session.Decision // capacity 1
	ordinal   uint64                // its own, or that of what it lost to; set before the decision
	local     chan bool             // capacity 1: did the backend's COMMIT succeed
	committed chan struct{}         // closed once local has its answer
	beaten    bool                  // it has lost to a blind transaction; set before the decision
	shunned   bool                  // it is blind, was not submitted, and may be in a moment; set before the decision
	missed    bool                  // it is blind, and has not found its row; set before the decision
	diverged  error                 // what its session has found when it committed; set before local
	added     uint64                // see engine.Added; set before local
	applied   chan struct{}         // closed once the rows are in the database after all, or an orphan has lost
	orphan    bool                  // its session gave up
	patience  replica.Patience      // the core's, once it is submitted
}

// waiters finds them by sequence.
type waiters struct {
	mu sync.Mutex
	m  map[uint64]*waiter
}

func newWaiters() *waiters { return &waiters{m: map[uint64]*waiter{}} }

func (w *waiters) add(g *guards.Guard, sub session.Submission) *waiter {
	x := &waiter{guard: g, sub: sub, decision: make(chan session.Decision, 1), local: make(chan bool, 1),
		committed: make(chan struct{}), applied: make(chan struct{})}
	w.mu.Lock()
	w.m[sub.Seq] = x
	w.mu.Unlock()
	return x
}

func (w *waiters) get(seq uint64) *waiter {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.m[seq]
}

// orphaned notes that the session behind x will not commit it.
func (w *waiters) orphaned(x *waiter) {
	w.mu.Lock()
	x.orphan = true
	x.guard.Orphaned(x.applied)
	w.mu.Unlock()
}

// given reports whether the session behind x has given up, and the log decides.
func (w *waiters) given(x *waiter) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return x.orphan
}

// settledOwn is settled for what this incarnation of the member has submitted of tasks.
func (w *waiters) settledOwn(tasks []engine.Task, incarnation uint64) {
	for i := range tasks {
		if t := &tasks[i]; t.Own && t.Item.ID.Incarnation == incarnation {
			w.settled(t.Item.ID.Seq)
		}
	}
}

// settled forgets an orphan on which the log has decided, if seq is one.
func (w *waiters) settled(seq uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if x := w.m[seq]; x != nil && x.orphan {
		delete(w.m, seq)
		close(x.applied)
	}
}

// remove forgets a submission, unless it is an orphan.

func (w *waiters) remove(seq uint64) {
	w.mu.Lock()
	if x := w.m[seq]; x != nil && !x.orphan {
		delete(w.m, seq)
	}
	w.mu.Unlock()
}
