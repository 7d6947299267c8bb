package node

import (
	"sync"
	"time"

	"github.com/tuttidb/tutti/internal/flow"
	"github.com/tuttidb/tutti/internal/replica"
)

// freshMax is how long nothing may have come of a member for load balancers to be told that this one hears it: less
// than a second, so that they are told of a lost majority within one, and more than two gossipInterval.
const freshMax = 800 * time.Millisecond

// words is when something last came of each member (replica.Contact). Safe for concurrent use.
type words struct {
	began time.Time

	mu      sync.Mutex
	contact replica.Contact
}

func newWords(members int) *words {
	return &words{began: time.Now(), contact: replica.NewContact(uint32(members))}
}

// with calls f with what is known and the time.
func (w *words) with(f func(c *replica.Contact, now int64)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f(&w.contact, int64(time.Since(w.began)))
}

func (w *words) heard(member uint32) {
	w.with(func(c *replica.Contact, now int64) { c.Heard(now, member) })
}

func (w *words) gone(member uint32) {
	w.with(func(c *replica.Contact, _ int64) { c.Lost(member) })
}

// reach is how much of the cluster a replica hears.
func (w *words) reach(l *life) (r replica.Reach) {
	leader := l.core.Leader()
	w.with(func(c *replica.Contact, now int64) {
		r = c.Reach(now, int64(freshMax), l.config.Member, leader, l.peers.members)
	})
	return r
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
