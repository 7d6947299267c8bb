package certify

import (
	"fmt"
	"math"
	"slices"

	"github.com/tuttidb/tutti/internal/writeset"
)

// Reason says why a transaction was not certified.
type Reason uint8

const (
	// None: it was certified.
	None Reason = iota
	// KeyConflict: another committed transaction took one of its keys unseen.
	KeyConflict
	// Barrier: a DDL statement was ordered after its base.
	Barrier
	// TooOld: its base precedes what the bounded index remembers.
	TooOld
	// Malformed: its bytes could not be decoded (set by the engine).
	Malformed
	// LocksLost: advisory locks under which it ran were taken from its member (set by the engine).
	LocksLost
	// NotAlone: what it has read was vouched for, and another member runs SERIALIZABLE transactions (set by the
	// engine).
	NotAlone
	// Outdated: what a definition was said to change may have changed since. It does not run.
	Outdated
)

// Verdict is the decision on one transaction. When Reason is KeyConflict, Key is the
// loser's key; Winner and WinnerOrdinal name the transaction that has it (also for Barrier).
type Verdict struct {
	Reason        Reason
	Key           writeset.Key
	Winner        writeset.TxID
	WinnerOrdinal uint64
}

// Commit reports whether the transaction commits.
func (v Verdict) Commit() bool { return v.Reason == None }

// Options bounds the certifier.
type Options struct {
	// KeysMax is the number of key occurrences remembered. Too small aborts long
	// transactions; every member must use the same value. Zero means 1<<20 (about 100 MB).
	KeysMax int
}

// Transaction is what certification needs of a transaction.
type Transaction struct {
	ID writeset.TxID
	// Base: every entry up to it was visible to the transaction when it wrote.
	Base uint64
	// SharedBase ≤ Base applies to its exclusive keys against shared ones: appliers do not
	// take the locks of foreign key checks, so local locks do not protect those. Tables that are held are locked by
	// whoever writes to them, so Base applies.
	SharedBase uint64
	// ReadBase applies to keys in mode Read, if it is more than Base: up to it, their origin vouches that whoever has
	// taken them unseen does no harm (decision 0034).
	ReadBase uint64
	// LockBase applies, if it is more than Base, to what a transaction with one snapshot does to the newest data,
	// whatever its snapshot shows: it makes rows, and refers to some. It held their locks when everything up to it was
	// visible.
	LockBase uint64
	Writeset *writeset.Writeset
}

// holder is who has a key: the last ordinal per mode.
type holder [writeset.Add + 1]uint64

func (h *holder) last() uint64 { return slices.Max(h[:]) }

// against is with which modes of earlier, unseen holders a mode conflicts. With shared ones an exclusive key
// conflicts by its own base, see Certifier.conflict.
var against = [writeset.Add + 1][]writeset.Mode{
	writeset.Read:      {writeset.Exclusive, writeset.Update, writeset.Shared, writeset.Add},
	writeset.Shared:    {writeset.Exclusive},
	writeset.Share:     {writeset.Exclusive, writeset.Update, writeset.Add},
	writeset.Update:    {writeset.Exclusive, writeset.Update, writeset.Add, writeset.Share},
	writeset.Add:       {writeset.Exclusive, writeset.Update, writeset.Share},
	writeset.Exclusive: {writeset.Exclusive, writeset.Update, writeset.Add, writeset.Share},
}

// agreed reports whether a bug is planted by which holders of a mode are in nobody's way but a reader's.
func agreed(m writeset.Mode) bool {
	switch planted {
	case "updates-agree":
		return m == writeset.Update
	case "additions-agree":
		return m == writeset.Add
	case "share-agrees":
		return m == writeset.Share
	}
	return false
}

type record struct {
	ordinal uint64
	id      writeset.TxID
	keys    []occurrence // never changed once the record is made
	blind   bool         // it has seen nothing; not in checkpoints
}

type occurrence struct {
	hash uint64
	mode writeset.Mode
}

