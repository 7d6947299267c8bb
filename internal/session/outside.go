package session

import "strings"

// A statement may do what its transaction does not show. What it does outside of the database ROLLBACK does not undo,
// so such a statement is run once: if its transaction loses, its client is told 40001 and knows that it has run. It is
// a write from the beginning, as a read that turns out to write is run again. A large object that PostgreSQL's own
// functions write is seen by the collect step alone, where the server does not refuse it for a transaction that is READ
// ONLY. So a statement that may do that is run in a transaction of ours.

// Reach is what a statement may do that its transaction does not show.
type Reach struct {
	Outside bool // something outside of the database
	Hides   bool // a large object is written by PostgreSQL's own functions
	MayHide bool // the server does not refuse that in what is not known here
}

// noteOutside notes what a request may do.
func (t *texts) noteOutside(r *request) {
	if r.prepares || r.way.direct != nil && t.staysInside(r.way.direct) {
		return
	}
	var all Reach
	for _, sql := range r.sql {
		all.add(t.facts.Reach(sql).of(t, r, sql))
	}
	// What acts in a block alone calls nothing, and PostgreSQL says so only if no transaction of ours is around it.
	if (all.Outside || all.Hides) && r.does.outlives&effects == 0 && !r.does.local && !r.does.settings {
		r.does.write = true
	}
	if all.Outside || len(r.sql) == 0 && !r.does.defines { // or a function that is called by its OID
		r.does.outlives |= effects
	}
}

// of is what a statement may do of which its text says so much. What a session has made, or prepared, is not known from
// texts. It may be run by an EXECUTE, or by a message, which has no text.
func (reach Reach) of(t *texts, r *request, sql string) Reach {
	reach.Hides = reach.Hides || reach.MayHide && t.code && r.does.runsCode
	if len(sql) > 7 && containsFold(sql, "prepare") {
		t.prepared.add(reach)
	}
	if t.prepared != (Reach{}) && (sql == "" || containsFold(sql, "execute")) {
		reach.add(t.prepared)
	}
	return reach
}

// add adds what another statement may do.
func (r *Reach) add(other Reach) {
	r.Outside, r.Hides = r.Outside || other.Outside, r.Hides || other.Hides
}

// staysInside reports whether nothing of what may be run directly goes outside. It is found once for each form, which
// is forgotten with the catalog.
func (t *texts) staysInside(d *directRun) bool {
	for i := range d.parts {
		f := d.parts[i].form
		if !f.inside && t.facts.Reach(f.sql).Outside {
			return false
		}
		f.inside = true
	}
	return true
}

func containsFold(sql, word string) bool {
	return strings.Contains(strings.ToLower(sql), word)
}

// outliving is what of a request outlives a rollback, so that it cannot run twice.
type outliving uint8

const (
	effects outliving = 1 << iota // something outside of the transaction
	names                         // it uses a statement, and closes it or gives its name away, see replacesUsed
)

func outlivesIf(so bool, what outliving) outliving {
	if so {
		return what
	}
	return 0
}

// repeats reports whether a request that has lost as a transaction of its own may be run again, after some tries.
func (r *request) repeats(try, most int) bool {
	return r.does.outlives&names == 0 && (r.way.yieldsAt(try) || try < most && r.does.outlives&effects == 0)
}

// repeatsLate reports whether a request outside of transactions may be run again if the backend had forgotten its
// statements, or a cancel of ours has hit it: one that was meant for another transaction, or because what maintains
// tables stood in the way.
func (r *request) repeatsLate(forgot, cancelled bool) bool {
	return r.does.outlives&names == 0 && (forgot && r.does.outlives&effects == 0 || r.prepares && cancelled ||
		r.does.maintain && cancelled && r.does.outlives&effects == 0)
}
