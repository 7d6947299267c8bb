package wire

import (
	"encoding/binary"
	"fmt"
	"strings"
)

// The Append functions append one whole frame to dst and return the extended
// slice. They panic on what no correct caller passes: a frame above 1 GiB, a
// list of more than 65,535 items, a zero byte inside a name, a value or SQL
// (it would cut the string short at the receiver). Callers bound their input;
// strings that came off the wire never hold a zero byte.

// AppendFrame appends a frame of any type.
func AppendFrame(dst []byte, typ byte, body []byte) []byte {
	dst, start := begin(dst, typ)
	return finish(append(dst, body...), start)
}

func begin(dst []byte, typ byte) ([]byte, int) {
	return append(dst, typ, 0, 0, 0, 0), len(dst) + 1
}

// finish sets the length word at start.
func finish(dst []byte, start int) []byte {
	n := len(dst) - start
	if n > backendMessageBytesMax {
		panic(fmt.Sprintf("wire: frame of %d bytes", n))
	}
	binary.BigEndian.PutUint32(dst[start:], uint32(n))
	return dst
}

func empty(dst []byte, typ byte) []byte { return append(dst, typ, 0, 0, 0, 4) }

func str(dst []byte, s string) []byte {
	if strings.IndexByte(s, 0) >= 0 {
		panic("wire: zero byte inside a string")
	}
	return append(append(dst, s...), 0)
}

func u32(dst []byte, v uint32) []byte { return binary.BigEndian.AppendUint32(dst, v) }

func u16(dst []byte, v uint16) []byte { return binary.BigEndian.AppendUint16(dst, v) }

func count(dst []byte, n int) []byte {
	if n > 0xffff {
		panic(fmt.Sprintf("wire: list of %d items", n))
	}
	return u16(dst, uint16(n))
}

// value appends a length-counted value; nil is NULL.
func value(dst, v []byte) []byte {
	if v == nil {
		return u32(dst, 0xffffffff)
	}
	if len(v) > backendMessageBytesMax {
		panic(fmt.Sprintf("wire: value of %d bytes", len(v)))
	}
	return append(u32(dst, uint32(len(v))), v...)
}
