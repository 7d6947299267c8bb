package bootstrap

import (
	"fmt"
	"slices"
	"strings"
)

// Do is what a member without a log does.
type Do uint8

const (
	Wait   Do = iota // for members that have not said anything yet
	Refuse           // it must not start
	Create           // it makes its log
	Ask              // it has lost its log, and asks the others with what it may begin another (BeginAgain)
	Copy             // it has nothing, and copies the database with which the cluster begins
)

func (d Do) String() string { return [...]string{"wait", "refuse", "create", "ask", "copy"}[d] }

// Decision is what to do, and why, for the operator.
type Decision struct {
	Do   Do
	Why  string
	From uint32 // whose database it copies; zero: of anybody who lends it
}

// Heard is what was heard of another member. Facts are nil if it has not said anything.
type Heard struct {
	Member uint32
	Facts  *Facts
}

// Decide says whether a member that has no log may make one (B1, B4). Others are all other members of its list.
//
// What was heard holds on while the member has no log: nobody can come to know an incarnation of it meanwhile.
func Decide(own *Facts, others []Heard, name Names) Decision {
	began := false // some member has a log
	for _, o := range others {
		if o.Facts == nil {
			continue
		}
		if known := o.Facts.Known[own.Member]; known > 0 {
			return Decision{Do: Ask, Why: lost(own.Member, o.Member, known, name)}
		}
		began = began || o.Facts.Incarnation > 0
	}
	if slices.ContainsFunc(others, func(o Heard) bool {
		return o.Facts != nil && slices.Contains(o.Facts.Later, own.Member)
	}) {
		if err := mistaken(own, own, name); err != nil {
			return Decision{Do: Refuse, Why: err.Error()}
		}
		return joins(own, others, name)
	}
	if own.Witness {
		return Decision{Do: Wait, Why: fmt.Sprintf("no member has said yet that %s is one", name(own.Member))}
	}
	if from, why := adopted(own, others, name); why != "" {
		return Decision{Do: Refuse, Why: why}
	} else if from != 0 {
		return Decision{Do: Copy, Why: "the cluster begins with the database of " + name(from), From: from}
	}
	if why := contentsDiffer(own, others, name); why != "" {
		return Decision{Do: Refuse, Why: why}
	}
	if why := missing(own, others, name); why != "" {
		return Decision{Do: Wait, Why: why}
	}
	if own.Contents.CopyOf != 0 && !began {
		return Decision{Do: Refuse, Why: fmt.Sprintf("the database of %s is a copy of that of %s and belongs to an "+
			"order that is lost: no member has a log. "+
			"A new cluster begins with a dump of it (pg_dump) in empty databases", name(own.Member),
			name(own.Contents.CopyOf))}
	}
	return Decision{Do: Create}
}

// joins is what a member does that the order has added (B7).
func joins(own *Facts, others []Heard, name Names) Decision {
	switch {
	case own.Witness:
	case own.Contents.CopyOf == 0 && !own.Contents.Empty():
		return Decision{Do: Refuse, Why: fmt.Sprintf("%s was added to a cluster that has begun, and there is "+
			"something in its own database: remove the directory postgres below its data_dir, and start it again; it "+
			"copies the database of another member", name(own.Member))}
	case own.Contents.CopyOf == 0:
		return Decision{Do: Copy, Why: "it was added to a cluster that has begun"}
	}
	for _, o := range others {
		if o.Facts == nil {
			continue
		}
		if err := differ(own, o.Facts, name); err != nil {
			return Decision{Do: Wait, Why: err.Error()}
		}
	}
	if why := silent(own, others, name); why != "" {
		return Decision{Do: Wait, Why: why}
	}
	return Decision{Do: Create}
}

// adopted is whose database a member that has nothing copies: of somebody who has what the cluster begins with. Zero:
// nobody's. If there are two such databases, nobody knows which of them is meant, and why says so.
func adopted(own *Facts, others []Heard, name Names) (from uint32, why string) {
	if !own.Contents.Empty() {
		return 0, ""
	}
	var first *Facts
	for _, o := range others {
		switch {
		case o.Facts == nil || o.Facts.Contents == nil || !o.Facts.Contents.Adopted:
		case first == nil:
			first = o.Facts
		default:
			d := first.Contents.Difference(o.Facts.Contents, name(first.Member), name(o.Member))
			if d != "" {
				return 0, "two databases were adopted, and they are not equal: " + d + ". " + chooseOne
			}
		}
	}
	if first == nil {
		return 0, ""
	}
	return first.Member, ""
}

