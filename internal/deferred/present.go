package deferred

import (
	"sync"
	"time"

	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/rowcache"
	"github.com/tuttidb/tutti/internal/writeset"
)

// RestFor is for how long rows are left alone that were to be changed unseen, in vain.
const RestFor = 10 * time.Second

// present remembers rows that are there, as far as what has been applied tells. Safe for concurrent use.
type present struct {
	off  bool // nothing is remembered
	mu   sync.Mutex
	rows *rowcache.Rows // nil: nothing was noted yet
}

// do calls f with the rows and the time now, unless nothing is remembered.
func (p *present) do(f func(rows *rowcache.Rows, now int64)) {
	if p.off {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.rows == nil {
		p.rows = rowcache.NewRows(rowcache.Options{RestFor: int64(RestFor)})
	}
	f(p.rows, time.Now().UnixNano())
}

// has reports whether a row of a table is known to be there, and whether it is to be left alone.
func (p *present) has(table, identity uint64) (there, resting bool) {
	p.do(func(rows *rowcache.Rows, now int64) { there, resting = rows.There(table, identity, now) })
	return there, resting
}

// rest notes rows that are not to be changed unseen for a while.
func (p *present) rest(identities ...uint64) {
	p.do(func(rows *rowcache.Rows, now int64) { rows.Rest(now, identities...) })
}

// saw takes what a transaction has made of rows.
func (p *present) saw(w *writeset.Writeset) {
	p.do(func(rows *rowcache.Rows, _ int64) { rows.Saw(w) })
}

// forget comes before a transaction that empties tables, or defines something of them, is visible.
func (p *present) forget(w *writeset.Writeset) {
	p.do(func(rows *rowcache.Rows, _ int64) { rows.Forget(w) })
}

// applied takes what the executor has applied, but for blind rows that it has missed.
func (p *present) applied(tasks []engine.Task, missed map[*writeset.Row]bool) {
	p.do(func(rows *rowcache.Rows, now int64) {
		for i := range tasks {
			if w := tasks[i].Writeset; w != nil {
				rows.Saw(w)
			}
		}
		for i := range tasks {
			w := tasks[i].Writeset
			for n := 0; w != nil && len(missed) > 0 && n < len(w.Rows); n++ {
				if r := &w.Rows[n]; missed[r] {
					rows.Missed(w.Tables[r.Table].Key, r.Identity, now)
				}
			}
		}
	})
}
