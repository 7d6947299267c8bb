package capture

import (
	"bytes"
	"fmt"
	"strconv"

	"github.com/tuttidb/tutti/internal/writeset"
)

// header is the constant part of a table's captured rows, see TableDesc.header.
type header struct {
	table  writeset.Table
	array  uint32
	unique int   // leading Exclusive keys
	shared int   // Shared keys after them
	places []int // places of the key's columns among the image's; nil: rows have no identities
}

func decodeHeader(b []byte) (header, error) {
	bad := func() (header, error) {
		return header{}, fmt.Errorf("capture: captured row has the malformed header %q", b)
	}
	parts := bytes.SplitN(b, []byte(";"), 7)
	if len(parts) != 7 || len(parts[0]) != 1 {
		return bad()
	}
	var n [4]int
	for i, part := range [4][]byte{parts[1], parts[2], parts[3], parts[5]} {
		v, err := strconv.ParseUint(string(part), 10, 32)
		if err != nil {
			return bad()
		}
		n[i] = int(v)
	}
	names := string(parts[6])
	if n[3] < 1 || n[3] >= len(names) || n[0] > maxKeys || n[1] > maxKeys {
		return bad()
	}
	h := header{unique: n[0], shared: n[1], array: uint32(n[2])}
	if len(parts[4]) > 0 {
		for _, part := range bytes.Split(parts[4], []byte(",")) {
			v, err := strconv.ParseUint(string(part), 10, 16)
			if err != nil {
				return bad()
			}
			h.places = append(h.places, int(v))
		}
	}
	h.table = writeset.Table{Schema: names[:n[3]], Name: names[n[3]:]}
	h.table.Key = TableKey(h.table.Schema, h.table.Name)
	switch parts[0][0] {
	case 'B':
		h.table.Format = writeset.FormatBinary
	case 'T':
		h.table.Format = writeset.FormatText
	default:
		return bad()
	}
	return h, nil
}
