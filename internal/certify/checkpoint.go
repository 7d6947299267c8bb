package certify

import (
	"encoding/binary"
	"fmt"

	"github.com/tuttidb/tutti/internal/writeset"
)

// Checkpoint is what a certifier knew at one moment. It does not change when the certifier goes
// on, so it may be encoded elsewhere meanwhile.
type Checkpoint struct {
	floor     uint64
	barrier   uint64
	barrierID writeset.TxID
	records   []record
}

// Checkpoint returns what is known now. It copies about 56 bytes for each transaction that is
// remembered, and shares their keys.
func (c *Certifier) Checkpoint() Checkpoint {
	return Checkpoint{floor: c.floor, barrier: c.barrier, barrierID: c.barrierID,
		records: append([]record(nil), c.records[c.head:]...)}
}

// Restore returns a certifier that decides as the one the checkpoint was taken of (C5). The index of
// keys is made of the records again. What the old one still knew about keys up to the floor is
// missing; no verdict asks for it.
func Restore(o Options, p Checkpoint) *Certifier {
	c := New(o)
	c.floor, c.barrier, c.barrierID = p.floor, p.barrier, p.barrierID
	switch planted {
	case "checkpoint-without-barrier":
		c.barrier = 0
	case "checkpoint-without-keys":
		return c
	}
	for _, r := range p.records {
		c.add(r)
	}
	return c
}

// Append encodes the checkpoint: uvarints floor, barrier and its transaction, the number of
// records; per record its ordinal less the one before (at first the floor), its transaction, the
// number of keys; per key 8 bytes and one for the mode. Equal knowledge gives equal bytes.
func (p *Checkpoint) Append(dst []byte) []byte {
	dst = appendUvarints(dst, p.floor, p.barrier)
	dst = appendID(dst, p.barrierID)
	dst = appendUvarints(dst, uint64(len(p.records)))
	before := p.floor
	for i := range p.records {
		r := &p.records[i]
		dst = appendID(appendUvarints(dst, r.ordinal-before), r.id)
		dst = appendUvarints(dst, uint64(len(r.keys)))
		for _, k := range r.keys {
			dst = append(binary.LittleEndian.AppendUint64(dst, k.hash), byte(k.mode))
		}
		before = r.ordinal
	}
	return dst
}

func appendUvarints(dst []byte, vs ...uint64) []byte {
	for _, v := range vs {
		dst = binary.AppendUvarint(dst, v)
	}
	return dst
}

func appendID(dst []byte, id writeset.TxID) []byte {
	return appendUvarints(dst, uint64(id.Member), id.Incarnation, id.Seq)
}

const (
	idBytesMin     = 3
	recordBytesMin = 1 + idBytesMin + 1
	keyBytes       = 9
)

// ReadCheckpoint takes an encoded checkpoint off r. What it makes is a small multiple of the bytes
// read. An error says what cannot be true; the caller looks at r for bytes that are missing.
func ReadCheckpoint(r *writeset.Reader) (Checkpoint, error) {
	p := Checkpoint{floor: r.Uvarint(), barrier: r.Uvarint(), barrierID: readID(r)}
	p.records = make([]record, r.Count(recordBytesMin))
	before := p.floor
	for i := range p.records {
		step := r.Uvarint()
		x := record{ordinal: before + step, id: readID(r)}
		if n := r.Count(keyBytes); n > 0 {
			x.keys = make([]occurrence, n)
		}
		for j := range x.keys {
			k := occurrence{hash: r.Uint64(), mode: writeset.Mode(r.Byte())}
			if k.mode < writeset.Shared || k.mode > writeset.Add {
				return Checkpoint{}, fmt.Errorf("certify: checkpoint: key %d of ordinal %d has the unknown mode %d", j,
					x.ordinal, k.mode)
			}
			x.keys[j] = k
		}
		if x.ordinal <= before {
			return Checkpoint{}, fmt.Errorf("certify: checkpoint: record %d has ordinal %d after ordinal %d", i,
				x.ordinal, before)
		}
		p.records[i], before = x, x.ordinal
	}
	return p, nil
}

// Last is the last ordinal it remembers anything of.
func (p *Checkpoint) Last() uint64 {
	last := max(p.floor, p.barrier)
	if n := len(p.records); n > 0 {
		last = max(last, p.records[n-1].ordinal)
	}
	return last
}

func readID(r *writeset.Reader) writeset.TxID {
	return writeset.TxID{Member: uint32(r.Uvarint()), Incarnation: r.Uvarint(), Seq: r.Uvarint()}
}
