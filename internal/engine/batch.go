package engine

import (
	"fmt"
	"slices"

	"github.com/tuttidb/tutti/internal/certify"
)

// draft is a batch that is being made.
type draft struct {
	batch
	bytes  int
	doomed int // submissions that have lost instead
	part   bool
}

// makeBatch puts what is pending and due into one proposal. What the delivered part of the log
// has doomed already is aborted here (SI-Rep's local validation): at a member that lags,
// such transactions would hold the very locks the applier needs until the log said no.
func (s *submissions) makeBatch() {
	d := draft{batch: batch{Member: s.o.Member, Incarnation: s.o.Incarnation, Number: s.window.number + 1}}
	s.eachDue(func(w *own, rest int) bool {
		large := rest > s.o.BatchBytesMax
		if n := len(d.Items); n > 0 && (n >= s.o.BatchItemsMax || !large && d.bytes+rest > s.o.BatchBytesMax) {
			return false
		}
		return s.draw(&d, w, rest, large)
	})
	s.pending = slices.DeleteFunc(s.pending, func(w *own) bool { return w.gone })
	s.company = 0
	if len(d.Items) > 0 {
		s.window.push(&d.batch, d.part)
	}
	if d.doomed > 0 {
		s.admit()
	}
}

// draw puts a submission, or the next part of a large one, into a batch, or ends it if it has lost. It reports whether
// more may follow.
func (s *submissions) draw(d *draft, w *own, rest int, large bool) bool {
	if w.sent > 0 && large {
		d.Items, d.part = append(d.Items, s.part(w)), true // to look at all keys for each part would be quadratic
		return true
	}
	it := s.item(w)
	if v := s.doom(w, &it); !v.Commit() {
		d.doomed++
		w.gone = true
		s.lose(w, v, false)
		return true
	}
	if large {
		d.Items, d.part = append(d.Items, s.part(w)), true
		return true
	}
	w.gone, w.proposed = true, it.transaction(w.Writeset)
	d.bytes += rest + 32
	d.Items = append(d.Items, it)
	if w == s.sending {
		s.sending = nil
		return false // another large one begins with the next batch
	}
	d.passes = d.passes || s.sending != nil
	return true
}

// doom says whether the log as delivered has decided against a submission. One that left in
// part already goes on: its end must follow.
func (s *submissions) doom(w *own, it *Item) certify.Verdict {
	if w.Kind != KindCertified || w.sent > 0 {
		return certify.Verdict{}
	}
	if !w.stale.Commit() {
		return w.stale
	}
	return s.log.cert.Check(it.transaction(w.Writeset))
}

// part takes the next part off a submission that is too large for one batch.
func (s *submissions) part(w *own) Item {
	s.sending = w
	total, n := uint64(len(w.Payload)), s.o.BatchBytesMax
	it := Item{
		Kind: KindPart, ID: s.log.id(w.Seq), Slot: w.Slot, Base: total, SharedBase: total,
		Payload: w.Payload[w.sent : w.sent+n],
	}
	w.sent += n
	return it
}

// item is what is still to be sent of a submission.
func (s *submissions) item(w *own) Item {
	it := Item{
		Kind: w.Kind, ID: s.log.id(w.Seq), Slot: w.Slot, Base: s.base(w), SharedBase: w.Base, Since: w.Since,
		ReadBase: s.readBase(w), Payload: w.Payload[w.sent:],
	}
	if w.stale = s.checkAdded(w, it.Base); !w.stale.Commit() { // the log says no
		it.Base = w.lost(w.stale)
		it.SharedBase = min(it.Base, it.SharedBase)
	}
	// Of what is left to PostgreSQL (ReadBase) it does not tell that it came after whose row it has taken the place of.
	if it.ReadBase == 0 {
		it.LockBase = s.lockBase(w)
	}
	if it.SharedBase > it.Base {
		panic(fmt.Sprintf("engine: transaction %s has base %d beyond the applied ordinal %d", it.ID, it.SharedBase,
			it.Base))
	}
	return it
}
