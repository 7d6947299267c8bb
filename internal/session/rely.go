package session

import (
	"slices"

	"github.com/tuttidb/tutti/internal/semantics"
)

// A client that was told UPDATE 1 may rely on the lock of the row until COMMIT, as PostgreSQL has it. Where the client
// has read the row before in its block, it may have made the new value of what it has read; a change by somebody else
// in between would be overwritten, and nobody would be told (decision 0067). So such a row is certified from the moment
// on when UPDATE 1 was told: whoever has changed it since makes the block lose, and it is done again. For the same
// reason what was put off is not run later, on the row as it is by then: the whole block is done again, the reads
// included.
//
// Of a glance the session knows which row it is at, and of a SELECT of one table by its text which table. Any other
// statement that returns something may have read every row.

const (
	// dearMsMax and dearBytesMax bound how long a block has taken, in milliseconds, and what its client was told, in
	// bytes, if something is put off behind a read: it may have to be done again, while its client waits.
	dearMsMax    = 500
	dearBytesMax = 1 << 20
)

// dear reports whether it would take long to do the transaction again.
func (b *buffer) dear() bool {
	return b.later.spent > dearMsMax || b.retry.bytesTold > dearBytesMax
}

// shows reports whether a request tells its client something of what rows hold, or may.
func (r *request) shows() bool {
	switch {
	case r.prepares, r.does.settings:
		return false
	case r.way.chosen:
		return slices.ContainsFunc(r.way.direct.parts, func(p directPart) bool { return p.form.returns() })
	}
	return true
}

// runs notes that a request of the transaction is run.
func (b *buffer) runs(r *request) {
	l := &b.later
	still := r.prepares || b.texts.still(r)
	l.wrote = l.wrote || !still
	l.strange = !r.way.chosen && (l.strange || !still)
	if !r.shows() || l.all {
		return
	}
	if len(r.sql) == 1 && still && !b.texts.escape && !b.texts.encoded && len(l.read) < readMax {
		// and no view, which may read others
		if name, ok := semantics.ReadsAlone(r.sql[0]); ok && !b.facts.View(name) {
			l.read = append(l.read, name)
			return
		}
	}
	l.all = true
}

// readMax bounds the tables of which a transaction notes that it has read them.
const readMax = 100

// has reports whether the client has been shown rows of a table, by its name without schema, or may have. Tables that
// are a part of others are never changed unseen.
func (l *later) has(table string) bool { return l.all || slices.Contains(l.read, table) }

// shown reports whether the client has been shown anything.
func (l *later) shown() bool { return l.relied || l.all || len(l.read) > 0 }

// repeats notes that a transaction is done again because of what was put off in it: additions that come to that all the
// time are not put off, see form.passes.
func (l *later) repeats() {
	for i := range l.adds {
		if a := &l.adds[i]; a.relies {
			a.form.caught = min(a.form.caught+1, caughtMax)
		}
	}
}

// notLater reports whether what was put off must not be run any more, but the transaction be done again (S8).
func (l *later) notLater() bool { return l.relied && planted != "relied-run-later" }

// relies reports whether the client may rely on a change of a row, because it has read the row before, or may have.
func (l *later) relies(table string, identity uint64) bool {
	return l.has(table) || slices.Contains(l.looked, identity)
}
