package node

import (
	"sync/atomic"
	"time"

	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/writeset"
)

const (
	presentWays = 8 // rows in a bucket, of which each row has two
	presentMax  = 1 << 21
	shyMax      = 1 << 10
	shyFor      = 10 * time.Second
)

// present remembers rows that are there, by 32 bits of their identities and their tables' ages, as far as what has been applied tells. It may forget some, and it may be wrong
// about others (rows of which these bits are the same): nothing but what is tried first depends on it. It takes 4 bytes for each of presentMax rows, from the first one on.
type present struct {
	off  bool // nothing is remembered
	ages ages
	rows atomic.Pointer[[presentMax]atomic.Uint32]
	// Rows that are to be left alone, and until when, by the clock in nanoseconds: they were missed and not made since, so that they may be there and hold what cannot be added
	// to, or they have changed under those who had not locked them.
	shy   [shyMax]atomic.Uint64
	until [shyMax]atomic.Int64
}

// places gives the two buckets of a row of a table, and what stands for it there; none if there is nothing yet.
func (p *present) places(table, identity uint64) (buckets [2][]atomic.Uint32, mark uint32) {
	rows := p.rows.Load()
	if rows == nil || identity == 0 {
		return buckets, 0
	}
	identity += p.ages.of(table) * 0xd6e8feb86659fd93
	h := (identity ^ identity>>32) * 0x9e3779b97f4a7c15
	h = (h ^ h>>32) * 0x9e3779b97f4a7c15
	for i := range buckets {
		at := h >> (12 + 26*i) % (presentMax / presentWays) * presentWays
		buckets[i] = rows[at : at+presentWays]
	}
	return buckets, max(1, uint32(identity^identity>>32))
}

// find is where a row is, or nil.
func (p *present) find(table, identity uint64) *atomic.Uint32 {
	buckets, mark := p.places(table, identity)
	for _, b := range buckets {
		for i := range b {
			if b[i].Load() == mark {
				return &b[i]
			}
		}
	}
	return nil
}

// has reports whether a row of a table is known to be there, and whether it is shy.
func (p *present) has(table, identity uint64) (there, shy bool) {
	return p.find(table, identity) != nil, p.shy[identity%shyMax].Load() == identity && time.Now().UnixNano() < p.until[identity%shyMax].Load()
}

// add notes a row, in the emptier one of its buckets. It drives out another if it must. One goroutine adds and removes.
func (p *present) add(table, identity uint64) {
	if p.rows.Load() == nil {
		p.rows.Store(&[presentMax]atomic.Uint32{})
	}
	if identity == 0 || p.find(table, identity) != nil {
		return
	}
	buckets, mark := p.places(table, identity)
	place, most := &buckets[0][mark%presentWays], 0
	for _, b := range buckets {
		free, last := 0, place
		for i := range b {
			if b[i].Load() == 0 {
				free, last = free+1, &b[i]
			}
		}
		if free > most {
			place, most = last, free
		}
	}
	place.Store(mark)
}

func (p *present) remove(table, identity uint64) {
	if place := p.find(table, identity); place != nil {
		place.Store(0)
	}
}

// beShy notes rows that are not to be changed unseen for a while.
func (p *present) beShy(identities ...uint64) {
	until := time.Now().Add(shyFor).UnixNano()
	for _, identity := range identities {
		p.until[identity%shyMax].Store(until)
		p.shy[identity%shyMax].Store(identity)
	}
}

// saw takes what a transaction has made of rows.
func (p *present) saw(w *writeset.Writeset) {
	if p.off {
		return
	}
	for i := range w.Steps {
		if rows := w.Steps[i].Rows; rows != nil {
			p.saw(rows)
		}
	}
	for i := range w.Rows {
		r := &w.Rows[i]
		table := w.Tables[r.Table].Key
		switch {
		case r.All():
		case r.Op == writeset.OpDelete, r.Op == writeset.OpDrop:
			p.remove(table, r.Identity)
		case r.Op == writeset.OpInsert:
			p.shy[r.Identity%shyMax].CompareAndSwap(r.Identity, 0)
			p.add(table, r.Identity)
		default:
			p.add(table, r.Identity)
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
	for i := range tasks {
		w := tasks[i].Writeset
		for n := 0; w != nil && len(missed) > 0 && n < len(w.Rows); n++ {
			if r := &w.Rows[n]; missed[r] {
				p.remove(w.Tables[r.Table].Key, r.Identity)
				p.beShy(r.Identity)
			}
		}
	}
}
