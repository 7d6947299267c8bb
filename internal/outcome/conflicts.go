package outcome

import (
	"fmt"
	"strings"

	"github.com/tuttidb/tutti/internal/capture"
	"github.com/tuttidb/tutti/internal/certify"
	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/metrics"
	"github.com/tuttidb/tutti/internal/wire"
	"github.com/tuttidb/tutti/internal/writeset"
)

// Words words and counts the conflicts of a replica. Safe for concurrent use.
type Words struct {
	Name    func(member uint32) string
	LeaseMs int // lock_lease_ms
	Metrics *metrics.Transactions
	// KeyText renders the key of a row, as its table is described now; Keyless reports whether a table is known to have
	// no primary key.
	KeyText func(t writeset.Table, record []byte) (columns, values string, ok bool)
	Keyless func(schema, name string) bool
}

// Lost words a lost certification.
func (w *Words) Lost(ws *writeset.Writeset, v certify.Verdict) *wire.SQLError {
	message := Concurrent
	if v.Reason == certify.KeyConflict && v.Key.Mode == writeset.Read || v.Reason == certify.NotAlone {
		message = "could not serialize access due to read/write dependencies among transactions"
	}
	e := wire.Errorf(wire.CodeSerializationFailure, "%s", message).WithHint(retried)
	switch v.Reason {
	case certify.Barrier:
		return e.WithDetail("A schema change, transaction %s of node %s, was ordered at %d while this transaction was "+
			"open.", v.Winner, w.Name(v.Winner.Member), v.WinnerOrdinal)
	case certify.TooOld:
		if ws.Adds() {
			return e.WithDetail("It adds to rows of which too little is known.")
		}
		return e.WithDetail("The transaction began before what is still remembered of committed transactions " +
			"(certify_keys).")
	case certify.NotAlone:
		return e.WithDetail("Another node began to run SERIALIZABLE transactions while this one was open.")
	case certify.LocksLost:
		return e.WithDetail("The advisory locks of this node's sessions were released, because the others did not "+
			"hear of it for %d ms (lock_lease_ms).", w.LeaseMs)
	case certify.Malformed:
		return e.WithDetail("The transaction's writeset could not be read by the cluster.")
	}
	t := ws.Tables[v.Key.Table]
	if table, ok := capture.LocksOf(t); ok {
		return e.WithDetail("A lock on table %q: transaction %s of node %s committed first, at ordinal %d.", table,
			v.Winner, w.Name(v.Winner.Member), v.WinnerOrdinal)
	}
	return e.WithDetail("%s of table %q: transaction %s of node %s committed first, at ordinal %d.",
		w.keyText(ws, v.Key), t.String(), v.Winner, w.Name(v.Winner.Member), v.WinnerOrdinal)
}

// Explain names the conflict between a transaction that blocked the executor and the group that is being applied, and
// counts it; nil if they have no key in common.
func (w *Words) Explain(ws *writeset.Writeset, group []engine.Task) (found *wire.SQLError) {
	held := map[uint64]*engine.Task{}
	for i := range group {
		if t := &group[i]; !t.Local && t.Writeset != nil {
			t.Writeset.EachKey(func(k writeset.Key) bool { held[k.Hash] = t; return true })
		}
	}
	ws.EachKey(func(k writeset.Key) bool {
		if t := held[k.Hash]; t != nil && k.Hash != ws.Tables[k.Table].Key {
			w.count(ws.Tables[k.Table], causeBlocked)
			found = w.Lost(ws, certify.Verdict{Reason: certify.KeyConflict, Key: k, Winner: t.Item.ID,
				WinnerOrdinal: t.Ordinal})
			return false
		}
		return true
	})
	return found
}

