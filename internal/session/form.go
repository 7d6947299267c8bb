package session

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/tuttidb/tutti/internal/semantics"
	"github.com/tuttidb/tutti/internal/session/txn"
	"github.com/tuttidb/tutti/internal/wire"
)

// forms is what a session knows of how its texts can be run directly, or as glances.
type forms struct {
	backend   *backend
	rewriting Rewriting
	catalogs  Facts
	plans     Plans
	find      func(sql string) (semantics.Direct, bool)
	txn       *txn.Machine
	texts     *texts
	sight     *sight

	off     bool // not in this session any more
	byKey   map[string]*form
	glances map[string]*glanceForm
	wanted  []*form
	age     int    // how often they were forgotten
	first   int    // number of the first form that is known to the backend
	known   int    // and of the last
	secret  string // ends their names
	stale   []byte // Close messages for others
	catalog any
	// outdated counts failures, so that one nobody has thought of does not come again for ever.
	outdated  int
	keyed     []byte // room for a key
	preparing bool   // a form: what is noticed then the client is told of its own text
}

// form is a text that is run often enough.
type form struct {
	sql   string
	types []uint32
	// literals says that the parameters stand for those of a client's text.
	literals bool
	uses     int
	who      string // under which role it was run, see Returned.Who; empty if it was not
	turn     int    // sight.turn when its text was known to mean its table
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
	looked     bool   // for row
	row        *semantics.RowName
	inside     bool // it does nothing outside of the database, see noteOutside
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

// prepare prepares the wanted forms.
func (fs *forms) prepare() error {
	var rest []*form
	for _, f := range fs.wanted {
		switch {
		case f.name != "": // it was run after it had been put off
			continue
		case f.shared && fs.sight.who == "":
			rest = append(rest, f)
			continue
		case f.shared && f.who != fs.sight.who: // what is known of it is of others
			f.unlearn()
		}
		f.refused = true
		if err := fs.prepareOne(f); err != nil {
			return err
		}
	}
	fs.wanted = rest
	return nil
}

// prepareOne prepares a form. Whatever stands against it only means that its statement is run as it is.
func (fs *forms) prepareOne(f *form) error {
	how, ok := f.direct(fs.find)
	if !ok || fs.texts.escape { // the text was read otherwise
		return nil
	}
	rewritten := f.how
	if rewritten == nil {
		_, row, err := fs.asks(fs.rewriting.AskDirect(&how))
		if row == nil || err != nil {
			return err
		}
		if rewritten, ok = fs.rewriting.Direct(&how, row); !ok {
			return nil
		}
	}
	name := fs.next()
	fs.backend.out.Append(fs.stale)
	fs.stale = nil
	frames := wire.AppendParse(fs.backend.out.AvailableBuffer(), name, rewritten.SQL(), f.types)
	if how.Returns != "" {
		frames = wire.AppendDescribe(frames, 'S', name)
	}
	fs.backend.out.Append(wire.AppendSync(frames))
	fs.preparing = true
	r, err := fs.backend.quiet()
	fs.preparing = false
	if err != nil || r.failed != nil || r.noticed { // which would be given once, and not each time
		return err
	}
	if f.columns = nil; how.Returns != "" {
		columns, err := wire.DecodeRowDescription(wire.Frame{Raw: r.described}.Body())
		if err != nil {
			return fmt.Errorf("%w: a direct statement's description: %w", errBackend, err)
		}
		if len(columns) <= rewritten.Columns() { // * of a table without columns, which PostgreSQL refuses by itself
			return nil
		}
		f.columns = columns[rewritten.Columns():]
	}
	f.how, f.name, f.refused, f.turn = rewritten, name, false, fs.sight.turn
	return nil
}

// next names another statement of the backend's.
func (fs *forms) next() string {
	fs.known++
	fs.first = max(fs.first, 1)
	return fs.formName(fs.known)
}

func (fs *forms) formName(number int) string {
	return fmt.Sprint(ownPrefix, "direct ", number, fs.secret)
}

// forget forgets all forms, whose statements the backend may have lost.
func (fs *forms) forget() {
	for _, f := range fs.byKey { // order-free: each is only emptied
		f.how = nil // a request may be about to be run again
	}
	for ; fs.first <= fs.known && fs.known > 0; fs.first++ {
		fs.stale = wire.AppendClose(fs.stale, 'S', fs.formName(fs.first))
	}
	fs.byKey, fs.wanted, fs.glances = nil, nil, nil
	fs.age++
}

// forgetBut forgets the forms but those of tables that are kept.
func (fs *forms) forgetBut(keeps func(Target) bool) {
	fs.age++
	closes := func(names ...string) {
		for _, name := range names {
			if name != "" {
				fs.stale = wire.AppendClose(fs.stale, 'S', name)
			}
		}
	}
	maps.DeleteFunc(fs.byKey, func(_ string, f *form) bool {
		if f.how != nil && keeps(f.how.Target()) {
			f.age = fs.age
			return false
		}
		closes(f.name, f.probe)
		f.how = nil
		return true
	})
	maps.DeleteFunc(fs.glances, func(_ string, f *glanceForm) bool {
		if f.how != nil && keeps(f.how.Target()) {
			return false
		}
		closes(f.name)
		return true
	})
	fs.wanted = slices.DeleteFunc(fs.wanted, func(f *form) bool { return f.age != fs.age })
}

// formOf gives what is known of a statement's text, or nil.
func (fs *forms) formOf(p *prepared) *form {
	if p.form == nil || p.form.age != fs.age {
		p.form = fs.form(p.sql, p.types, false)
	}
	return p.form
}

// form gives what is known of a text, or nil.
func (fs *forms) form(sql string, types []uint32, literals bool) *form {
	theirs := func(t uint32) bool { return t >= firstUserOID }
	if fs.off || len(sql) > formTextMax || slices.ContainsFunc(types, theirs) {
		return nil
	}
	key := fs.key(sql, types, literals)
	f := fs.byKey[string(key)]
	if f == nil && fs.room() {
		f = &form{sql: sql, types: types, literals: literals, age: fs.age}
		if fs.byKey == nil {
			fs.byKey = map[string]*form{}
		}
		fs.byKey[string(key)] = f
	}
	return f
}

// key tells forms apart. It is valid until the next call.
func (fs *forms) key(sql string, types []uint32, literals bool) []byte {
	fs.keyed = append(append(fs.keyed[:0], sql...), 0)
	for _, t := range types {
		fs.keyed = strconv.AppendUint(append(fs.keyed, ' '), uint64(t), 10)
	}
	return strconv.AppendBool(fs.keyed, literals)
}

// room reports whether another form can be known, and makes it if there are some that have not come again, or are of no
// use.
func (fs *forms) room() bool {
	if len(fs.byKey) < formsMax {
		return true
	}
	maps.DeleteFunc(fs.byKey, func(_ string, f *form) bool { return f.uses < formUses || f.refused })
	return len(fs.byKey) < formsMax*3/4
}

// use counts how often a form comes.
func (fs *forms) use(f *form) {
	if f.uses < formUses {
		if f.uses++; f.uses == formUses {
			fs.wanted = append(fs.wanted, f)
		}
	}
}

// renew forgets forms that do not hold any more, before a transaction does something, and those that were refused.
func (fs *forms) renew() {
	before, now := fs.catalog, fs.catalogs.Catalog()
	if before == now || fs.txn.Open() && !fs.txn.Untouched() {
		return
	}
	if planted != "old-plan-used" {
		fs.forgetBut(func(t Target) bool { return Holds(before, now, t) })
	}
	fs.catalog = now
}

// current reports whether all forms hold as of the catalog that there is.
func (fs *forms) current() bool {
	before, now := fs.catalog, fs.catalogs.Catalog()
	if before == now {
		return true
	}
	for _, f := range fs.byKey { // order-free: all must
		if f.how != nil && !Holds(before, now, f.how.Target()) {
			return false
		}
	}
	for _, f := range fs.glances { // order-free: all must
		if f.how != nil && !Holds(before, now, f.how.Target()) {
			return false
		}
	}
	return true
}

// expired reports whether a direct statement could not be planned because something changed since
// it was prepared: the table, the session's prepared statements, or its rights. RETURNING needs
// the right to read, which the statement itself may not. If the client's own text fails alike,
// it is told so at the next try.
func (fs *forms) expired(e wire.ErrorFields) bool {
	if !strings.HasPrefix(e.Code, "42") && e.Code != wire.CodeInvalidStatementName &&
		e.Code != wire.CodeFeatureNotSupported {
		return false
	}
	fs.mistaken()
	fs.off = fs.off || e.Code == wire.CodeInsufficientPrivilege
	return true
}

// mistaken forgets all forms because one of them did not hold any more.
func (fs *forms) mistaken() {
	fs.outdated++
	fs.off = fs.outdated > outdatedMax
	fs.forget()
}

// outdatedStatement is what a client is told of that.
const outdatedStatement = "the table's definition or the session's rights were changed"
