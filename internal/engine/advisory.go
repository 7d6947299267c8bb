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

// lockItem carries out a request about advisory locks at its place in the order. It takes an
// ordinal, and no place in a group.
func (e *Engine) lockItem(it *Item) {
	if w := e.owns[it.ID.Seq]; w != nil && e.mine(it.ID.Member, it.ID.Incarnation) {
		w.ordinal = e.ordinal
		e.finish(w)
		e.events = append(e.events, Lock{Ordinal: e.ordinal, Seq: it.ID.Seq})
	}
	r, err := locks.Decode(it.Payload)
	if err != nil {
		return // the same everywhere
	}
	if r.Action != locks.Expire {
		e.tell(e.ordinal, e.locks.Apply(it.ID.Member, it.ID.Incarnation, r))
		return
	}
	if s := e.sources[r.Member]; s.incarnation == r.Incarnation && s.number == r.Number || planted == "expire-unchecked" {
		e.expired[r.Member] = e.ordinal
		e.tell(e.ordinal, e.locks.Expire(r.Member))
	}
}

func (e *Engine) mine(member uint32, incarnation uint64) bool {
	return member == e.o.Member && incarnation == e.o.Incarnation
}

// tell notes what happened to sessions of this life.
func (e *Engine) tell(ordinal uint64, events []locks.Event) {
	for _, x := range events {
		if e.mine(x.Session.Member, x.Session.Incarnation) {
			e.events = append(e.events, Lock{Ordinal: ordinal, Event: x})
		}
	}
}

// unlocked reports whether the locks under which a transaction ran were taken from its member: somebody
// else may have got them, and has not seen it.
func (e *Engine) unlocked(it *Item) bool {
	return it.Since > 0 && it.Since <= e.expired[it.ID.Member] && planted != "unlocked-commits"
}

// Locks says who holds which advisory lock, and who waits.
func (e *Engine) Locks() []locks.Held { return e.locks.List() }

// Tenant is a member whose sessions hold advisory locks or wait for them, with the last batch of it that
// was taken: as long as nothing more is heard of it, locks.Expire with these takes them away.
type Tenant struct {
	Member              uint32
	Incarnation, Number uint64
}

// Tenants lists them.
func (e *Engine) Tenants() (out []Tenant) {
	for _, m := range e.locks.Members() {
		s := e.sources[m]
		out = append(out, Tenant{m, s.incarnation, s.number})
	}
	return out
}
