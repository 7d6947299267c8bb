package node

import (
	"sync/atomic"

	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/writeset"
)

const (
	presentWays = 4 // places for a row
	presentMax  = 1 << 20
	shyMax      = 1 << 10
)

// present remembers rows that are there, by their identities, as far as what has been applied tells. It may forget some, and it may be wrong about others (what
// TRUNCATE has emptied): nothing but what is tried first depends on it. It takes 8 bytes for each of presentMax rows, from the first one on.
type present struct {
	off  bool // nothing is remembered
	rows atomic.Pointer[[presentMax]atomic.Uint64]
	shy  [shyMax]atomic.Uint64 // rows that were missed lately, and not made since: they may be there and hold what cannot be added to
}

// places are those that a row may have.
func (p *present) places(identity uint64) []atomic.Uint64 {
	rows := p.rows.Load()
	if rows == nil || identity == 0 {
		return nil
	}
	at := identity * 0x9e3779b97f4a7c15 >> 32 % (presentMax / presentWays) * presentWays
	return rows[at : at+presentWays]
}

// has reports whether a row is known to be there.
func (p *present) has(identity uint64) bool {
	places := p.places(identity)
	for i := range places {
		if places[i].Load() == identity {
			return p.shy[identity%shyMax].Load() != identity
		}
	}
	return false
}

// add notes a row. It drives out another if it must. One goroutine adds and removes.
func (p *present) add(identity uint64) {
	if p.rows.Load() == nil {
		p.rows.Store(&[presentMax]atomic.Uint64{})
	}
	places := p.places(identity)
	free := int(identity % presentWays)
	for i := range places {
		switch places[i].Load() {
		case identity:
			return
		case 0:
			free = i
		}
	}
	if places != nil {
		places[free].Store(identity)
	}
}

func (p *present) remove(identity uint64) {
	places := p.places(identity)
	for i := range places {
		if places[i].Load() == identity {
			places[i].Store(0)
		}
	}
}

// saw takes what a transaction has made of rows.
func (p *present) saw(w *writeset.Writeset) {
	if p.off {
		return
	}
	for i := range w.Rows {
		switch r := &w.Rows[i]; {
		case r.All():
		case r.Op == writeset.OpDelete, r.Op == writeset.OpDrop:
			p.remove(r.Identity)
		case r.Op == writeset.OpInsert:
			p.shy[r.Identity%shyMax].CompareAndSwap(r.Identity, 0)
			p.add(r.Identity)
		default:
			p.add(r.Identity)
		}
	}
}

// applied takes what the executor has applied, but for blind rows that it has missed.
func (p *present) applied(tasks []engine.Task, missed map[*writeset.Row]bool) {
	for i := range tasks {
		if w := tasks[i].Writeset; w != nil {
			p.saw(w)
		}
	}
	for r := range missed { // order-free: each is removed
		p.remove(r.Identity)
		p.shy[r.Identity%shyMax].Store(r.Identity)
	}
}
