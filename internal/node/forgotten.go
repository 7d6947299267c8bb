package node

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/tuttidb/tutti/internal/writeset"
)

// ages tells apart what was known of a table's rows before the table was emptied or defined anew, and since: whatever is known of rows is known under the table's age of that
// time, and is found no more when the table has another age. Safe for concurrent use.
type ages struct {
	mu   sync.Mutex
	last uint64 // the latest that was given
	now  atomic.Pointer[agesNow]
}

type agesNow struct {
	of     map[uint64]uint64 // by tables' keys
	others uint64            // of all other tables
}

// agesMax bounds the tables that have an age of their own; more of them, and all tables have one anew.
const agesMax = 4096

// of is the age of a table.
func (a *ages) of(table uint64) uint64 {
	now := a.now.Load()
	if now == nil {
		return 0
	}
	if age, ok := now.of[table]; ok {
		return age
	}
	return now.others
}

// renew gives tables a new age, or all tables if there are none.
func (a *ages) renew(tables ...uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.last++
	next := &agesNow{others: a.last}
	if now := a.now.Load(); len(tables) > 0 && (now == nil || len(now.of)+len(tables) <= agesMax) {
		next = &agesNow{of: map[uint64]uint64{}}
		if now != nil {
			next.others = now.others
			maps.Copy(next.of, now.of)
		}
		for _, t := range tables {
			next.of[t] = a.last
		}
	}
	a.now.Store(next)
}

// emptied says of which tables nothing is known any more of what was there before a transaction, because it has emptied them, or defined something of them; all: of every one.
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

// forget forgets what is known of rows that a transaction takes away with their tables. It comes before the transaction is visible to a session of this node; who looks at such a
// table before it is waits for its lock.
func (l *life) forget(w *writeset.Writeset) {
	if w == nil {
		return
	}
	if l.additions.max > 0 && forgets(w) {
		l.additions.forget()
	}
	if tables, all := emptied(w); all {
		l.present.ages.renew()
	} else if len(tables) > 0 {
		l.present.ages.renew(tables...)
	}
}
