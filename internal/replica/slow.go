package replica

import (
	"github.com/tuttidb/tutti/internal/flow"
	"github.com/tuttidb/tutti/internal/quorum"
)

// Slow is a member that is far too slow, by what the leader has found (package quorum).
type Slow struct {
	Member uint32 `json:"member"`
	Times  int    `json:"times"` // that it was found to be
	For    int64  `json:"for"`   // since it was, the last time
}

// slow is one, by this member's clock.
type slow struct {
	quorum.Slow
	since int64
}

// Found takes who is far too slow, as this member has found that leads.
func (t *Table) Found(now int64, list []quorum.Slow) {
	var found []slow
	for _, s := range list {
		since := now
		for _, was := range t.slow {
			if was.Member == s.Member {
				since = was.since
			}
		}
		found = append(found, slow{s, since})
	}
	t.slow = found
}

// told takes the same of the leader.
func (t *Table) told(now int64, list []Slow) {
	t.slow = nil
	for _, s := range list {
		t.slow = append(t.slow, slow{quorum.Slow{Member: s.Member, Times: s.Times}, now - max(s.For, 0)})
	}
}

// Slow lists who is far too slow, as the leader has found.
func (t *Table) Slow(now int64) (list []Slow) {
	for _, s := range t.slow {
		list = append(list, Slow{s.Member, s.Times, now - s.since})
	}
	return list
}

// isSlow reports whether a member is among them.
func (t *Table) isSlow(member uint32) bool {
	for _, s := range t.slow {
		if s.Member == member {
			return true
		}
	}
	return false
}

// Paces are how fast the members carry out what is ordered, by the limits of flow control, and who is far too slow, for
// the rule about who votes.
func (t *Table) Paces(now int64, own Status, o flow.Options) (paces map[uint32]quorum.Pace, told []quorum.Slow) {
	paces = map[uint32]quorum.Pace{}
	t.each(now, &own, func(m uint32, s *Status, alive bool) {
		paces[m] = quorum.Pace{Known: alive && s.State == Synced, Applied: s.Applied, Ordered: s.Applied + s.Lag.Items,
			Load: o.Load(flow.Member{Lag: s.Lag.Items, LagBytes: s.Lag.Bytes})}
	})
	for _, s := range t.slow {
		told = append(told, s.Slow)
	}
	return paces, told
}
