package peers

import (
	"sync"
	"time"

	"github.com/tuttidb/tutti/internal/flow"
	"github.com/tuttidb/tutti/internal/replica"
)

// freshMax is how long nothing may have come of a member for load balancers to be told that this one hears it: less
// than a second, so that they are told of a lost majority within one, and more than two Interval.
const freshMax = 800 * time.Millisecond

// Words is when something last came of each member (replica.Contact). Safe for concurrent use.
type Words struct {
	began time.Time

	mu      sync.Mutex
	contact replica.Contact
}

// NewWords makes one for so many members of which nothing has come.
func NewWords(members int) *Words {
	return &Words{began: time.Now(), contact: replica.NewContact(uint32(members))}
}

// with calls f with what is known and the time.
func (w *Words) with(f func(c *replica.Contact, now int64)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f(&w.contact, int64(time.Since(w.began)))
}

// Heard notes that something came, Gone that the connection is lost.
func (w *Words) Heard(member uint32) {
	w.with(func(c *replica.Contact, now int64) { c.Heard(now, member) })
}

func (w *Words) Gone(member uint32) {
	w.with(func(c *replica.Contact, _ int64) { c.Lost(member) })
}

// Reach is how many of some members member self hears, while it takes leader to lead.
func (w *Words) Reach(self, leader uint32, members []uint32) (r replica.Reach) {
	w.with(func(c *replica.Contact, now int64) {
		r = c.Reach(now, int64(freshMax), self, leader, members)
	})
	return r
}

// ReadAge is how old is what is read at this member, see flow.Age.
type ReadAge struct {
	mu  sync.Mutex
	age flow.Age
}

// Note is called now and then. Known is the end of the order, led whether that comes from a leader.
func (a *ReadAge) Note(at time.Duration, known uint64, led bool) {
	if led {
		a.mu.Lock()
		a.age.Note(at.Milliseconds(), known)
		a.mu.Unlock()
	}
}

// Is is how old what is read at the moment is, if the order is applied up to an ordinal.
func (a *ReadAge) Is(at time.Duration, applied uint64) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	return time.Duration(a.age.Millis(at.Milliseconds(), applied)) * time.Millisecond
}
