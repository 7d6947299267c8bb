package engine

import (
	"encoding/binary"
	"fmt"

	"github.com/tuttidb/tutti/internal/writeset"
)

// Kind is the type of a log item.
type Kind uint8

const (
	// KindCertified is a writeset to be certified and applied.
	KindCertified Kind = 1
	// KindStatement is a statement that runs at every member at its ordinal (DDL): the only step of a writeset, whose
	// keys say what it may change, as far as that was known at its base.
	KindStatement Kind = 2
	// KindFence changes nothing; its delivery proves that all before it is known.
	KindFence Kind = 3
	// KindCheck asks every member for checksums at its ordinal.
	KindCheck Kind = 4
	// KindPart carries the front of a payload too large for one batch; it belongs to the next
	// item of its transaction that is no part (E13), and takes no ordinal. Its Base is how long the
	// whole payload is, or zero.
	KindPart Kind = 5
	// KindNotify carries what sessions of its member have notified; every member passes it on to its own
	// sessions once everything ordered before it is applied. It rides in a group with others.
	KindNotify Kind = 6
	// KindListen says which channels sessions of its member listen to from now on.
	KindListen Kind = 7

	// KindLock is a request about advisory locks (package locks). It changes nothing in the database.
	KindLock Kind = 8
	// KindSerial says whether its member runs SERIALIZABLE transactions from now on: its payload is a byte, 1 or 0.
	KindSerial Kind = 9
	// KindShun asks for no more blind transactions in some tables for a while: its payload is their keys, 8 bytes each.
	// It changes nothing.
	KindShun Kind = 10

	kindLast = KindShun
)

// noted reports whether items of the kind take an ordinal and no place in a group: what they say, members note.
func (k Kind) noted() bool { return k == KindLock || k == KindSerial || k == KindShun }

// Item is one entry of the total order. Payload is an encoded writeset for KindCertified
// and KindStatement and opaque bytes for the others.
type Item struct {
	Kind Kind
	ID   writeset.TxID
	// Slot is the origin's marker row that records the transaction's local commit.
	Slot uint32
	// Base and SharedBase: see certify.Transaction.
	Base, SharedBase uint64
	// Since is the ordinal at which the oldest of the advisory locks that the transaction's session holds
	// was granted; zero if it holds none.
	Since uint64
	// ReadBase: see certify.Transaction. Zero: nothing is vouched for.
	ReadBase uint64
	// LockBase: see certify.Transaction. Zero: nothing but Base applies.
	LockBase uint64
	Payload  []byte
}

// batch is what one proposal carries: consecutive items of one member.
type batch struct {
	Member      uint32
	Incarnation uint64
	Number      uint64
	Items       []Item
	passes      bool // there are items of others between the parts of a payload
}

// Version 1: byte version, then uvarints member, incarnation, number, item count; per item byte kind, uvarints
// sequence, slot, base, base−sharedBase, then the payload with length. Version 2 has another uvarint since before the
// payload, version 3 a further one, read base, version 4 one more, lock base; they are written if some item needs
// them. Version 5 is like version 4: before it, parts were ended by whatever item came next, and now by the one of
// their transaction. It is written if that makes a difference.
const (
	batchVersion      = 1
	batchVersionSince = 2
	batchVersionReads = 3
	batchVersionLocks = 4
	batchVersionPass  = 5
)

