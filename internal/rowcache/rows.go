package rowcache

import "github.com/tuttidb/tutti/internal/writeset"

// Options configures Rows.
type Options struct {
	// Rows are how many are remembered, at most, at 4 bytes each from the first one on: a multiple of 16. Zero means
	// 1<<21.
	Rows int
	// RestMax bounds the rows that are to be left alone. Zero means 1<<10.
	RestMax int
	// RestFor is for how long, in the owner's unit of time.
	RestFor int64
}

const (
	rowsMax = 1 << 21
	restMax = 1 << 10
	ways    = 8 // rows in a bucket, of which each row has two
)

// Rows remembers rows that are there, by 32 bits of their identities and their tables' ages. It may forget some.
type Rows struct {
	o    Options
	ages ages
	rows []uint32 // buckets of so many ways; nil: nothing was noted yet
	// rest are rows that no statement shall change unseen for a while. Either such a change has not found the row, or
	// the row has changed under a session that had not locked it.
	rest *Backoff
}

// NewRows returns Rows that know nothing.
func NewRows(o Options) *Rows {
	if o.Rows == 0 {
		o.Rows = rowsMax
	}
	if o.RestMax == 0 {
		o.RestMax = restMax
	}
	return &Rows{o: o, rest: NewBackoff(o.RestMax)}
}

// buckets gives the two buckets of a row of a table, and what stands for it there; none if there is nothing yet.
func (p *Rows) buckets(table, identity uint64) (buckets [2][]uint32, mark uint32) {
	if p.rows == nil || identity == 0 {
		return buckets, 0
	}
	identity += p.ages.of(table) * 0xd6e8feb86659fd93
	h := (identity ^ identity>>32) * 0x9e3779b97f4a7c15
	h = (h ^ h>>32) * 0x9e3779b97f4a7c15
	for i := range buckets {
		at := h >> (12 + 26*i) % uint64(len(p.rows)/ways) * ways
		buckets[i] = p.rows[at : at+ways]
	}
	return buckets, max(1, uint32(identity^identity>>32))
}

// find is where a row is, or nil.
func (p *Rows) find(table, identity uint64) *uint32 {
	buckets, mark := p.buckets(table, identity)
	for _, b := range buckets {
		for i := range b {
			if b[i] == mark {
				return &b[i]
			}
		}
	}
	return nil
}

// There reports whether a row of a table is known to be there, and whether it is to be left alone.
func (p *Rows) There(table, identity uint64, now int64) (there, resting bool) {
	return p.find(table, identity) != nil, p.rest.On(identity, now)
}

// add notes a row, in the emptier one of its buckets. It drives out another if it must.
func (p *Rows) add(table, identity uint64) {
	if p.rows == nil {
		p.rows = make([]uint32, p.o.Rows)
	}
	if identity == 0 || p.find(table, identity) != nil {
		return
	}
	buckets, mark := p.buckets(table, identity)
	best, most := &buckets[0][mark%ways], 0
	for _, b := range buckets {
		free, last := 0, best
		for i := range b {
			if b[i] == 0 {
				free, last = free+1, &b[i]
			}
		}
		if free > most {
			best, most = last, free
		}
	}
	*best = mark
}

func (p *Rows) remove(table, identity uint64) {
	if at := p.find(table, identity); at != nil && planted != "stale-row" {
		*at = 0
	}
}

// Rest notes rows that are not to be changed unseen for a while.
func (p *Rows) Rest(now int64, identities ...uint64) {
	for _, identity := range identities {
		p.rest.Begin(identity, now+p.o.RestFor)
	}
}

// Saw takes what a transaction has made of rows. Of blind rows that it has not found Missed tells afterwards.
func (p *Rows) Saw(w *writeset.Writeset) {
	for i := range w.Steps {
		if rows := w.Steps[i].Rows; rows != nil {
			p.Saw(rows)
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
			p.rest.End(r.Identity)
			p.add(table, r.Identity)
		default:
			p.add(table, r.Identity)
		}
	}
}

// Missed takes a blind row that was not there, or could not hold what it was to.
func (p *Rows) Missed(table, identity uint64, now int64) {
	p.remove(table, identity)
	p.Rest(now, identity)
}

// Forget forgets the rows that a transaction takes away with their tables. It comes before the transaction is visible
// to a session of this member; who looks at such a table before it is waits for its lock.
func (p *Rows) Forget(w *writeset.Writeset) {
	switch tables, all := emptied(w); {
	case all:
		p.ages.renew()
	case len(tables) > 0:
		p.ages.renew(tables...)
	}
}
