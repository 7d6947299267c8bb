package writeset

import (
	"errors"
	"fmt"
	"slices"
)

// TxID names one transaction in the whole cluster, for ever. Seq starts at 1 in each
// incarnation; an incarnation is one life of a member's process and only grows.
type TxID struct {
	Member      uint32
	Incarnation uint64
	Seq         uint64
}

// String gives the form users see in error details: member.incarnation.sequence.
func (t TxID) String() string {
	return fmt.Sprintf("%d.%d.%d", t.Member, t.Incarnation, t.Seq)
}

// IsZero reports whether t names no transaction.
func (t TxID) IsZero() bool { return t == TxID{} }

// Mode says how strongly a key is held. The modes conflict exactly as PostgreSQL's row locks KEY SHARE,
// NO KEY UPDATE, UPDATE and SHARE do.
type Mode uint8

const (
	// Read: it was read by a SERIALIZABLE transaction. A table key is the whole table, which conflicts with
	// everything anybody writes to it. Another key is a row that was looked for by that key, and may not have
	// been there: it conflicts with whoever changes the row, makes it, or holds the table Exclusive. Both are in
	// nobody's way.
	Read Mode = 0
	// Shared: the key is referenced (a foreign key points at it). Conflicts with Exclusive.
	Shared Mode = 1
	// Update: the row was changed but none of its keys. Conflicts with Update and Exclusive.
	Update Mode = 2
	// Exclusive: the key came, went, or changed. Conflicts with everything.
	Exclusive Mode = 3
	// Share: the row was locked so that nobody changes it. Conflicts with Update and Exclusive. It is
	// the mode of OpShare alone.
	Share Mode = 4
	// Add: the row's columns are added to, whatever they are. Conflicts as Update does, but not with Add. It is the
	// mode of OpAdd alone.
	Add Mode = 5
)

// Conflicts reports whether holders of a and b of the same key cannot both commit unseen.
func (a Mode) Conflicts(b Mode) bool {
	changes := func(m Mode) bool { return m == Update || m == Exclusive || m == Add }
	if a == Add && b == Add {
		return false
	}
	return a == Exclusive || b == Exclusive || changes(a) && b >= Update || changes(b) && a >= Update
}

// Key is one thing a transaction can collide on: the 64-bit hash of (table, unique index,
// values), where equal values of the column types give equal hashes.
type Key struct {
	Hash  uint64
	Mode  Mode
	Table uint32 // index into Writeset.Tables
	// Fresh marks the identity of an inserted row: an exclusive key that nobody can have
	// referenced before, so that shared holders are no conflict. It is derived, not encoded.
	Fresh bool
	// Blind marks the identity of a row that is changed unseen, whatever has happened to it before: it conflicts with
	// nobody who was ordered before, and with those who come after as Update does. It is derived, not encoded.
	Blind bool
	// Held marks the key of a table that was locked against writers, by a definition or by itself: what is applied
	// while its transaction is open takes that lock too, also for what only refers. It is derived, not encoded.
	Held bool
}

// Op is what happened to a row, net of the whole transaction.
type Op uint8

const (
	// OpInsert: the row did not exist before the transaction and does after.
	OpInsert Op = 1
	// OpUpdate: the row existed and still does; no unique or primary key value changed.
	OpUpdate Op = 2
	// OpDelete: the row existed and no longer does.
	OpDelete Op = 3
	// OpReplace: the row existed and still does under the same primary key, but another
	// unique value changed, or one that only an INSERT can set.
	OpReplace Op = 4
	// OpTruncate: the table was emptied before every other row of the transaction on it.
	OpTruncate Op = 5
	// OpLock: the row was locked (FOR UPDATE, FOR NO KEY UPDATE) and not changed; without Identity, the table was
	// locked.
	OpLock Op = 6
	// OpShare: the row was locked so that others may do so too (FOR SHARE), and not changed.
	OpShare Op = 7
	// OpAdd: the row existed and still does, and its image is what is added to integer columns of it, in which nothing
	// else has changed.
	OpAdd Op = 8
	// OpSet: if the row existed, columns of it were set, or added to, by a transaction that has not seen it: it is
	// blind, and so are all its operations.
	OpSet Op = 9
	// OpDrop: if the row existed it was deleted, by a transaction that has not seen it.
	OpDrop Op = 10
	// OpPut: the row was inserted into a table without key by a blind transaction.
	OpPut Op = 11
)

