package capture

import (
	"encoding/binary"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/tuttidb/tutti/internal/writeset"
)

// PostgreSQL stores what a function in C calls text, whatever bytes it is made of, and refuses the same
// bytes when they are sent to it. So an image is looked at before it is ordered.

// Verdict says whether another member can read an image in.
type Verdict uint8

const (
	Readable   Verdict = iota
	Doubtful           // a value of a type that is not known here may hold text that is none
	Unreadable         // a text is not valid
)

// BadText is a text that is not valid UTF-8, or has a zero byte.
type BadText struct {
	Column string
	Bytes  []byte // what is wrong, at most 8
}

// Message is PostgreSQL's, of SQLSTATE 22021.
func (b BadText) Message() string {
	var hex strings.Builder
	for _, c := range b.Bytes {
		fmt.Fprintf(&hex, " 0x%02x", c)
	}
	return `invalid byte sequence for encoding "UTF8":` + hex.String()
}

// Words reports whether a column of the table can hold text.
func (t *TableDesc) Words() bool {
	for i := range t.Columns {
		if t.Columns[i].Text != 0 {
			return true
		}
	}
	return false
}

// Read tells whether other members can read an image of the table in. Images in text were
// checked by PostgreSQL when they were captured.
func (t *TableDesc) Read(f writeset.Format, image []byte) (Verdict, BadText) {
	if f != writeset.FormatBinary || len(image) < 4 {
		return Readable, BadText{}
	}
	out, b := Readable, image[4:]
	for i := range t.Columns {
		value, rest, ok := nextField(b)
		if !ok {
			return Doubtful, BadText{}
		}
		if b = rest; value == nil || t.Columns[i].Text == 0 {
			continue
		}
		v, bad := readValue(t.Columns[i].Text, value)
		if v == Unreadable {
			return v, BadText{Column: t.Columns[i].Name, Bytes: bad}
		}
		out = max(out, v)
	}
	return out, BadText{}
}

// nextField cuts a field of a composite value off: type, length and bytes. value is nil for NULL.
func nextField(b []byte) (value, rest []byte, ok bool) {
	if len(b) < 8 {
		return nil, nil, false
	}
	size := int32(binary.BigEndian.Uint32(b[4:]))
	switch b = b[8:]; {
	case size == -1:
		return nil, b, true
	case size < 0 || int(size) > len(b):
		return nil, nil, false
	}
	return b[:size:size], b[size:], true
}

// readValue looks at a value in binary form of a type that is no domain.
func readValue(oid uint32, b []byte) (Verdict, []byte) {
	switch oid {
	case 19, 25, 114, 142, 705, 1042, 1043, 1790: // name, text, json, xml, unknown, bpchar, varchar, refcursor
		return readText(b)
	case 3802, 4072: // jsonb, jsonpath: a version first
		return readText(b[min(1, len(b)):])
	case 3614: // tsvector
		return readLexemes(b)
	case 1003, 1009, 199, 143, 1014, 1015, 2201, 3807, 4073, 3643: // arrays of these
		if e, ok := elements(b); ok {
			return readFields(e)
		}
	}
	if oid < firstUserOID && oid != 3615 { // tsquery
		return Readable, nil
	}
	if fields, ok := binaryFields(b); ok {
		return readFields(fields)
	}
	if e, ok := elements(b); ok {
		return readFields(e)
	}
	if !utf8.Valid(b) {
		return Doubtful, nil
	}
	return Readable, nil
}

func readFields(fields []field) (Verdict, []byte) {
	out := Readable
	for _, f := range fields {
		v, bad := readValue(f.oid, f.value)
		if v == Unreadable {
			return v, bad
		}
		out = max(out, v)
	}
	return out, nil
}

// elements splits an array: dimensions, null flag, element type, length and lower bound of each
// dimension, then elements with their lengths.
func elements(b []byte) ([]field, bool) {
	if len(b) < 12 {
		return nil, false
	}
	dims, oid := binary.BigEndian.Uint32(b), binary.BigEndian.Uint32(b[8:])
	const dimsMax = 6
	if dims > dimsMax || binary.BigEndian.Uint32(b[4:]) > 1 || len(b) < 12+8*int(dims) {
		return nil, false
	}
	var out []field
	for b = b[12+8*dims:]; len(b) > 0; {
		if len(b) < 4 {
			return nil, false
		}
		size := int32(binary.BigEndian.Uint32(b))
		b = b[4:]
		if size == -1 {
			continue
		}
		if size < 0 || int(size) > len(b) {
			return nil, false
		}
		out = append(out, field{oid: oid, value: b[:size:size]})
		b = b[size:]
	}
	return out, true
}

// readLexemes looks at a tsvector: a count, then lexemes that end with a zero byte, each with a count of
// positions of two bytes.
func readLexemes(b []byte) (Verdict, []byte) {
	for b = b[min(4, len(b)):]; len(b) > 0; {
		end := 0
		for end < len(b) && b[end] != 0 {
			end++
		}
		if v, bad := readText(b[:end]); v != Readable {
			return v, bad
		}
		if b = b[end:]; len(b) < 3 {
			return Doubtful, nil
		}
		n := 2 * int(binary.BigEndian.Uint16(b[1:]))
		if b = b[3:]; n > len(b) {
			return Doubtful, nil
		}
		b = b[n:]
	}
	return Readable, nil
}

// readText looks for the first bytes that PostgreSQL would not read in as text.
func readText(b []byte) (Verdict, []byte) {
	for i := 0; i < len(b); {
		if b[i] == 0 {
			return Unreadable, b[i : i+1]
		}
		if b[i] < utf8.RuneSelf {
			i++
			continue
		}
		r, n := utf8.DecodeRune(b[i:])
		if r == utf8.RuneError && n == 1 {
			return Unreadable, b[i:min(len(b), i+announced(b[i]))]
		}
		i += n
	}
	return Readable, nil
}

// announced is the number of bytes of the character that PostgreSQL takes c for the beginning of.
func announced(c byte) int {
	switch {
	case c&0xe0 == 0xc0:
		return 2
	case c&0xf0 == 0xe0:
		return 3
	case c&0xf8 == 0xf0:
		return 4
	}
	return 1
}
