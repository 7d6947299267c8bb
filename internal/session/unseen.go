package session

import (
	"cmp"
	"slices"

	"github.com/tuttidb/tutti/internal/semantics"
	"github.com/tuttidb/tutti/internal/wire"
	"github.com/tuttidb/tutti/internal/writeset"
)

// Blocks are blind, too, if they do nothing but read, and then change rows of which the node has seen that they are
// there: their statements are answered at once, and COMMIT orders all of them as one blind transaction (decision 0058).
// If one of the rows is not there after all, nothing has happened, and the transaction is done again as what it is. So
// it is, too, before everything that could see what was put off.

// unseenLater is one of the statements of such a block.
type unseenLater struct {
	postponed
	what Unseen
	held bool // its row must not have changed since, see glances and later.relies
}

const (
	// caughtMax is how often statements of a form are put off in vain before they are not, and passedMax how often they
	// are not before that is tried again.
	caughtMax = 8
	passedMax = 64
)

// caught notes that a request comes behind what was put off, and is not put off itself. It does not count where that
// may be another time, because the session or the node learns something: but for what adds to a row, which would not
// have its lock (delta).
func (l *later) caught(r *request) {
	l.repeats()
	some := func(f func(p directPart) bool) bool {
		return r.way.direct != nil && slices.ContainsFunc(r.way.direct.parts, f)
	}
	if r.way.direct != nil && !r.way.chosen || some(func(p directPart) bool { return p.form.who == "" }) {
		return
	}
	never := !r.way.chosen || some(func(p directPart) bool { return !p.form.blind || p.form.how.Target().Inserts })
	for i := range l.unseen {
		u := &l.unseen[i]
		if _, adds := u.how.Adds(u.bind); never || adds {
			u.form.caught = min(u.form.caught+1, caughtMax)
		}
	}
}

// passes reports whether statements of a form are not put off for a while.
func (f *form) passes() bool {
	if f.caught < caughtMax {
		return false
	}
	if f.passed++; f.passed == passedMax {
		f.passed = 0
		f.caught--
	}
	return true
}

// still reports whether a request reads and does nothing else that matters to what follows, as far as its text tells.
func (t *texts) still(r *request) bool {
	if !r.does.harmless() || r.does.local || len(r.sql) == 0 {
		return false
	}
	for _, sql := range r.sql {
		if !semantics.Still(sql, t.facts.View) {
			return false
		}
	}
	return true
}

// deferWrite is plan.Defer: it reports whether a request of a block was answered, and will be carried out unseen at
// COMMIT.
func (b *buffer) deferWrite(r *request, rep *reply) (bool, error) {
	l := &b.later
	p := &r.way.direct.parts[0]
	if p.form.passes() {
		return false, nil
	}
	if len(l.unseen) == 0 {
		if ok, err := b.looks(); !ok {
			return false, err
		}
		l.catalog = b.facts.Catalog()
		if l.base = b.host.DefinedUpTo(); l.shown() {
			l.base = b.host.Sees()
		}
	}
	if !b.forms.current() || !l.known() {
		return false, nil
	}
	what, ok := p.form.how.Buffered(p.bind, l.began)
	if !ok || what.Shape != p.form.blindShape || l.bytes+len(p.bind) > pipelineBytesMax {
		return false, nil
	}
	if ok, done, err := b.finds(p.form, &what); !ok || err != nil {
		return done, err
	}
	l.bytes += len(p.bind)
	if !p.kept {
		p.bind, p.kept = slices.Clone(p.bind), true
	}
	relies := l.relies(what.Table.Name, what.Row.Identity)
	l.unseen = append(l.unseen, unseenLater{postponed: postponed{p.form, p.form.how, p.bind}, what: what, held: relies})
	l.relied = l.relied || relies
	rep.status = wire.TxActive
	return true, b.answerAlone(r, rep, what.Tag)
}

// finds reports whether a statement finds its row as it needs it. A DELETE or UPDATE needs the row to be there, an
// INSERT needs the block to have deleted it. Statements that were put off count as done. If the node does not know the
// row, the backend is asked; done is probe's.
func (b *buffer) finds(f *form, what *Unseen) (there, done bool, err error) {
	if what.Puts {
		return true, false, nil
	}
	n, dropped := 0, false
	for i := range b.later.unseen {
		if row := &b.later.unseen[i].what.Row; row.Identity == what.Row.Identity {
			n++
			dropped = row.Op == writeset.OpDrop
		}
	}
	if what.Inserts || n > 0 {
		return what.Inserts && n == 1 && dropped, false, nil
	}
	there, shy := b.host.There(what.Table.Key, what.Row.Identity)
	if there || shy {
		return !shy, false, nil
	}
	return b.probe(f, what)
}