func (b *batch) append(dst []byte) []byte {
	version := byte(batchVersion)
	if b.passes {
		version = batchVersionPass
	}
	for i := range b.Items {
		switch {
		case b.Items[i].LockBase > 0:
			version = max(version, batchVersionLocks)
		case b.Items[i].ReadBase > 0:
			version = max(version, batchVersionReads)
		case b.Items[i].Since > 0:
			version = max(version, batchVersionSince)
		}
	}
	dst = append(dst, version)
	dst = binary.AppendUvarint(dst, uint64(b.Member))
	dst = binary.AppendUvarint(dst, b.Incarnation)
	dst = binary.AppendUvarint(dst, b.Number)
	dst = binary.AppendUvarint(dst, uint64(len(b.Items)))
	for i := range b.Items {
		it := &b.Items[i]
		dst = append(dst, byte(it.Kind))
		dst = binary.AppendUvarint(dst, it.ID.Seq)
		dst = binary.AppendUvarint(dst, uint64(it.Slot))
		dst = binary.AppendUvarint(dst, it.Base)
		dst = binary.AppendUvarint(dst, it.Base-it.SharedBase)
		if version >= batchVersionSince {
			dst = binary.AppendUvarint(dst, it.Since)
		}
		if version >= batchVersionReads {
			dst = binary.AppendUvarint(dst, it.ReadBase)
		}
		if version >= batchVersionLocks {
			dst = binary.AppendUvarint(dst, it.LockBase)
		}
		dst = writeset.AppendBytes(dst, it.Payload)
	}
	return dst
}

// itemBytesMin is the least that an item takes.
const itemBytesMin = 6

// batchHead reads what stands before the number of a batch's items.
func batchHead(r *writeset.Reader) (b *batch, version byte) {
	version = r.Byte()
	b = &batch{passes: version == batchVersionPass}
	b.Member, b.Incarnation, b.Number = uint32(r.Uvarint()), r.Uvarint(), r.Uvarint()
	return b, version
}

// decodeBatch reads a batch that fills data exactly; payloads alias data.
func decodeBatch(data []byte) (*batch, error) {
	r := writeset.NewReader(data)
	b, version := batchHead(r)
	switch {
	case version > batchVersionPass:
		return nil, fmt.Errorf("engine: log entry has version %d: %w", version, writeset.ErrUnknown)
	case version < batchVersion:
		return nil, fmt.Errorf("engine: log entry has version %d, this build knows %d to %d",
			version, batchVersion, batchVersionPass)
	}
	b.Items = make([]Item, r.Count(itemBytesMin))
	for i := range b.Items {
		it := &b.Items[i]
		it.Kind = Kind(r.Byte())
		it.ID = writeset.TxID{Member: b.Member, Incarnation: b.Incarnation, Seq: r.Uvarint()}
		it.Slot = uint32(r.Uvarint())
		it.Base = r.Uvarint()
		back := r.Uvarint()
		if back > it.Base {
			return nil, fmt.Errorf("engine: item %s has its shared base %d before zero", it.ID, back)
		}
		it.SharedBase = it.Base - back
		if version >= batchVersionSince {
			it.Since = r.Uvarint()
		}
		if version >= batchVersionReads {
			it.ReadBase = r.Uvarint()
		}
		if version >= batchVersionLocks {
			it.LockBase = r.Uvarint()
		}
		it.Payload = r.Bytes()
		if it.Kind > kindLast {
			return nil, fmt.Errorf("engine: item %s has kind %d: %w", it.ID, it.Kind, writeset.ErrUnknown)
		}
		if it.Kind < KindCertified {
			return nil, fmt.Errorf("engine: item %s has no kind", it.ID)
		}
	}
	if err := r.Done(); err != nil {
		return nil, fmt.Errorf("engine: log entry: %w", err)
	}
	return b, nil
}

// Bytes is the item by itself, for who keeps it outside the log.
func (it Item) Bytes() []byte {
	b := batch{Member: it.ID.Member, Incarnation: it.ID.Incarnation, Items: []Item{it}}
	return b.append(nil)
}

// TaskOf makes a task of what Bytes has given: one that is carried out here, whose ever it was.
func TaskOf(ordinal uint64, item []byte) (Task, error) {
	b, err := decodeBatch(item)
	if err != nil {
		return Task{}, err
	}
	if len(b.Items) != 1 {
		return Task{}, fmt.Errorf("engine: %d items are kept as one", len(b.Items))
	}
	t := Task{Ordinal: ordinal, Item: b.Items[0]}
	t.Writeset, err = writeset.Decode(t.Item.Payload)
	return t, err
}
