package wire

import (
	"encoding/binary"
	"math"
)

// CutColumn takes the last column off a DataRow, or the last field off a RowDescription. raw is a whole frame,
// which is changed and shortened. value is the column's, of a DataRow, and aliases it; nil is NULL.
func CutColumn(raw []byte) (rest, value []byte, err error) {
	f := Frame{Type: raw[0], Raw: raw}
	c := cursor{b: f.Body()}
	n := int(c.u16())
	if n == 0 {
		c.fail("there is no column to take off")
	}
	last := 0
	for range n {
		last = len(raw) - len(c.b)
		if f.Type == TypeDataRow {
			value = c.value()
			continue
		}
		c.str()
		c.bytes(fieldBytes)
	}
	if err := c.end(); err != nil {
		return raw, nil, err
	}
	binary.BigEndian.PutUint32(raw[1:], uint32(last-1))
	binary.BigEndian.PutUint16(raw[5:], uint16(n-1))
	return raw[:last], value, nil
}

// fieldBytes is what follows a field's name in a RowDescription.
const fieldBytes = 4 + 2 + 4 + 2 + 4 + 2

// AppendBindColumn appends a Bind, given as a whole frame, for a statement that returns one column more, at the
// end: that column is in text if the client asks for a format of each of its own. A Bind that is malformed, or
// has as many formats as there can be, is taken over as it is, for the backend to refuse.
func AppendBindColumn(dst, bind []byte) []byte {
	b, _ := DecodeBind(Frame{Raw: bind}.Body())
	c := afterParameters(b.Rest)
	at := len(b.Rest) - len(c.b)
	n := int(c.u16())
	if c.bytes(2 * n); c.end() != nil || n < 2 || n == math.MaxUint16 {
		return append(dst, bind...)
	}
	dst, start := begin(dst, TypeBind)
	dst = append(str(str(dst, b.Portal), b.Statement), b.Rest[:at]...)
	dst = append(count(dst, n+1), b.Rest[at+2:]...)
	return finish(u16(dst, 0), start)
}
