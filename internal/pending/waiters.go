package pending

import (
	"context"
	"fmt"
	"sync"

	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/guards"
	"github.com/tuttidb/tutti/internal/replica"
	"github.com/tuttidb/tutti/internal/session"
	"github.com/tuttidb/tutti/internal/writeset"
)

// Waiter is a session that waits for the log's decision, and later tells how its commit went.
type Waiter struct {
	Guard    *guards.Guard
	Sub      session.Submission
	Decision chan session.Decision // capacity 1

	// Set before the decision.
	Ordinal uint64 // its own, or that of what it lost to
	Beaten  bool   // it has lost to a blind transaction
	Outrun  bool   // it has lost to nothing but that another definition came first
	Shunned bool   // it is blind, was not submitted, and may be in a moment
	Missed  bool   // it is blind, and has not found its row

	Local     chan bool     // capacity 1: did the backend's COMMIT succeed
	Committed chan struct{} // closed once Local has its answer

	// Set before Local has its answer.
	Diverged error  // what the session has found when it committed
	Added    uint64 // see engine.Added

	Applied  chan struct{}    // closed once the rows are in the database after all, or an orphan has lost
	Patience replica.Patience // the core's, once it is submitted

	orphan bool // its session gave up
}

// Adds reports whether the transaction adds to rows.
func (w *Waiter) Adds() bool { return len(w.Sub.AddBases) > 0 }

// Defines reports whether it changes the schema.
func (w *Waiter) Defines() bool { return len(w.Sub.Writeset.Steps) > 0 }

// Commits says that the session's own COMMIT has ended.
func (w *Waiter) Commits(ok bool) {
	w.Local <- ok
	close(w.Committed)
}

// Waiters finds them by sequence. Safe for concurrent use.
type Waiters struct {
	mu sync.Mutex
	m  map[uint64]*Waiter
}

// NewWaiters makes an empty list.
func NewWaiters() *Waiters { return &Waiters{m: map[uint64]*Waiter{}} }

// Add notes a submission of a session's.
func (w *Waiters) Add(g *guards.Guard, sub session.Submission) *Waiter {
	x := &Waiter{Guard: g, Sub: sub, Decision: make(chan session.Decision, 1), Local: make(chan bool, 1),
		Committed: make(chan struct{}), Applied: make(chan struct{})}
	w.mu.Lock()
	w.m[sub.Seq] = x
	w.mu.Unlock()
	return x
}

// Get gives that of a sequence; nil if there is none.
func (w *Waiters) Get(seq uint64) *Waiter {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.m[seq]
}

// Orphaned notes that the session behind x will not commit it (PN2).
func (w *Waiters) Orphaned(x *Waiter) {
	w.mu.Lock()
	x.orphan = true
	x.Guard.Orphaned(x.Applied)
	w.mu.Unlock()
}

// Given reports whether the session behind x has given up, and the log decides.
func (w *Waiters) Given(x *Waiter) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return x.orphan
}

// SettledOwn is Settled for what this incarnation of the member has submitted of tasks.
func (w *Waiters) SettledOwn(tasks []engine.Task, incarnation uint64) {
	for i := range tasks {
		if t := &tasks[i]; t.Own && t.Item.ID.Incarnation == incarnation {
			w.Settled(t.Item.ID.Seq)
		}
	}
}

// Settled forgets an orphan on which the log has decided, if seq is one.
func (w *Waiters) Settled(seq uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if x := w.m[seq]; x != nil && x.orphan {
		delete(w.m, seq)
		close(x.Applied)
	}
}

// Remove forgets a submission, unless it is an orphan.
func (w *Waiters) Remove(seq uint64) {
	w.mu.Lock()
	if x := w.m[seq]; x != nil && !x.orphan {
		delete(w.m, seq)
	}
	w.mu.Unlock()
}

// Release lets the sessions of this member commit what of a group is theirs; commits hears of each before. It gives
// their transactions, those of others, and notifications.
func (w *Waiters) Release(g *engine.Group, commits func(*writeset.Writeset)) (
	locals []*Waiter, remote, notes []engine.Task, err error) {
	for _, t := range g.Tasks {
		switch {
		case t.Item.Kind == engine.KindNotify:
			notes = append(notes, t)
			continue
		case !t.Local:
			remote = append(remote, t)
			continue
		}
		x := w.Get(t.Item.ID.Seq)
		if x == nil {
			return nil, nil, nil, fmt.Errorf("pending: transaction %s is decided but nobody waits for it", t.Item.ID)
		}
		locals = append(locals, x)
		commits(x.Sub.Writeset)
		x.Ordinal = t.Ordinal
		x.Decision <- session.Decision{Commit: true}
	}
	return locals, remote, notes, nil
}

// Tell tells sessions of blind transactions that the executor has carried out which of them have found their rows.
func (w *Waiters) Tell(
	tasks []engine.Task, incarnation uint64, missed map[*writeset.Row]bool, void map[*writeset.Writeset]bool,
) {
	for i := range tasks {
		t := &tasks[i]
		if !t.Own || t.Item.ID.Incarnation != incarnation || !t.Writeset.Blind() {
			continue
		}
		x := w.Get(t.Item.ID.Seq)
		if x == nil || w.Given(x) { // see Settled
			continue
		}
		x.Missed = void[t.Writeset]
		for n := range t.Writeset.Rows {
			x.Missed = x.Missed || missed[&t.Writeset.Rows[n]]
		}
		x.Ordinal = t.Ordinal
		w.Remove(x.Sub.Seq)
		x.Decision <- session.Decision{Commit: true}
	}
}

// AwaitAdding waits until the sessions' own transactions of a group have their rows no more, if something else adds to
// rows, too: each has its own order in which it takes their locks.
func AwaitAdding(ctx context.Context, locals []*Waiter) error {
	for _, w := range locals {
		if !w.Adds() {
			continue
		}
		select {
		case <-w.Committed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}
