package session

import (
	"slices"

	"github.com/tuttidb/tutti/internal/semantics"
	"github.com/tuttidb/tutti/internal/wire"
)

// What one session has found out about a statement, that it can be carried out unseen, the others of its node need not
// find out again: they begin with what the node knows. They have not prepared its direct form yet, which they do when
// they need it.

// Holds reports whether what is known of a table as of one catalog is so as of another: nothing was defined in between
// that concerns it. If neither knows that, it does not.
func Holds(before, now any, t Target) bool {
	c, ok := now.(interface {
		Holds(before any, schema, name string) bool
	})
	return ok && (planted == "old-plan-held" || c.Holds(before, t.Schema, t.Name))
}

// Foreknown is what a node knows of a form, when who runs it (Returned.Who): how it is run directly, and the shape of
// its parameters with which it has done what it was taken to do.
type Foreknown struct {
	Who   string
	How   Rewritten
	Shape string
	// Answer is what was told of the table that a form is about, if that is what is known; it is not changed.
	Answer [][]byte
}

// asks asks what forms need to know of a table, or takes what another session of the node was told as the same role
// with the same settings. Either is done where the session itself has defined nothing that is not committed. r is the
// backend's last answer; row is nil if there is none.
func (fs *forms) asks(sql string) (r reply, row [][]byte, err error) {
	who, key := fs.sight.who, append([]byte{0}, sql...) // no text of a client's begins so
	same := func() bool { return who != "" && fs.catalog == fs.catalogs.Catalog() }
	if same() {
		for _, k := range fs.plans.CachedPlans(fs.catalog, key) {
			if k.Who == who {
				return reply{}, k.Answer, nil
			}
		}
	}
	r, rows, err := fs.backend.ask(sql)
	if err != nil || r.failed != nil || len(rows) != 1 {
		return r, nil, err
	}
	if same() {
		fs.plans.CachePlan(fs.catalog, key, Foreknown{Who: who, Answer: rows[0]})
	}
	return r, rows[0], nil
}

// foreknow looks whether the node knows forms of a request that the session does not. If it does not know who it is, it
// asks its backend, if that may help. done is peek's.
func (c *planner) foreknow(r *request) (done bool, err error) {
	if r.way.direct == nil || !c.knows() || c.levels.current() != semantics.ReadCommitted {
		return false, nil // at other levels the question would take the snapshot
	}
	if !c.forms.refresh(r) {
		return false, nil
	}
	for i := range r.way.direct.parts {
		f := r.way.direct.parts[i].form
		var known []Foreknown
		if f.how == nil && !f.refused {
			known = c.forms.plans.CachedPlans(c.forms.catalog, c.forms.key(f.sql, f.types, f.literals))
		}
		if f.blind || len(known) > 0 {
			if done, err := c.buffer.introduce(); done || err != nil {
				return done, err
			}
		}
		f.adopt(known, c.sight.who)
	}
	return false, nil
}

// knows reports whether what the node knows is of use: the session may be asked who it is, and reads texts as others
// do.
func (c *planner) knows() bool {
	return !(c.sight.odd && c.sight.who == "") && !c.forms.off && !c.texts.encoded && !c.texts.escape &&
		c.forms.catalog == c.forms.catalogs.Catalog()
}

// refresh gives a request the forms of today, if some were forgotten since it was read; false if it cannot have them,
// and is not run directly.
func (fs *forms) refresh(r *request) bool {
	for i := range r.way.direct.parts {
		p := &r.way.direct.parts[i]
		if p.form.age == fs.age {
			continue
		}
		if p.form = fs.form(p.form.sql, p.form.types, p.form.literals); p.form == nil {
			r.way.direct = nil
			return false
		}
	}
	return true
}

// adopt takes what the node knows of a form as who the session is.
func (f *form) adopt(known []Foreknown, who string) {
	for _, k := range known {
		if k.Who == who && f.how == nil {
			f.how, f.blind, f.blindShape, f.who, f.shared = k.How, true, k.Shape, k.Who, true
		}
	}
}

// tell tells the node of a form.
func (fs *forms) tell(f *form) {
	if f.blind && !f.shared && f.how != nil && fs.catalog == fs.catalogs.Catalog() {
		f.shared = true
		fs.plans.CachePlan(fs.catalog, fs.key(f.sql, f.types, f.literals),
			Foreknown{Who: f.who, How: f.how, Shape: f.blindShape})
	}
}

// foreknown reports whether a request could be carried out unseen although its direct forms are not prepared.
func (c *planner) foreknown(r *request) bool {
	d := c.direct
	return r.way.direct != nil && !c.forms.off && !c.texts.encoded && !c.texts.escape && !(c.txn.Open() && d.closed) &&
		!slices.ContainsFunc(r.way.direct.parts, func(p directPart) bool {
			return p.form.how == nil || !p.form.blind ||
				p.form.who != c.sight.who
		})
}

// whoSQL tells what a direct statement would: role, search_path, and whether it could be carried out unseen under the
// session's settings.
const whoSQL = "SELECT CURRENT_USER, pg_catalog.current_setting('search_path'), pg_catalog.pg_my_temp_schema() " +
	"OPERATOR(pg_catalog.=) 0::pg_catalog.oid" +
	" AND pg_catalog.current_setting('row_security') OPERATOR(pg_catalog.=) 'on' AND " +
	"pg_catalog.current_setting('transaction_read_only') OPERATOR(pg_catalog.=) 'off'" +
	" AND pg_catalog.current_setting('client_encoding') OPERATOR(pg_catalog.=) 'UTF8'"

// introduce asks the backend who the session is, if it does not know, and nothing in the block may have changed it;
// once, until something may have. done is peek's.
func (b *buffer) introduce() (done bool, err error) {
	v := b.sight
	if v.who != "" || v.odd || v.asked || b.backend.prefix > 0 {
		return false, nil
	}
	if err := b.tx.takeAhead(); err != nil || b.txn.Gone() { // else its answer would be taken for this one's
		return false, err
	}
	v.asked = true
	name := b.backend.own(ownQuery)
	dst := wire.AppendClose(b.backend.out.AvailableBuffer(), 'S', name)
	b.backend.out.Append(wire.AppendSync(appendRun(wire.AppendParse(dst, name, whoSQL, nil), name)))
	rows, done, err := b.peek()
	if err == nil && len(rows) == 1 && len(rows[0]) == 3 && string(rows[0][2]) == "t" {
		v.who, v.within = string(rows[0][0])+"\x00"+string(rows[0][1]), b.txn.Open()
	}
	return done, err
}
