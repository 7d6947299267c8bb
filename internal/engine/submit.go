package engine

import (
	"fmt"
	"slices"

	"github.com/tuttidb/tutti/internal/certify"
	"github.com/tuttidb/tutti/internal/writeset"
)

// lockCount says how many own transactions under way hold a key, per mode.
type lockCount struct{ exclusive, update, shared, share, added int }

func (c lockCount) conflicts(m writeset.Mode) bool {
	if m == writeset.Read { // certification decides; it holds no lock, unless it is of LOCK TABLE
		return false
	}
	changes := m == writeset.Update || m == writeset.Exclusive || m == writeset.Add
	if c.added > 0 && m >= writeset.Update && m != writeset.Add {
		return true
	}
	return c.exclusive > 0 || m >= writeset.Update && c.update > 0 || changes && c.share > 0 || m == writeset.Exclusive && c.shared > 0
}

// join adds what others hold.
func (c *lockCount) join(o lockCount) {
	c.exclusive += o.exclusive
	c.update += o.update
	c.shared += o.shared
	c.share += o.share
	c.added += o.added
}

func (c *lockCount) add(m writeset.Mode, n int) {
	switch m {
	case writeset.Exclusive:
		c.exclusive += n
	case writeset.Update:
		c.update += n
	case writeset.Shared:
		c.shared += n
	case writeset.Share:
		c.share += n
	case writeset.Add:
		c.added += n
	}
}

// Submit hands an own transaction to the order. False means that too many are under way
// (PendingMax) and nothing happened.
func (e *Engine) Submit(s Submission) bool {
	if e.Pending() >= e.o.PendingMax {
		return false
	}
	if e.owns[s.Seq] != nil {
		panic(fmt.Sprintf("engine: sequence %d submitted twice", s.Seq))
	}
	w := &own{Submission: s, blind: s.Kind == KindCertified && s.Writeset.Blind()}
	e.owns[s.Seq] = w
	e.waiting = append(e.waiting, w)
	e.admit()
	return true
}

// Withdraw takes back a submission that was not proposed yet, because it waits for an own
// predecessor or for a place in a batch; nothing of it will ever be ordered. False if it is
// too late (or unknown): then the log decides.
func (e *Engine) Withdraw(seq uint64) bool {
	if w := remove(&e.waiting, seq); w != nil {
		delete(e.owns, seq)
		return true
	}
	if e.sending != nil && e.sending.Seq == seq && planted != "parts-dangle" {
		e.breakOff(e.sending)
		return true
	}
	if planted == "withdrawn-in-flight" && e.Undecided(seq) && len(e.inflight) > 0 {
		return true
	}
	if w := remove(&e.pending, seq); w != nil {
		if w == e.sending {
			e.sending = nil // planted
		}
		e.finish(w)
		e.admit()
		return true
	}
	return false
}

// breakOff ends a payload whose front has left with an item that changes nothing.
func (e *Engine) breakOff(w *own) {
	e.lock(w, -1)
	w.Kind, w.Writeset, w.Payload, w.orphan = KindFence, nil, w.Payload[:w.sent], true
	e.admit()
}

// Undecided reports whether a submission is on its way and the delivered part of the log does
// not hold it: what becomes of it is open. Withdraw before it was tried, Orphan after.
func (e *Engine) Undecided(seq uint64) bool {
	w := e.owns[seq]
	return w != nil && w.ordinal == 0
}

// remove takes the submission with a sequence out of a list; nil if it is not there.
func remove(list *[]*own, seq uint64) *own {
	for i, w := range *list {
		if w.Seq == seq {
			*list = append((*list)[:i], (*list)[i+1:]...)
			return w
		}
	}
	return nil
}

// Orphan says that the session of an own submission is gone and will neither commit nor
// roll back. If it was not proposed yet it is forgotten: its row locks are gone, so a base
// taken from now on would claim to have seen what it has not. Otherwise the log decides, and
// its rows will come as a task with Local false, unless its group is already running.
func (e *Engine) Orphan(seq uint64) {
	w := e.owns[seq]
	if w == nil || e.Withdraw(seq) {
		return
	}
	w.orphan = true
	for i := range e.queue {
		if e.queue[i].Ordinal == w.ordinal && !w.blind {
			e.queue[i].Local, e.queue[i].Mark = false, true
		}
	}
}

// admit moves transactions from waiting to pending that conflict with no own transaction
// under way (E5). A waiting transaction holds back later ones only through its own keys
// once it is admitted; order among the waiting is kept where they conflict, because a
// conflicting successor got its locks after the predecessor released them.
func (e *Engine) admit() {
	left := e.waiting[:0]
	for _, w := range e.waiting {
		if e.clear(w) {
			e.lock(w, 1)
			e.pending = append(e.pending, w)
		} else {
			left = append(left, w)
		}
	}
	clear(e.waiting[len(left):])
	e.waiting = left
	e.propose()
}

