package engine

import (
	"fmt"

	"github.com/tuttidb/tutti/internal/certify"
	"github.com/tuttidb/tutti/internal/ordering"
)

// submissions are this member's own transactions on their way into the order, and until they are in the database:
// waiting for own ones they conflict with, pending, in a batch under way, or delivered. Nothing of it is replicated.
type submissions struct {
	o     *Options
	log   *replicated
	queue *schedule
	order *ordering.Order

	owns    map[uint64]*own // by sequence
	waiting []*own          // in submission order
	pending []*own          // clear to be proposed
	sending *own            // whose front has left in parts, and whose end has not; it is pending
	keys    ownKeys
	window  window
	view    ordering.View
	enough  int // for how many own submissions a batch waits
	company int // how many there are once those have come that were on their way with the first; zero: nobody knows
	commits commits
	aborted []Aborted
}

func newSubmissions(o *Options) submissions {
	return submissions{
		o: o, owns: map[uint64]*own{}, keys: ownKeys{counts: map[uint64]lockCount{}},
		window: window{usual: o.ResubmitTicks},
	}
}

// of is the own submission that an item is of, if it is of this life.
func (s *submissions) of(it *Item) *own {
	if !s.log.mine(it.ID.Member, it.ID.Incarnation) {
		return nil
	}
	return s.owns[it.ID.Seq]
}

// full reports whether there are as many submissions that are in no proposal as there may be.
func (s *submissions) full() bool { return len(s.waiting)+len(s.pending) >= s.o.PendingMax }

// submit begins a submission.
func (s *submissions) submit(x Submission) {
	if s.owns[x.Seq] != nil {
		panic(fmt.Sprintf("engine: sequence %d submitted twice", x.Seq))
	}
	if s.company == 0 {
		s.company = 1 + x.Others
	}
	w := &own{Submission: x, blind: x.Kind == KindCertified && x.Writeset.Blind()}
	s.owns[x.Seq] = w
	s.waiting = append(s.waiting, w)
	s.admit()
}

// withdraw is Engine.Withdraw.
func (s *submissions) withdraw(seq uint64) bool {
	if w := remove(&s.waiting, seq); w != nil {
		delete(s.owns, seq)
		return true
	}
	if s.sending != nil && s.sending.Seq == seq && planted != "parts-dangle" {
		s.breakOff(s.sending)
		return true
	}
	if planted == "withdrawn-in-flight" && s.undecided(seq) && len(s.window.inflight) > 0 {
		return true
	}
	if w := remove(&s.pending, seq); w != nil {
		if w == s.sending {
			s.sending = nil // planted
		}
		s.forget(w)
		s.admit()
		return true
	}
	return false
}

// breakOff ends a payload whose front has left with an item that changes nothing.
func (s *submissions) breakOff(w *own) {
	s.keys.add(w, -1)
	w.Kind, w.Writeset, w.Payload, w.orphan = KindFence, nil, w.Payload[:w.sent], true
	s.admit()
}

