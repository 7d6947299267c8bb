package session

import (
	"slices"

	"github.com/tuttidb/tutti/internal/semantics"
	"github.com/tuttidb/tutti/internal/wire"
	"github.com/tuttidb/tutti/internal/writeset"
)

// A SELECT of one row, by its key, may come behind what a block has put off unseen: it is run in a form that shows the
// row as it is then (decision 0059), by itself where the backend has no transaction. But from then on the client may
// know what it has done, and rely on its locks. So the rows that were changed before it are certified as if they had
// been seen when the first of them was: whoever has changed one of them since makes the block lose, and no lock would
// have let him.

// glanceForm is a text at rows that are changed in one way, or not at all.
type glanceForm struct {
	how     Glance // nil if there is none
	name    string // the statement's at the backend
	columns []wire.Column
}

// glancePart is a request that may be a glance.
type glancePart struct {
	bind      []byte
	sql       string // the statement, with parameters for its literals
	types     []uint32
	name      string // the client's; empty if the backend need not know the statement
	query     bool   // it came as a Query
	parses    bool   // the client's Parse, without a name, is a part of the request
	describes bool
}

// glancePart finds out whether a batch is one execution of a SELECT; nil if it is not.
func (h *batch) glancePart(batch []message) *glancePart {
	p := &glancePart{parses: batch[0].typ == wire.TypeParse && batch[0].name == ""}
	if p.parses {
		batch = batch[1:]
	}
	if len(batch) < 2 || len(batch) > 3 || batch[0].typ != wire.TypeBind || (batch[0].statement == "") != p.parses {
		return nil
	}
	bind, last := &batch[0], &batch[len(batch)-1]
	if p.describes = len(batch) == 3; p.describes && (batch[1].typ != wire.TypeDescribe || batch[1].kind != 'P') {
		return nil
	}
	for i := range batch[:len(batch)-1] {
		if batch[i].name != "" { // of a portal
			return nil
		}
	}
	of := bind.of
	if last.typ != wire.TypeExecute || last.of != of || !of.reads() {
		return nil
	}
	if _, limit, _ := wire.DecodeExecute(wire.Frame{Raw: h.bytes[last.start:last.end]}.Body()); limit > 0 {
		return nil
	}
	p.bind, p.sql, p.types, p.name = h.bytes[bind.start:bind.end], of.sql, of.types, bind.statement
	return p
}

// reads reports whether a statement does nothing but read, and its text means to the backend what it means to us.
func (p *prepared) reads() bool {
	return p.statement.Kind == semantics.Read && !p.odd && !p.own && p.locks == nil && len(p.sql) <= formTextMax
}

// readThrough is plan.ReadThrough: it reports whether a request was answered that shows what the block has put off.
func (b *buffer) readThrough(r *request, rep *reply) (bool, error) {
	l, p := &b.later, r.way.glance
	form, at, image, done, err := b.view(p)
	if form == nil || err != nil {
		return done, err
	}
	formats, ok := wire.ResultFormats(p.bind, len(form.columns))
	if !ok {
		return false, nil
	}
	frames, err := form.how.AppendBind(b.backend.out.AvailableBuffer(), form.name, p.bind, image, formats)
	if err != nil {
		return false, err
	}
	b.backend.out.Append(wire.AppendSync(wire.AppendExecute(frames, "", 0)))
	base := l.base
	if !l.relied { // nobody has seen anything yet
		base = b.host.Sees()
	}
	if l.catalog != b.facts.Catalog() { // what was put off is as of what was defined then
		base = l.base
	}
	rows, done, err := b.peek()
	if done || err != nil {
		return done, err
	}
	if rows == nil && image != nil {
		b.host.LeaveAlone([]uint64{at})
	}
	fits := b.shows(form, rows, image != nil)
	switch {
	case b.txn.Gone():
		return false, nil
	case !fits:
		b.host.LeaveAlone([]uint64{at}) // it is not there, or cannot hold what it is to
		return false, b.abandon()
	}
	l.relied, l.base, l.looked = true, base, append(l.looked, at)
	for i := range l.unseen {
		l.unseen[i].held = true
	}
	rep.status = wire.TxActive
	return true, b.showGlance(p, form, formats, rows, rep)
}

