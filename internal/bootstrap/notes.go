package bootstrap

import (
	"fmt"
	"maps"
	"slices"
)

// Notes are what a member must know again after a restart, kept beside the main database's log. A change gives other
// notes, and whether there is news in them; the old ones stay as they are until the new ones are on disk.
type Notes struct {
	// Members are the greatest incarnations of other members that were heard of (B2).
	Members map[uint32]uint64 `json:"members,omitempty"`
	// Databases are the numbers of the other databases of which this member has made logs. It may have voted in them.
	Databases []uint64 `json:"databases,omitempty"`
}

// Heard notes a member's incarnation.
func (n Notes) Heard(f *Facts) (Notes, bool) {
	if f.Incarnation <= n.Members[f.Member] {
		return n, false
	}
	n.Members = maps.Clone(n.Members)
	if n.Members == nil {
		n.Members = map[uint32]uint64{}
	}
	n.Members[f.Member] = f.Incarnation
	return n, true
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