// undecided reports whether the delivered part of the log does not hold a submission that is on its way.
func (s *submissions) undecided(seq uint64) bool {
	w := s.owns[seq]
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

// orphan is Engine.Orphan.
func (s *submissions) orphan(seq uint64) {
	w := s.owns[seq]
	if w == nil || s.withdraw(seq) {
		return
	}
	if w.orphan = true; w.ordinal > 0 && !w.blind {
		s.queue.orphan(w.ordinal)
	}
}

// admit moves transactions from waiting to pending that conflict with no own transaction
// under way (E5). A waiting transaction holds back later ones only through its own keys
// once it is admitted; order among the waiting is kept where they conflict, because a
// conflicting successor got its locks after the predecessor released them.
func (s *submissions) admit() {
	left := s.waiting[:0]
	for _, w := range s.waiting {
		if s.keys.clear(w) {
			s.keys.add(w, 1)
			s.pending = append(s.pending, w)
		} else {
			left = append(left, w)
		}
	}
	clear(s.waiting[len(left):])
	s.waiting = left
	s.propose()
}

// forget ends a submission that is resolved: lost, or in the database.
func (s *submissions) forget(w *own) {
	s.keys.add(w, -1)
	delete(s.owns, w.Seq)
}

// noted ends a submission that has its place in the order, and with that its effect.
func (s *submissions) noted(w *own, ordinal uint64) {
	w.ordinal = ordinal
	s.forget(w)
}

// lose ends a submission by a verdict.
func (s *submissions) lose(w *own, v certify.Verdict, orphan bool) {
	s.forget(w)
	s.aborted = append(s.aborted, Aborted{Seq: w.Seq, Verdict: v, Orphan: orphan, Blind: s.log.toBlind(v)})
}

// abort is lose of one whose verdict somebody may wait for.
func (s *submissions) abort(w *own, v certify.Verdict) {
	s.lose(w, v, w.orphan)
	s.admit()
}

// settle forgets the own submission behind a task that is in the database, in which group it came; zero if ahead of
// its own.
func (s *submissions) settle(t *Task, group uint64) {
	w := s.of(&t.Item)
	if w == nil {
		return
	}
	c := commit{seq: w.Seq, ordinal: t.Ordinal, order: w.Order, added: w.added, group: group, serial: w.Serial &&
		!w.orphan && w.Kind == KindCertified && len(w.Writeset.Steps) == 0}
	switch {
	case w.blind && planted != "own-blind-trusted", w.Kind == KindStatement && planted != "own-definitions-trusted":
		c.order = orderApplier
	case w.orphan:
		c.order, c.added = orderOrphan, 0
	}
	if w.Kind == KindCertified || c.order == orderApplier {
		s.commits.add(c, s.log.cert.Floor())
	}
	s.forget(w)
}

// foretell ends an own transaction that is under way, and has no verdict yet, if it has lost already to what is
// delivered: what comes before it in the order only grows (E14). It reports whether it did; Aborted follows. The
// order will come to the same, and nobody waits for that any more.
func (s *submissions) foretell(seq uint64) bool {
	w := s.owns[seq]
	if w == nil || w.Kind != KindCertified || w.ordinal != 0 || w.proposed.Writeset == nil {
		return false
	}
	v := s.log.cert.Check(w.proposed)
	if planted == "foretold-for-nothing" {
		v = certify.Verdict{Reason: certify.TooOld}
	}
	if v.Commit() {
		return false
	}
	s.lose(w, v, w.orphan)
	s.aborted[len(s.aborted)-1].Foretold = true
	s.admit()
	return true
}

// loses is Engine.Loses.
func (s *submissions) loses(x Submission) certify.Verdict {
	w := &own{Submission: x}
	it := s.item(w)
	return s.doom(w, &it)
}

// led takes who leads now. What is under way is proposed again at a new leader.
func (s *submissions) led(v ordering.View) {
	if v != s.view {
		s.view = v
		s.window.repeat()
	}
}

// propose makes batches of what is pending and due (mayBatch), and offers every batch under way that nobody took, in
// order. Without a leader nothing is made, so that it can be withdrawn.
func (s *submissions) propose() {
	for s.mayBatch() {
		s.makeBatch()
	}
	if s.view.Leader != 0 {
		s.window.send(s.order.Propose)
	}
}

// waits reports whether another batch may be under way, and something may be in it.
func (s *submissions) waits() bool {
	if len(s.pending) == 0 || s.view.Leader == 0 || !s.window.open(s.o.BatchesInflightMax) {
		return false
	}
	due := false
	s.eachDue(func(*own, int) bool { due = true; return false })
	return due
}

// mayBatch reports whether a batch should be made now: of whatever is due if none is under way, else a whole one. Where
// processors are scarce and several sessions write, one is made as soon as it holds enough, and not before.
func (s *submissions) mayBatch() bool {
	if !s.waits() {
		return false
	}
	gathers := s.enough > 1
	if len(s.window.inflight) == 0 && !gathers {
		return true
	}
	items, bytes := 0, 0
	s.eachDue(func(w *own, rest int) bool {
		items++
		bytes += rest
		gathers = gathers && w.Kind == KindCertified
		return items < s.o.BatchItemsMax && bytes <= s.o.BatchBytesMax
	})
	switch {
	case items >= s.o.BatchItemsMax || bytes > s.o.BatchBytesMax:
		return true
	case gathers:
		return items >= s.enough || s.company > 0 && items >= s.company
	}
	return len(s.window.inflight) == 0
}

// eachDue calls f, until it says false, with what may be in the next batch, and how many bytes of it are still to be
// sent. While a large payload is on its way, or waits for its turn, what follows it passes if it may (E13).
func (s *submissions) eachDue(f func(w *own, rest int) bool) {
	large := s.sending
	for _, w := range s.pending {
		rest := len(w.Payload) - w.sent
		if large == nil && rest > s.o.BatchBytesMax {
			large = w
		}
		switch {
		case w == large && !s.partDue(w, rest):
			continue
		case large != nil && w != large && (rest > s.o.BatchBytesMax || !w.passes()):
			continue
		}
		if !f(w, rest) {
			return
		}
	}
}

// partDue reports whether the next part of a large payload, or its end, may leave. Some batches are left to others.
func (s *submissions) partDue(w *own, rest int) bool {
	if n := w.sent + min(rest, s.o.BatchBytesMax); w.Front > 0 && n > w.Front && w.Kind == KindCertified {
		return false
	}
	return s.window.parts() < max(1, s.o.BatchesInflightMax/2)
}
