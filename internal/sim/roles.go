package sim

import (
	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/quorum"
)

// In some of the runs in which the configuration changes members get ranks, and one may be demoted, of which members
// come to know at different times: others vote although nobody is gone.

// rolesOneIn is in how many of these runs.
const rolesOneIn = 3

// roles are those of the members, and since when each member goes by them; nobody has one if there are none.
type roles struct {
	of   map[uint32]quorum.Role
	from []int64
}

func newRoles(w *world) (r roles) {
	rnd := newRandom(mix(w.seed ^ 0x4a4b))
	if !w.apart("") || rnd.intn(rolesOneIn) > 0 {
		return r
	}
	at := rnd.between(0, w.swarm.safety/2)
	r.of = map[uint32]quorum.Role{}
	demoted := rnd.intn(2 * w.swarm.members)
	for i := range w.swarm.members {
		r.of[uint32(i+1)] = quorum.Role{Rank: rnd.intn(3) - 1, Learner: i == demoted}
		r.from = append(r.from, at+rnd.between(0, knownLater))
	}
	w.stats.Members.Ranked++
	return r
}

// known gives the members of a list the roles that a member knows of.
func (r *roles) known(m *member, list engine.List) engine.List {
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
		x.Role = r.of[x.Member]
	}
	return list
}
