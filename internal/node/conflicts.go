package node

import (
	"strings"
	"time"

	"github.com/tuttidb/tutti/internal/capture"
	"github.com/tuttidb/tutti/internal/certify"
	"github.com/tuttidb/tutti/internal/guards"
	"github.com/tuttidb/tutti/internal/metrics"
	"github.com/tuttidb/tutti/internal/session"
	"github.com/tuttidb/tutti/internal/wire"
	"github.com/tuttidb/tutti/internal/writeset"
)

// Causes of lost transactions that concern a table, as a label.
const (
	causeRow     = "row"     // another transaction changed a row, or a key, that it has changed
	causeLock    = "lock"    // or locked it
	causeRead    = "read"    // or changed what it has read
	causeBlocked = "blocked" // its locks were in the way of another one, before it was ordered
)

// causes of a verdict that names no table.
var causes = map[certify.Reason]string{
	certify.Barrier: "definition", certify.TooOld: "too_old", certify.Malformed: "malformed",
	certify.LocksLost: "locks_lost", certify.NotAlone: "not_alone", certify.Outdated: "outdated",
}

// countConflict counts a transaction that has lost in the order, by its table.
func countConflict(m *metrics.Transactions, ws *writeset.Writeset, v certify.Verdict) {
	if v.Reason != certify.KeyConflict || int(v.Key.Table) >= len(ws.Tables) {
		m.Conflicts.Add("", "", causes[v.Reason])
		return
	}
	cause := causeRow
	if v.Key.Mode == writeset.Read {
		cause = causeRead
	}
	countTable(m, ws.Tables[v.Key.Table], cause)
}

// aborts has a session's transaction lose that is in the order's way, and counts it. It returns what Abort does.
func aborts(l *life, g *guards.Guard, why *wire.SQLError) (session.Phase, time.Duration) {
	phase, fresh, inWay := g.Abort(why)
	if fresh {
		l.metrics.Transactions.Blocked.Add(1)
	}
	return phase, inWay
}

// countTable counts one, of a table that may stand for the locks of another one.
func countTable(m *metrics.Transactions, t writeset.Table, cause string) {
	schema, name := t.Schema, t.Name
	if of, ok := capture.LocksOf(t); ok {
		if cause = causeLock; strings.Contains(of, ".") {
			schema, name, _ = strings.Cut(of, ".")
		} else {
			schema, name = "", of
		}
	}
	m.Conflicts.Add(schema, name, cause)
}
