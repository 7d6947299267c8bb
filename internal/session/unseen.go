package session

import (
	"cmp"
	"slices"

	"github.com/tuttidb/tutti/internal/semantics"
	"github.com/tuttidb/tutti/internal/wire"
	"github.com/tuttidb/tutti/internal/writeset"
)

// Blocks are blind, too, if they do nothing but read, and then change rows of which the node has seen that they are there: their statements are answered at
// once, and COMMIT orders all of them as one blind transaction (decision 0058). If one of the rows is not there after all, nothing has happened, and the transaction is done
// again as what it is. So it is, too, before everything that could see what was put off.

// unseenLater is one of the statements of such a block.
type unseenLater struct {
	postponed
	what Unseen
}

// unseenBytesMax bounds what they hold.
const unseenBytesMax = 256 << 10

// caughtMax is how often statements of a form are put off in vain, because something comes behind them that cannot be put off itself, before they are not.
const caughtMax = 8

// caught notes that a request comes behind what was put off.
func (l *later) caught(r *request) {
	if r.direct != nil && (!r.chosen || !slices.ContainsFunc(r.direct.parts, func(p directPart) bool { return !p.form.how.Blind() && !p.form.blind })) {
		return // it might be put off next time
	}
	for i := range l.unseen {
		f := l.unseen[i].form
		f.caught = min(f.caught+1, caughtMax)
	}
}

// still reports whether a request reads and does nothing else that matters to what follows, as far as its text tells.
func (r *request) still() bool {
	if !r.harmless() || r.local || len(r.sql) == 0 {
		return false
	}
	for _, sql := range r.sql {
		if !semantics.Still(sql) {
			return false
		}
	}
	return true
}

// putsOffUnseen reports whether a request of a block was answered, and will be carried out unseen at COMMIT.
func (s *Session) putsOffUnseen(r *request, rep *reply) (bool, error) {
	l, d := &s.later, &s.direct
	if !r.chosen || l.off || l.wrote || len(l.adds) > 0 || len(r.direct.parts) != 1 || r.direct.closes || len(l.unseen) == laterMax || s.block != active || s.implicit || s.sight.who == "" ||
		s.currentLevel() != semantics.ReadCommitted || s.modes.Access == "READ ONLY" || s.advisory.used || s.schema.noted || s.ahead.done || s.redo.off || s.redo.busy {
		return false, nil
	}
	p := &r.direct.parts[0]
	if f := p.form; p.parse != nil || p.limited || !f.blind || f.who != s.sight.who || f.caught == caughtMax {
		return false, nil
	}
	if len(l.unseen) == 0 {
		if ok, err := s.looks(); !ok {
			return false, err
		}
		l.base = s.host.Unseen()
	}
	if d.catalog != s.o.Collector.Catalog() {
		return false, nil
	}
	what, ok := p.form.how.Unseen(p.bind)
	if size := len(what.Row.Image); !ok || what.Shape != p.form.blindShape || l.bytes+size > unseenBytesMax || !l.finds(&what, s.host) {
		return false, nil
	}
	l.bytes += len(what.Row.Image)
	if !p.kept {
		p.bind, p.kept = slices.Clone(p.bind), true
	}
	l.unseen = append(l.unseen, unseenLater{postponed{p.form, p.form.how, p.bind}, what})
	rep.status = wire.TxActive
	return true, s.answerAlone(r, rep, what.Tag)
}

// finds reports whether a row is there when a statement comes to it behind those that were put off, or is not for one that makes it.
func (l *later) finds(what *Unseen, h Host) bool {
	n, dropped := 0, false
	for i := range l.unseen {
		if row := &l.unseen[i].what.Row; row.Identity == what.Row.Identity {
			n++
			dropped = row.Op == writeset.OpDrop
		}
	}
	if what.Inserts {
		return n == 1 && dropped
	}
	return n == 0 && h.There(what.Row.Identity)
}

// writeset is what was put off. A row that is deleted and made anew is changed.
func (l *later) writeset() *writeset.Writeset {
	ws := &writeset.Writeset{}
	for i := range l.unseen {
		what := &l.unseen[i].what
		row := what.Row
		n := slices.IndexFunc(ws.Tables, func(t writeset.Table) bool { return t.Key == what.Table.Key })
		if n < 0 {
			n = len(ws.Tables)
			ws.Tables = append(ws.Tables, what.Table)
		}
		row.Table = uint32(n)
		if at := slices.IndexFunc(ws.Rows, func(r writeset.Row) bool { return r.Identity == row.Identity }); at >= 0 {
			ws.Rows[at] = row
		} else {
			ws.Rows = append(ws.Rows, row)
		}
	}
	ws.AddTableKeys()
	return ws
}

// commitUnseen commits a block of which everything was put off. over is false if somebody is in the way at this node: it is open now, as what it is, or lost, and doom says why.
func (s *Session) commitUnseen() (over bool, failure *wire.SQLError, retry bool, err error) {
	l, d := &s.later, &s.direct
	ok, err := s.looks()
	if err != nil {
		return true, nil, false, err
	}
	ok = ok && d.catalog == s.o.Collector.Catalog() && !d.off && !d.encoded && !slices.ContainsFunc(l.unseen, func(u unseenLater) bool { return u.form.who != s.sight.who })
	if ok && s.open { // nobody may wait for what it has read while it waits for the order
		if failure, _, err := s.commitLocal(); failure != nil || err != nil {
			return true, failure, false, err
		}
	}
	if ok {
		_, _, seq := s.host.NewSeq()
		decision, done := s.host.Blind(Submission{Seq: seq, Base: l.base, Writeset: l.writeset()}, false)
		s.host.Enter(PhaseIdle)
		switch {
		case done && decision.Commit:
			for i := range l.unseen {
				l.unseen[i].form.caught = 0
			}
			l.end()
			return true, nil, false, nil
		case done && !decision.Retry:
			return true, decision.Err, false, nil
		case decision.Retry:
			l.off, l.next = true, true
			return true, cmp.Or(decision.Err, errForgotten("could not serialize access due to concurrent update")), true, nil
		}
	}
	return false, nil, false, s.catchUp()
}
