package sim

import (
	"slices"

	"github.com/tuttidb/tutti/internal/engine"
)

// In some of the runs in which the configuration changes a member is removed from the list of members, and added again
// before all is to be well. Each member goes by the list as far as it has applied the main database's order, which is
// another one than the simulated; so they come to know of a change one after the other. The member that was removed
// goes on as if nothing had happened, as one does that has not heard of it.

// removalOneIn is in how many of these runs.
const removalOneIn = 2

// removalBugs show only where a member is removed.
var removalBugs = []string{"removed-refused-by-itself", "removed-unlocks-at-once"}

// knownLater is within how many microseconds members come to know of a change of the list.
const knownLater = 400_000

// removal is that of one member: until when each member goes by the whole list, and since when again.
type removal struct {
	member      uint32 // zero: nobody is removed
	from, until []int64
}

func newRemoval(w *world) (r removal) {
	rnd := newRandom(mix(w.seed ^ 0x4e30))
	n := w.swarm.members
	if !slices.Contains(removalBugs, w.o.Planted) && rnd.intn(removalOneIn) > 0 {
		return r
	}
	r.member = uint32(1 + rnd.intn(n))
	from := rnd.between(0, w.swarm.safety/2)
	until := rnd.between(from+knownLater, max(w.swarm.safety-knownLater, from+knownLater+1))
	for range n {
		r.from = append(r.from, from+rnd.between(0, knownLater))
		r.until = append(r.until, until+rnd.between(0, knownLater))
	}
	w.stats.Members.Removed++
	return r
}

// begin has the member that is added again begin another life before it is: what it had begun to send in parts ended
// with its removal, and would be taken for something else if the rest came. In production it has another number.
func (r *removal) begin(w *world) {
	if r.member == 0 {
		return
	}
	w.after(slices.Min(r.until), func() {
		if m := w.members[r.member-1]; m.up {
			m.stop(true)
			m.startLater(w.truth.voting.rnd.between(100, 10_000))
		}
	})
}

// list is what a member knows of who the members are, and who is gone.
func (r *removal) list(m *member) (list engine.List) {
	now, i := m.w.now, m.id-1
	if r.member == 0 || now < r.from[i] {
		return list
	}
	for _, o := range m.w.members {
		if o.id != r.member || now >= r.until[i] {
			list.Members = append(list.Members, engine.Listed{Member: o.id})
		} else {
			list.Gone = append(list.Gone, o.id)
		}
	}
	return list
}
