package engine

import (
	"github.com/tuttidb/tutti/internal/certify"
	"github.com/tuttidb/tutti/internal/writeset"
)

// span says up to when a member may have run SERIALIZABLE transactions: it still may, or not those that were open at an
// ordinal from until on.
type span struct {
	open  bool
	until uint64
}

// serialItem notes that a member runs SERIALIZABLE transactions from here on, or none any more. It takes an ordinal, and no
// place in a group.
func (e *Engine) serialItem(it *Item) {
	if w := e.owns[it.ID.Seq]; w != nil && e.mine(it.ID.Member, it.ID.Incarnation) {
		w.ordinal = e.ordinal
		e.finish(w)
		e.events = append(e.events, Lock{Ordinal: e.ordinal, Seq: it.ID.Seq})
	}
	if len(it.Payload) == 1 && it.Payload[0] == 1 {
		e.serial[it.ID.Member] = span{open: true}
	} else {
		e.endSerial(it.ID.Member)
	}
}

// endSerial notes that no SERIALIZABLE transaction of a member is open any more.
func (e *Engine) endSerial(member uint32) {
	if e.serial[member].open {
		e.serial[member] = span{until: e.ordinal}
	}
}

// alone reports whether only one member has run SERIALIZABLE transactions that were open at an ordinal from since on.
func (e *Engine) alone(member uint32, since uint64) bool {
	for m, s := range e.serial { // order-free: all have to agree
		if m != member && (s.open || s.until > since) {
			return false
		}
	}
	return true
}

// Vouches reports whether a SERIALIZABLE transaction loses as it is, and whether it may win if its owner vouches for it
// (Submission.Vouched).
func (e *Engine) Vouches(s Submission) (loses, wins bool) {
	t := certify.Transaction{ID: e.id(s.Seq), Base: s.Base, SharedBase: s.Base, Writeset: s.Writeset}
	if e.cert.Check(t).Commit() {
		return false, false
	}
	s.Vouched = true
	t.ReadBase = e.readBase(&own{Submission: s})
	return true, t.ReadBase > 0 && e.cert.Check(t).Commit()
}

// readBase is up to where whoever has unseen written to what a transaction has read may be left to the local database
// (decision 0034): zero, or all that is applied. Then they were SERIALIZABLE themselves, and their own sessions have committed
// them here, in the order in which they were ordered as far as other such transactions could tell.
func (e *Engine) readBase(w *own) uint64 {
	if w.Kind != KindCertified || !w.Vouched || e.applied <= w.Base || !e.alone(e.o.Member, w.Base) || e.commits.lostSince(w.Base) {
		return 0
	}
	for seq, x := range e.owns { // order-free: there must be none
		if x.Serial && seq != w.Seq {
			return 0 // its session has given it up, or could not commit it: nothing else is under way
		}
	}
	ok := true
	t := certify.Transaction{ID: e.id(w.Seq), Base: w.Base, Writeset: w.Writeset}
	e.cert.EachUnseen(t, func(id writeset.TxID, ordinal uint64) bool {
		ok = e.mine(id.Member, id.Incarnation) && e.commits.orderly(id.Seq)
		return ok
	})
	if !ok {
		return 0
	}
	return e.applied
}
