package engine

import (
	"github.com/tuttidb/tutti/internal/certify"
	"github.com/tuttidb/tutti/internal/writeset"
)

// base is up to where a submission has seen the keys it wrote (E8).
func (s *submissions) base(w *own) uint64 {
	switch {
	case w.Snapshot, w.Kind == KindStatement, w.blind:
		return w.Base
	case planted == "base-is-delivered":
		return s.log.ordinal
	case w.Kind != KindCertified:
		return s.queue.applied
	}
	return s.locksBase(w)
}

// lockBase is up to where a submission with one snapshot has seen those of its keys that PostgreSQL compares with the
// newest data (E8); zero if it has none, or has seen no more of them than its snapshot shows.
func (s *submissions) lockBase(w *own) uint64 {
	if !w.Snapshot || w.Kind != KindCertified {
		return 0
	}
	some := false
	w.Writeset.EachKey(func(k writeset.Key) bool {
		some = w.Writeset.Newest(k)
		return !some
	})
	if !some {
		return 0
	}
	if planted == "lock-base-is-delivered" {
		return s.log.ordinal
	}
	if b := s.locksBase(w); b > w.Base {
		return b
	}
	return 0
}

// locksBase is up to where a submission has seen the keys whose locks it holds.
func (s *submissions) locksBase(w *own) uint64 {
	all := max(w.Base, w.Seen) // what was applied before its first statement it has seen
	held := max(w.Held, all)
	t := certify.Transaction{ID: s.log.id(w.Seq), Base: w.Base, Writeset: w.Writeset}
	seen := func(winner writeset.TxID, ordinal uint64, added bool) bool {
		// Who adds has no lock when it is collected, and takes it at COMMIT.
		if added && winner == s.log.id(winner.Seq) && planted != "additions-locked" {
			return ordinal <= all || s.commits.addedBefore(winner.Seq, w.Order)
		}
		if winner != s.log.id(winner.Seq) || s.commits.order[winner.Seq] == orderApplier ||
			planted == "own-locks-trusted" {
			return ordinal <= held
		}
		return ordinal <= all || s.commits.precedes(winner.Seq, ordinal, w.Order)
	}
	if !w.Snapshot && len(w.Writeset.Steps) > 0 {
		if v := s.log.cert.CheckNames(t); !v.Commit() {
			return max(w.Base, min(held, v.WinnerOrdinal-1)) // the log says no
		}
	}
	if w.Order < s.commits.forgotten {
		return w.Base // nobody knows any more who came after it
	}
	switch v := s.log.cert.CheckLocks(t, held, seen); v.Reason { // what it adds to it has not locked, see checkAdded
	case certify.None:
		return s.queue.applied
	case certify.KeyConflict:
		return max(w.Base, min(held, v.WinnerOrdinal-1)) // the log says no
	case certify.Barrier:
		return w.Base // so, too
	}
	return held // the log says no
}

// checkAdded says whether the rows that a submission adds to may have changed in another way since they were known,
// see AddBases (E15), or are not known so well any more.
func (s *submissions) checkAdded(w *own, base uint64) certify.Verdict {
	switch {
	case w.Kind != KindCertified || !w.Writeset.Adds() || planted == "additions-trusted":
		return certify.Verdict{}
	case w.oldest()+certify.AddedMax < base:
		return certify.Verdict{Reason: certify.TooOld}
	}
	return s.log.cert.CheckAdded(certify.Transaction{ID: s.log.id(w.Seq), Writeset: w.Writeset}, w.AddBases)
}