// view gives the form in which a SELECT shows its row as the block has changed it: at is the row, and image the change,
// if there is one. A nil form says that there is none; done is peek's.
func (b *buffer) view(p *glancePart) (form *glanceForm, at uint64, image []byte, done bool, err error) {
	form, done, err = b.glanceOf(p, nil)
	if form == nil || err != nil {
		return nil, 0, nil, done, err
	}
	at, ok := form.how.At(p.bind)
	if !ok {
		return nil, 0, nil, false, nil
	}
	for i := range b.later.unseen {
		switch row := &b.later.unseen[i].what.Row; {
		case row.Identity != at:
		case image != nil || row.Op != writeset.OpSet:
			return nil, 0, nil, false, nil
		default:
			image = shownImage(row)
			if form, done, err = b.glanceOf(p, image); form == nil || err != nil {
				return nil, 0, nil, done, err
			}
		}
	}
	return form, at, image, false, nil
}

// shows reports whether rows are what a form shows: one row, if it was changed, and by who the session is.
func (b *buffer) shows(form *glanceForm, rows [][][]byte, changed bool) bool {
	if rows == nil || len(rows) > 1 || changed && len(rows) == 0 {
		return false
	}
	if len(rows) == 0 {
		return true
	}
	own := form.how.Columns()
	began, who, err := form.how.Read(rows[0][:min(own, len(rows[0]))])
	if !b.later.began.Known {
		b.later.began = began
	}
	return err == nil && who == b.sight.who && len(rows[0]) == own+len(form.columns)
}

// shownImage is the change as which a row is shown.
func shownImage(row *writeset.Row) []byte {
	if planted == "read-past-deferred" {
		return nil
	}
	return row.Image
}

// peek reads the answer to a statement of the session's own that the client waits for; nil rows if it has failed, and
// then the transaction may be gone. done reports that the client was told: it would have waited as long for its own
// statement.
func (b *buffer) peek() (rows [][][]byte, done bool, err error) {
	doom := b.host.Enter(PhaseRunning)
	got, rows, err := b.backend.internal(true)
	if err != nil {
		return nil, false, err
	}
	doom, done, err = b.ceases(doom, got)
	switch {
	case done || err != nil:
		return nil, done, err
	case doom == nil && got.failed == nil:
		return append(make([][][]byte, 0, 1), rows...), false, nil
	}
	if got.failed != nil {
		b.forms.expired(*got.failed)
	}
	if len(b.retry.runs) == 0 && !b.retry.off { // the client has seen nothing of the transaction
		return nil, false, b.tx.rollbackServer()
	}
	if b.txn.Open() || len(b.later.unseen) > 0 {
		return nil, false, b.abandon()
	}
	return nil, false, nil
}

// ceases ends PhaseRunning in a block that may have no transaction. done reports that the client was told why its
// statement, which has not run yet, has failed.
func (b *buffer) ceases(doom *wire.SQLError, got reply) (_ *wire.SQLError, done bool, err error) {
	f := got.failed
	if doom == nil && f != nil {
		doom = b.host.Enter(PhaseRunning)
	}
	if !b.txn.Open() {
		b.host.Enter(PhaseIdle)
	}
	if doom == nil && f != nil && (f.Code == wire.CodeQueryCanceled || f.Code == wire.CodeLockNotAvailable) {
		b.later.end()
		return nil, true, b.fail(&wire.SQLError{ErrorFields: *f})
	}
	return doom, false, nil
}

// showGlance answers a glance.
func (b *buffer) showGlance(p *glancePart, form *glanceForm, formats []int16, rows [][][]byte, rep *reply) error {
	var frames []wire.Frame
	if p.parses {
		rep.unparsed = true
		rep.parsed++
		frames = append(frames, wire.Frame{Type: wire.TypeParseComplete, Raw: wire.AppendParseComplete(nil)})
	}
	if !p.query {
		frames = append(frames, wire.Frame{Type: wire.TypeBindComplete, Raw: wire.AppendBindComplete(nil)})
	}
	if p.describes {
		columns := slices.Clone(form.columns)
		for i := range columns {
			columns[i].Format = formats[i]
		}
		frames = append(frames, wire.Frame{Type: wire.TypeRowDescription, Raw: wire.AppendRowDescription(nil, columns)})
	}
	rep.done = len(frames) + 1
	tag := "SELECT 0"
	for _, row := range rows {
		tag = "SELECT 1"
		frames = append(frames, wire.Frame{Type: wire.TypeDataRow,
			Raw: wire.AppendDataRow(nil, row[form.how.Columns():])})
	}
	frames = append(frames, wire.Frame{Type: wire.TypeCommandComplete, Raw: wire.AppendCommandComplete(nil, tag)})
	for _, f := range frames {
		if err := b.results.Emit(f); err != nil {
			return err
		}
	}
	return nil
}

