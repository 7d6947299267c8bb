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
	rows   map[semantics.LockedRow]bool // that the transaction has locked
	tables bool                         // it has run LOCK TABLE
	told   []string                     // tables of which the host knows that rows may be locked
	plain  map[string]bool              // texts that PostgreSQL refused with the column; they go without
}

const (
	lockedRowsMax = 1 << 16 // that are told one by one; more are told as whole tables
	plainLocksMax = 256
)

// locking says how a statement is followed; nil if it is not.
func (s *Session) locking(st semantics.Statement) *semantics.RowLocks {
	if of := s.statements[st.Executes]; st.Executes != "" && of != nil {
		return of.locks
	}
	l := st.Locks
	if l == nil || s.locks.plain[l.Text] || s.schema.noted || s.escape || !s.o.Collector.Lockable(l.Names) {
		return nil
	}
	return l
}

// lockedBy is how the part of a request is followed whose answer is being read.
func (r *reply) lockedBy() *semantics.RowLocks {
	switch {
	case len(r.locks) == 0:
		return nil
	case r.extended:
		return r.locks[min(r.done, len(r.locks)-1)]
	}
	return r.locks[0]
}

// cut takes our column off a frame for the client.
func (s *Session) cut(l *semantics.RowLocks, f *wire.Frame) error {
	raw, value, err := wire.CutColumn(f.Raw)
	if err != nil {
		return fmt.Errorf("session: %w", err)
	}
	f.Raw = raw
	if f.Type != wire.TypeDataRow {
		return nil
	}
	rows, ok := l.Read(string(value))
	if !ok {
		return fmt.Errorf("session: %q does not say which row was locked", value)
	}
	for _, r := range rows {
		s.locks.add(r)
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

// tellLocks tells the host for what locks a request asks.
func (s *Session) tellLocks(r *request) {
	for _, l := range r.locks {
		if l == nil {
			continue
		}
		names := slices.DeleteFunc(slices.Clone(l.Names), func(name string) bool { return slices.Contains(s.locks.told, name) })
		if s.locks.told = append(s.locks.told, names...); len(names) > 0 {
			s.host.Locks(names)
		}
	}
	if len(r.tables) > 0 && !s.locks.tables {
		s.host.Locks(nil)
	}
}

// lockRefused makes of an error that our column has caused one that invites to try again, without it. Others
// are told where they are in the client's text.
func (s *Session) lockRefused(l *semantics.RowLocks, e *wire.ErrorFields) {
	if int(e.Position) <= l.At {
		return
	}
	if int(e.Position) > l.At+l.More {
		e.Position -= int32(l.More)
		return
	}
	if s.locks.plain == nil || len(s.locks.plain) >= plainLocksMax {
		s.locks.plain = map[string]bool{}
	}
	s.locks.plain[l.Text] = true
	*e = errForgotten("rows were locked of something that is no table").ErrorFields
}

// addLocks adds to a writeset the rows that were locked and not changed.
func (s *Session) addLocks(c *collected) error {
	if len(s.locks.rows) == 0 || c.failed != nil || c.ws == nil || c.ws.Empty() || s.currentLevel() == semantics.Serializable {
		return nil
	}
	rows := make([]semantics.LockedRow, 0, len(s.locks.rows))
	for r := range s.locks.rows { // order-free: what is locked is a set
		rows = append(rows, r)
	}
	frames, ok := s.o.Collector.AppendLocked(s.srvW.AvailableBuffer(), rows)
	if !ok {
		return nil
	}
	answer, err := s.value(frames, c)
	if err != nil || c.failed != nil {
		return err
	}
	var list []writeset.Lock
	var tables []writeset.TableLock
	if c.order, list, tables, err = s.o.Collector.Locked(rows, answer); err != nil {
		return fmt.Errorf("session: locked rows: %w", err)
	}
	c.ws.AddLocks(list)
	c.ws.AddTableLocks(tables)
	return nil
}

// value asks for one value; c.failed says that PostgreSQL refused.
func (s *Session) value(frames []byte, c *collected) ([]byte, error) {
	s.srvW.Append(wire.AppendSync(frames))
	r, answer, err := s.backend.internal(true)
	switch {
	case err != nil:
		return nil, err
	case r.failed != nil:
		c.failed = &wire.SQLError{ErrorFields: *r.failed}
		return nil, nil
	case len(answer) != 1 || len(answer[0]) != 1:
		return nil, fmt.Errorf("session: what is locked was not answered")
	}
	return answer[0][0], nil
}
