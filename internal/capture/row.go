package capture

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/tuttidb/tutti/internal/writeset"
)

// maxKeys bounds the keys of one captured row: PostgreSQL's column limit bounds the indexes in
// practice far below it.
const maxKeys = 1 << 16

// captured is one row of tutti.collect.
type captured struct {
	op     writeset.Op // 0 for the leading row
	moved  bool        // a deletion that is the first half of an update
	ident  uint64      // 0 = none
	keys   []rowKey
	many   []uint64 // identities, of a row that stands for many
	header []byte
	image  []byte
}

// rowKey is an element of the keys column.
type rowKey struct {
	position int
	hash     uint64
}

const collectColumns = 5

var errColumns = errors.New("capture: a row of tutti.collect has the wrong number of columns")

// identity is what column ident says: in the leading row a position, else a row's identity.
func identity(op writeset.Op, v uint64) uint64 {
	if op == 0 {
		return v
	}
	return nonZero(v)
}

// decodeBinaryRow reads the binary column values of a DataRow; nil is NULL. The result aliases
// them.
func decodeBinaryRow(cols [][]byte) (captured, error) {
	if len(cols) != collectColumns {
		return captured{}, errColumns
	}
	if len(cols[0]) != 2 || (cols[1] != nil && len(cols[1]) != 8) {
		return captured{}, errors.New("capture: a row of tutti.collect is not in binary")
	}
	r := captured{op: writeset.Op(min(binary.BigEndian.Uint16(cols[0]), 255)), header: cols[3], image: cols[4]}
	if cols[1] != nil {
		r.ident = identity(r.op, binary.BigEndian.Uint64(cols[1]))
	}
	var err error
	if r.op > opBulk && r.op < opAll {
		r.many, err = decodeIdentities(cols[2])
		return r, err
	}
	r.keys, err = decodeBinaryKeys(cols[2])
	return r, err
}

// Frozen reports whether rows of the collect step, in binary, have one that stands for all before it.
func Frozen(rows [][][]byte) bool {
	return slices.ContainsFunc(rows, func(cols [][]byte) bool {
		return len(cols) > 0 && len(cols[0]) == 2 && binary.BigEndian.Uint16(cols[0]) == opFrozen
	})
}

// decodeIdentities reads an int8[] in binary: without NULLs, or of nothing but NULLs, which are 0, if the rows have no
// identities.
func decodeIdentities(b []byte) ([]uint64, error) {
	const head, each, null = 20, 12, 4 // as in decodeNumbers
	if len(b) < head || binary.BigEndian.Uint32(b) != 1 || binary.BigEndian.Uint32(b[8:]) != 20 {
		return nil, errPiece
	}
	n := binary.BigEndian.Uint32(b[12:])
	b = b[head:]
	if n > 0 && uint64(len(b)) == uint64(n)*null && bytes.Count(b, []byte{0xff}) == len(b) {
		return make([]uint64, n), nil
	}
	if uint64(len(b)) != uint64(n)*each {
		return nil, errPiece
	}
	out := make([]uint64, n)
	for i := range out {
		if binary.BigEndian.Uint32(b[i*each:]) != 8 {
			return nil, errPiece
		}
		out[i] = nonZero(binary.BigEndian.Uint64(b[i*each+4:]))
	}
	return out, nil
}

// decodeBinaryKeys reads an int8[] in binary: dimensions, null flag, element type, length,
// lower bound, then length-prefixed elements.
func decodeBinaryKeys(b []byte) ([]rowKey, error) {
	keys, err := decodeNumbers(b)
	for i := range keys {
		keys[i].hash = nonZero(keys[i].hash)
	}
	return keys, err
}

// decodeNumbers reads an int8[] in binary, leaving out its NULLs.
func decodeNumbers(b []byte) ([]rowKey, error) {
	if b == nil {
		return nil, nil
	}
	bad := errors.New("capture: the keys of a captured row are malformed")
	if len(b) < 12 {
		return nil, bad
	}
	dims := binary.BigEndian.Uint32(b)
	if dims == 0 && len(b) == 12 {
		return nil, nil
	}
	if dims != 1 || len(b) < 20 || binary.BigEndian.Uint32(b[8:]) != 20 {
		return nil, bad
	}
	n := binary.BigEndian.Uint32(b[12:])
	b = b[20:]
	if n > maxKeys || int(n) > len(b)/4 {
		return nil, bad
	}
	keys := make([]rowKey, 0, n)
	for i := range int(n) {
		if len(b) < 4 {
			return nil, bad
		}
		size := binary.BigEndian.Uint32(b)
		b = b[4:]
		switch {
		case size == 0xffffffff:
		case size == 8 && len(b) >= 8:
			keys = append(keys, rowKey{position: i, hash: binary.BigEndian.Uint64(b)})
			b = b[8:]
		default:
			return nil, bad
		}
	}
	if len(b) != 0 {
		return nil, bad
	}
	return keys, nil
}

// decodeTextRow reads the text column values of CollectSQL; nil is NULL.
func decodeTextRow(cols [][]byte) (captured, error) {
	if len(cols) != collectColumns {
		return captured{}, errColumns
	}
	op, err := strconv.ParseUint(string(cols[0]), 10, 8)
	if err != nil {
		return captured{}, fmt.Errorf("capture: operation of a captured row: %w", err)
	}
	r := captured{op: writeset.Op(op)}
	if cols[1] != nil {
		v, err := strconv.ParseInt(string(cols[1]), 10, 64)
		if err != nil {
			return captured{}, fmt.Errorf("capture: identity of a captured row: %w", err)
		}
		r.ident = identity(r.op, uint64(v))
	}
	if r.keys, err = decodeTextKeys(cols[2]); err != nil {
		return captured{}, err
	}
	if r.op > opBulk && r.op < opAll {
		for _, k := range r.keys {
			r.many = append(r.many, k.hash)
		}
		if nulls := bytes.Count(cols[2], []byte("NULL")); len(r.many) == 0 {
			r.many = make([]uint64, nulls)
		}
		r.keys = nil
	}
	if r.header, err = hex.DecodeString(string(cols[3])); err != nil {
		return captured{}, fmt.Errorf("capture: header of a captured row: %w", err)
	}
	if r.image, err = hex.DecodeString(string(cols[4])); err != nil {
		return captured{}, fmt.Errorf("capture: image of a captured row: %w", err)
	}
	return r, nil
}

func decodeTextKeys(b []byte) ([]rowKey, error) {
	if b == nil || string(b) == "{}" {
		return nil, nil
	}
	if len(b) < 2 || b[0] != '{' || b[len(b)-1] != '}' {
		return nil, errors.New("capture: the keys of a captured row are malformed")
	}
	var keys []rowKey
	for i, e := range bytes.Split(b[1:len(b)-1], []byte(",")) {
		if string(e) == "NULL" {
			continue
		}
		v, err := strconv.ParseInt(string(e), 10, 64)
		if err != nil {
			return nil, fmt.Errorf("capture: a key of a captured row: %w", err)
		}
		keys = append(keys, rowKey{position: i, hash: nonZero(uint64(v))})
	}
	return keys, nil
}
