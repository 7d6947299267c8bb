package bootstrap

import (
	"encoding/json"
	"fmt"
	"strings"
)

// incarnationsAhead is by how much the incarnation of another log is greater than any that others know: under a greater
// one than they know, its member was heard of at most by some who are away.
const incarnationsAhead = 1 << 16

// supersededBy is by how much the incarnation that is noted of a member grows which somebody readmits: whoever runs
// under its number with a log of before is refused from then on, however often it has been started meanwhile.
const supersededBy = 1 << 15

// Answer is what another member says to one that has lost its log, to one of its questions.
type Answer struct {
	Member uint32 `json:"member"`
	// Known is the greatest incarnation that it has noted of who asks.
	Known uint64 `json:"known"`
	// Copied is how many copies of others' databases it has noted of who asks.
	Copied uint64 `json:"copied"`
	// Levels are what it has noted of what members' builds understand of the log: some may be away for good.
	Levels map[uint32]uint32 `json:"levels,omitempty"`
	// Roster is who the members are by the order, as far as it knows, for who has lost that as well; its owner's form.
	Roster json.RawMessage `json:"roster,omitempty"`
	// Terms are, for each database that it has, the term in which it readmits who asks; zero: it does not, or not yet.
	Terms map[uint64]uint64 `json:"terms"`
}

// Append appends the answer's encoded form.
func (a *Answer) Append(dst []byte) []byte {
	b, err := json.Marshal(a)
	if err != nil {
		panic("bootstrap: " + err.Error()) // there is nothing in it that cannot be written
	}
	return append(dst, b...)
}

// DecodeAnswer reads what Append wrote.
func DecodeAnswer(b []byte) (*Answer, error) {
	a := &Answer{}
	if err := json.Unmarshal(b, a); err != nil {
		return nil, fmt.Errorf("bootstrap: an answer cannot be read: %w", err)
	}
	return a, nil
}

// Again is with what a member that has lost its log begins another one.
type Again struct {
	Terms       map[uint64]uint64 `json:"terms,omitempty"`       // of each database's log; it votes in no older one
	Incarnation uint64            `json:"incarnation,omitempty"` // the next one is its first
	Copied      uint64            `json:"copied,omitempty"`      // copies that it took before
	Levels      map[uint32]uint32 `json:"levels,omitempty"`      // Notes.Levels of the others
}

// Needed is how many others of so many members must answer one that has lost its log: so many that one of them was
// among any that decided on the main database's order, even if few voted by then (two of three, see package quorum).
// Other databases are known to who leads that one, and answers (engine.Readmit). Of two the other one is enough: it has
// begun a term by itself only if it votes alone.
func Needed(members int) int { return min(max(members/2+1, members-2), members-1) }

// BeginAgain says with what a member of so many that has lost its log may begin another, by the answers of others to
// one and the same question; or for what it has to ask again (B6). Answers of one member are one at most.
func BeginAgain(members int, answers []*Answer, name Names) (*Again, string) {
	if need := Needed(members); len(answers) < need {
		var who []string
		for _, a := range answers {
			who = append(who, name(a.Member))
		}
		return nil, fmt.Sprintf("%d of the %d other members must answer, and %d do (%s)", need, members-1, len(answers),
			strings.Join(who, ", "))
	}
	out := &Again{Terms: map[uint64]uint64{}}
	for _, a := range answers {
		out.Incarnation, out.Copied = max(out.Incarnation, a.Known+incarnationsAhead), max(out.Copied, a.Copied)
		for database, term := range a.Terms { // order-free: the greatest
			out.Terms[database] = max(out.Terms[database], term)
		}
		for m, level := range a.Levels { // order-free: the least, of what each has heard of it last
			if known, is := out.Levels[m]; !is || level < known {
				out.Levels = with(out.Levels, m, level)
			}
		}
	}
	var lacking int
	for _, term := range out.Terms { // order-free: counted
		if term == 0 {
			lacking++
		}
	}
	if lacking > 0 || len(out.Terms) == 0 {
		return nil, fmt.Sprintf("%d of %d databases have no leader yet that has begun a term for it", lacking,
			len(out.Terms))
	}
	return out, ""
}
