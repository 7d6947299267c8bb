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

// serialItem notes that a member runs SERIALIZABLE transactions from here on, or none any more.
func (r *replicated) serialItem(it *Item) {
	if len(it.Payload) == 1 && it.Payload[0] == 1 {
		r.serial[it.ID.Member] = span{open: true}
	} else {
		r.endSerial(it.ID.Member)
	}
}

// endSerial notes that no SERIALIZABLE transaction of a member is open any more.
func (r *replicated) endSerial(member uint32) {
	if r.serial[member].open {
		r.serial[member] = span{until: r.ordinal}
	}
}

// alone reports whether only one member has run SERIALIZABLE transactions that were open at an ordinal from since on.
func (r *replicated) alone(member uint32, since uint64) bool {
	for m, s := range r.serial { // order-free: all have to agree
		if m != member && (s.open || s.until > since) {
			return false
		}
	}
	return true
}

// Vouches reports whether a SERIALIZABLE transaction loses as it is, and whether it may win if its owner vouches for it
// (Submission.Vouched).
func (e *Engine) Vouches(s Submission) (loses, wins bool) {
	cert := e.log.cert
	t := certify.Transaction{ID: e.log.id(s.Seq), Base: s.Base, SharedBase: s.Base, Writeset: s.Writeset}
	if cert.Check(t).Commit() {
		return false, false
	}
	s.Vouched = true
	t.ReadBase = e.own.readBase(&own{Submission: s})
	return true, t.ReadBase > 0 && cert.Check(t).Commit()
}

// readBase is up to where whoever has unseen written to what a transaction has read may be left to the local database
// (E12): zero, or all that is applied. Then they were SERIALIZABLE themselves, and their own sessions have committed
// them here, in the order in which they were ordered as far as other such transactions could tell.
func (s *submissions) readBase(w *own) uint64 {
	applied := s.queue.applied
	if w.Kind != KindCertified || !w.Vouched || applied <= w.Base {
		return 0
	}
	if !s.log.alone(s.log.member, w.Base) || s.commits.lostSince(w.Base) {
		return 0
	}
	for seq, x := range s.owns { // order-free: there must be none
		if x.Serial && seq != w.Seq {
			return 0 // its session has given it up, or could not commit it: nothing else is under way
		}
	}
	ok := true
	t := certify.Transaction{ID: s.log.id(w.Seq), Base: w.Base, Writeset: w.Writeset}
	s.log.cert.EachUnseen(t, func(id writeset.TxID, ordinal uint64) bool {
		ok = s.log.mine(id.Member, id.Incarnation) && s.commits.orderly(id.Seq)
		return ok
	})
	if !ok {
		return 0
	}
	return applied
}
