package session

import (
	"slices"

	"github.com/tuttidb/tutti/internal/semantics"
	"github.com/tuttidb/tutti/internal/wire"
	"github.com/tuttidb/tutti/internal/writeset"
)

// A SELECT of one row, by its key, may come behind what a block has put off unseen: it is run in a form that shows the row as it is then (decision 0059), by itself where the
// backend has no transaction. But from then on the client may know what it has done, and rely on its locks. So the rows that were changed before it are certified
// as if they had been seen when the first of them was: whoever has changed one of them since makes the block lose, and no lock would have let him.

// glanceForm is a text at rows that are changed in one way, or not at all.
type glanceForm struct {
	how     Glance // nil if there is none
	name    string // the statement's at the backend
	columns []wire.Column
}

// glancePart is a request that may be a glance.
type glancePart struct {
	bind      []byte
	statement string // the client's
	of        *prepared
	describes bool
}

// glancePart finds out whether a batch is one execution of a SELECT with a name; nil if it is not.
func (s *Session) glancePart(batch []message) *glancePart {
	if len(batch) < 2 || len(batch) > 3 || batch[0].typ != wire.TypeBind || batch[0].name != "" || batch[0].statement == "" {
		return nil
	}
	of, last := batch[0].of, &batch[len(batch)-1]
	if last.typ != wire.TypeExecute || last.of != of || of.statement.Kind != semantics.Read || of.odd || of.own || of.locks != nil || len(of.sql) > formTextMax {
		return nil
	}
	if len(batch) == 3 && (batch[1].typ != wire.TypeDescribe || batch[1].kind != 'P' || batch[1].name != "") {
		return nil
	}
	if _, limit, _ := wire.DecodeExecute(wire.Frame{Raw: s.batchBytes[last.start:last.end]}.Body()); limit > 0 {
		return nil
	}
	return &glancePart{s.batchBytes[batch[0].start:batch[0].end], batch[0].statement, of, len(batch) == 3}
}

// glances reports whether a request was answered that shows what the block has put off.
func (s *Session) glances(r *request, rep *reply) (bool, error) {
	l, d, p := &s.later, &s.direct, r.glance
	if p == nil || len(l.unseen) == 0 || len(l.adds) > 0 || d.off || d.encoded || d.catalog != s.o.Collector.Catalog() || s.sight.who == "" || !s.redoable(r) || s.prefix > 0 {
		return false, nil
	}
	plain, err := s.glanceOf(p, nil)
	if plain == nil || err != nil {
		return false, err
	}
	at, ok := plain.how.At(p.bind)
	if !ok {
		return false, nil
	}
	form, image := plain, []byte(nil)
	for i := range l.unseen {
		switch row := &l.unseen[i].what.Row; {
		case row.Identity != at:
		case image != nil || row.Op != writeset.OpSet:
			return false, nil
		default:
			image = row.Image
			if form, err = s.glanceOf(p, image); form == nil || err != nil {
				return false, err
			}
		}
	}
	formats, ok := wire.ResultFormats(p.bind, len(form.columns))
	if !ok {
		return false, nil
	}
	frames, err := form.how.AppendBind(s.srvW.AvailableBuffer(), form.name, p.bind, image, formats)
	if err != nil {
		return false, err
	}
	s.srvW.Append(wire.AppendSync(wire.AppendExecute(frames, "", 0)))
	doom := (*wire.SQLError)(nil)
	if s.open {
		doom = s.host.Enter(PhaseRunning)
	}
	got, rows, err := s.internal(true)
	if err != nil {
		return false, err
	}
	fits := doom == nil && got.failed == nil && len(rows) <= 1 && (image == nil || len(rows) == 1)
	if fits && len(rows) == 1 {
		began, who, err := form.how.Read(rows[0][:min(form.how.Columns(), len(rows[0]))])
		if fits = err == nil && who == s.sight.who && len(rows[0]) == form.how.Columns()+len(form.columns); !l.began.Known {
			l.began = began
		}
	}
	if !fits {
		if got.failed != nil {
			s.outdated(*got.failed)
		}
		return false, s.abandon()
	}
	l.glanced = true
	for i := range l.unseen {
		l.unseen[i].held = true
	}
	rep.status = wire.TxActive
	return true, s.showGlance(p, form, formats, rows, rep)
}