// Certifier is the bounded index of recently committed keys. Not safe for concurrent use.
type Certifier struct {
	keysMax   int
	keys      map[uint64]holder
	filter    filter   // of keys
	records   []record // committed transactions, oldest first, from head
	head      int
	held      int    // keys in records
	floor     uint64 // transactions up to it have been forgotten
	barrier   uint64
	barrierID writeset.TxID
}

// New returns an empty certifier.
func New(o Options) *Certifier {
	if o.KeysMax <= 0 {
		o.KeysMax = 1 << 20
	}
	return &Certifier{keysMax: o.KeysMax, keys: make(map[uint64]holder)}
}

// AddedMax is within how many ordinals after its base a transaction that adds to rows must be ordered: what they hold
// by then is bounded by what they held, and by what so many can add.
const AddedMax = 1 << 14

// Certify decides on t at ordinal, which must grow from call to call, and if it commits
// remembers its keys.
func (c *Certifier) Certify(ordinal uint64, t Transaction) Verdict {
	if t.SharedBase > t.Base || max(t.Base, t.ReadBase, t.LockBase) >= ordinal {
		panic(fmt.Sprintf("certify: transaction %s at ordinal %d has base %d and shared base %d", t.ID, ordinal, t.Base,
			t.SharedBase))
	}
	if v := c.Check(t); !v.Commit() {
		return v
	}
	if ordinal-t.Base > AddedMax && t.Writeset.Adds() {
		return Verdict{Reason: TooOld}
	}
	c.remember(ordinal, t)
	return Verdict{}
}

// Check says what Certify would say now. A no stays a no at every later ordinal; a yes
// promises nothing.
func (c *Certifier) Check(t Transaction) Verdict {
	switch planted {
	case "base-forgotten":
		t.Base, t.SharedBase = math.MaxUint64, math.MaxUint64
	case "shared-base-ignored":
		t.SharedBase = t.Base
	case "eviction-is-agreement":
		t.Base, t.SharedBase = max(t.Base, c.floor), max(t.SharedBase, c.floor)
	}
	if t.Base < c.barrier && planted != "barrier-ignored" {
		return Verdict{Reason: Barrier, Winner: c.barrierID, WinnerOrdinal: c.barrier}
	}
	if t.Base < c.floor {
		return Verdict{Reason: TooOld}
	}
	var v Verdict
	t.Writeset.EachKey(func(k writeset.Key) bool {
		if k.Blind || planted == "blind-tables-ignored" && t.Writeset.Blind() { // it has seen nothing
			return true
		}
		v = c.checkKey(&t, k)
		return v.Commit()
	})
	return v
}

// checkKey is Check for one key.
func (c *Certifier) checkKey(t *Transaction, k writeset.Key) Verdict {
	if k.Mode == writeset.Exclusive && !k.Fresh && !k.Held && t.SharedBase < c.floor {
		return Verdict{Reason: TooOld, Key: k}
	}
	base := t.Base
	switch {
	case k.Mode == writeset.Read:
		base = max(base, t.ReadBase)
	case t.LockBase > base && t.Writeset.Newest(k):
		base = max(base, t.LockBase)
	}
	if w := c.conflictOf(t.Writeset, k, base, t.SharedBase); w != 0 {
		return Verdict{Reason: KeyConflict, Key: k, WinnerOrdinal: w, Winner: c.idAt(w)}
	}
	return Verdict{}
}

// CheckNames says whether somebody has taken unseen, by t's base, one of the names that t's definitions have searched
// for: keys in mode Read of what stands for names, of which nobody has a lock. What is forgotten does not count.
func (c *Certifier) CheckNames(t Transaction) (v Verdict) {
	t.Writeset.EachKey(func(k writeset.Key) bool {
		if k.Mode == writeset.Read && t.Writeset.Tables[k.Table].Schema == writeset.OwnSchema {
			v = c.checkKey(&t, k)
		}
		return v.Commit()
	})
	return v
}

