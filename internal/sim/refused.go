package sim

import (
	"slices"

	"github.com/tuttidb/tutti/internal/writeset"
)

// refusal is a READ COMMITTED transaction, not blind, that the log refused, naming an own predecessor.
type refusal struct {
	home     uint32
	ws       *writeset.Writeset
	alone    *exclusion
	base, at uint64 // its base, and what its member knew of the order when it was refused
}

// judgeRefusals counts the refusals that the wait for own predecessors (engine E5) is there to
// spare. The log names one conflict of possibly several, and the engine hands in a transaction
// that cannot win with a base before all of them; the others are not counted.
func (w *world) judgeRefusals() {
	for _, r := range w.refusals {
		if !w.truth.mustRefuse(r) {
			w.stats.OwnAborts++
		}
	}
}

// mustRefuse reports whether something committed that the transaction may not have seen: of
// another member, or of a session that was gone by then, so that nobody knows who of the two
// had the lock first, or blind, which is applied as if it were another's.
func (t *truth) mustRefuse(r refusal) bool {
	for o := r.base + 1; o <= min(r.at, uint64(len(t.order)-1)); o++ {
		a := t.committed(o)
		if b := t.attempts[t.order[o]]; a == nil && b != nil && b.unseen != nil {
			a = b // it has missed its row, but not its place
		}
		if a == nil || t.order[o].Member == r.home && !a.orphan && a.unseen == nil {
			continue
		}
		ws := encode(a.changes, a.tag)
		if conflict(r.ws, ws) || a.alone.keepsOut(r.ws) || r.alone.keepsOut(ws) {
			return true
		}
	}
	return false
}

// keepsOut reports whether a transaction has a table for itself to which another one has written.
func (x *exclusion) keepsOut(ws *writeset.Writeset) bool {
	return x != nil && slices.ContainsFunc(ws.Tables, func(w writeset.Table) bool {
		return slices.ContainsFunc(x.tables, func(t table) bool { return tableKey(t) == w.Key })
	})
}

func conflict(x, y *writeset.Writeset) (found bool) {
	x.EachKey(func(k writeset.Key) bool {
		y.EachKey(func(l writeset.Key) bool {
			found = found || k.Hash == l.Hash && k.Mode.Conflicts(l.Mode)
			return !found
		})
		return !found
	})
	return found
}
