package bootstrap

import (
	"fmt"
	"slices"
)

// Notes are what a member must know again after a restart, kept beside the main database's log. A change gives other
// notes, and whether there is news in them; the old ones stay as they are until the new ones are on disk.
type Notes struct {
	// Members are the greatest incarnations of other members that were heard of (B2).
	Members map[uint32]uint64 `json:"members,omitempty"`
	// Lives are those of these incarnations (Facts.Life).
	Lives map[uint32]uint64 `json:"lives,omitempty"`
	// Outdated is why this member must not go on with its log (Outdated). With each start its incarnation grows, and
	// would be greater at last than what others know.
	Outdated string `json:"outdated,omitempty"`
	// Superseded is what Members had of a member when it was readmitted last.
	Superseded map[uint32]uint64 `json:"superseded,omitempty"`
	// Copied is how many copies of others' databases the member has taken, Copies how many others have.
	Copied uint64            `json:"copied,omitempty"`
	Copies map[uint32]uint64 `json:"copies,omitempty"`
	// Levels are what the builds of the other members understand of the log, as each has said last.
	Levels map[uint32]uint32 `json:"levels,omitempty"`
	// Databases are the numbers of the other databases of which this member has made logs. It may have voted in them.
	Databases []uint64 `json:"databases,omitempty"`
}

// Heard notes a member's incarnation, how many copies it has taken, and what it understands.
func (n Notes) Heard(f *Facts) (Notes, bool) {
	life, copied := f.Incarnation > n.Members[f.Member], f.Copied > n.Copies[f.Member]
	if f.Life != 0 && (life || f.Incarnation == n.Members[f.Member] && n.Lives[f.Member] == 0) {
		n.Lives, life = with(n.Lives, f.Member, f.Life), true
	}
	if life {
		n.Members = with(n.Members, f.Member, f.Incarnation)
	}
	if copied {
		n.Copies = with(n.Copies, f.Member, f.Copied)
	}
	level := f.Level != n.Levels[f.Member]
	if level {
		n.Levels = with(n.Levels, f.Member, f.Level)
	}
	return n, life || copied || level
}

// Refused notes why the log must not be gone on with.
func (n Notes) Refused(why error) (Notes, bool) {
	n.Outdated = why.Error()
	return n, true
}

// Told takes what others have noted of the levels of members that this one has not heard of.
func (n Notes) Told(levels map[uint32]uint32) Notes {
	for m, level := range levels { // order-free: each for itself
		if _, heard := n.Levels[m]; !heard {
			n.Levels = with(n.Levels, m, level)
		}
	}
	return n
}

// Understand reports whether all of some other members have said that they understand what is of a level. Whom the
// order has added understands that. If it has changed who the members are, all understood that before, also those of
// which this one has heard nothing.
func (n Notes) Understand(level uint32, others, later []uint32, changed bool) bool {
	for _, m := range others {
		is, said := n.Levels[m]
		if slices.Contains(later, m) || changed && !said {
			is = max(is, Membership)
		}
		if is < level {
			return false
		}
	}
	return true
}

// Supersede notes that no log which the member has had so far counts any more: it is readmitted with another one (B6).
// There is no news in it until another log of it is heard of.
func (n Notes) Supersede(member uint32) (Notes, bool) {
	if is := n.Superseded[member]; is > 0 && is == n.Members[member] {
		return n, false
	}
	n.Members = with(n.Members, member, n.Members[member]+supersededBy)
	n.Superseded = with(n.Superseded, member, n.Members[member])
	return n, true
}

// with is a copy of m that has one more.
func with[V any](m map[uint32]V, member uint32, v V) map[uint32]V {
	out := map[uint32]V{member: v}
	for k, was := range m { // order-free: each for itself
		if k != member {
			out[k] = was
		}
	}
	return out
}

// Copy notes that the member has taken one more copy, or as many as it is told.
func (n Notes) Copy(least uint64) Notes {
	n.Copied = max(n.Copied+1, least)
	return n
}

// Made notes that there is a log of a database.
func (n Notes) Made(database uint64) (Notes, bool) {
	if slices.Contains(n.Databases, database) {
		return n, false
	}
	n.Databases = append(slices.Clone(n.Databases), database)
	return n, true
}

// Removed notes that the log of a database is not needed any more. Numbers are never used again.
func (n Notes) Removed(database uint64) (Notes, bool) {
	before := len(n.Databases)
	n.Databases = slices.DeleteFunc(slices.Clone(n.Databases), func(d uint64) bool { return d == database })
	return n, len(n.Databases) < before
}

// fixed are the settings on which what is in the log depends.
var fixed = []string{"database", "sequence_step", "certify_keys"}

// Fixed are those of the settings that cannot be changed once there is a log.
func Fixed(settings []Setting) (out []Setting) {
	for _, s := range settings {
		if slices.Contains(fixed, s.Name) {
			out = append(out, s)
		}
	}
	return out
}

// Changed refuses settings that are not those with which the log was made.
func Changed(was, is []Setting) error {
	for _, w := range was {
		for _, i := range is {
			if w.Name == i.Name && w.Value != i.Value {
				return fmt.Errorf("%s is %s in the configuration, and was %s when this member's log was made: it "+
					"cannot be changed", i.Name, i.Value, w.Value)
			}
		}
	}
	return nil
}