// CheckLocks says whether t can still hold the row locks that it had when everything up to held
// was visible: whoever took one of its keys, and was not seen by it, took the lock from it. Everything up to t's
// base was visible before its first statement.
// seen is asked about the last holder of each key, and whether that has only added to the row; whoever is seen has seen
// those before it (C1), but for those in whose way it was not, see checkCompany.
func (c *Certifier) CheckLocks(t Transaction, held uint64,
	seen func(winner writeset.TxID, ordinal uint64, added bool) bool) Verdict {
	if planted == "locks-trusted" {
		return Verdict{}
	}
	if t.Base < c.barrier && planted != "barrier-held-off" { // no lock keeps it from changing what rows mean
		return Verdict{Reason: Barrier, Winner: c.barrierID, WinnerOrdinal: c.barrier}
	}
	if held < c.floor {
		return Verdict{Reason: TooOld}
	}
	var v Verdict
	var company map[uint64]writeset.Key
	t.Writeset.EachKey(func(k writeset.Key) bool {
		if k.Mode == writeset.Add { // it is not locked
			return true
		}
		w := c.conflictOf(t.Writeset, k, 0, math.MaxUint64)
		switch h := c.keys[k.Hash]; {
		case w == 0:
		case !seen(c.idAt(w), w, h[writeset.Add] == w):
			v = Verdict{Reason: KeyConflict, Key: k, WinnerOrdinal: w, Winner: c.idAt(w)}
		case w == h[writeset.Add] || w == h[writeset.Share] || k.Mode == writeset.Read && w == h[writeset.Shared]:
			if company == nil {
				company = map[uint64]writeset.Key{}
			}
			company[k.Hash] = k
		}
		return v.Commit()
	})
	if v.Commit() {
		return c.checkCompany(t, company, seen)
	}
	return v
}

// checkCompany is CheckLocks for keys whose last holder need not have seen others who hold it in the same mode: who
// adds to a row, shares it, or writes to a table, is in nobody's way who does so, too. Each of them since t's base must
// have been seen.
func (c *Certifier) checkCompany(t Transaction, keys map[uint64]writeset.Key,
	seen func(winner writeset.TxID, ordinal uint64, added bool) bool) Verdict {
	for i := len(c.records) - 1; len(keys) > 0 && i >= c.head && c.records[i].ordinal > t.Base; i-- {
		r := &c.records[i]
		for _, o := range r.keys {
			k, ok := keys[o.hash]
			asks := o.mode == writeset.Add || o.mode == writeset.Share && k.Mode >= writeset.Update &&
				k.Mode != writeset.Share || o.mode == writeset.Shared && k.Mode == writeset.Read
			switch {
			case !ok:
			case o.mode == writeset.Update || o.mode == writeset.Exclusive:
				delete(keys, o.hash) // those after it have seen it, and it has seen those before it
			case asks && !seen(r.id, r.ordinal, o.mode == writeset.Add):
				return Verdict{Reason: KeyConflict, Key: k, WinnerOrdinal: r.ordinal, Winner: r.id}
			}
		}
	}
	return Verdict{}
}

// CheckAdded says whether the rows that t adds to, and their tables, may have changed otherwise since they were known:
// bases says of each of them, in their order, when everything up to it was visible.
func (c *Certifier) CheckAdded(t Transaction, bases []uint64) (v Verdict) {
	for i := range t.Writeset.Rows {
		r := &t.Writeset.Rows[i]
		if r.Op != writeset.OpAdd {
			continue
		}
		if len(bases) == 0 || bases[0] < c.floor {
			return Verdict{Reason: TooOld}
		}
		base := bases[0]
		if bases = bases[1:]; base < c.barrier {
			return Verdict{Reason: Barrier, Winner: c.barrierID, WinnerOrdinal: c.barrier}
		}
		for _, k := range []writeset.Key{{Hash: r.Identity, Mode: writeset.Add, Table: r.Table},
			{Hash: t.Writeset.Tables[r.Table].Key, Mode: writeset.Shared, Table: r.Table}} {
			if w := c.conflict(k, base, base); w != 0 {
				return Verdict{Reason: KeyConflict, Key: k, WinnerOrdinal: w, Winner: c.idAt(w)}
			}
		}
	}
	return v
}