// showGlance answers a glance.
func (s *Session) showGlance(p *glancePart, form *glanceForm, formats []int16, rows [][][]byte, rep *reply) error {
	frames := []wire.Frame{{Type: wire.TypeBindComplete, Raw: wire.AppendBindComplete(nil)}}
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
		frames = append(frames, wire.Frame{Type: wire.TypeDataRow, Raw: wire.AppendDataRow(nil, row[form.how.Columns():])})
	}
	frames = append(frames, wire.Frame{Type: wire.TypeCommandComplete, Raw: wire.AppendCommandComplete(nil, tag)})
	for _, f := range frames {
		if err := s.emit(f); err != nil {
			return err
		}
	}
	return nil
}

// abandon gives up what was put off, of which the client has seen something, or cannot see what it asks for: the transaction is done again as what it is.
func (s *Session) abandon() error {
	s.later.off = true
	err := s.rollbackServer()
	s.later.end()
	s.doom = errForgotten("could not serialize access due to concurrent update")
	return err
}

// glanceOf gives the form of a statement at rows that are changed as one with an image is, or not if it is nil. It is nil if there is none, or it cannot be prepared now.
func (s *Session) glanceOf(p *glancePart, image []byte) (*glanceForm, error) {
	d := &s.direct
	d.keyed = append(d.key(p.of.sql, p.of.types, false), 0)
	d.keyed = append(d.keyed, s.o.Collector.Settings(image)...)
	f := d.glances[string(d.keyed)]
	switch {
	case f != nil && f.how != nil:
		return f, nil
	case f != nil || len(d.glances) >= formsMax:
		return nil, nil
	}
	f = &glanceForm{}
	if d.glances == nil {
		d.glances = map[string]*glanceForm{}
	}
	d.glances[string(d.keyed)] = f
	if s.open { // next time
		d.later = append(d.later, wantedGlance{f, &glancePart{statement: p.statement, of: p.of}, slices.Clone(image)})
		return nil, nil
	}
	if err := s.prepareGlance(f, p, image); err != nil || f.how == nil {
		return nil, err
	}
	return f, nil
}

// wantedGlance is a form that is still to be prepared.
type wantedGlance struct {
	form  *glanceForm
	part  *glancePart
	image []byte
}

// prepareGlances prepares those whose statements the client still has.
func (s *Session) prepareGlances() error {
	wanted := s.direct.later
	s.direct.later = nil
	for _, w := range wanted {
		if s.statements[w.part.statement] == w.part.of {
			if err := s.prepareGlance(w.form, w.part, w.image); err != nil {
				return err
			}
		}
	}
	return nil
}

// prepareGlance prepares a form, if that is possible. What the client is told of its columns is what its own statement tells.
func (s *Session) prepareGlance(f *glanceForm, p *glancePart, image []byte) error {
	d := &s.direct
	text, ok := semantics.GlanceOf(p.of.sql)
	if !ok || s.escape {
		return nil
	}
	r, rows, err := s.ask(s.o.Collector.AskGlance(&text))
	if err != nil || r.failed != nil || len(rows) != 1 {
		return err
	}
	how, ok := s.o.Collector.Glance(&text, p.of.types, rows[0], image)
	if !ok {
		return nil
	}
	d.known++
	d.first = max(d.first, 1)
	f.name = formName(d.known)
	own, err := s.describe(wire.AppendParse(d.stale, f.name, how.SQL(), p.of.types), f.name)
	if d.stale = nil; own == nil || err != nil {
		return err
	}
	theirs, err := s.describe(nil, p.statement)
	if err != nil {
		return err
	}
	same := func(a, b wire.Column) bool {
		return a.Name == b.Name && a.TypeOID == b.TypeOID && a.TypeLen == b.TypeLen && a.TypeMod == b.TypeMod
	}
	if len(own) == how.Columns()+len(theirs) && slices.EqualFunc(own[how.Columns():], theirs, same) {
		f.how, f.columns = how, theirs
	}
	return nil
}

// describe sends frames and asks for the columns of a statement; nil if that fails, or something is noticed, which would be told once and not each time.
func (s *Session) describe(frames []byte, name string) ([]wire.Column, error) {
	s.srvW.Append(wire.AppendSync(wire.AppendDescribe(frames, 'S', name)))
	s.direct.preparing = true
	r, err := s.quiet()
	if s.direct.preparing = false; err != nil || r.failed != nil || r.noticed || r.described == nil {
		return nil, err
	}
	return wire.DecodeRowDescription(wire.Frame{Raw: r.described}.Body())
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
