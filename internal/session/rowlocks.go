package session

import (
	"fmt"
	"slices"

	"github.com/tuttidb/tutti/internal/semantics"
	"github.com/tuttidb/tutti/internal/wire"
	"github.com/tuttidb/tutti/internal/writeset"
)

// A transaction that has locked a row relies on nobody changing it, at another member either. A SELECT
// with a locking clause therefore goes to the backend with one more column, which says which rows those
// are (semantics.RowLocks); the client does not see it. If the transaction then writes, the
// rows it has locked and not changed are added to its writeset.

// locks is what a session has of that.
type locks struct {
	backend *backend
	locking Locking
	view    func(name string) bool // see Facts.View
	intents Intents
	off     func() bool // no statement is followed now for its own text

	rows   map[semantics.LockedRow]bool // that the transaction has locked
	tables bool                         // it has run LOCK TABLE
	told   []string                     // tables of which the host knows that rows may be locked
	plain  map[string]bool              // texts that PostgreSQL refused with the column; they go without
}

const (
	lockedRowsMax = 1 << 16 // that are told one by one; more are told as whole tables
	plainLocksMax = 256
)

// end forgets a transaction.
func (l *locks) end() { l.rows, l.tables, l.told = nil, false, nil }

// follows says how a statement is followed; nil if it is not. Executes is the prepared one that it executes, if that is
// known.
func (l *locks) follows(st semantics.Statement, executes *prepared) *semantics.RowLocks {
	if st.Executes != "" && executes != nil {
		return executes.locks
	}
	own := st.Locks
	if !own.Followed() || l.plain[own.Text] || l.off() || slices.ContainsFunc(own.Names, l.view) {
		return nil
	}
	return own
}

// lockedBy is how the part of a request is followed whose answer is being read.
func (r *reply) lockedBy() *semantics.RowLocks {
	switch {
	case len(r.answer.locks) == 0:
		return nil
	case r.extended:
		return r.answer.locks[min(r.done, len(r.answer.locks)-1)]
	}
	return r.answer.locks[0]
}

// cut takes our column off a frame for the client.
func (l *locks) cut(by *semantics.RowLocks, f *wire.Frame) error {
	raw, value, err := wire.CutColumn(f.Raw)
	if err != nil {
		return fmt.Errorf("session: %w", err)
	}
	f.Raw = raw
	if f.Type != wire.TypeDataRow {
		return nil
	}
	rows, ok := by.Read(string(value))
	if !ok {
		return fmt.Errorf("session: %q does not say which row was locked", value)
	}
	for _, r := range rows {
		l.add(r)
	}
	return nil
}

// add notes a locked row; when there are too many, all tables that have some.
func (l *locks) add(r semantics.LockedRow) {
	whole := semantics.LockedRow{Table: r.Table}
	switch {
	case l.rows == nil:
		l.rows = map[semantics.LockedRow]bool{}
	case l.rows[whole]:
		return
	case len(l.rows) >= lockedRowsMax:
		tables := map[semantics.LockedRow]bool{whole: true}
		for r := range l.rows { // order-free: a set is made of a set
			tables[semantics.LockedRow{Table: r.Table}] = true
		}
		l.rows = tables
		return
	}
	l.rows[r] = true
}

// tell tells the node for what locks a request asks.
func (l *locks) tell(r *request) {
	for _, by := range r.answer.locks {
		if by == nil {
			continue
		}
		names := slices.DeleteFunc(slices.Clone(by.Names), func(name string) bool {
			return slices.Contains(l.told, name)
		})
		if l.told = append(l.told, names...); len(names) > 0 {
			l.intents.Locks(names)
		}
	}
	if len(r.does.tables) > 0 && !l.tables {
		l.intents.Locks(nil)
	}
}

// refused makes of an error that our column has caused one that invites to try again, without it. Others
// are told where they are in the client's text.
func (l *locks) refused(by *semantics.RowLocks, e *wire.ErrorFields) {
	if int(e.Position) <= by.At {
		return
	}
	if int(e.Position) > by.At+by.More {
		e.Position -= int32(by.More)
		return
	}
	if l.plain == nil || len(l.plain) >= plainLocksMax {
		l.plain = map[string]bool{}
	}
	l.plain[by.Text] = true
	*e = errForgotten("rows were locked of something that is no table").ErrorFields
}

// addTo adds to a writeset the rows that were locked and not changed. What a SERIALIZABLE transaction has locked is
// among what it has read, too, but that keeps nobody else from it.
func (l *locks) addTo(c *collected) error {
	if len(l.rows) == 0 || c.failed != nil || c.ws == nil || c.ws.Empty() {
		return nil
	}
	rows := make([]semantics.LockedRow, 0, len(l.rows))
	for r := range l.rows { // order-free: what is locked is a set
		rows = append(rows, r)
	}
	frames, ok := l.locking.AppendLocked(l.backend.out.AvailableBuffer(), rows)
	if !ok {
		return nil
	}
	answer, err := l.backend.value(frames, c)
	if err != nil || c.failed != nil {
		return err
	}
	var list []writeset.Lock
	var tables []writeset.TableLock
	if c.order, list, tables, err = l.locking.Locked(rows, answer); err != nil {
		return fmt.Errorf("session: locked rows: %w", err)
	}
	c.ws.AddLocks(list)
	c.ws.AddTableLocks(tables)
	return nil
}