func (e *Engine) clear(w *own) bool {
	ok := true
	if w.Kind == KindCertified && !w.blind && planted != "own-wait-removed" {
		w.Writeset.EachKey(func(k writeset.Key) bool {
			c := e.locked[k.Hash]
			for _, l := range e.large {
				c.join(l.Keys.held(k.Hash))
			}
			ok = !c.conflicts(k.Mode)
			if k.Mode == writeset.Read && !w.Snapshot { // of LOCK TABLE
				ok = c.exclusive+c.update+c.shared+c.added == 0
			}
			return ok
		})
	}
	return ok
}

func (e *Engine) lock(w *own, n int) {
	if w.Kind != KindCertified || w.blind {
		return
	}
	if w.Keys != nil {
		if e.large = slices.DeleteFunc(e.large, func(l *own) bool { return l == w }); n > 0 {
			e.large = append(e.large, w)
		}
		return
	}
	w.Writeset.EachKey(func(k writeset.Key) bool {
		c := e.locked[k.Hash]
		c.add(k.Mode, n)
		if c == (lockCount{}) {
			delete(e.locked, k.Hash)
		} else {
			e.locked[k.Hash] = c
		}
		return true
	})
}

// finish forgets an own submission that is resolved: lost, or in the database.
func (e *Engine) finish(w *own) {
	e.lock(w, -1)
	delete(e.owns, w.Seq)
}

func (e *Engine) abort(w *own, v certify.Verdict) {
	e.finish(w)
	e.aborted = append(e.aborted, Aborted{Seq: w.Seq, Verdict: v, Orphan: w.orphan, Blind: e.toBlind(v)})
	e.admit()
}

// propose makes batches of what is pending and due (mayBatch), and offers every batch under way that nobody took, in order.
// Without a leader nothing is made, so that it can be withdrawn.
func (e *Engine) propose() {
	for e.mayBatch() {
		e.makeBatch()
	}
	for _, p := range e.inflight {
		if !p.sent {
			if e.view.Leader == 0 || !e.order.Propose(p.data) {
				return
			}
			p.sent = true
		}
	}
}

// window reports whether another batch may be under way, and something may be in it.
func (e *Engine) window() bool {
	n := len(e.inflight)
	if len(e.pending) == 0 || e.view.Leader == 0 || n >= e.o.BatchesInflightMax || n > 0 && !e.inflight[n-1].sent {
		return false
	}
	due := false
	e.eachDue(func(*own, int) bool { due = true; return false })
	return due
}

// mayBatch reports whether a batch should be made now: of whatever is due if none is under way, else a whole one. Where
// processors are scarce and several sessions write, one is made as soon as it holds enough, and not before.
func (e *Engine) mayBatch() bool {
	if !e.window() {
		return false
	}
	gathers := e.ownEnough > 1
	if len(e.inflight) == 0 && !gathers {
		return true
	}
	items, bytes := 0, 0
	e.eachDue(func(w *own, rest int) bool {
		items++
		bytes += rest
		gathers = gathers && w.Kind == KindCertified
		return items < e.o.BatchItemsMax && bytes <= e.o.BatchBytesMax
	})
	switch {
	case items >= e.o.BatchItemsMax || bytes > e.o.BatchBytesMax:
		return true
	case gathers:
		return items >= e.ownEnough
	}
	return len(e.inflight) == 0
}

// eachDue calls f, until it says false, with what may be in the next batch, and how many bytes of it are still to be
// sent. While a large payload is on its way, or waits for its turn, what follows it passes if it may (E13).
func (e *Engine) eachDue(f func(w *own, rest int) bool) {
	large := e.sending
	for _, w := range e.pending {
		rest := len(w.Payload) - w.sent
		if large == nil && rest > e.o.BatchBytesMax {
			large = w
		}
		switch {
		case w == large && !e.partDue(w, rest):
			continue
		case large != nil && w != large && (rest > e.o.BatchBytesMax || !w.passes()):
			continue
		}
		if !f(w, rest) {
			return
		}
	}
}

// partDue reports whether the next part of a large payload, or its end, may leave. Some batches are left to others.
func (e *Engine) partDue(w *own, rest int) bool {
	if n := w.sent + min(rest, e.o.BatchBytesMax); w.Front > 0 && n > w.Front && w.Kind == KindCertified {
		return false
	}
	parts := 0
	for _, p := range e.inflight {
		if p.part {
			parts++
		}
	}
	return parts < max(1, e.o.BatchesInflightMax/2)
}

// passes reports whether a submission may be ordered before a large one that was submitted before it. A definition stays
// behind: it might make the large one lose.
func (w *own) passes() bool {
	switch w.Kind {
	case KindCertified:
		return len(w.Writeset.Steps) == 0
	case KindNotify, KindListen, KindLock, KindShun:
		return true
	}
	return false
}

