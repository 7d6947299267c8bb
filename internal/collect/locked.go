package collect

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/tuttidb/tutti/internal/capture"
	"github.com/tuttidb/tutti/internal/semantics"
	"github.com/tuttidb/tutti/internal/session"
	"github.com/tuttidb/tutti/internal/writeset"
)

// locked sorts rows by tables, in a fixed order, and leaves out what is not replicated.
func (c Collector) locked(rows []semantics.LockedRow) (list []capture.Locked) {
	rows = slices.SortedFunc(slices.Values(rows), func(a, b semantics.LockedRow) int {
		share := func(r semantics.LockedRow) int { return map[bool]int{true: 1}[r.Share] }
		return cmp.Or(cmp.Compare(a.Table, b.Table), share(a)-share(b), cmp.Compare(a.Place, b.Place))
	})
	tables := c.tables()
	for i, r := range rows {
		if i > 0 && rows[i-1].Place != "" && rows[i-1].Table == r.Table && rows[i-1].Share == r.Share {
			if n := len(list); n > 0 && strconv.FormatUint(uint64(list[n-1].Table.OID), 10) == r.Table {
				list[n-1].Places = append(list[n-1].Places, r.Place)
			}
			continue
		}
		oid, err := strconv.ParseUint(r.Table, 10, 32)
		if err != nil {
			continue
		}
		t := tables.ByOID(uint32(oid))
		if t == nil || !t.Lockable() {
			continue
		}
		l := capture.Locked{Table: t, Op: writeset.OpLock}
		if r.Share {
			l.Op = writeset.OpShare
		}
		if r.Place != "" {
			l.Places = []string{r.Place}
		}
		list = append(list, l)
	}
	return list
}

// AppendLocked asks which rows these are; ok is false if none of them is replicated.
func (c Collector) AppendLocked(dst []byte, rows []semantics.LockedRow) (frames []byte, ok bool) {
	list := c.locked(rows)
	if len(list) == 0 {
		return dst, false
	}
	return c.privileged(dst, capture.LockedQuery(list), nil, true), true
}

// Locked reads the answer. The tables must be those that AppendLocked knew.
func (c Collector) Locked(rows []semantics.LockedRow, answer []byte) (order uint64, locks []writeset.Lock,
	tables []writeset.TableLock, err error) {
	return capture.ReadLocked(c.locked(rows), answer)
}

// AppendTablesLocked asks which tables the transaction has locked so that others are kept out.
func (c Collector) AppendTablesLocked(dst []byte) []byte {
	return c.privileged(dst, capture.TablesLockedQuery, nil, true)
}

// TablesLocked reads the answer.
func (c Collector) TablesLocked(answer []byte) ([]writeset.TableLock, error) {
	tables := c.tables()
	return capture.ReadTablesLocked(answer, func(schema,
		name string) bool {
		return tables.Capture(schema, name) != nil
	})
}

// AskConcurrent asks whether every member may build an index for itself.
func (Collector) AskConcurrent(c *semantics.Concurrent) string {
	return capture.ConcurrentSQL(c.Relation, c.Name, c.Columns)
}

// Concurrent reads the answer.
func (Collector) Concurrent(answer []byte, c *semantics.Concurrent) (session.Index, *writeset.Writeset, error) {
	if answer == nil {
		return session.Index{}, nil, nil
	}
	table, w, err := capture.Concurrent(answer)
	return session.Index{Schema: table[0], Table: table[1], Name: c.Name}, w, err
}

// AskDetach asks whether a partition may be detached in two steps.
func (Collector) AskDetach(d *semantics.Detach) string {
	return capture.DetachSQL(d.Parent, d.Partition)
}

// Detach reads the answer.
func (Collector) Detach(answer []byte) (session.Detach, *writeset.Writeset, error) {
	if answer == nil {
		return session.Detach{}, nil, nil
	}
	d, w, err := capture.Detach(answer)
	return session.Detach{Parent: d.Parent, Partition: d.Partition, Refs: d.Refs}, w, err
}

// TurnStatements are statements between which the session may detach a partition when the node lets it.
func (Collector) TurnStatements() (on, off string) {
	return "SET " + capture.TurnSetting + " = " + capture.DDLTurn, "RESET " + capture.TurnSetting
}

// AskAround asks what decides where a definition runs.
func (Collector) AskAround(st *semantics.Statement, names []string) string {
	reach, divided := "below", true
	switch of := &st.Confined; {
	case of.Apart || of.Of != "":
		reach = "none"
	case of.Reach == semantics.ReachPartitions || of.Reach == semantics.ReachNone:
		reach, divided = of.Reach.String(), false
	}
	return capture.AroundSQL(names, reach, st.Shares, divided)
}

// AskExtent asks which tables a definition may change.
func (Collector) AskExtent(st *semantics.Statement) string {
	of := &st.Confined
	if of.Of != "" {
		return capture.ExtentOfSQL(of.Of, of.Columns, of.Keys, of.Reach.String())
	}
	names := st.Relations
	if of.Apart {
		names = nil
	}
	if of.Large {
		names = append(slices.Clone(names), capture.SchemaName+"."+capture.LargeName)
	}
	return capture.ExtentSQL(names, of.Columns, of.Keys, of.Reach.String())
}

// Extent reads the answer.
func (Collector) Extent(answer []byte, st *semantics.Statement) (*writeset.Writeset, error) {
	extent, err := capture.Extent(answer, st.Confined.Columns, st.Confined.Types)
	if err == nil {
		capture.Gives(extent, st.Text)
	}
	return extent, err
}
