package plan

import "math/bits"

// Fact is something that holds of a statement, its session, or its block, and that a plan may need.
type Fact uint8

// Facts. Each is worded so that a plan needs it to hold.
const (
	None Fact = iota // no fact

	// Of the statement.

	Changes  // it is executions of INSERT, UPDATE or DELETE of one plain table each, and nothing else
	Reads    // it is one SELECT of columns of one table
	Single   // it is one execution
	Unnamed  // its Parse, if it comes with one, gives it no name
	AllRows  // the client asks for all rows
	Prepared // the backend has its forms prepared, or the node knows how they are run
	Ready    // the backend has its forms prepared, and the client's formats are known
	Proven   // its form has done what it is taken to do
	OwnRole  // its form was proven under the session's role and search_path
	Kept     // what it binds is still there

	// Of the session.

	Known    // the session knows its role and search_path
	Direct   // no form of the session's was found wrong
	UTF8     // the client's encoding
	Unlocked // it holds no advisory locks
	Current  // what it knows of forms is as of the catalog
	Settled  // nothing of its own goes ahead that is unread

	// Of the block.

	Alone         // there is none
	InBlock       // there is one that the client has begun
	ReadCommitted // its level
	Certified     // its level is not SERIALIZABLE
	MayWrite      // it is not READ ONLY
	Open          // the backend has a transaction that has done something
	Uncaptured    // in it everything else was direct
	FirstTry      // nothing was deferred in vain in it
	Unwritten     // it has run nothing that writes
	Undefined     // it has defined nothing
	Uncollected   // its collect step was not sent ahead
	LocksNothing  // it has asked for no locks
	NothingAdded  // no delta was deferred in it
	Deferred      // a write was deferred in it
	RoomToDefer   // more can be deferred
	RoomToAdd     // more deltas can be deferred
	Noted         // what it has done can be done again
	NotAgain      // it is not being done again
	Affordable    // it can be done again with this statement, at a bearable price, or nobody has seen anything
	Repeatable    // it can be done again with this statement

	// FactsMax is how many there are.
	FactsMax
)

// texts say what it means that a fact does not hold.
var texts = [FactsMax]string{
	None:          "",
	Changes:       "it is not a write to one plain table alone",
	Reads:         "it is not a SELECT of one table alone",
	Single:        "several statements come at once",
	Unnamed:       "it is parsed under a name at the same time",
	AllRows:       "the client asks for some rows at a time",
	Prepared:      "its form is not known yet",
	Ready:         "its form is not prepared",
	Proven:        "its form has not proved itself yet",
	OwnRole:       "its form has proved itself under another role or search_path",
	Kept:          "what it binds is gone",
	Known:         "the session's role and search_path may have changed",
	Direct:        "a form of the session's was wrong",
	UTF8:          "the client's encoding is not UTF8",
	Unlocked:      "the session holds advisory locks",
	Current:       "something has been defined since",
	Settled:       "the transaction is only just begun",
	Alone:         "it is in a block",
	InBlock:       "it is not in a block",
	ReadCommitted: "the level is not READ COMMITTED",
	Certified:     "the level is SERIALIZABLE",
	MayWrite:      "the transaction is READ ONLY",
	Open:          "the transaction has not begun",
	Uncaptured:    "the transaction has written otherwise",
	FirstTry:      "something was deferred in vain",
	Unwritten:     "the transaction has written already",
	Undefined:     "the transaction has defined something",
	Uncollected:   "the transaction was collected ahead",
	LocksNothing:  "the transaction has asked for locks",
	NothingAdded:  "a delta was deferred before",
	Deferred:      "nothing was deferred before",
	RoomToDefer:   "too much was deferred",
	RoomToAdd:     "too many deltas were deferred",
	Noted:         "the transaction cannot be done again",
	NotAgain:      "the transaction is being done again",
	Affordable:    "the client has read, and to do it again would cost too much",
	Repeatable:    "the transaction cannot be done again with it",
}

// String says what it means that the fact does not hold.
func (f Fact) String() string { return texts[f] }

// Facts is a set of facts.
type Facts uint64

// Of is the set of some facts.
func Of(facts ...Fact) (s Facts) {
	for _, f := range facts {
		s |= 1 << f
	}
	return s
}

// With is the set with a fact if that holds.
func (s Facts) With(f Fact, holds bool) Facts {
	if holds {
		s |= 1 << f
	}
	return s
}

// Has reports whether all facts of another set are in this one.
func (s Facts) Has(all Facts) bool { return s&all == all }

// first is the first fact of a set; None if it is empty.
func (s Facts) first() Fact {
	if s == 0 {
		return None
	}
	return Fact(bits.TrailingZeros64(uint64(s)))
}
