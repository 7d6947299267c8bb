package engine

import (
	"math"
	"slices"

	"github.com/tuttidb/tutti/internal/certify"
	"github.com/tuttidb/tutti/internal/writeset"
)

// base is up to where a submission has seen the keys it wrote (E8).
func (e *Engine) base(w *own) uint64 {
	switch {
	case w.Snapshot, w.Kind == KindStatement, w.blind:
		return w.Base
	case planted == "base-is-delivered":
		return e.ordinal
	case w.Kind != KindCertified:
		return e.applied
	}
	return e.locksBase(w)
}

// lockBase is up to where a submission with one snapshot has seen those of its keys that PostgreSQL compares with the newest
// data (E8); zero if it has none, or has seen no more of them than its snapshot shows.
func (e *Engine) lockBase(w *own) uint64 {
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
		return e.ordinal
	}
	if b := e.locksBase(w); b > w.Base {
		return b
	}
	return 0
}

// locksBase is up to where a submission has seen the keys whose locks it holds.
func (e *Engine) locksBase(w *own) uint64 {
	held := max(w.Held, w.Base) // what was applied before its first statement it has seen
	t := certify.Transaction{ID: e.id(w.Seq), Base: w.Base, Writeset: w.Writeset}
	seen := func(winner writeset.TxID, ordinal uint64, added bool) bool {
		if added && winner == e.id(winner.Seq) && planted != "additions-locked" { // who adds has no lock when it is collected, and takes it at COMMIT
			return ordinal <= w.Base || e.commits.addedBefore(winner.Seq, w.Order)
		}
		if winner != e.id(winner.Seq) || e.commits.order[winner.Seq] == orderApplier || planted == "own-locks-trusted" {
			return ordinal <= held
		}
		return ordinal <= w.Base || e.commits.precedes(winner.Seq, ordinal, w.Order)
	}
	if w.Order < e.commits.forgotten {
		return w.Base // nobody knows any more who came after it
	}
	switch v := e.cert.CheckLocks(t, held, seen); v.Reason { // what it adds to it has not locked, see checkAdded
	case certify.None:
		return e.applied
	case certify.KeyConflict:
		return max(w.Base, min(held, v.WinnerOrdinal-1)) // the log says no
	case certify.Barrier:
		return w.Base // so, too
	}
	return held // the log says no
}

// checkAdded says whether the rows that a submission adds to may have changed in another way since they were known, see AddBases
// (E15), or are not known so well any more.
func (e *Engine) checkAdded(w *own, base uint64) certify.Verdict {
	switch {
	case w.Kind != KindCertified || !w.Writeset.Adds() || planted == "additions-trusted":
		return certify.Verdict{}
	case w.oldest()+certify.AddedMax < base:
		return certify.Verdict{Reason: certify.TooOld}
	}
	return e.cert.CheckAdded(certify.Transaction{ID: e.id(w.Seq), Writeset: w.Writeset}, w.AddBases)
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

func (e *Engine) id(seq uint64) writeset.TxID {
	return writeset.TxID{Member: e.o.Member, Incarnation: e.o.Incarnation, Seq: seq}
}

// commit is an own transaction that is in the database. If its session did not commit it, its
// rows came when nobody knows who had the locks: its order is then the largest there is. A definition
// came like what others have ordered.
type commit struct {
	seq, ordinal, order uint64
	added               uint64 // its order for rows to which it has added, if that is known
	serial              bool   // SERIALIZABLE, committed by its session, without definitions
	group               uint64 // which it was in; it is zero if it was committed ahead of its own
}

const (
	orderOrphan  = math.MaxUint64
	orderApplier = math.MaxUint64 - 1
)

// commits remembers the latest of them: which came before a lock, and which took it away.
type commits struct {
	order     map[uint64]uint64 // by sequence
	added     map[uint64]uint64 // by sequence, of those that have added to rows
	list      []commit          // by ordinal
	forgotten uint64            // the largest order that is not remembered
	orphaned  uint64            // the last ordinal of an orphan or a definition that is not remembered
}

const commitsMax = 1 << 16

// add remembers c, and forgets what is too old or what certification has forgotten, up to floor.
func (c *commits) add(x commit, floor uint64) {
	if c.order == nil {
		c.order, c.added = map[uint64]uint64{}, map[uint64]uint64{}
	}
	c.order[x.seq] = x.order
	if x.added > 0 {
		c.added[x.seq] = x.added
	}
	c.list = append(c.list, x)
	for i := len(c.list) - 1; i > 0 && c.list[i-1].ordinal > x.ordinal; i-- {
		c.list[i-1], c.list[i] = c.list[i], c.list[i-1]
	}
	n := 0
	for ; n < len(c.list) && (c.list[n].ordinal <= floor || len(c.list)-n > commitsMax); n++ {
		delete(c.order, c.list[n].seq)
		delete(c.added, c.list[n].seq)
		if c.list[n].order >= orderApplier {
			c.orphaned = c.list[n].ordinal
		} else {
			c.forgotten = max(c.forgotten, c.list[n].order, c.list[n].added)
		}
	}
	c.list = c.list[n:]
}

// lostSince reports whether a transaction after base may have come here without its session.
func (c *commits) lostSince(base uint64) bool {
	for i := len(c.list) - 1; i >= 0 && c.list[i].ordinal > base; i-- {
		if c.list[i].order == orderOrphan {
			return true
		}
	}
	return c.orphaned > base
}

// orderly reports whether a transaction was SERIALIZABLE, its session has committed it, and no such transaction that was ordered
// later can have been committed before.
func (c *commits) orderly(seq uint64) bool {
	for i := len(c.list) - 1; i >= 0; i-- {
		x := &c.list[i]
		if x.seq != seq {
			continue
		}
		for _, y := range c.list[i+1:] {
			if y.serial && (y.group == 0 || y.group == x.group) {
				return false
			}
		}
		return x.serial
	}
	return false
}

// precedes says whether an own transaction was committed before another one collected, whose order
// is larger than all that are forgotten.
func (c *commits) precedes(seq, ordinal, order uint64) bool {
	if o, ok := c.order[seq]; ok {
		return o < order
	}
	return ordinal > c.orphaned
}

// addedBefore says whether an own transaction had added to its rows before another one collected.
func (c *commits) addedBefore(seq, order uint64) bool {
	o, ok := c.added[seq]
	return ok && o < order
}
