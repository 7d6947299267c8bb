package trial

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/tuttidb/tutti/internal/admission"
	"github.com/tuttidb/tutti/internal/capture"
	"github.com/tuttidb/tutti/internal/certify"
	"github.com/tuttidb/tutti/internal/database/catalog"
	"github.com/tuttidb/tutti/internal/grants"
	"github.com/tuttidb/tutti/internal/outcome"
	"github.com/tuttidb/tutti/internal/replay"
	"github.com/tuttidb/tutti/internal/session"
	"github.com/tuttidb/tutti/internal/wire"
	"github.com/tuttidb/tutti/internal/writeset"
)

// Tables are the tables as they are described now (catalog.Tables).
type Tables interface {
	Read(*writeset.Writeset) (capture.Verdict, writeset.Table, capture.BadText)
	Wide(*writeset.Writeset) []catalog.Doubt
	Coded(*writeset.Writeset) bool
	// Refused tries values, and rows that may not fit elsewhere, here.
	Refused(doubts, wide []catalog.Doubt) *wire.SQLError
}

// Client is the session whose transaction it is.
type Client interface {
	Enter(session.Phase) *wire.SQLError
	Interrupted() *wire.SQLError
	// Alone has the transaction take its turn; it waits so long at most for what is to be applied.
	Alone(sub *session.Submission, most time.Duration) *wire.SQLError
	// Decided is up to where this member knows the order. Defined says whether somebody has defined something since.
	Decided() uint64
	Defined(since uint64) bool
	// Loses is the verdict of all that is decided up to an ordinal. Behind says that the transaction has lost, and
	// what its next one must see.
	Loses(sub *session.Submission, ordinal uint64) certify.Verdict
	Behind(ordinal uint64)
}

// Options are what the trials of a replica need of it.
type Options struct {
	// Try has another member try a transaction, until stop is true; nil: it can be carried out there, or nobody can
	// tell.
	Try func(seq uint64, payload []byte, stop func() bool) *replay.Tried
	// Lost tells a session by what it has lost.
	Lost func(*writeset.Writeset, certify.Verdict) *wire.SQLError
}

// Refused says why a transaction is not handed to the order, also if it has lost while it waited for its turn; nil: it
// is. Doubts are values that are to be read in.
func Refused(o Options, c Client, tables Tables, sub *session.Submission, payload []byte,
	doubts []catalog.Doubt) *wire.SQLError {
	steps := len(sub.Writeset.Steps) > 0
	readable, where, bad := tables.Read(sub.Writeset)
	var unreadable *wire.SQLError
	if readable == capture.Unreadable {
		unreadable = wire.Errorf(wire.CodeCharacterNotInRepertoire, "%s", bad.Message()).
			WithDetail("In a row of table %s, column %q: no other member can store it.", where, bad.Column)
		if !steps {
			return unreadable
		}
	}
	if e := tables.Refused(doubts, tables.Wide(sub.Writeset)); e != nil {
		return e
	}
	// They may name what only this member has.
	texts := slices.ContainsFunc(doubts, func(d catalog.Doubt) bool { return d.Column < 0 })
	if !steps && !texts && !tables.Coded(sub.Writeset) {
		return nil
	}
	// The applier may need what it has, and its client may cancel it.
	if doom := c.Enter(session.PhaseRunning); doom != nil {
		return doom
	}
	r, failure := dryRun(o, c, sub, payload, steps)
	switch {
	case failure != nil:
	case r != nil && unreadable != nil:
		failure = unreadable
	case r != nil:
		failure = refusedThere(o, c, sub, r)
	}
	return cmp.Or(c.Enter(session.PhaseSubmitted), failure)
}

// dryRun has another member try a transaction, which takes its turn if it defines something. Then nobody here orders
// definitions, and it is tried again if the other member could not do it because of what was ordered meanwhile, or if
// others have defined something since.
func dryRun(o Options, c Client, sub *session.Submission, payload []byte, defines bool) (r *replay.Tried,
	failure *wire.SQLError) {
	end := admission.NewDeadline(admission.Time, sub.Limits, false)
	stop := func() *wire.SQLError { return cmp.Or(c.Interrupted(), end.Passed()) }
	try := func() *replay.Tried {
		return o.Try(sub.Seq, payload, func() bool { return stop() != nil })
	}
	asked := c.Decided()
	if r, failure = try(), stop(); !defines || failure != nil {
		return r, failure
	}
	patience := grants.SeenMax
	if r != nil { // it loses by what is ordered, most likely
		patience = grants.SeenAgain
	}
	if failure = c.Alone(sub, patience); failure != nil {
		return r, failure
	}
	if r != nil && r.Decided > r.Applied || c.Defined(asked) {
		r, failure = try(), stop()
	}
	return r, failure
}

// refusedThere words a refusal. What that member has seen may not be applied here yet; if the transaction loses to some
// of that, it is why.
func refusedThere(o Options, c Client, sub *session.Submission, r *replay.Tried) *wire.SQLError {
	if r.Decided > r.Applied || len(sub.Writeset.Steps) > 0 {
		if v := c.Loses(sub, r.Decided); !v.Commit() {
			c.Behind(v.WinnerOrdinal)
			return o.Lost(sub.Writeset, v)
		}
		if strings.HasPrefix(r.Message, "large object ") || strings.Contains(r.Message, "pg_largeobject_metadata") {
			// It has been removed since, and is not known here yet.
			return outcome.Ahead(r.Node, r.Message)
		}
	}
	return outcome.Elsewhere(r.Node, r.Code, r.Message, len(sub.Writeset.Steps) > 0)
}
