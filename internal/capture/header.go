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
	unique int // leading Exclusive keys
	shared int // Shared keys after them
}

func decodeHeader(b []byte) (header, error) {
	bad := func() (header, error) {
		return header{}, fmt.Errorf("capture: captured row has the malformed header %q", b)
	}
	parts := bytes.SplitN(b, []byte(";"), 6)
	if len(parts) != 6 || len(parts[0]) != 1 {
		return bad()
	}
	var n [4]int
	for i := range n {
		v, err := strconv.ParseUint(string(parts[i+1]), 10, 32)
		if err != nil {
			return bad()
		}
		n[i] = int(v)
	}
	names := string(parts[5])
	if n[3] < 1 || n[3] >= len(names) || n[0] > maxKeys || n[1] > maxKeys {
		return bad()
	}
	h := header{unique: n[0], shared: n[1], array: uint32(n[2])}
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
