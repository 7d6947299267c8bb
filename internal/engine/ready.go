package engine

import (
	"github.com/tuttidb/tutti/internal/certify"
	"github.com/tuttidb/tutti/internal/ordering"
	"github.com/tuttidb/tutti/internal/writeset"
)

// Task is one item of a group.
type Task struct {
	Ordinal  uint64
	Item     Item
	Writeset *writeset.Writeset // KindCertified, KindStatement
	// Local is true when the transaction is open at this member and its owner must commit
	// it; otherwise its rows must be applied, and if Mark, its marker row written with them.
	Local bool
	Mark  bool
	Own   bool // of this member
	// Voters are who voted on the order where the task stands, in ascending order; nil: as at its beginning.
	Voters []uint32

	before uint64 // volume of the order up to it
}

// alone reports whether the task makes a group of its own: all that is neither a set of rows nor
// notifications.
func (t *Task) alone() bool {
	return t.Item.Kind != KindNotify && (t.Item.Kind != KindCertified || len(t.Writeset.Steps) > 0)
}

// Group is a run of delivered, certified items, to be made visible together.
type Group struct {
	First, Last uint64 // ordinals, aborted ones included
	Tasks       []Task // only committed items the database does not hold, in order

	volume uint64 // of the order up to Last
}

// Aborted tells the origin that a submission lost; its session may be gone (Orphan).
type Aborted struct {
	Seq     uint64
	Verdict certify.Verdict
	Orphan  bool
	Blind   bool // it has lost to a blind transaction
	// Foretold: the log has yet to say so, and holds it, or will. It cannot be handed in again under its sequence.
	Foretold bool
}

// Ready is what the owner must carry out, in the order of the fields; see ordering.Ready.
type Ready struct {
	ordering.Ready
	Aborted []Aborted
	Locks   []Lock
	Fronts  []Front
	Group   *Group // nil, or the next group; answer with GroupDone
}

// Front is what has come of another member's writeset that travels in parts. Nothing is decided by it.
type Front struct {
	ID    writeset.TxID
	Bytes []byte // so far; they do not change
	Total int    // how many it will be; a hint
	State FrontState
}

// FrontState says how far a Front is.
type FrontState uint8

const (
	Coming FrontState = iota // more will follow
	// Whole: Bytes is all, and it is certified. A task of the group with it follows, unless the database holds it.
	Whole
	Dropped // it will not be committed
)
