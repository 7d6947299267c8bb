package lead

import "slices"

// Ways are how long a frame takes from one member to another, both by their places among Input's Members. The unit is
// the owner's.
type Ways [][]int64

// What stands in Ways for a number.
const (
	// Unknown: nobody has measured it.
	Unknown int64 = -1
	// Far is the way to a member that is not there.
	Far int64 = 1 << 40
)

// known reports whether every way is.
func (w Ways) known() bool {
	return w != nil && !slices.ContainsFunc(w, func(row []int64) bool { return slices.Contains(row, Unknown) })
}

// Commit is how long a COMMIT at one member waits for the others while another one leads; votes says who does. A
// proposal goes to the leader, whose append goes to all. Who has it on disk tells the leader and the author. So the
// author goes on when the leader's word has come that a majority has answered, or, if it votes itself, when it has the
// entry and a majority's answers (O7 of package ordering).
func (w Ways) Commit(votes []bool, leader, at int) int64 {
	var toLeader, toAuthor []int64
	for v, is := range votes {
		if has := w[at][leader] + w[leader][v]; is {
			toLeader, toAuthor = append(toLeader, has+w[v][leader]), append(toAuthor, has+w[v][at])
		}
	}
	if len(toLeader) == 0 {
		return Far
	}
	slices.Sort(toLeader)
	slices.Sort(toAuthor)
	majority := len(toLeader) / 2
	told := toLeader[majority] + w[leader][at]
	if !votes[at] {
		return told
	}
	return min(told, max(toAuthor[majority], w[at][leader]+w[leader][at]))
}

// sum is how long all commits wait while the member at a place leads, those of each member so many. Who is not there
// commits nothing.
func (in *Input) sum(leader int, commits []uint64) (sum int64) {
	for at, n := range commits {
		if in.Ways[at][leader] < Far {
			sum += int64(n) * in.Ways.Commit(in.Votes, leader, at)
		}
	}
	return sum
}

// nearer follows at whom commits would take least, window by window, and names it once that is clear.
type nearer struct {
	lately []uint64 // what each member has written, see remember
	best   uint32   // zero: nobody is clearly better than the leader
	// windows are in how many in succession it has been best
	windows int
}

// What is remembered of a window is a quarter less with each further one. A transaction counts as one.
const one = 16

// remember adds what was written in a window.
func (n *nearer) remember(wrote []uint64) {
	if len(n.lately) != len(wrote) {
		*n = nearer{lately: make([]uint64, len(wrote))}
	}
	for i, d := range wrote {
		n.lately[i] += one*d - n.lately[i]/4
	}
}

// commits are by how much each member counts, and whether that is what they have written: when that is next to nothing
// all count the same.
func (n *nearer) commits(few uint64) (each []uint64, written bool) {
	all := uint64(0)
	for _, d := range n.lately {
		all += d
	}
	if all >= 4*one*few {
		return n.lately, true
	}
	return slices.Repeat([]uint64{one}, len(n.lately)), false
}

// clearly reports whether commits take less if one member leads and not another one, by enough to move the lead.
func (r *Rule) clearly(in *Input, a, b int, commits []uint64) bool {
	all := int64(0)
	for _, n := range commits {
		all += int64(n)
	}
	than := in.sum(b, commits)
	gain := than - in.sum(a, commits)
	return gain > 0 && float64(gain)*100 >= float64(than)*float64(r.o.GainPercent) && gain >= all*r.o.GainMin
}

// near takes a window's transactions, and names at whom commits have been taking least for long enough.
func (r *Rule) near(self int, in *Input, wrote []uint64) uint32 {
	n, best := &r.nearer, self
	n.remember(wrote)
	if !in.Ways.known() {
		n.best, n.windows = 0, 0
		return 0
	}
	commits, written := n.commits(r.o.FewMin)
	for i, m := range in.Members {
		if mayLead(in.Members[self], *in, m.ID) && in.sum(i, commits) < in.sum(best, commits) {
			best = i
		}
	}
	now, wanted := uint32(0), r.o.Windows
	if r.clearly(in, best, self, commits) {
		now = in.Members[best].ID
	}
	if now != n.best {
		n.best, n.windows = now, 0
	}
	if !written {
		wanted = r.o.IdleWindows
	}
	if n.windows++; now == 0 || n.windows < wanted {
		return 0
	}
	return now
}

// worse reports whether commits would clearly take longer if another one led, as far as ways are known.
func (r *Rule) worse(self int, in *Input, id uint32) bool {
	if !in.Ways.known() {
		return false
	}
	commits, _ := r.nearer.commits(r.o.FewMin)
	other := slices.IndexFunc(in.Members, func(m Member) bool { return m.ID == id })
	return r.clearly(in, self, other, commits)
}
