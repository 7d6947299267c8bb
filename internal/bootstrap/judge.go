package bootstrap

import (
	"errors"
	"fmt"
	"slices"
)

// Names gives a member's name for messages.
type Names func(member uint32) string

// stayOut is what follows for a member whose log is too old.
const stayOut = "The other members go on without it. If its disk is only not mounted, or its data directory is " +
	"another one, put that right and start it again. " +
	"Otherwise remove its data directory, and start it again: it copies the database of another member"

// Judge says why this member does not talk to another one, from the facts of both (B2, B5, B8); nil if it does.
func Judge(own, theirs *Facts, name Names) error {
	known := own.Known[theirs.Member]
	switch {
	case theirs.Incarnation < known && theirs.Incarnation == 0:
		return errors.New(lost(theirs.Member, own.Member, known, name))
	case theirs.Incarnation < known || theirs.another(own):
		return errors.New(older(theirs, own.Member, known, name))
	}
	if err := Surpassed(theirs.Level, own.Record, name(theirs.Member)); err != nil {
		return err
	}
	if slices.Contains(own.Later, theirs.Member) && theirs.Level < Membership {
		return fmt.Errorf("%s was added by the order, and runs a release that does not know of that: run the "+
			"one of %s there", name(theirs.Member), name(own.Member))
	}
	if err := mistaken(own, theirs, name); err != nil {
		return err
	}
	return differ(own, theirs, name)
}

// mistaken says that a node is none of the kind that the order has made its member.
func mistaken(own, theirs *Facts, name Names) error {
	is := slices.Contains(own.Listed, theirs.Member)
	switch {
	case is && !theirs.Witness:
		return fmt.Errorf("%s is a witness, and its node is to have a database: set witness = true in its "+
			"configuration", name(theirs.Member))
	case theirs.Witness && !is:
		return fmt.Errorf("%s is a member with a database, and its node is a witness: take witness out of its "+
			"configuration", name(theirs.Member))
	}
	return nil
}

// Outdated says why this member must not go on with the log it has, by what another one knows of it; nil if it may.
func Outdated(own, theirs *Facts, name Names) error {
	if known := theirs.Known[own.Member]; own.Incarnation > 0 && (own.Incarnation < known || own.another(theirs)) {
		return errors.New(older(own, theirs.Member, known, name))
	}
	return nil
}

// another reports whether another life of the member than this one has been heard of in its incarnation.
func (f *Facts) another(witness *Facts) bool {
	life := witness.Lives[f.Member]
	return f.Incarnation > 0 && f.Incarnation == witness.Known[f.Member] && f.Life != 0 && life != 0 && f.Life != life
}

func lost(member, witness uint32, incarnation uint64, name Names) string {
	return fmt.Sprintf("%s has no log, but it had one: %s knows its incarnation %d. Its votes are lost with its log, "+
		"so it must not vote again as if it had never voted: "+
		"what was committed could be undone. It copies the database of another member, and begins a log anew in terms "+
		"of which a majority beside it has agreed on something", name(member), name(witness), incarnation)
}

func older(f *Facts, witness uint32, incarnation uint64, name Names) string {
	return fmt.Sprintf("the log of %s is an older copy, or another node runs under its number: it is in incarnation "+
		"%d, and %s knows of another log of it, in incarnation %d. "+
		"What it has voted for since is lost, so it must not vote again under its number. %s", name(f.Member),
		f.Incarnation, name(witness), incarnation, stayOut)
}

// differ compares the settings that both name.
func differ(own, theirs *Facts, name Names) error {
	for _, s := range own.Settings {
		for _, t := range theirs.Settings {
			if s.Name == t.Name && s.Value != t.Value {
				return fmt.Errorf("%s is %s at %s and %s at %s: it must be the same at all members",
					s.Name, s.Value, name(own.Member), t.Value, name(theirs.Member))
			}
		}
	}
	return unlike(own, theirs, name)
}
