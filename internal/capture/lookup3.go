package capture

import (
	"encoding/binary"
	"math/bits"
)

// PostgreSQL's hash functions, as far as they make the identities of rows that the database has not been asked about.
// They are Bob Jenkins' lookup3, seeded and put together in PostgreSQL's own way. Whoever uses them compares with what
// the database says (session.Rewritten).

type lookup3 struct{ a, b, c uint32 }

func newLookup3(size int, seed uint64) lookup3 {
	n := uint32(0x9e3779b9) + uint32(size) + 3923095
	h := lookup3{n, n, n}
	if seed != 0 {
		h.a += uint32(seed >> 32)
		h.b += uint32(seed)
		h.mix()
	}
	return h
}

func (h *lookup3) mix() {
	for _, n := range [2][3]int{{4, 6, 8}, {16, 19, 4}} {
		h.a -= h.c
		h.a ^= bits.RotateLeft32(h.c, n[0])
		h.c += h.b
		h.b -= h.a
		h.b ^= bits.RotateLeft32(h.a, n[1])
		h.a += h.c
		h.c -= h.b
		h.c ^= bits.RotateLeft32(h.b, n[2])
		h.b += h.a
	}
}

func (h *lookup3) sum() uint64 {
	step := func(x, y *uint32, n int) {
		*x ^= *y
		*x -= bits.RotateLeft32(*y, n)
	}
	step(&h.c, &h.b, 14)
	step(&h.a, &h.c, 11)
	step(&h.b, &h.a, 25)
	step(&h.c, &h.b, 16)
	step(&h.a, &h.c, 4)
	step(&h.b, &h.a, 14)
	step(&h.c, &h.b, 24)
	return uint64(h.b)<<32 | uint64(h.c)
}

// hashWord is hash_uint32_extended.
func hashWord(v uint32, seed uint64) uint64 {
	h := newLookup3(4, seed)
	h.a += v
	return h.sum()
}

// hashBytes is hash_any_extended where integers are little endian.
func hashBytes(b []byte, seed uint64) uint64 {
	h := newLookup3(len(b), seed)
	for ; len(b) >= 12; b = b[12:] {
		h.a += binary.LittleEndian.Uint32(b)
		h.b += binary.LittleEndian.Uint32(b[4:])
		h.c += binary.LittleEndian.Uint32(b[8:])
		h.mix()
	}
	var last [12]byte
	copy(last[:8], b)
	if len(b) > 8 {
		copy(last[9:], b[8:]) // the lowest byte of c is the length's
	}
	h.a += binary.LittleEndian.Uint32(last[:])
	h.b += binary.LittleEndian.Uint32(last[4:])
	h.c += binary.LittleEndian.Uint32(last[8:])
	return h.sum()
}

// hashColumn is the hash of a column's value in binary, as TableDesc.identity has it; false if its type is none of
// those whose equal values are equal in binary.
func hashColumn(oid uint32, value []byte, seed uint64) (uint64, bool) {
	switch {
	case oid == 21 && len(value) == 2:
		return hashWord(uint32(int32(int16(binary.BigEndian.Uint16(value)))), seed), true
	case oid == 23 && len(value) == 4:
		return hashWord(binary.BigEndian.Uint32(value), seed), true
	case oid == 20 && len(value) == 8, oid == 2950 && len(value) == 16:
		return hashBytes(value, seed), true
	}
	return 0, false
}