// abandon gives up what was put off, of which the client has seen something, or cannot see what it asks for: the
// transaction is done again as what it is.
func (b *buffer) abandon() error {
	b.later.off = true
	err := b.tx.rollbackServer()
	b.later.end()
	b.txn.Condemn(errForgotten("could not serialize access due to concurrent update"))
	return err
}

// glanceOf gives the form of a statement at rows that are changed as one with an image is, or not if it is nil; nil if
// there is none, and then the transaction may be gone. done is peek's.
func (b *buffer) glanceOf(p *glancePart, image []byte) (_ *glanceForm, done bool, err error) {
	b.forms.keyed = append(append(append(b.forms.key(p.sql, p.types, false), 0), b.sight.who...), 0)
	b.forms.keyed = append(b.forms.keyed, b.rewriting.Settings(image)...)
	f := b.forms.glances[string(b.forms.keyed)]
	switch {
	case f != nil && f.how != nil:
		return f, false, nil
	case f != nil || len(b.forms.glances) >= formsMax:
		return nil, false, nil
	}
	key := string(b.forms.keyed)
	f = &glanceForm{}
	doom := b.host.Enter(PhaseRunning)
	r, err := b.prepareGlance(f, p, image)
	if err != nil {
		return nil, false, err
	}
	if doom, done, err = b.ceases(doom, r); done || err != nil {
		return nil, done, err
	}
	if doom != nil || r.failed != nil && b.txn.Open() {
		return nil, false, b.abandon()
	}
	if b.forms.glances == nil {
		b.forms.glances = map[string]*glanceForm{}
	}
	if b.forms.glances[key] = f; f.how == nil {
		f = nil
	}
	return f, false, nil
}

// prepareGlance prepares a form, if that is possible. What the client is told of its columns is what its own statement
// tells. It gives the last answer of the backend.
func (b *buffer) prepareGlance(f *glanceForm, p *glancePart, image []byte) (reply, error) {
	text, ok := b.find(p.sql)
	if !ok || b.texts.escape {
		return reply{}, nil
	}
	r, row, err := b.forms.asks(b.rewriting.AskReadThrough(&text))
	if row == nil || err != nil {
		return r, err
	}
	how, ok := b.rewriting.ReadThrough(&text, p.types, row, image)
	if !ok {
		return reply{}, nil
	}
	f.name = b.forms.next()
	own, r, err := b.forms.describe(wire.AppendParse(b.forms.stale, f.name, how.SQL(), p.types), f.name)
	if b.forms.stale = nil; own == nil || err != nil {
		return r, err
	}
	theirs, r, err := b.forms.describe(p.known(b.backend.own(ownQuery)))
	if theirs == nil || err != nil {
		return r, err
	}
	same := func(x, y wire.Column) bool {
		return x.Name == y.Name && x.TypeOID == y.TypeOID && x.TypeLen == y.TypeLen && x.TypeMod == y.TypeMod
	}
	if len(own) == how.Columns()+len(theirs) && slices.EqualFunc(own[how.Columns():], theirs, same) {
		f.how, f.columns = how, theirs
	}
	return r, nil
}

// known gives a name under which the backend knows the client's statement, and what has to be sent before.
func (p *glancePart) known(own string) (frames []byte, name string) {
	if p.name != "" {
		return nil, p.name
	}
	return wire.AppendParse(wire.AppendClose(nil, 'S', own), own, p.sql, p.types), own
}

// describe sends frames and asks for the columns of a statement; nil if that fails, or something is noticed, which
// would be told once and not each time.
func (fs *forms) describe(frames []byte, name string) ([]wire.Column, reply, error) {
	fs.backend.out.Append(wire.AppendSync(wire.AppendDescribe(frames, 'S', name)))
	fs.preparing = true
	r, err := fs.backend.quiet()
	if fs.preparing = false; err != nil || r.failed != nil || r.noticed || r.described == nil {
		return nil, r, err
	}
	columns, err := wire.DecodeRowDescription(wire.Frame{Raw: r.described}.Body())
	return columns, r, err
}

// held are the rows whose locks the client may rely on.
func (l *later) held() (identities []uint64) {
	for i := range l.unseen {
		if u := &l.unseen[i]; u.held {
			identities = append(identities, u.what.Row.Identity)
		}
	}
	return identities
}
