package rowcache

import (
	"slices"

	"github.com/tuttidb/tutti/internal/certify"
	"github.com/tuttidb/tutti/internal/writeset"
)

// Counted is what the columns of a row held that are added to, at some moment.
type Counted struct {
	Row      string // a name of the row; it may have several
	Identity uint64
	Key      []byte // a record of the key's columns
	Values   []int64
	At       uint64  // the ordinal of that moment, or a lower one, see K3
	Changed  uint64  // the ordinal of a change by which a transaction has lost, if one is known of; see K4
	Columns  Columns // how the row's image is read
}

// Columns reads the columns that are added to.
type Columns interface {
	// Read takes values from a row's image, and Sum adds an addition's image to values; false if they cannot be known.
	Read(image []byte) (values []int64, key []byte, ok bool)
	Sum(values []int64, image []byte) bool
}

// Values are what is known of rows that are added to, by their names and by their identities.
type Values struct {
	max    int
	byName map[string]*Counted
	byKey  map[uint64][]*Counted
	full   uint64
}

// NewValues returns Values that know nothing, and never more than max.
func NewValues(max int) *Values {
	v := &Values{max: max}
	v.Clear()
	return v
}

// Clear forgets everything.
func (v *Values) Clear() { v.byName, v.byKey = map[string]*Counted{}, map[uint64][]*Counted{} }

// Count is how many are known, and Full how often all were forgotten because there were as many as there may be.
func (v *Values) Count() int   { return len(v.byName) }
func (v *Values) Full() uint64 { return v.full }

// fresh is K5, when everything up to an ordinal is applied.
func (c *Counted) fresh(applied uint64) bool {
	return c.At+certify.AddedMax/2 >= applied
}

func (v *Values) remove(c *Counted) {
	delete(v.byName, c.Row)
	left := slices.DeleteFunc(v.byKey[c.Identity], func(x *Counted) bool { return x == c })
	if v.byKey[c.Identity] = left; len(left) == 0 {
		delete(v.byKey, c.Identity)
	}
}

// Known is what is known of a row by its name. The caller may keep it.
func (v *Values) Known(name string, applied uint64) (Counted, bool) {
	c := v.byName[name]
	if c == nil || !c.fresh(applied) {
		return Counted{}, false
	}
	if c.Changed > c.At && c.Changed <= applied { // and Saw has not seen it
		v.remove(c)
		return Counted{}, false
	}
	out := *c
	out.Values = slices.Clone(c.Values) // Saw changes them
	return out, true
}

// Learn takes what a session has found in a row.
func (v *Values) Learn(row Counted, applied uint64) {
	old := v.byName[row.Row]
	switch {
	case old != nil && old.At >= row.At:
		return
	case old != nil:
		v.remove(old)
	case len(v.byName) >= v.max:
		v.makeRoom(applied)
	}
	v.byName[row.Row] = &row
	v.byKey[row.Identity] = append(v.byKey[row.Identity], &row)
}

// makeRoom forgets what is of no use any more, and everything if that is nothing.
func (v *Values) makeRoom(applied uint64) {
	for _, c := range v.byName { // order-free: each is looked at
		if !c.fresh(applied) {
			v.remove(c)
		}
	}
	if len(v.byName) >= v.max {
		v.Clear()
		v.full++
	}
}

// Lost notes by what a transaction has lost that adds to rows, if that was that something was not as it was known (K4).
func (v *Values) Lost(w *writeset.Writeset, by certify.Verdict) {
	row := by.Reason == certify.KeyConflict && by.Key.Mode == writeset.Add
	if !w.Adds() || by.Reason == certify.KeyConflict && !row && !w.IsTable(by.Key) {
		return
	}
	for i := range w.Rows {
		r := &w.Rows[i]
		if r.Op != writeset.OpAdd {
			continue
		}
		for _, c := range slices.Clone(v.byKey[r.Identity]) {
			switch {
			case !row: // who knows it anew knows enough
				v.remove(c)
			case r.Identity == by.Key.Hash: // Saw will tell what it is then
				c.Changed = max(c.Changed, by.WinnerOrdinal)
			}
		}
	}
}

// sawMax bounds the rows of a transaction that are looked at.
const sawMax = 1000

// Forgets reports whether after a transaction too little is known of any row.
func Forgets(w *writeset.Writeset) bool {
	return len(w.Steps) > 0 || len(w.Rows) > sawMax ||
		slices.ContainsFunc(w.Rows, func(r writeset.Row) bool { return r.All() }) ||
		slices.ContainsFunc(w.Keys, func(k writeset.Key) bool { return k.Mode == writeset.Exclusive && w.IsTable(k) })
}

// Saw notes what a transaction that is in the database, at its ordinal, has done to rows that are known. Those of a
// group come in their order.
func (v *Values) Saw(ordinal uint64, w *writeset.Writeset) {
	if len(v.byName) == 0 {
		return
	}
	if Forgets(w) {
		v.Clear()
		return
	}
	for i := range w.Rows {
		if r := &w.Rows[i]; r.Identity != 0 {
			for _, c := range slices.Clone(v.byKey[r.Identity]) {
				if c.At < ordinal && !c.saw(ordinal, r) {
					v.remove(c)
				}
			}
		}
	}
}

// saw takes a change of the row; false if what it holds is not known any more.
func (c *Counted) saw(ordinal uint64, r *writeset.Row) (ok bool) {
	c.At = ordinal
	switch {
	case r.Op == writeset.OpDelete, r.Op == writeset.OpDrop, r.Op == writeset.OpSet: // which is perhaps not there
		return planted == "stale-value"
	case r.Op.Locks():
		return true
	case r.Op == writeset.OpAdd && planted == "sum-forgotten":
		return true
	case r.Op == writeset.OpAdd:
		return c.Columns.Sum(c.Values, r.Image)
	}
	c.Values, _, ok = c.Columns.Read(r.Image)
	return ok
}
