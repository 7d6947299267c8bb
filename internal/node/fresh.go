package node

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/tuttidb/tutti/internal/flow"
)

// freshMax is how long nothing may have come of a member for load balancers to be told that this one hears it: less
// than a second, so that they are told of a lost majority within one, and more than two gossipInterval.
const freshMax = 800 * time.Millisecond

// words notes when something last came of each member, whatever it was: for all databases, which share a connection.
type words struct {
	began time.Time
	at    []atomic.Int64 // by the member's number: since began, plus one; zero: nothing, or the connection is lost
}

func newWords(members int) *words {
	return &words{began: time.Now(), at: make([]atomic.Int64, members+1)}
}

func (w *words) heard(member uint32) { w.at[member].Store(int64(time.Since(w.began)) + 1) }

func (w *words) gone(member uint32) { w.at[member].Store(0) }

// fresh reports whether something came of a member of late.
func (w *words) fresh(member uint32) bool {
	at := w.at[member].Load()
	return at > 0 && time.Since(w.began)-time.Duration(at) < freshMax
}

// readAge is how old is what is read at this member, see flow.Age.
type readAge struct {
	mu  sync.Mutex
	age flow.Age
}

// note is called now and then. Known is the end of the order, led whether that comes from a leader.
func (a *readAge) note(at time.Duration, known uint64, led bool) {
	if led {
		a.mu.Lock()
		a.age.Note(at.Milliseconds(), known)
		a.mu.Unlock()
	}
}

func (a *readAge) is(at time.Duration, applied uint64) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	return time.Duration(a.age.Millis(at.Milliseconds(), applied)) * time.Millisecond
}