// Blocked is told to a transaction that held a lock the executor needs, when no more is known than what is being
// applied.
func (w *Words) Blocked(group []engine.Task) *wire.SQLError {
	e := wire.Errorf(wire.CodeSerializationFailure, Concurrent).WithHint(retried)
	if len(group) == 0 {
		return e
	}
	t := group[len(group)-1]
	for i := range group {
		if group[i].Item.Kind == engine.KindStatement {
			t = group[i]
		}
	}
	if t.Writeset == nil || len(t.Writeset.Steps) > 0 {
		return e.WithDetail("A schema change, transaction %s of node %s, was ordered at %d while this transaction "+
			"was open.", t.Item.ID, w.Name(t.Item.ID.Member), t.Ordinal)
	}
	detail := w.firstKey(t.Writeset)
	if len(group) > 1 {
		return e.WithDetail("It held a lock that %d committed transactions up to ordinal %d need; the last is %s of "+
			"node %s, %s.",
			len(group), t.Ordinal, t.Item.ID, w.Name(t.Item.ID.Member), detail)
	}
	return e.WithDetail("%s: transaction %s of node %s committed first, at ordinal %d.", detail, t.Item.ID,
		w.Name(t.Item.ID.Member), t.Ordinal)
}

// InTheWay is told to a transaction that a member's own work waits for, other than what is applied.
func (w *Words) InTheWay() *wire.SQLError {
	return wire.Errorf(wire.CodeSerializationFailure, Concurrent).WithHint(retried).
		WithDetail("It held a lock on a catalog that this member's own work needs.")
}

// Missed is told to a transaction that has not seen a definition and should have (L3 of replay).
func (w *Words) Missed(definition writeset.TxID) *wire.SQLError {
	return wire.Errorf(wire.CodeSerializationFailure, Concurrent).WithHint(retried).
		WithDetail("A schema change, transaction %s of node %s, was carried out here while this transaction was open.",
			definition, w.Name(definition.Member))
}

// keyText renders a key of a writeset for an error's DETAIL, such as "Key (aid)=(5)".
func (w *Words) keyText(ws *writeset.Writeset, k writeset.Key) string {
	t := ws.Tables[k.Table]
	if k.Hash == t.Key {
		return "The whole"
	}
	if object, ok := capture.LargeObject(ws); ok && t.Schema == capture.SchemaName && t.Name == capture.LargeName {
		return fmt.Sprintf("Large object %d, a row", object)
	}
	for _, r := range ws.Rows {
		if r.Table == k.Table && r.Identity == k.Hash {
			if columns, values, ok := w.KeyText(t, r.Record()); ok {
				return fmt.Sprintf("Key (%s)=(%s)", columns, values)
			}
		}
	}
	if k.Mode == writeset.Read {
		return fmt.Sprintf("A row that was read, or looked for, by its key (hash %016x)", k.Hash)
	}
	if w.Keyless(t.Schema, t.Name) {
		return fmt.Sprintf("A row without primary key, or a unique or foreign key (hash %016x)", k.Hash)
	}
	return fmt.Sprintf("A unique or foreign key (hash %016x)", k.Hash)
}

// firstKey renders the first row that a transaction writes.
func (w *Words) firstKey(ws *writeset.Writeset) string {
	for _, r := range ws.Rows {
		if r.Identity != 0 {
			k := writeset.Key{Hash: r.Identity, Table: r.Table}
			return fmt.Sprintf("%s of table %q", w.keyText(ws, k), ws.Tables[r.Table].String())
		}
	}
	return fmt.Sprintf("table %q", ws.Tables[0].String())
}

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

// Count counts a transaction that has lost in the order, by its table (OC5).
func (w *Words) Count(ws *writeset.Writeset, v certify.Verdict) {
	if v.Reason != certify.KeyConflict || int(v.Key.Table) >= len(ws.Tables) {
		w.Metrics.Conflicts.Add("", "", causes[v.Reason])
		return
	}
	cause := causeRow
	if v.Key.Mode == writeset.Read {
		cause = causeRead
	}
	w.count(ws.Tables[v.Key.Table], cause)
}

// count counts one, of a table that may stand for the locks of another one.
func (w *Words) count(t writeset.Table, cause string) {
	schema, name := t.Schema, t.Name
	if of, ok := capture.LocksOf(t); ok {
		if cause = causeLock; strings.Contains(of, ".") {
			schema, name, _ = strings.Cut(of, ".")
		} else {
			schema, name = "", of
		}
	}
	w.Metrics.Conflicts.Add(schema, name, cause)
}
