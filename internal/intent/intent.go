package intent

import (
	"fmt"
	"slices"
)

// Owner is a session. Zero is none.
type Owner uint64

// Resource is what intents are about.
type Resource uint64

// Mode is what an owner intends.
type Mode uint8

const (
	// Ordered is a definition that runs where it has its place in the order, at this member as at the others.
	Ordered Mode = iota
	// Own is a transaction with definitions of its own, from the moment it is collected until it has committed.
	Own
	// Stays is a transaction that writes, until it ends.
	Stays
	// Bars is a definition to which all lose that are open and have not seen it, until it has run.
	Bars
	// Defines is a definition outside of blocks that runs in its session's backend, until it ends.
	Defines
	// Maintains is VACUUM and its like that was in the way, while it is run again.
	Maintains
)

func (m Mode) String() string {
	return [...]string{"ordered", "own", "stays", "bars", "defines", "maintains"}[m]
}

// conflicts is the matrix in doc.go.
func (m Mode) conflicts(o Mode) bool { return m.alone() || o.alone() }

// alone reports whether nobody else may have an intent of the same resource.
func (m Mode) alone() bool { return m == Own || m == Bars || m == Maintains }

// Outcome is how a request ends.
type Outcome uint8

const (
	Granted  Outcome = iota
	Late             // the deadline has come
	Deadlock         // it closed a circle
)

func (o Outcome) String() string { return [...]string{"granted", "late", "deadlock"}[o] }

// Event tells an owner how its request has ended.
type Event struct {
	Owner   Owner
	Outcome Outcome
}

// request is one that waits or is granted.
type request struct {
	owner    Owner
	resource Resource
	mode     Mode
	deadline uint64
	granted  bool
}

// Manager has the intents of one member. The zero value is ready. Not safe for concurrent use.
type Manager struct {
	now      uint64
	requests []*request        // in the order of their coming
	blocked  map[Owner][]Owner // as the caller tells
	events   []Event
}

// Request asks for an intent. Ready tells the outcome, which is not later than at deadline, a tick. An owner that
// waits must not ask.
func (m *Manager) Request(o Owner, r Resource, mode Mode, deadline uint64) {
	for _, q := range m.requests {
		if q.owner == o && !q.granted {
			panic(fmt.Sprintf("intent: owner %d asks while it waits", o))
		}
	}
	if m.has(o, r, mode) {
		m.events = append(m.events, Event{o, Granted})
		return
	}
	m.requests = append(m.requests, &request{owner: o, resource: r, mode: mode, deadline: deadline})
	m.settle()
}

// Hold notes an intent that an owner has had from before any that are in its way, and for which it did not ask. No
// event follows.
func (m *Manager) Hold(o Owner, r Resource, mode Mode) {
	m.requests = append(m.requests, &request{owner: o, resource: r, mode: mode, granted: true})
}

// has reports whether an owner has an intent that is as strong.
func (m *Manager) has(o Owner, r Resource, mode Mode) bool {
	return slices.ContainsFunc(m.requests, func(q *request) bool {
		return q.owner == o && q.resource == r && q.granted && q.mode >= mode
	})
}

// Release ends all that an owner has or waits for. No event follows for it.
func (m *Manager) Release(o Owner) {
	m.requests = slices.DeleteFunc(m.requests, func(q *request) bool {
		return q.owner == o && (planted != "intent-outlives-owner" || !q.granted)
	})
	m.events = slices.DeleteFunc(m.events, func(e Event) bool { return e.Owner == o })
	delete(m.blocked, o)
	m.settle()
}

// Blocked tells for whom an owner waits elsewhere, in place of what was told before; nobody if by is empty.
func (m *Manager) Blocked(o Owner, by ...Owner) {
	if m.blocked == nil {
		m.blocked = map[Owner][]Owner{}
	}
	m.blocked[o] = slices.Clone(by)
	if len(by) == 0 {
		delete(m.blocked, o)
	}
	m.settle()
}

// Tick sets the time, which must not go back.
func (m *Manager) Tick(now uint64) {
	m.now = max(m.now, now)
	m.settle()
}

// Ready returns what has happened since the last call.
func (m *Manager) Ready() []Event {
	out := m.events
	m.events = nil
	return out
}

// Drop ends what an owner has of a resource.
func (m *Manager) Drop(o Owner, r Resource) {
	m.requests = slices.DeleteFunc(m.requests, func(q *request) bool {
		return q.owner == o && q.resource == r && q.granted
	})
	m.settle()
}

// Holders are the owners of intents of some modes, in the order of their coming.
func (m *Manager) Holders(of ...Mode) []Owner { return m.owners(true, of) }

// Waiters are the owners that wait for some modes, in the order of their coming.
func (m *Manager) Waiters(of ...Mode) []Owner { return m.owners(false, of) }

func (m *Manager) owners(granted bool, of []Mode) (out []Owner) {
	for _, q := range m.requests {
		if q.granted == granted && slices.Contains(of, q.mode) {
			out = append(out, q.owner)
		}
	}
	return out
}

// settle grants what can be, ends what has waited for too long, and opens circles, until nothing changes.
func (m *Manager) settle() {
	for {
		m.grant()
		loser, outcome := m.expired(), Late
		if loser == nil {
			loser, outcome = m.circle(), Deadlock
		}
		if loser == nil {
			return
		}
		m.requests = slices.DeleteFunc(m.requests, func(q *request) bool { return q == loser })
		m.events = append(m.events, Event{loser.owner, outcome})
	}
}

// grant grants all that conflict with nobody before them (I1, I2).
func (m *Manager) grant() {
	for i, q := range m.requests {
		if !q.granted && (len(m.before(i)) == 0 || planted == "intent-granted-early") {
			if q.granted = true; planted == "intent-lost" && len(m.requests) > 2 {
				continue
			}
			m.events = append(m.events, Event{q.owner, Granted})
		}
	}
}

// before are those for whom the request at i waits: who has what conflicts with it, or asked for that earlier.
func (m *Manager) before(i int) (out []Owner) {
	q := m.requests[i]
	more := m.has(q.owner, q.resource, 0)
	for j, o := range m.requests {
		if o.owner != q.owner && o.resource == q.resource && o.mode.conflicts(q.mode) && (o.granted || j < i && !more) {
			out = append(out, o.owner)
		}
	}
	return out
}

// expired is a request whose deadline has come (I3).
func (m *Manager) expired() *request {
	for _, q := range m.requests {
		if !q.granted && q.deadline <= m.now && planted != "intent-waits-for-ever" {
			return q
		}
	}
	return nil
}