// EachUnseen calls f with every transaction that is remembered, was ordered after t's base, and has written to
// something that t has read, newest first, until f returns false.
func (c *Certifier) EachUnseen(t Transaction, f func(id writeset.TxID, ordinal uint64) bool) {
	whole, rows, tables := map[uint64]bool{}, map[uint64]bool{}, map[uint64]bool{}
	t.Writeset.EachKey(func(k writeset.Key) bool {
		switch {
		case k.Mode != writeset.Read:
		case t.Writeset.IsTable(k):
			whole[k.Hash] = true
		default:
			rows[k.Hash], tables[t.Writeset.Tables[k.Table].Key] = true, true
		}
		return true
	})
	for i := len(c.records) - 1; i >= c.head && c.records[i].ordinal > t.Base; i-- {
		for _, k := range c.records[i].keys {
			changes := k.mode == writeset.Exclusive || k.mode == writeset.Update || k.mode == writeset.Add
			if whole[k.hash] && (changes || k.mode == writeset.Shared) || rows[k.hash] && changes ||
				tables[k.hash] && k.mode == writeset.Exclusive {
				if !f(c.records[i].id, c.records[i].ordinal) {
					return
				}
				break
			}
		}
	}
}

// conflictOf is conflict for a key of w. A row that was only read is not there, or another, also when its whole table
// was taken.
func (c *Certifier) conflictOf(w *writeset.Writeset, k writeset.Key, base, sharedBase uint64) uint64 {
	if k.Mode != writeset.Read || w.IsTable(k) {
		return c.conflict(k, base, sharedBase)
	}
	latest := uint64(0)
	if h := c.keys[k.Hash]; planted != "row-reads-agree" {
		// Who refers to a row does not change it.
		latest = max(h[writeset.Exclusive], h[writeset.Update], h[writeset.Add])
	}
	if latest = max(latest, c.keys[w.Tables[k.Table].Key][writeset.Exclusive]); latest > base {
		return latest
	}
	return 0
}

// conflict returns the latest conflicting ordinal, or zero.
func (c *Certifier) conflict(k writeset.Key, base, sharedBase uint64) uint64 {
	if c.filter.lacks(k.Hash) {
		return 0
	}
	h, ok := c.keys[k.Hash]
	if !ok {
		return 0
	}
	w := uint64(0)
	for _, m := range against[k.Mode] {
		if h[m] > base && (k.Mode == writeset.Read || !agreed(m)) {
			w = max(w, h[m])
		}
	}
	if k.Held {
		sharedBase = base
	}
	if shared := h[writeset.Shared]; shared > sharedBase && k.Mode == writeset.Exclusive && !k.Fresh &&
		planted != "shared-agrees" {
		w = max(w, shared)
	}
	return w
}

func (c *Certifier) remember(ordinal uint64, t Transaction) {
	r := record{ordinal: ordinal, id: t.ID, blind: t.Writeset.Blind()}
	if len(t.Writeset.Rows) > max(c.keysMax/2, coarseMin) {
		r.keys = coarse(t.Writeset)
	} else {
		t.Writeset.EachKey(func(k writeset.Key) bool {
			if k.Mode != writeset.Read && (!k.Blind || planted != "blind-forgotten") {
				r.keys = append(r.keys, occurrence{k.Hash, k.Mode})
			}
			return true
		})
	}
	c.add(r)
	for c.held > c.keysMax && c.head < len(c.records)-1 {
		c.forgetOldest()
	}
}

// coarseMin is from how many rows on a writeset may be remembered by its tables, at least.
const coarseMin = 1 << 16