// Blind reports whether op is done by a transaction that has seen nothing of the row.
func (op Op) Blind() bool { return op == OpSet || op == OpDrop || op == OpPut }

// Locks reports whether op changes nothing.
func (op Op) Locks() bool { return op == OpLock || op == OpShare }

// Row is one row change. Image is the row's final composite value in PostgreSQL's binary
// (record_send) or text form according to its table's Format; for OpDelete with an Identity, OpDrop, OpLock
// and OpShare only the key columns need to be non-null; for OpAdd the key columns are, and what is added; for OpSet see
// AppendSet; for OpTruncate it is empty, and for OpLock without Identity one byte, a TableMode.
type Row struct {
	Table uint32 // index into Writeset.Tables
	Op    Op
	// hash of (table, key), also a key of the transaction; 0: the table has no key, rows are known by their image, or
	// All
	Identity uint64
	Image    []byte
}

// All reports whether r is about all of its table: it was truncated, or locked.
func (r *Row) All() bool { return r.Op == OpTruncate || r.LocksTable() }

// LocksTable reports whether r says that its table was locked, in the mode that is its image.
func (r *Row) LocksTable() bool { return r.Op == OpLock && r.Identity == 0 }

// KeyMode is the mode in which a row operation holds the row's identity.
func (op Op) KeyMode() Mode {
	switch op {
	case OpUpdate, OpLock, OpSet:
		return Update
	case OpShare:
		return Share
	case OpAdd:
		return Add
	}
	return Exclusive
}

// Format says how the images of a table's rows are written.
type Format uint8

const (
	FormatText   Format = 0
	FormatBinary Format = 1
)

// Table is a table touched by a writeset. Its TableKey is held Exclusive by a truncation
// (and by writes to tables whose constraints cannot be expressed as keys) and Shared by
// every other write; capture adds it to Keys only in the Exclusive case or when it must
// be certified against one; see AddTableKeys.
type Table struct {
	Schema string
	Name   string
	Format Format
	Key    uint64 // hash of the qualified name
}

// String gives the qualified name, unquoted, for messages.
func (t Table) String() string { return t.Schema + "." + t.Name }

// Writeset is what one transaction changed. Rows hold at most one entry per (table,
// identity), apart from tables without key.
type Writeset struct {
	Tables []Table
	Rows   []Row
	Keys   []Key // beyond the rows' identities: unique indexes, foreign keys, table keys

	// Steps is what a transaction that changed the schema did, in order. It has no Rows then, and
	// its Keys are all there are, those of the steps' rows included.
	Steps []Step
	// Held are the tables, as indices that grow, whose key is Exclusive for nothing but a lock, see Key.Held.
	Held []uint32
	// Barrier: what its definitions touch cannot be told by keys.
	Barrier bool
	// Shared: its definitions concern what all databases share, roles and databases.
	Shared bool
	// NewestNames: the names by which its definitions are told are compared with the newest data, see Newest. Of Steps
	// alone; older builds do not know it.
	NewestNames bool
}

// Step is a definition, whose bytes are the owner's, or the rows changed before the next one;
// Rows is nil for a definition, and has no Steps.
type Step struct {
	Definition []byte
	Rows       *Writeset
}

// Empty reports whether nothing was changed, nor written back as it was.
func (w *Writeset) Empty() bool { return len(w.Rows) == 0 && len(w.Keys) == 0 && len(w.Steps) == 0 }

// EachKey calls f with every key of w in a fixed order, identities first, until f returns
// false. It is the only way certification reads a writeset.
func (w *Writeset) EachKey(f func(Key) bool) {
	for i := range w.Rows {
		r := &w.Rows[i]
		if r.Identity != 0 && !f(Key{Hash: r.Identity, Mode: r.Op.KeyMode(), Table: r.Table, Fresh: r.Op == OpInsert,
			Blind: r.Op.Blind()}) {
			return
		}
	}
	for _, k := range w.Keys {
		if len(w.Held) > 0 && k.Mode == Exclusive && k.Hash == w.Tables[k.Table].Key {
			_, k.Held = slices.BinarySearch(w.Held, k.Table)
		}
		if !f(k) {
			return
		}
	}
}

