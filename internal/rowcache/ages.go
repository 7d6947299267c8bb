package rowcache

import (
	"slices"

	"github.com/tuttidb/tutti/internal/writeset"
)

// ages tells apart what was known of a table's rows before the table was emptied or defined anew, and since: whatever
// is known of rows is known under the table's age of that time, and is found no more when the table has another age.
type ages struct {
	last   uint64            // the latest that was given
	tables map[uint64]uint64 // by tables' keys
	others uint64            // of all other tables
}

// agesMax bounds the tables that have an age of their own; more of them, and all tables have one anew.
const agesMax = 4096

// of is the age of a table.
func (a *ages) of(table uint64) uint64 {
	if age, ok := a.tables[table]; ok {
		return age
	}
	return a.others
}

// renew gives tables a new age, or all tables if there are none.
func (a *ages) renew(tables ...uint64) {
	a.last++
	if len(tables) == 0 || len(a.tables)+len(tables) > agesMax {
		a.tables, a.others = nil, a.last
		return
	}
	if a.tables == nil {
		a.tables = map[uint64]uint64{}
	}
	for _, t := range tables {
		a.tables[t] = a.last
	}
}

// emptied says of which tables nothing is known any more of what was there before a transaction, because it has emptied
// them, or defined something of them; all: of every one.
func emptied(w *writeset.Writeset) (tables []uint64, all bool) {
	if w.Barrier {
		return nil, true
	}
	if len(w.Steps) > 0 {
		for _, k := range w.Keys {
			if w.IsTable(k) && !slices.Contains(tables, k.Hash) {
				tables = append(tables, k.Hash)
			}
		}
	}
	for i := range w.Rows {
		if r := &w.Rows[i]; r.Op == writeset.OpTruncate {
			tables = append(tables, w.Tables[r.Table].Key)
		}
	}
	return tables, false
}
