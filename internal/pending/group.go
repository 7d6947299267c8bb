package pending

import (
	"slices"
	"sync"
	"time"

	"github.com/tuttidb/tutti/internal/engine"
)

// Group is what the executor carries out, as the watcher and explanations see it. Safe for concurrent use.
type Group struct {
	mu         sync.Mutex
	tasks      []engine.Task // of other members
	committing []*Waiter     // sessions of this member
	since      time.Time     // zero: there is no group
	joinable   bool          // committing may still grow
	asked      int           // see Adding

	started chan struct{} // capacity 1: the watcher should look
}

// NewGroup makes one that has not begun.
func NewGroup() *Group { return &Group{started: make(chan struct{}, 1)} }

// Begin publishes a group.
func (r *Group) Begin(remote []engine.Task, locals []*Waiter) {
	r.mu.Lock()
	r.tasks, r.committing, r.since, r.joinable = remote, locals, time.Now(), true
	r.mu.Unlock()
	// Behind a session's own definitions the tables are described anew, for which others may have to let go of them.
	if len(remote) > 0 || slices.ContainsFunc(locals, func(w *Waiter) bool { return w.Adds() || w.Defines() }) {
		r.Watch()
	}
}

// Watch has the watcher look who blocks the executor.
func (r *Group) Watch() {
	select {
	case r.started <- struct{}{}:
	default:
	}
}

// Started has an element when the watcher should look.
func (r *Group) Started() <-chan struct{} { return r.started }

// Last is the ordinal of the last transaction that is being applied, or adds to rows; zero if none is.
func (r *Group) Last() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	last := uint64(0)
	for _, w := range r.committing {
		if w.Adds() {
			last = max(last, w.Ordinal)
		}
	}
	if n := len(r.tasks); n > 0 {
		last = max(last, r.tasks[n-1].Ordinal)
	}
	return last
}

// Unblock asks the engine how a waiter gets out of the group's way, and has one that joins the group be in it from then
// on.
func (r *Group) Unblock(unblock func(seq uint64, joins bool) (engine.Way, engine.Task), w *Waiter) engine.Way {
	r.mu.Lock()
	defer r.mu.Unlock()
	way, t := unblock(w.Sub.Seq, r.joinable)
	if way == engine.Joins {
		w.Ordinal = t.Ordinal
		r.committing = append(r.committing, w)
	}
	return way
}

// Local gives the i-th session that commits, those that joined early included. After the last one the group is over,
// and nobody joins it any more (PN5).
func (r *Group) Local(i int) (w *Waiter, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if i < len(r.committing) {
		return r.committing[i], true
	}
	r.tasks, r.committing, r.since, r.joinable = nil, nil, time.Time{}, false
	return nil, false
}

// Locals are the sessions that commit, so far.
func (r *Group) Locals() []*Waiter {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.committing)
}

// Remote are the other members' transactions in it.
func (r *Group) Remote() []engine.Task {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.tasks
}

// Age is for how long it has been carried out; false if there is none.
func (r *Group) Age() (time.Duration, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Since(r.since), !r.since.IsZero()
}

// addingMax is for how many sessions is asked at a time whom they wait for. Mostly they wait for each other, and all
// for one.
const addingMax = 4

// Adding are the backends of some sessions that commit and may wait for rows to which they add; of others at each call.
func (r *Group) Adding() (pids []uint32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, w := range r.committing {
		if !w.Adds() {
			continue
		}
		select {
		case <-w.Committed:
		default:
			pids = append(pids, w.Guard.PID())
		}
	}
	if len(pids) > addingMax {
		r.asked += addingMax
		at := r.asked % len(pids)
		pids = append(pids[at:], pids[:at]...)[:addingMax]
	}
	return pids
}