// was is the image that a row without Identity had before the i-th Row, an Update, or nil.
func (w *Writeset) was(i int) []byte {
	if i == 0 || w.Rows[i].Op != OpUpdate || w.Rows[i].Identity != 0 {
		return nil
	}
	if r := &w.Rows[i-1]; r.Op == OpDelete && r.Identity == 0 && r.Table == w.Rows[i].Table {
		return r.Image
	}
	return nil
}

// EachWhole calls f with every change of a row without Identity: the image it had, nil for an
// Insert, and the one it has, nil for a Delete.
func (w *Writeset) EachWhole(f func(table uint32, was, is []byte)) {
	for i := range w.Rows {
		switch r := &w.Rows[i]; {
		case r.Identity != 0:
		case r.Op == OpInsert, r.Op == OpPut:
			f(r.Table, nil, r.Image)
		case r.Op == OpUpdate:
			f(r.Table, w.was(i), r.Image)
		case r.Op == OpDelete && (i+1 == len(w.Rows) || w.was(i+1) == nil):
			f(r.Table, r.Image, nil)
		}
	}
}

// AddTableKeys appends the table keys: Exclusive for tables that were truncated, Shared for
// the others, unless capture already asked for Exclusive.
func (w *Writeset) AddTableKeys() {
	mode := make([]Mode, len(w.Tables))
	for i := range mode {
		mode[i] = Shared
	}
	for _, r := range w.Rows {
		if r.Op == OpTruncate {
			mode[r.Table] = Exclusive
		}
	}
	for _, k := range w.Keys {
		if k.Hash == w.Tables[k.Table].Key && k.Mode != Read {
			mode[k.Table] = 0
		}
	}
	for i, m := range mode {
		if m != 0 {
			w.Keys = append(w.Keys, Key{Hash: w.Tables[i].Key, Mode: m, Table: uint32(i)})
		}
	}
}

// AddRead says that all of a table was read. It comes after AddTableKeys.
func (w *Writeset) AddRead(t Table) {
	w.Keys = append(w.Keys, Key{Hash: t.Key, Mode: Read, Table: w.number(t)})
}

// Pinned is a row of a table that was looked for by its key.
type Pinned struct {
	Table    Table
	Identity uint64
}

// Pin says that of the tables with certain keys nothing was read but the rows that were looked for by theirs, and what
// w writes or refers to. It takes the place of AddRead for them. A row that w changes needs no key of its own: it
// conflicts with whoever has changed it.
func (w *Writeset) Pin(tables []uint64, rows []Pinned) {
	w.Keys = slices.DeleteFunc(w.Keys, func(k Key) bool {
		return k.Mode == Read && w.IsTable(k) &&
			slices.Contains(tables, k.Hash)
	})
	held := make(map[uint64]bool, len(rows))
	w.EachKey(func(k Key) bool {
		if k.Mode == Update || k.Mode == Exclusive {
			held[k.Hash] = true
		}
		return true
	})
	for _, r := range rows {
		if held[r.Identity] {
			continue
		}
		held[r.Identity] = true
		w.Keys = append(w.Keys, Key{Hash: r.Identity, Mode: Read, Table: w.number(r.Table)})
	}
}

// OwnSchema has what is Tutti's own.
const OwnSchema = "tutti"

// Newest reports whether PostgreSQL compares a key of w with the newest data, even if the transaction reads from a
// snapshot that is older: that of a row that was made, or is referred to; and those that stand for the names which its
// definitions were told by.
func (w *Writeset) Newest(k Key) bool {
	if w.IsTable(k) {
		return w.NewestNames && len(w.Steps) > 0 && w.Tables[k.Table].Schema == OwnSchema &&
			(k.Held || k.Mode == Update)
	}
	return k.Fresh || k.Mode == Shared
}

