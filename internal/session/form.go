package session

import (
	"fmt"

	"github.com/tuttidb/tutti/internal/semantics"
	"github.com/tuttidb/tutti/internal/wire"
)

// form is a text that is run often enough.
type form struct {
	sql   string
	types []uint32
	// literals says that the parameters stand for those of a client's text.
	literals bool
	uses     int
	who      string // under which role it was run, see Returned.Who; empty if it was not
	shape    string // of its parameters then, if it adds to rows
	blind    bool   // it can be carried out unseen: it has found the row that it was taken to find
	// blindShape is the shape of its parameters then.
	blindShape string
	caught     int    // how often it was put off unseen in vain, see caught
	passed     int    // how often it was not since that was too often
	refused    bool   // it cannot be run directly
	age        int    // of the session's forms when it was made
	name       string // the statement's at the backend; empty until it is prepared
	probe      string // and that of its Probe
	shared     bool   // the node knows it, or has told of it
	inside     bool   // it does nothing outside of the database, see noteOutside
	how        Rewritten
	// columns are what it returns to the client.
	columns []wire.Column
}

// unlearn forgets how a form is run, and what it has done.
func (f *form) unlearn() {
	f.how, f.who, f.shape, f.blind, f.blindShape, f.shared, f.probe = nil, "", "", false, "", false, ""
}

// returns reports whether the client gets rows.
func (f *form) returns() bool { return f.columns != nil }

// direct finds out whether the form is a direct statement, whose constants PostgreSQL would not fold.
func (f *form) direct(find func(string) (semantics.Direct, bool)) (semantics.Direct, bool) {
	how, ok := find(f.sql)
	how.Literals, how.Types = f.literals, f.types
	return how, ok && !(how.Folds && f.literals)
}

// prepareDirect prepares the wanted forms. Whatever stands against one only means that its
// statement is run as it is.
func (s *Session) prepareDirect() error {
	d := &s.direct
	var rest []*form
	for _, f := range d.wanted {
		switch {
		case f.name != "": // it was run after it had been put off
			continue
		case f.shared && s.sight.who == "":
			rest = append(rest, f)
			continue
		case f.shared && f.who != s.sight.who: // what is known of it is of others
			f.unlearn()
		}
		f.refused = true
		how, ok := f.direct(s.o.Direct)
		if !ok || s.texts.escape { // the text was read otherwise
			continue
		}
		rewritten := f.how
		if rewritten == nil {
			r, rows, err := s.backend.ask(s.o.Collector.AskDirect(&how))
			if err != nil {
				return err
			}
			if r.failed != nil || len(rows) != 1 {
				continue
			}
			if rewritten, ok = s.o.Collector.Direct(&how, rows[0]); !ok {
				continue
			}
		}
		d.known++
		d.first = max(d.first, 1)
		name := d.formName(d.known)
		s.srvW.Append(d.stale)
		d.stale = nil
		frames := wire.AppendParse(s.srvW.AvailableBuffer(), name, rewritten.SQL(), f.types)
		if how.Returns != "" {
			frames = wire.AppendDescribe(frames, 'S', name)
		}
		s.srvW.Append(wire.AppendSync(frames))
		d.preparing = true
		r, err := s.backend.quiet()
		if d.preparing = false; err != nil {
			return err
		}
		if r.failed != nil || r.noticed { // which would be given once, and not each time
			continue
		}
		if f.columns = nil; how.Returns != "" {
			columns, err := wire.DecodeRowDescription(wire.Frame{Raw: r.described}.Body())
			if err != nil {
				return fmt.Errorf("%w: a direct statement's description: %w", errBackend, err)
			}
			if len(columns) <= rewritten.Columns() { // * of a table without columns, which PostgreSQL refuses by itself
				continue
			}
			f.columns = columns[rewritten.Columns():]
		}
		f.how, f.name, f.refused = rewritten, name, false
	}
	d.wanted = rest
	return nil
}

func (d *direct) formName(number int) string {
	return fmt.Sprint(ownPrefix, "direct ", number, d.secret)
}
