package engine

import (
	"slices"

	"github.com/tuttidb/tutti/internal/certify"
	"github.com/tuttidb/tutti/internal/writeset"
)

// Submission is an own transaction handed to the order.
type Submission struct {
	Kind Kind
	Seq  uint64 // unique within the incarnation; grows per slot
	Slot uint32
	// Others are sessions of its member beside its own, whose next transaction may come soon.
	Others int
	// Snapshot is true when the transaction reads from one snapshot, taken when Applied was
	// Base. Otherwise (READ COMMITTED) the engine takes the base itself when it proposes,
	// which is exact while the transaction holds its row locks (E8); Base then says what was
	// applied before its first statement and becomes the shared base.
	Snapshot bool
	Base     uint64
	// For READ COMMITTED: when its rows were collected the transaction certainly held its row
	// locks. Held is up to where others' transactions were applied then, at least, and Seen up to where all were that
	// are ordered, own ones too, if that is known. Order grows from an own transaction's collect step to that of
	// another which got a lock when it committed.
	Held, Order, Seen uint64
	Since             uint64 // see Item.Since
	// AddBases says of each row that it adds to, in their order, that everything up to it was visible when it was found
	// out what the row holds.
	AddBases []uint64
	// Serial: it ran SERIALIZABLE. Vouched: the local database has not refused it, and none of its other SERIALIZABLE
	// transactions does anything until it has committed (decision 0034).
	Serial, Vouched bool
	Writeset        *writeset.Writeset // KindCertified
	Payload         []byte             // the encoded writeset, notifications, channels or request
	Keys            *Keys              // of a large Writeset, which Decode has made of Payload then; or nil
	// of a payload that travels in parts: how many bytes may leave before Pace; 0: all
	Front int
}

// own is the state of one own submission.
type own struct {
	Submission
	ordinal uint64          // zero until delivered
	orphan  bool            // its session is gone: apply the rows like a remote item
	blind   bool            // its rows are applied like a remote item's, whatever its session does
	sent    int             // bytes of the payload that left in parts
	gone    bool            // all of it is in batches, or it is lost
	added   uint64          // see Added; zero until then
	stale   certify.Verdict // what checkAdded has said when its item was made

	proposed certify.Transaction // as it is in its batch; its Writeset is nil before that
}

// passes reports whether a submission may be ordered before a large one that was submitted before it. A definition
// stays behind: it might make the large one lose.
func (w *own) passes() bool {
	switch w.Kind {
	case KindCertified:
		return len(w.Writeset.Steps) == 0
	case KindNotify, KindListen, KindLock, KindShun:
		return true
	}
	return false
}

// lost is a base with which a submission loses that has lost by v.
func (w *own) lost(v certify.Verdict) uint64 {
	if v.Reason == certify.TooOld {
		return w.oldest()
	}
	return v.WinnerOrdinal - 1
}

// oldest is the least ordinal at which a row was known that a submission adds to.
func (w *own) oldest() uint64 {
	if len(w.AddBases) == 0 {
		return 0
	}
	return slices.Min(w.AddBases)
}
