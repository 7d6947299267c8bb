package sim

import (
	"slices"

	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/tuttidb/tutti/internal/ordering"
)

// In some runs where who votes changes one copy is enough, so that one of two members votes alone. What it is given
// then is judged by what it has heard of the others (S19).

// aloneOneIn is in how many of these runs.
const aloneOneIn = 3

// aloneBugs show only there.
var aloneBugs = []string{"alone-waits-for-nobody", "alone-hands-out-early", "alone-until-others-vote"}

// keptTicks is for how many ticks a member must have what the other was given before that waits for it.
const keptTicks = 3

// alone is what is known of the members' ways to each other, by member.
type alone struct {
	ticks []int           // of its clock
	given []uint64        // the last entry it was given
	heard map[way]contact // at the first of the second
}

type way struct{ at, of uint32 }

// contact is what a member has heard of another one in its present life.
type contact struct {
	life uint64
	tick int // when that one answered last
	has  uint64
	good int // ticks since when that one has had what it is given
}

func newAlone(w *world) alone {
	n := w.swarm.members + 1
	return alone{ticks: make([]int, n), given: make([]uint64, n), heard: map[way]contact{}}
}

// hears notes that a frame came.
func (v *voting) hears(at, of *member, data []byte) {
	if v.copies != 1 {
		return
	}
	a, said := &v.alone, &pb.Message{}
	must(proto.Unmarshal(data, said))
	h := a.heard[way{at.id, of.id}]
	if h.life != at.incarnation {
		h = contact{life: at.incarnation}
	}
	if said.GetTerm() == at.engine.View().Term {
		switch said.GetType() {
		case pb.MsgAppResp:
			if h.tick = a.ticks[at.id]; !said.GetReject() {
				h.has = max(h.has, said.GetIndex())
			}
		case pb.MsgHeartbeatResp:
			h.tick = a.ticks[at.id]
		}
	}
	a.heard[way{at.id, of.id}] = h
}

// ticked looks at who has what a member was given that votes alone.
func (v *voting) ticked(m *member) {
	if v.copies != 1 {
		return
	}
	a := &v.alone
	a.ticks[m.id]++
	for of := range m.w.members {
		key := way{m.id, uint32(of + 1)}
		h, known := a.heard[key]
		if !known {
			continue
		}
		silent := a.ticks[m.id] - h.tick
		switch has := h.has >= a.given[m.id] && !m.w.members[of].disk.empty; {
		case v.votesAlone(1<<64-1) != uint64(m.id) || m.engine.View().Leader != m.id || h.life != m.incarnation ||
			silent >= v.goneTicks-2 || !has && h.good < keptTicks:
			h.good = 0
		case h.good > 0 || silent < 3:
			h.good++
		}
		a.heard[key] = h
	}
}

// votesAlone is who may have decided an entry alone, zero if nobody has: others have it as well once the second half of
// a change behind it is decided.
func (v *voting) votesAlone(index uint64) (voter uint64) {
	for _, c := range v.decided {
		who := c.State.GetVotersOutgoing()
		if len(who) == 0 {
			who = c.State.GetVoters()
		}
		switch {
		case len(who) == 1 && c.Index < index:
			voter = who[0]
		case len(who) != 1:
			voter = 0
		}
	}
	return voter
}

// needs reports whether nobody can be elected without what a member has on its disk: one of two that vote, or the only
// one.
func (v *voting) needs(m *member) bool {
	if len(v.decided) == 0 {
		return false
	}
	c := v.decided[len(v.decided)-1].State
	for _, who := range [][]uint64{c.GetVoters(), c.GetVotersOutgoing()} {
		if len(who) <= 2 && slices.Contains(who, uint64(m.id)) {
			return true
		}
	}
	return false
}

// gives judges what a member is given.
func (v *voting) gives(m *member, list []ordering.Delivered) {
	if v.copies != 1 || len(list) == 0 {
		return
	}
	a, last := &v.alone, list[len(list)-1].Index
	a.given[m.id] = last
	voter := v.votesAlone(last)
	if voter == 0 {
		return
	}
	m.w.stats.Members.Alone++
	if voter != uint64(m.id) && m.disk.last() < last {
		m.w.violation("%v: it is given entry %d, which member %d alone has decided, and its disk does not have it", m,
			last, voter)
	}
	for i, o := range m.w.members {
		h := a.heard[way{m.id, o.id}]
		if voter != uint64(m.id) || o == m || o.id == v.removal.member || v.roles.of[o.id].Learner ||
			h.good < keptTicks || h.life != m.incarnation {
			continue
		}
		if at := m.w.members[i].disk.last(); at < last {
			m.w.violation("%v: it votes alone, and is given entry %d, where %v, which is not gone, has entries up to "+
				"%d", m, last, o, at)
		}
	}
}

// last is the last entry that a crash would leave.
func (d *disk) last() (last uint64) {
	sure := d.synced
	if d.dropped >= 0 {
		sure = min(sure, d.dropped)
	}
	for _, w := range d.journal[:sure] {
		if w.restart != nil {
			last = w.restart.GetIndex()
		}
		if n := len(w.entries); n > 0 {
			last = w.entries[n-1].GetIndex()
		}
	}
	return last
}
