package sim

import (
	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/quorum"
)

// In some of the runs in which the configuration changes members get ranks, each of which members come to know of at
// different times, so that others vote although nobody is gone.

// ranksOneIn is in how many of these runs.
const ranksOneIn = 3

// ranks are those of the members, and since when each member goes by them; nobody has one if there are none.
type ranks struct {
	of   []int
	from []int64
}

func newRanks(w *world) (r ranks) {
	rnd := newRandom(mix(w.seed ^ 0x4a4b))
	if !w.apart("") || rnd.intn(ranksOneIn) > 0 {
		return r
	}
	at := rnd.between(0, w.swarm.safety/2)
	for range w.swarm.members {
		r.of = append(r.of, rnd.intn(3)-1)
		r.from = append(r.from, at+rnd.between(0, knownLater))
	}
	w.stats.Members.Ranked++
	return r
}

// known gives the members of a list the ranks that a member knows of.
func (r *ranks) known(m *member, list engine.List) engine.List {
	if r.of == nil || m.w.now < r.from[m.id-1] {
		return list
	}
	if list.Members == nil {
		for _, o := range m.w.members {
			list.Members = append(list.Members, engine.Listed{Member: o.id})
		}
	}
	for i := range list.Members {
		x := &list.Members[i]
		x.Rank = r.of[x.Member-1]
	}
	return list
}

// roles are those that all members know of in the end.
func (r *ranks) roles() map[uint32]quorum.Role {
	roles := map[uint32]quorum.Role{}
	for i, rank := range r.of {
		roles[uint32(i+1)] = quorum.Role{Rank: rank}
	}
	return roles
}