// IsTable reports whether a key of w is a table key.
func (w *Writeset) IsTable(k Key) bool { return k.Hash == w.Tables[k.Table].Key }

// number gives the index of a table, which is added if it is not there.
func (w *Writeset) number(t Table) uint32 {
	n := slices.IndexFunc(w.Tables, func(x Table) bool { return x.Key == t.Key })
	if n < 0 {
		n = len(w.Tables)
		w.Tables = append(w.Tables, t)
	}
	return uint32(n)
}

// Validate checks W1 and W2. Gateways (decoding, capture) call it.
func (w *Writeset) Validate() error {
	n := uint32(len(w.Tables))
	for i, t := range w.Tables {
		if t.Schema == "" || t.Name == "" {
			return fmt.Errorf("writeset: table %d has no name", i)
		}
		if t.Format > FormatBinary {
			return fmt.Errorf("writeset: table %s has unknown row format %d", t, t.Format)
		}
	}
	for i := range w.Rows {
		if err := w.validateRow(i); err != nil {
			return err
		}
	}
	for i, k := range w.Keys {
		if k.Table >= n {
			return fmt.Errorf("writeset: key %d names table %d of %d", i, k.Table, n)
		}
		if k.Mode > Exclusive {
			return fmt.Errorf("writeset: key %d has unknown mode %d", i, k.Mode)
		}
	}
	return w.validateSteps()
}

// validateRow checks one row against its table.
func (w *Writeset) validateRow(i int) error {
	r, n := &w.Rows[i], len(w.Tables)
	if int64(r.Table) >= int64(n) {
		return fmt.Errorf("writeset: row %d names table %d of %d", i, r.Table, n)
	}
	if r.Op < OpInsert || r.Op > OpPut {
		return fmt.Errorf("writeset: row %d has unknown operation %d", i, r.Op)
	}
	if r.Identity == 0 && r.needsIdentity() && w.was(i) == nil {
		return fmt.Errorf("writeset: row %d changes a row without identity", i)
	}
	if r.LocksTable() && (len(r.Image) != 1 || !TableMode(r.Image[0]).known()) {
		return fmt.Errorf("writeset: row %d locks a table in an unknown mode", i)
	}
	if r.Op == OpAdd && w.Tables[r.Table].Format != FormatBinary {
		return fmt.Errorf("writeset: row %d is added to, and not in binary", i)
	}
	if err := w.validateSet(i); err != nil {
		return err
	}
	if (r.Op == OpTruncate) != (len(r.Image) == 0) {
		return fmt.Errorf("writeset: row %d has the wrong kind of image", i)
	}
	return nil
}

// needsIdentity: the row is neither made nor found by all its values, and is one row.
func (r *Row) needsIdentity() bool {
	return r.Op != OpInsert && r.Op != OpPut && r.Op != OpDelete && !r.All()
}

func (w *Writeset) validateSteps() error {
	if len(w.Steps) == 0 && (w.Barrier || w.Shared) || len(w.Steps) > 0 && len(w.Rows) > 0 {
		return errors.New("writeset: rows and steps do not go together")
	}
	for i, n := range w.Held {
		if int(n) >= len(w.Tables) || i > 0 && n <= w.Held[i-1] {
			return fmt.Errorf("writeset: held table %d of %d", n, len(w.Tables))
		}
	}
	for i := range w.Steps {
		if err := w.Steps[i].validate(i); err != nil {
			return err
		}
	}
	return nil
}

// validate checks the i-th step.
func (s *Step) validate(i int) error {
	switch {
	case (s.Rows == nil) == (len(s.Definition) == 0):
		return fmt.Errorf("writeset: step %d is neither a definition nor rows", i)
	case s.Rows == nil:
		return nil
	case len(s.Rows.Steps)+len(s.Rows.Held) > 0 || s.Rows.Blind():
		return fmt.Errorf("writeset: step %d has steps, holds tables by itself, or is blind", i)
	}
	if err := s.Rows.Validate(); err != nil {
		return fmt.Errorf("step %d: %w", i, err)
	}
	return nil
}

// ErrMalformed is wrapped by every decoding error.
var ErrMalformed = errors.New("malformed writeset")