// coarse are the keys of a writeset of so many rows that they would drive out all others: instead of the rows
// that came, changed or were locked it holds their table, whose key every other writer to the table holds. That
// a row went, or changed a key, matters to those who reference it, too; such rows keep their keys (C6).
func coarse(w *writeset.Writeset) (out []occurrence) {
	tables := make([]bool, len(w.Tables))
	for i := range w.Rows {
		r := &w.Rows[i]
		switch {
		case r.Identity == 0:
		case r.Op == writeset.OpInsert || r.Op.KeyMode() != writeset.Exclusive:
			tables[r.Table] = true
		default:
			out = append(out, occurrence{r.Identity, r.Op.KeyMode()})
		}
	}
	for _, k := range w.Keys {
		if k.Mode != writeset.Read {
			out = append(out, occurrence{k.Hash, k.Mode})
		}
	}
	for i, held := range tables {
		if held {
			out = append(out, occurrence{w.Tables[i].Key, writeset.Exclusive})
		}
	}
	return out
}

// add makes r the newest record.
func (c *Certifier) add(r record) {
	for _, k := range r.keys {
		h := c.keys[k.hash]
		h[k.mode] = r.ordinal
		c.keys[k.hash] = h
		c.filter.add(k.hash, c.keys)
	}
	c.records = append(c.records, r)
	c.held += len(r.keys)
}

func (c *Certifier) forgetOldest() {
	r := c.records[c.head]
	for _, k := range r.keys {
		h, ok := c.keys[k.hash]
		if ok && h.last() <= r.ordinal {
			delete(c.keys, k.hash)
		}
	}
	c.floor = r.ordinal
	c.held -= len(r.keys)
	c.records[c.head] = record{}
	c.head++
	if c.head > 1024 && c.head > len(c.records)/2 {
		c.records = append([]record(nil), c.records[c.head:]...)
		c.head = 0
	}
}

// Define records a definition that runs at ordinal whatever was ordered before it (C4). It
// takes its keys; who is ordered later and has one of them, and has not seen it, loses. The keys were looked up when
// everything up to its base was visible. If another definition has since taken what the answer depends on, its
// Exclusive and Read keys, or if that cannot be known, it does not run and has to be looked up again. Rows hold their
// tables Shared, so they do not count. With a writeset that says so it is a barrier, and always runs.
func (c *Certifier) Define(ordinal uint64, t Transaction) Verdict {
	switch {
	case t.Writeset.Barrier:
		c.SetBarrier(ordinal, t.ID)
	case t.Base < max(c.barrier, c.floor) || c.redefined(t) && planted != "definition-outdated":
		return Verdict{Reason: Outdated}
	case planted != "definition-keys-forgotten":
		c.remember(ordinal, t)
	}
	return Verdict{}
}

// redefined reports whether what t's keys depend on was taken after its base.
func (c *Certifier) redefined(t Transaction) (yes bool) {
	t.Writeset.EachKey(func(k writeset.Key) bool {
		h := c.keys[k.Hash]
		yes = (k.Mode == writeset.Exclusive || k.Mode == writeset.Read) &&
			max(h[writeset.Exclusive], h[writeset.Update]) > t.Base
		return !yes
	})
	return yes
}

// SetBarrier records a definition at ordinal to which all who have not seen it lose (C4).
func (c *Certifier) SetBarrier(ordinal uint64, id writeset.TxID) {
	c.barrier, c.barrierID = ordinal, id
}

// Blind reports whether the transaction that committed at ordinal had seen nothing, if that is remembered. It is not
// the same at all members.
func (c *Certifier) Blind(ordinal uint64) bool { return c.at(ordinal).blind }

// idAt is which transaction committed at ordinal.
func (c *Certifier) idAt(ordinal uint64) writeset.TxID { return c.at(ordinal).id }

// at finds the transaction that committed at ordinal by binary search.
func (c *Certifier) at(ordinal uint64) record {
	lo, hi := c.head, len(c.records)
	for lo < hi {
		mid := (lo + hi) / 2
		if c.records[mid].ordinal < ordinal {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if lo < len(c.records) && c.records[lo].ordinal == ordinal {
		return c.records[lo]
	}
	return record{}
}

// Floor is the last ordinal whose keys were forgotten; later ones are remembered.
func (c *Certifier) Floor() uint64 { return c.floor }

// Keys returns how many key occurrences are remembered, for metrics.
func (c *Certifier) Keys() int { return c.held }