// chooseOne is what to do about databases that are not equal.
const chooseOne = "All members must begin with equal databases. Choose the one to keep, stop all nodes, and run " +
	"tutti adopt with the configuration of its node. At the others remove the directory postgres below data_dir. " +
	"Then start all nodes: those that have nothing copy it"

// copies reports whether a member with these contents has yet to copy what another one has.
func copies(c, other *Contents, begun bool) bool { return !begun && c.Empty() && other.Adopted }

// missing says for what a member must wait.
func missing(own *Facts, others []Heard, name Names) string {
	for _, o := range others {
		if o.Facts == nil {
			continue
		} else if err := differ(own, o.Facts, name); err != nil {
			return err.Error()
		} else if o.Facts.Contents == nil {
			return name(o.Member) + " does not say what it began with"
		} else if copies(o.Facts.Contents, own.Contents, o.Facts.Incarnation > 0) {
			return name(o.Member) + " has yet to copy the database with which the cluster begins"
		}
	}
	return silent(own, others, name)
}

// silent names those who have not said yet that they know nothing of a member without a log; empty if all have.
func silent(own *Facts, others []Heard, name Names) string {
	var who []string
	for _, o := range others {
		if o.Facts == nil {
			who = append(who, name(o.Member))
		}
	}
	if len(who) == 0 {
		return ""
	}
	return fmt.Sprintf("%s has no log, so it must first hear of all other members that they have never known it with "+
		"one; %s did not answer yet",
		name(own.Member), strings.Join(who, " and "))
}

// contentsDiffer compares this member's database with what others have, or began with.
func contentsDiffer(own *Facts, others []Heard, name Names) string {
	if own.Contents.CopyOf != 0 {
		return ""
	}
	for _, o := range others {
		if o.Facts == nil || o.Facts.Contents == nil || o.Facts.Contents.CopyOf != 0 ||
			copies(o.Facts.Contents, own.Contents, o.Facts.Incarnation > 0) {
			continue
		}
		if d := difference(own.Contents.Items, o.Facts.Contents.Items, name(own.Member), name(o.Member)); d != "" {
			if o.Facts.Incarnation > 0 {
				d += fmt.Sprintf(". %s began with this, and %s must as well: remove the directory postgres below the "+
					"data_dir of %[2]s, and start it again, with clone_from if %[1]s began with tables",
					name(o.Member), name(own.Member))
			} else {
				d += ". " + chooseOne
			}
			return "the databases are not equal: " + d
		}
	}
	return ""
}

// Difference says what is in one database and not, or not so, in another one; empty if nothing is. The names are those
// of the databases.
func (c *Contents) Difference(o *Contents, name, other string) string {
	return difference(c.Items, o.Items, name, other)
}

// difference names the first item that is not the same in two lists, and how many more there are; empty if there is
// none.
func difference(a, b []Item, nameA, nameB string) string {
	first, n := "", 0
	differs := func(item, atA, atB string) {
		if n++; n == 1 {
			first = fmt.Sprintf("%s is %s at %s and %s at %s", item, atA, nameA, atB, nameB)
		}
	}
	const nothing = "not there"
	for len(a) > 0 || len(b) > 0 {
		switch {
		case len(b) == 0 || len(a) > 0 && a[0].Name < b[0].Name:
			differs(a[0].Name, a[0].Value, nothing)
			a = a[1:]
		case len(a) == 0 || b[0].Name < a[0].Name:
			differs(b[0].Name, nothing, b[0].Value)
			b = b[1:]
		default:
			if a[0].Value != b[0].Value {
				differs(a[0].Name, a[0].Value, b[0].Value)
			}
			a, b = a[1:], b[1:]
		}
	}
	if n > 1 {
		first += fmt.Sprintf(" (and %d more differences)", n-1)
	}
	return first
}

// Beginning is with what a member begins that makes its log, for those that come later (B4).
func Beginning(own *Facts, others []Heard) *Contents {
	for _, o := range others {
		if o.Facts != nil && o.Facts.Incarnation > 0 && o.Facts.Contents != nil {
			return o.Facts.Contents
		}
	}
	return own.Contents
}