// probe asks the backend whether a row is there. done reports that it could not, and the client was told why.
func (b *buffer) probe(f *form, what *Unseen) (there, done bool, err error) {
	if b.backend.prefix > 0 {
		return false, false, nil
	}
	name, frames := f.probe, b.backend.out.AvailableBuffer()
	if name == "" {
		name = b.forms.next()
		frames = wire.AppendParse(frames, name, f.how.Probe(), nil)
	}
	if frames, err = f.how.AppendProbe(frames, name, what); err != nil {
		return false, false, err
	}
	b.backend.out.Append(wire.AppendSync(wire.AppendExecute(frames, "", 0)))
	rows, done, err := b.peek()
	if rows == nil || done || err != nil {
		return false, done, err
	}
	if f.probe = name; len(rows) != 1 {
		return false, false, nil
	}
	began, who, err := b.rewriting.ReadOwn(rows[0])
	if !b.later.began.Known {
		b.later.began = began
	}
	return who == b.sight.who, false, err
}

// writeset is what was put off. A row that is deleted and made anew is changed. A row that must not have changed since
// base holds its key once more, as one that was seen.
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
		if l.unseen[i].held && row.Identity != 0 && planted != "held-unkeyed" {
			ws.Keys = append(ws.Keys, writeset.Key{Hash: row.Identity, Mode: row.Op.KeyMode(), Table: row.Table})
		}
		if at := slices.IndexFunc(ws.Rows, func(r writeset.Row) bool {
			return r.Identity == row.Identity &&
				!what.Puts
		}); at >= 0 {
			ws.Rows[at] = row
		} else {
			ws.Rows = append(ws.Rows, row)
		}
	}
	ws.AddTableKeys()
	return ws
}

// commit commits a block of which everything was put off. over is false if somebody is in the way at this node:
// it is open now, as what it is, or lost, and doom says why.
func (b *buffer) commit() (over bool, failure *wire.SQLError, retry bool, err error) {
	l := &b.later
	ok, err := b.looks()
	if err != nil {
		return true, nil, false, err
	}
	if !ok || !b.stands() {
		return false, nil, false, b.flush()
	}
	if b.txn.Open() { // nobody may wait for what it has read while it waits for the order
		if over, failure, retry, err := b.commitReads(); over || err != nil {
			return true, failure, retry, err
		}
		l.relied = l.relied || l.began.Known // the client may have seen when that transaction began
	}
	_, _, seq := b.host.NewSeq()
	decision, done := b.tx.order(Submission{Seq: seq, Base: l.base, Writeset: l.writeset()}, false)
	b.host.Enter(PhaseIdle)
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
		b.host.LeaveAlone(l.held()) // whoever waits for its lock is better off
		return true, cmp.Or(decision.Err, errForgotten("could not serialize access due to concurrent update")),
			true, nil
	}
	return false, nil, false, b.flush()
}

// stands reports whether what is deferred still means what it did when it was appended.
func (b *buffer) stands() bool {
	return b.forms.current() && b.later.known() && !b.forms.off &&
		!b.texts.encoded &&
		!slices.ContainsFunc(b.later.unseen, func(u unseenLater) bool { return u.form.who != b.sight.who })
}

// commitReads ends the transaction in which such a block has read. over reports that the block is over with it: it has
// failed, or has written after all.
func (b *buffer) commitReads() (over bool, failure *wire.SQLError, retry bool, err error) {
	c := b.tx.ahead.found
	if !b.tx.ahead.says(b.txn) {
		if err := b.tx.collect(&c, false); err != nil {
			return true, nil, false, err
		}
	}
	switch {
	case c.failed != nil:
		doom := b.host.Enter(PhaseRunning)
		return true, cmp.Or(doom, c.failed), doom != nil, b.tx.rollbackServer()
	case c.ws != nil && !c.ws.Empty(): // what it has read has written, where its text does not tell
		b.later.off, b.later.next = true, true
		return true, errForgotten("a query has written to a table"), true, b.tx.rollbackServer()
	}
	failure, retry, err = b.tx.commitLocal()
	return failure != nil, failure, retry, err
}
