package engine

import (
	"github.com/tuttidb/tutti/internal/locks"
)

// Lock says what became of a request about advisory locks, or of locks, of this life's sessions. What it
// grants counts from when everything up to Ordinal is in the database: then what was committed
// under the lock before can be seen.
type Lock struct {
	Ordinal uint64
	// Seq is that of the submission that has its place now. Zero: Event alone tells something.
	Seq   uint64
	Event locks.Event
}

// lockItem carries out a request about advisory locks at its place in the order (E11).
func (r *replicated) lockItem(it *Item) {
	q, err := locks.Decode(it.Payload)
	if err != nil {
		r.notUnderstood(err)
		return // the same everywhere
	}
	if q.Action != locks.Expire {
		r.tell(r.ordinal, r.locks.Apply(it.ID.Member, it.ID.Incarnation, q))
		return
	}
	if s := r.sources[q.Member]; s.incarnation == q.Incarnation && s.number == q.Number ||
		planted == "expire-unchecked" {
		r.expired[q.Member] = r.ordinal
		r.tell(r.ordinal, r.locks.Expire(q.Member))
	}
}

// tell notes what happened to sessions of this life.
func (r *replicated) tell(ordinal uint64, events []locks.Event) {
	for _, x := range events {
		if r.mine(x.Session.Member, x.Session.Incarnation) {
			r.events = append(r.events, Lock{Ordinal: ordinal, Event: x})
		}
	}
}

// unlocked reports whether the locks under which a transaction ran were taken from its member: somebody
// else may have got them, and has not seen it.
func (r *replicated) unlocked(it *Item) bool {
	return it.Since > 0 && it.Since <= r.expired[it.ID.Member] && planted != "unlocked-commits"
}

// Advisory is what is delivered of advisory locks, for the engine's owner.
type Advisory struct{ log *replicated }

// Advisory is as Engine is at the time of each call.
func (e *Engine) Advisory() Advisory { return Advisory{&e.log} }

// Locks says who holds which lock, and who waits.
func (a Advisory) Locks() []locks.Held { return a.log.locks.List() }

// Tenant is a member whose sessions hold advisory locks or wait for them, with the last batch of it that
// was taken: as long as nothing more is heard of it, locks.Expire with these takes them away.
type Tenant struct {
	Member              uint32
	Incarnation, Number uint64
}

// Tenants lists them.
func (a Advisory) Tenants() (out []Tenant) {
	for _, m := range a.log.locks.Members() {
		s := a.log.sources[m]
		out = append(out, Tenant{m, s.incarnation, s.number})
	}
	return out
}
