package bootstrap

import "fmt"

// Record is what holds for the whole cluster by the main database's order.
type Record struct {
	// Level is what may be put into the log: all members understand it. What is newer than Membership goes by that.
	Level uint32 `json:"level"`
	// MinCopies and ExpelAfter are settings that were each node's own before level Roles; zero and empty: they are.
	MinCopies  int    `json:"min_copies,omitempty"`
	ExpelAfter string `json:"expel_after,omitempty"` // as time.Duration writes it
	Changed    uint64 `json:"changed,omitempty"`     // the ordinal of the last change; zero: of the beginning
}

// Begins is the record with which a member begins that makes its log: what one has that has begun, or, if none has,
// what all that begin understand, and their settings, which are equal (unlike).
func Begins(own *Facts, others []Heard) *Record {
	r, level := own.Record, own.Level
	begun := r != nil
	for _, o := range others {
		switch {
		case o.Facts == nil:
		case o.Facts.Incarnation == 0:
			level = min(level, o.Facts.Level)
		case !begun || o.Facts.Record != nil && (r == nil || r.Changed < o.Facts.Record.Changed):
			r, begun = o.Facts.Record, true
		}
	}
	switch {
	case r != nil:
		return r
	case begun || level < Roles || own.First == nil:
		return &Record{Level: Membership}
	}
	return &Record{Level: level, MinCopies: own.First.MinCopies, ExpelAfter: own.First.ExpelAfter}
}

// Surpassed says why a member must not go on with its build, by the record of the cluster as somebody has it; nil if it
// may.
func Surpassed(level uint32, record *Record, member string) error {
	if record == nil || level >= record.Level {
		return nil
	}
	return fmt.Errorf("the upgrade of the cluster to level %d was finished, and %s runs a release that understands "+
		"level %d: install there the release of the others, or a newer one", record.Level, member, level)
}

// unlike compares with what two members would begin a cluster, as long as neither knows of one that has begun.
func unlike(own, theirs *Facts, name Names) error {
	if own.Record != nil || theirs.Record != nil || own.Incarnation > 0 || theirs.Incarnation > 0 {
		return nil
	}
	return Unlike(own, theirs, name)
}

// Unlike says what two members have otherwise in their files of what is to hold for the whole cluster; nil if nothing,
// or one is of a release that does not say it.
func Unlike(own, theirs *Facts, name Names) error {
	a, b := own.First, theirs.First
	if a == nil || b == nil {
		return nil
	}
	for _, x := range []struct{ name, own, theirs string }{
		{"min_copies", fmt.Sprint(a.MinCopies), fmt.Sprint(b.MinCopies)},
		{"expel_after", a.ExpelAfter, b.ExpelAfter},
	} {
		if x.own != x.theirs {
			return fmt.Errorf("%s is %s at %s and %s at %s: it must be the same at all members before it holds for "+
				"the whole cluster", x.name, x.own, name(own.Member), x.theirs, name(theirs.Member))
		}
	}
	return nil
}
