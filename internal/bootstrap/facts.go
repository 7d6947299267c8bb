package bootstrap

import (
	"encoding/json"
	"fmt"
	"slices"
)

// Levels of what a build understands of the log: each has all before it. What is new may be put into the log only once
// all members understand it.
const (
	Configurations = 1 // changes of who votes
	FirstVoters    = 2 // those begin a new database's order who vote where it is created
	NewestNames    = 3 // names of definitions are compared with the newest data (writeset.Writeset)
	Membership     = 4 // members are added and removed by the order
	Roles          = 5 // members have roles, ranks and sites
	Relays         = 6 // entries for several members of a site are passed on by one of them
	RowTurns       = 7 // blocks of several members take turns at rows
	// Level is that of this build.
	Level = RowTurns
)

// Facts are what a member says of itself to another one.
type Facts struct {
	Member uint32 `json:"member"`
	// Incarnation is the one under which it works; zero if it has no log.
	Incarnation uint64 `json:"incarnation"`
	// Life is a random number of that incarnation: one that an older copy of its log begins has another. Zero: of a
	// release that has none.
	Life uint64 `json:"life,omitempty"`
	// Level is what its build understands of the log (Configurations, …); zero: what the first releases did.
	Level uint32 `json:"level,omitempty"`
	// Witness: it has no database.
	Witness bool `json:"witness,omitempty"`
	// Copied is how many copies of others' databases it has taken.
	Copied uint64 `json:"copied,omitempty"`
	// Known are the greatest incarnations of the other members that it has noted.
	Known map[uint32]uint64 `json:"known,omitempty"`
	// Lives are those of these incarnations.
	Lives map[uint32]uint64 `json:"lives,omitempty"`
	// Later are the members that the order has added, as far as it knows, and Roster is who they all are, for who has
	// no log and so hears of no change; its owner's form.
	Later  []uint32        `json:"later,omitempty"`
	Listed []uint32        `json:"-"` // those of them that are witnesses; of one's own alone
	Roster json.RawMessage `json:"roster,omitempty"`
	// Record is what holds for the cluster, as far as it knows; nil: it has heard of none that has begun, or it is of a
	// release before Roles. First is with what it would begin a cluster.
	Record *Record `json:"record,omitempty"`
	First  *Record `json:"first,omitempty"`
	// Settings are those that must be equal at all members.
	Settings []Setting `json:"settings"`
	// Contents are its database's, if it has no log; else what it began with, as long as it has not noted all other
	// members.
	Contents *Contents `json:"contents,omitempty"`
}

// Setting is one that must be equal at all members.
type Setting struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Contents say what is in a database, as far as it is replicated.
type Contents struct {
	Items []Item `json:"items"`
	// CopyOf is the member whose database it is a copy of. It says itself how much of the cluster's order it holds.
	// Zero: it belongs to no order yet.
	CopyOf uint32 `json:"copy_of,omitempty"`
	// Databases are the server's, beside the configured one. What is in them is among the items.
	Databases []string `json:"databases,omitempty"`
	// Adopted: an operator has said that the cluster begins with this, or it is a copy of what he has said it of.
	Adopted bool `json:"adopted,omitempty"`
}

// asMade are the items of a server in which there is nothing yet.
var asMade = []string{"extension plpgsql", "role postgres", "schema public", "the locale of the database"}

// Empty reports whether nobody has put anything in there, and nobody has said that the cluster begins with it.
func (c *Contents) Empty() bool {
	if c.CopyOf != 0 || c.Adopted || len(c.Databases) > 0 {
		return false
	}
	for _, i := range c.Items {
		if !slices.Contains(asMade, i.Name) {
			return false
		}
	}
	return true
}

// Item is a part of a database: a table's rows, a definition. Names are unique and ascending.
type Item struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Append appends the facts' encoded form.
func (f *Facts) Append(dst []byte) []byte {
	b, err := json.Marshal(f)
	if err != nil {
		panic("bootstrap: " + err.Error()) // there is nothing in it that cannot be written
	}
	return append(dst, b...)
}

// Decode reads what Append wrote. What a later release adds is ignored.
func Decode(b []byte) (*Facts, error) {
	f := &Facts{}
	if err := json.Unmarshal(b, f); err != nil {
		return nil, fmt.Errorf("bootstrap: a member's facts cannot be read: %w", err)
	}
	if f.Member == 0 {
		return nil, fmt.Errorf("bootstrap: a member's facts do not say whose they are")
	}
	return f, nil
}
