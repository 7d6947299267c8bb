package writeset

import (
	"encoding/binary"
	"slices"
)

// AppendArray appends a PostgreSQL array of a table's row images, in the binary or text
// form of a query parameter, to dst. The element type is left at zero: array_recv takes a
// mismatch unless both sides are built-in types, so no local OID is needed.
func AppendArray(dst []byte, f Format, images [][]byte) []byte {
	size := 32
	for _, m := range images {
		size += len(m) + 4
	}
	dst = slices.Grow(dst, size)
	if f == FormatBinary {
		dst = binary.BigEndian.AppendUint32(dst, 1)
		dst = binary.BigEndian.AppendUint32(dst, 0) // no nulls
		dst = binary.BigEndian.AppendUint32(dst, 0)
		dst = binary.BigEndian.AppendUint32(dst, uint32(len(images)))
		dst = binary.BigEndian.AppendUint32(dst, 1)
		for _, m := range images {
			dst = binary.BigEndian.AppendUint32(dst, uint32(len(m)))
			dst = append(dst, m...)
		}
		return dst
	}
	dst = append(dst, '{')
	for i, m := range images {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, '"')
		for _, b := range m {
			if b == '"' || b == '\\' {
				dst = append(dst, '\\')
			}
			dst = append(dst, b)
		}
		dst = append(dst, '"')
	}
	return append(dst, '}')
}
