package session

import (
	"slices"
	"strconv"

	"github.com/cespare/xxhash/v2"

	"github.com/tuttidb/tutti/internal/semantics"
	"github.com/tuttidb/tutti/internal/session/txn"
	"github.com/tuttidb/tutti/internal/wire"
)

// Rows by which blocks of several members keep losing are changed in turns: before a statement that names such a row is
// run, the other members' sessions that do so, too, have ended, and what they have made of the row is seen here. No
// verdict depends on it. Which row a statement names its text and parameters tell: the table's name, and which columns
// equal what.

// rowTurns has a block take its turns at rows.
type rowTurns struct {
	host   rowTurnsHost
	txn    *txn.Machine
	levels *levels
	find   func(sql string) (semantics.Direct, bool)

	named []uint64 // rows that the transaction has named, while there were some by which transactions lose
}

// rowTurnsHost is what it needs of the node.
type rowTurnsHost struct {
	Control
	Intents
}

// namedMax bounds what is remembered of a transaction.
const namedMax = 64

// take comes before a request of a block is run, whose transaction is open. A failure says that this has lost
// meanwhile, or that the client has cancelled the wait.
func (w *rowTurns) take(r *request) *wire.SQLError {
	if r.prepares || !w.wants() {
		return nil
	}
	if !r.named {
		r.named, r.rows = true, w.rowsOf(r)
	}
	if len(r.rows) == 0 {
		return nil
	}
	if len(w.named) < namedMax {
		w.named = append(w.named, r.rows...)
	}
	if doom := w.host.Enter(PhaseRunning); doom != nil { // the client may cancel it
		return doom
	}
	return w.host.TakeTurns(r.rows)
}

// wants reports whether turns matter: each statement sees the newest rows, and some are contended.
func (w *rowTurns) wants() bool {
	return !w.txn.Idle() && !w.txn.Implicit() && w.levels.current() == semantics.ReadCommitted && w.host.Contended()
}

// told notes that the client is told that its block has lost.
func (w *rowTurns) told(e *wire.SQLError) {
	slices.Sort(w.named)
	w.named = slices.Compact(w.named)
	if e.Code == wire.CodeSerializationFailure && !w.txn.Implicit() && w.levels.current() == semantics.ReadCommitted {
		w.host.LostAt(w.named)
	}
	w.named = w.named[:0]
}

// rowsOf are the rows that the statements of a request name, in their order.
func (w *rowTurns) rowsOf(r *request) (rows []uint64) {
	if d := r.way.direct; d != nil {
		for i := range d.parts {
			rows = appendRow(rows, d.parts[i].form.rowName(w.find), d.parts[i].bind)
		}
	}
	for _, l := range r.answer.locked {
		rows = appendRow(rows, l.name, l.bind)
	}
	return rows
}

// lockedRow is how a statement names the row that it locks, with its Bind; nil if its text has no parameters.
type lockedRow struct {
	name *semantics.RowName
	bind []byte
}

// rowName is how the statement of a form names the rows that it changes; nil if it does otherwise.
func (f *form) rowName(find func(string) (semantics.Direct, bool)) *semantics.RowName {
	if !f.looked {
		f.looked = true
		if d, ok := f.direct(find); ok {
			f.row = d.Row
		}
	}
	return f.row
}

// appendRow appends the number of a row.
func appendRow(rows []uint64, name *semantics.RowName, bind []byte) []uint64 {
	if name == nil {
		return rows
	}
	var values [][]byte
	if bind != nil {
		b, err := wire.DecodeBind(wire.Frame{Raw: bind}.Body())
		if err != nil {
			return rows
		}
		if _, values, err = wire.DecodeBindValues(b.Rest); err != nil {
			return rows
		}
	}
	var h xxhash.Digest
	h.Reset()
	_, _ = h.WriteString(name.Relation) // never fails
	for _, f := range name.Finds {
		value := strconv.AppendInt(nil, f.Value.Value, 10)
		if n := f.Value.Parameter; n > len(values) {
			return rows
		} else if n > 0 {
			value = values[n-1]
		}
		_, _ = h.WriteString("\x00" + f.Column + "\x00")
		_, _ = h.Write(value)
	}
	if row := h.Sum64(); !slices.Contains(rows, row) {
		rows = append(rows, row)
	}
	return rows
}
