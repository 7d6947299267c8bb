package writeset

import (
	"bytes"
	"encoding/binary"
	"math"
)

// ReadTextRecord reads a composite value in PostgreSQL's text form: (a,"b ""c""",,d). The fields have no types.
func ReadTextRecord(s []byte) ([]Field, bool) {
	if len(s) < 2 || s[0] != '(' || s[len(s)-1] != ')' {
		return nil, false
	}
	s = s[1 : len(s)-1]
	out := []Field{{}}
	quoted := false
	for i := 0; i < len(s); i++ {
		last := &out[len(out)-1]
		switch c := s[i]; {
		case c == ',' && !quoted:
			out = append(out, Field{})
		case c == '"' && quoted && i+1 < len(s) && s[i+1] == '"':
			last.Value = append(last.Value, '"')
			i++
		case c == '"':
			quoted = !quoted
			if last.Value == nil {
				last.Value = []byte{}
			}
		case c == '\\' && i+1 < len(s):
			i++
			last.Value = append(last.Value, s[i])
		default:
			last.Value = append(last.Value, c)
		}
	}
	return out, !quoted
}

// SameKey reports whether two images of a table, of rows with a key, hold the same bytes in its columns, which are
// given by their places. Equal keys may differ in bytes: 1.0 and 1.00. ok is false if an image cannot be read.
func SameKey(f Format, columns []int, a, b []byte) (same, ok bool) {
	if f == FormatText {
		return sameTexts(columns, a, b)
	}
	same = true
	for _, c := range columns {
		x, ok := binaryField(a, c)
		y, also := binaryField(b, c)
		if !ok || !also {
			return false, false
		}
		same = same && bytes.Equal(x, y)
	}
	return same, true
}

func sameTexts(columns []int, a, b []byte) (same, ok bool) {
	x, ok := ReadTextRecord(a)
	y, also := ReadTextRecord(b)
	if !ok || !also || len(x) != len(y) {
		return false, false
	}
	same = true
	for _, c := range columns {
		if c >= len(x) {
			return false, false
		}
		same = same && (x[c].Value == nil) == (y[c].Value == nil) && bytes.Equal(x[c].Value, y[c].Value)
	}
	return same, true
}

// binaryField is the n-th field of a composite value in binary, with its type and length.
func binaryField(b []byte, n int) ([]byte, bool) {
	if len(b) < 4 || uint64(n) >= uint64(binary.BigEndian.Uint32(b)) {
		return nil, false
	}
	for b = b[4:]; ; n-- {
		if len(b) < 8 {
			return nil, false
		}
		end := uint64(8)
		if size := binary.BigEndian.Uint32(b[4:]); size != math.MaxUint32 {
			end += uint64(size)
		}
		if end > uint64(len(b)) {
			return nil, false
		}
		if n == 0 {
			return b[:end], true
		}
		b = b[end:]
	}
}
