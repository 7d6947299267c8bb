package raftlog

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
)

// recordType says what a record's payload is. The numbers are on disk for ever.
type recordType byte

const (
	recordHead      recordType = 1 // first record of a segment: the state so far
	recordEntry     recordType = 2 // one raft entry
	recordHardState recordType = 3
	recordBase      recordType = 4 // compaction position, or restart at a snapshot
	recordConf      recordType = 5 // configuration state after an entry
	recordMark      recordType = 6 // nothing but its durable offset; written by Close
	recordEnd       recordType = 7 // last record of a segment that has a successor
)

// A record on disk, integers little-endian:
//
//	magic 1 | type 1 | payload length 4 | durable 8 | header CRC-32C 4 | mark 1
//	payload
//	body CRC-32C 4 | mark 1
//
// Both checksums start from the segment's sequence number and the record's offset, so a record is
// valid only where it was written. The body checksum covers the header too. The marks are
// never zero, so what a byte-wise torn write left is recognisable.
const (
	recordMagic       = 0xD7
	endMark           = 0xA5
	headerBytes       = 19
	footerBytes       = 5
	recordBytesMax    = 1 << 30 // payload; longer entries are refused by Append
	sectorBytes       = 512     // what a disk writes completely or not at all
	recordOverhead    = headerBytes + footerBytes
	headerCRCOffset   = 14
	headerMarkOffset  = 18
	headerDurableFrom = 6
)

// record is a decoded record. payload aliases the buffer it was decoded from.
type record struct {
	kind    recordType
	durable int64 // bytes of the segment known to be on disk when this was written
	payload []byte
	size    int64 // bytes on disk, header and footer included
}

var (
	errZero    = errors.New("no record: zeros")        // nothing was written here
	errTorn    = errors.New("record is incomplete")    // a write was cut off here
	errDamaged = errors.New("record has bad checksum") // complete but wrong
)

// recordBytes is what a record with that many bytes of payload takes on disk.
func recordBytes(payload int) int64 { return int64(payload) + recordOverhead }

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// appendSeed appends what both checksums of a record begin with.
func appendSeed(dst []byte, seq uint64, off int64) []byte {
	dst = binary.LittleEndian.AppendUint64(dst, seq)
	return binary.LittleEndian.AppendUint64(dst, uint64(off))
}

// appendRecord appends the record that will stand at offset off of segment seq to dst.
// The payload is given in two parts, so that an entry's data is copied once.
func appendRecord(dst []byte, seq uint64, off, durable int64, kind recordType, fixed, data []byte) []byte {
	at := len(dst)
	dst = appendSeed(dst, seq, off) // overwritten: a buffer of its own would be allocated
	seed := crc32.Update(0, castagnoli, dst[at:])
	dst = append(dst[:at], recordMagic, byte(kind))
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(fixed)+len(data)))
	dst = binary.LittleEndian.AppendUint64(dst, uint64(durable))
	crc := crc32.Update(seed, castagnoli, dst[at:])
	dst = binary.LittleEndian.AppendUint32(dst, crc)
	dst = append(dst, endMark)
	body := len(dst)
	dst = append(dst, fixed...)
	dst = append(dst, data...)
	crc = crc32.Update(crc, castagnoli, dst[body:])
	dst = binary.LittleEndian.AppendUint32(dst, crc)
	return append(dst, endMark)
}

// decodeHeader checks the header at the start of b. b may be shorter than a header.
func decodeHeader(b []byte, seq uint64, off int64) (record, uint32, error) {
	if allZero(b[:min(len(b), headerBytes)]) {
		return record{}, 0, errZero
	}
	if len(b) < headerBytes {
		return record{}, 0, errTorn
	}
	crc := crc32.Update(0, castagnoli, appendSeed(nil, seq, off))
	crc = crc32.Update(crc, castagnoli, b[:headerCRCOffset])
	if binary.LittleEndian.Uint32(b[headerCRCOffset:]) != crc || b[headerMarkOffset] != endMark || b[0] != recordMagic {
		return record{}, 0, tornOrDamaged(b[:headerBytes], off)
	}
	length := binary.LittleEndian.Uint32(b[2:])
	if length > recordBytesMax {
		return record{}, 0, errDamaged
	}
	return record{
		kind:    recordType(b[1]),
		durable: int64(binary.LittleEndian.Uint64(b[headerDurableFrom:])),
		size:    recordBytes(int(length)),
	}, crc, nil
}

// decodeRecord decodes the record at the start of b, which is what segment seq holds from off
// on. It returns errZero, errTorn or errDamaged and never reads outside b.
func decodeRecord(b []byte, seq uint64, off int64) (record, error) {
	r, crc, err := decodeHeader(b, seq, off)
	if err != nil {
		return record{}, err
	}
	if int64(len(b)) < r.size {
		return record{}, errTorn
	}
	body := b[headerBytes : r.size-footerBytes]
	crc = crc32.Update(crc, castagnoli, body)
	foot := b[r.size-footerBytes : r.size]
	if binary.LittleEndian.Uint32(foot) != crc || foot[4] != endMark {
		return record{}, tornOrDamaged(b[:r.size], off)
	}
	r.payload = body
	return r, nil
}

// tornOrDamaged classifies bytes that do not check, see doc.go: a write that was cut off
// left the last byte, or a whole sector, as it was preallocated.
func tornOrDamaged(b []byte, off int64) error {
	if b[len(b)-1] == 0 {
		return errTorn
	}
	for len(b) > 0 {
		n := min(int64(len(b)), sectorBytes-off%sectorBytes)
		if allZero(b[:n]) {
			return errTorn
		}
		b, off = b[n:], off+n
	}
	return errDamaged
}

// provenDurable reports whether a valid record header in b, which starts at offset from of segment
// seq, says that the byte at offset bad had been durable.
func provenDurable(b []byte, seq uint64, from, bad int64) bool {
	for i := 0; i+headerBytes <= len(b); i++ {
		if b[i] != recordMagic || b[i+headerMarkOffset] != endMark {
			continue
		}
		if r, _, err := decodeHeader(b[i:], seq, from+int64(i)); err == nil && r.durable > bad {
			return true
		}
	}
	return false
}

var zeros [4096]byte

func allZero(b []byte) bool {
	for len(b) > 0 {
		n := min(len(b), len(zeros))
		if string(b[:n]) != string(zeros[:n]) {
			return false
		}
		b = b[n:]
	}
	return true
}