// makeBatch puts what is pending and due into one proposal. What the delivered part of the log
// has doomed already is aborted here (SI-Rep's local validation): at a member that lags,
// such transactions would hold the very locks the applier needs until the log said no.
func (e *Engine) makeBatch() {
	b := batch{Member: e.o.Member, Incarnation: e.o.Incarnation, Number: e.number + 1}
	bytes, doomed, part := 0, 0, false
	e.eachDue(func(w *own, rest int) bool {
		large := rest > e.o.BatchBytesMax
		if n := len(b.Items); n > 0 && (n >= e.o.BatchItemsMax || !large && bytes+rest > e.o.BatchBytesMax) {
			return false
		}
		if w.sent > 0 && large {
			b.Items, part = append(b.Items, e.part(w)), true // to look at all keys for each part would be quadratic
			return true
		}
		it := e.item(w)
		if v := e.doom(w, &it); !v.Commit() {
			doomed++
			w.gone = true
			e.finish(w)
			e.aborted = append(e.aborted, Aborted{Seq: w.Seq, Verdict: v, Blind: e.toBlind(v)})
			return true
		}
		if large {
			b.Items, part = append(b.Items, e.part(w)), true
			return true
		}
		w.gone, w.proposed = true, certified(w, &it)
		bytes += rest + 32
		b.Items = append(b.Items, it)
		if w == e.sending {
			e.sending = nil
			return false // another large one begins with the next batch
		}
		b.passes = b.passes || e.sending != nil
		return true
	})
	e.pending = slices.DeleteFunc(e.pending, func(w *own) bool { return w.gone })
	if len(b.Items) > 0 {
		e.number++
		e.inflight = append(e.inflight, &proposal{number: b.Number, data: b.append(nil), part: part})
	}
	if doomed > 0 {
		e.admit()
	}
}

// doom says whether the log as delivered has decided against a submission. One that left in
// part already goes on: its end must follow.
func (e *Engine) doom(w *own, it *Item) certify.Verdict {
	if w.Kind != KindCertified || w.sent > 0 {
		return certify.Verdict{}
	}
	if !w.stale.Commit() {
		return w.stale
	}
	return e.cert.Check(certified(w, it))
}

// certified is what certification will be asked about an own submission.
func certified(w *own, it *Item) certify.Transaction {
	return certify.Transaction{ID: it.ID, Base: it.Base, SharedBase: it.SharedBase, ReadBase: it.ReadBase, LockBase: it.LockBase, Writeset: w.Writeset}
}

// Foretell ends an own transaction that is under way, and has no verdict yet, if it has lost already to what is delivered: what comes
// before it in the order only grows (E14). It reports whether it did; Aborted follows. The order will come to the same, and nobody waits
// for that any more.
func (e *Engine) Foretell(seq uint64) bool {
	w := e.owns[seq]
	if w == nil || w.Kind != KindCertified || w.ordinal != 0 || w.proposed.Writeset == nil {
		return false
	}
	v := e.cert.Check(w.proposed)
	if planted == "foretold-for-nothing" {
		v = certify.Verdict{Reason: certify.TooOld}
	}
	if v.Commit() {
		return false
	}
	e.abort(w, v)
	return true
}

// Loses gives the verdict on a transaction that is not submitted, if the log as delivered has decided against it.
func (e *Engine) Loses(s Submission) certify.Verdict {
	w := &own{Submission: s}
	it := e.item(w)
	return e.doom(w, &it)
}

// part takes the next part off a submission that is too large for one batch.
func (e *Engine) part(w *own) Item {
	e.sending = w
	total := uint64(len(w.Payload))
	it := Item{Kind: KindPart, ID: e.id(w.Seq), Slot: w.Slot, Base: total, SharedBase: total, Payload: w.Payload[w.sent : w.sent+e.o.BatchBytesMax]}
	w.sent += e.o.BatchBytesMax
	return it
}

// item is what is still to be sent of a submission.
func (e *Engine) item(w *own) Item {
	it := Item{Kind: w.Kind, ID: e.id(w.Seq), Slot: w.Slot,
		Base: e.base(w), SharedBase: w.Base, Since: w.Since, ReadBase: e.readBase(w), Payload: w.Payload[w.sent:]}
	if w.stale = e.checkAdded(w, it.Base); !w.stale.Commit() { // the log says no
		it.Base = w.lost(w.stale)
		it.SharedBase = min(it.Base, it.SharedBase)
	}
	if it.ReadBase == 0 { // PostgreSQL, which it is left to, does not tell that it came after whose row it has taken the place of
		it.LockBase = e.lockBase(w)
	}
	if it.SharedBase > it.Base {
		panic(fmt.Sprintf("engine: transaction %s has base %d beyond the applied ordinal %d", it.ID, it.SharedBase, it.Base))
	}
	return it
}
