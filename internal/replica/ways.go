package replica

import (
	"slices"

	"github.com/tuttidb/tutti/internal/lead"
)

// Way is what a member tells of the way between itself and another one.
type Way struct {
	Member uint32 `json:"member"`
	// At is the Status.At that was heard last of it, in which Incarnation, and After how long ago.
	Incarnation uint64 `json:"incarnation"`
	At          int64  `json:"at"`
	After       int64  `json:"after"`
	// Round is the round trip time; zero: it is not known.
	Round int64 `json:"round,omitempty"`
}

// roundsKept is by how many measurements a round trip time is known: it is the least, as nothing makes one shorter than
// the way.
const roundsKept = 16

// rounds are the last round trip times that were measured to a member.
type rounds []int64

// add takes another one.
func (r *rounds) add(d int64) {
	if *r = append(*r, d); len(*r) > roundsKept {
		*r = (*r)[1:]
	}
}

// least is the round trip time; zero: it is not known.
func (r rounds) least() int64 {
	if len(r) == 0 {
		return 0
	}
	return slices.Min(r)
}

// measure takes what a member tells of the way to this one.
func (t *Table) measure(now int64, r *row, s *Status) {
	for _, w := range s.Ways {
		if d := now - w.At - w.After; w.Member == t.o.Self && w.Incarnation == t.incarnation && w.At > 0 && d > 0 {
			r.rounds.add(d)
		}
	}
}

// tellWays is what this member tells of the ways to those that are alive and say when they tell.
func (t *Table) tellWays(now int64) (list []Way) {
	for i := range t.rows {
		if r := &t.rows[i]; r.status.At > 0 && r.within(now, t.o.Silent) {
			list = append(list, Way{Member: r.member, Incarnation: r.status.Incarnation, At: r.status.At,
				After: now - r.at, Round: r.rounds.least()})
		}
	}
	return list
}

// round is the round trip time to a member, as far as this one has measured it; zero: it has not.
func (s *Status) round(member uint32) int64 {
	for _, w := range s.Ways {
		if w.Member == member && w.Round > 0 {
			return min(w.Round, 2*lead.Far)
		}
	}
	return 0
}

// way is how far two members are from each other: half of the round trip, as the shorter one of both measured it.
func way(a, b uint32, of, other *Status) int64 {
	there, back := of.round(b), other.round(a)
	if there == 0 || back > 0 && back < there {
		there = back
	}
	if there == 0 {
		return lead.Unknown
	}
	return there / 2
}

// ways are those between all members, by what each has told last.
func (t *Table) ways(now int64, own *Status) (w lead.Ways) {
	var told []*Status // nil: it is not there
	t.each(now, own, func(_ uint32, s *Status, alive bool) {
		if !alive {
			s = nil
		}
		told = append(told, s)
	})
	for i, a := range t.o.Members {
		row := make([]int64, len(told))
		for j, b := range t.o.Members {
			switch {
			case i == j:
			case told[i] == nil || told[j] == nil:
				row[j] = lead.Far
			default:
				row[j] = way(a, b, told[i], told[j])
			}
		}
		w = append(w, row)
	}
	return w
}
