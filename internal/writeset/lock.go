package writeset

import "slices"

// Lock says that a row was locked and not changed; see AddLocks.
type Lock struct {
	Table    Table
	Op       Op // OpLock or OpShare
	Identity uint64
	Image    []byte // the row's key
}

// TableMode is a mode in which a table was locked, by PostgreSQL's number.
type TableMode uint8

const (
	ShareUpdateExclusive TableMode = 4
	ShareTable           TableMode = 5 // SHARE
	ShareRowExclusive    TableMode = 6
	ExclusiveTable       TableMode = 7 // EXCLUSIVE; ACCESS EXCLUSIVE is told as that
)

func (m TableMode) known() bool { return m >= ShareUpdateExclusive && m <= ExclusiveTable }

// With is a mode that conflicts with whatever m or n conflicts with; zero is none.
func (m TableMode) With(n TableMode) TableMode {
	if m == 0 || n == 0 || m == n {
		return max(m, n)
	}
	return max(m, n, ShareRowExclusive)
}

// TableLock says that a table was locked; see AddTableLocks.
type TableLock struct {
	Table Table
	Mode  TableMode
	// Name stands for the table's locks: who holds one that keeps others out of the table, without being in the way of
	// those who write to it. Its Key is zero if nobody else is to know of them.
	Name Table
	// Unknown: where the transaction is applied the table is not locked.
	Unknown bool
}

// AddLocks adds locks on rows that w does not change; what else there is to them is left out. It comes after
// AddTableKeys. Behind steps the rows are a step of their own.
func (w *Writeset) AddLocks(locks []Lock) {
	rows := w.last()
	at := make(map[uint64]int, len(rows.Rows))
	for i, r := range rows.Rows {
		at[r.Identity] = i
	}
	written := w.written()
	for _, l := range locks {
		if i, ok := at[l.Identity]; ok {
			if l.Op == OpLock && rows.Rows[i].Op == OpShare {
				rows.Rows[i].Op = OpLock
			}
			continue
		}
		if !written[l.Table.Key] {
			written[l.Table.Key] = true
			w.Keys = append(w.Keys, Key{Hash: l.Table.Key, Mode: Shared, Table: w.number(l.Table)})
		}
		if rows != w {
			w.Keys = append(w.Keys, Key{Hash: l.Identity, Mode: Update, Table: w.number(l.Table)})
		}
		at[l.Identity] = len(rows.Rows)
		rows.Rows = append(rows.Rows, Row{Table: rows.number(l.Table), Op: l.Op, Identity: l.Identity, Image: l.Image})
	}
	w.end(rows)
}

// written are the keys of tables of which w holds more than that they were read.
func (w *Writeset) written() map[uint64]bool {
	out := make(map[uint64]bool, len(w.Tables))
	for _, t := range w.Tables {
		out[t.Key] = true
	}
	for _, read := range []bool{true, false} {
		for _, k := range w.Keys {
			if w.IsTable(k) && (k.Mode == Read) == read {
				out[k.Hash] = !read
			}
		}
	}
	return out
}

// AddTableLocks adds locks on tables. It comes after AddTableKeys; behind steps they are a step of their own.
func (w *Writeset) AddTableLocks(locks []TableLock) {
	rows := w.last()
	for _, l := range locks {
		if l.Name.Key != 0 {
			if l.Mode == ShareTable {
				w.Keys = append(w.Keys, Key{Hash: l.Name.Key, Mode: Shared, Table: w.number(l.Name)})
			} else {
				w.hold(l.Name)
			}
		}
		switch {
		case l.Mode == ShareTable:
			w.AddRead(l.Table)
		case l.Mode > ShareTable:
			w.hold(l.Table)
		}
		if !l.Unknown {
			rows.Rows = append(rows.Rows, Row{Table: rows.number(l.Table), Op: OpLock, Image: []byte{byte(l.Mode)}})
		}
	}
	w.end(rows)
}

// ForgetTableLocks takes the rows of locks on tables away. Their keys stay.
func (w *Writeset) ForgetTableLocks() {
	w.Rows = slices.DeleteFunc(w.Rows, func(r Row) bool { return r.LocksTable() })
	w.Steps = slices.DeleteFunc(w.Steps, func(s Step) bool {
		if s.Rows == nil {
			return false
		}
		s.Rows.ForgetTableLocks()
		return len(s.Rows.Rows) == 0
	})
}

// hold makes the key of a table Exclusive, for nothing but a lock, unless it is Exclusive already.
func (w *Writeset) hold(t Table) {
	n := w.number(t)
	if slices.ContainsFunc(w.Keys, func(k Key) bool { return k.Hash == t.Key && k.Mode == Exclusive }) {
		return
	}
	w.Keys = append(w.Keys, Key{Hash: t.Key, Mode: Exclusive, Table: n})
	if i, found := slices.BinarySearch(w.Held, n); !found {
		w.Held = slices.Insert(w.Held, i, n)
	}
}

// last is where rows of locks belong: a new step behind others, or w itself. end puts it there.
func (w *Writeset) last() *Writeset {
	if len(w.Steps) == 0 {
		return w
	}
	return &Writeset{}
}

func (w *Writeset) end(rows *Writeset) {
	if rows != w && len(rows.Rows) > 0 {
		w.Steps = append(w.Steps, Step{Rows: rows})
	}
}
