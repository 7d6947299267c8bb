package node

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/replay"
)

// running is the group that the executor carries out, as the watcher and explanations see it. Safe for concurrent use.
type running struct {
	mu         sync.Mutex
	tasks      []engine.Task // of other members
	committing []*waiter     // sessions of this member
	since      time.Time     // zero: there is no group
	joinable   bool          // committing may still grow

	started  chan struct{} // capacity 1: the watcher should look
	backends replay.Backends

	orders [][2]uint64   // the executor's: of those that have added to rows the sequence and the order
	asked  atomic.Uint32 // the watcher's, see adding
}

func (r *running) init() { r.started = make(chan struct{}, 1) }

// begin publishes a group.
func (r *running) begin(remote []engine.Task, locals []*waiter) {
	r.mu.Lock()
	r.tasks, r.committing, r.since, r.joinable = remote, locals, time.Now(), true
	r.mu.Unlock()
	// Behind a session's own definitions the tables are described anew, for which others may have to let go of them.
	if len(remote) > 0 || slices.ContainsFunc(locals, func(w *waiter) bool {
		return len(w.sub.AddBases) > 0 || len(w.sub.Writeset.Steps) > 0
	}) {
		r.watch()
	}
}

// watch has the watcher look who blocks the executor.
func (r *running) watch() {
	select {
	case r.started <- struct{}{}:
	default:
	}
}

// last is the ordinal of the last transaction that is being applied, or adds to rows; zero if none is.
func (r *running) last() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	last := uint64(0)
	for _, w := range r.committing {
		if len(w.sub.AddBases) > 0 {
			last = max(last, w.ordinal)
		}
	}
	if n := len(r.tasks); n > 0 {
		last = max(last, r.tasks[n-1].Ordinal)
	}
	return last
}

// unblock asks the engine how a waiter gets out of the group's way, and has one that joins the group be in it from then
// on.
func (r *running) unblock(e *engine.Engine, w *waiter) engine.Way {
	r.mu.Lock()
	defer r.mu.Unlock()
	way, t := e.Unblock(w.sub.Seq, r.joinable)
	if way == engine.Joins {
		w.ordinal = t.Ordinal
		r.committing = append(r.committing, w)
	}
	return way
}

// local gives the i-th session that commits, those that joined early included. After the last one the group is over,
// and nobody joins it any more.
func (r *running) local(i int) (w *waiter, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if i < len(r.committing) {
		return r.committing[i], true
	}
	r.tasks, r.committing, r.since, r.joinable = nil, nil, time.Time{}, false
	return nil, false
}

// locals are the sessions that commit, so far.
func (r *running) locals() []*waiter {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.committing)
}

// remote are the other members' transactions in it.
func (r *running) remote() []engine.Task {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.tasks
}

// age is for how long it has been carried out; false if there is none.
func (r *running) age() (time.Duration, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Since(r.since), !r.since.IsZero()
}
