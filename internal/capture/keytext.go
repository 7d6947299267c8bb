package capture

import (
	"encoding/hex"
	"strings"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/tuttidb/tutti/internal/writeset"
)

// KeyText renders the key of a row image for an error's DETAIL: "aid, bid" and
// "5, 7". ok is false if the table has no key or the image does not fit it.
// Values of types that are not known here are shown in hex.
func KeyText(t *TableDesc, f writeset.Format, image []byte) (columns, values string, ok bool) {
	x := t.Key()
	if x == nil {
		return "", "", false
	}
	var fields []field
	if f == writeset.FormatBinary {
		fields, ok = binaryFields(image)
	} else {
		fields, ok = textFields(string(image))
	}
	if !ok || len(fields) != len(t.Columns) {
		return "", "", false
	}
	m := pgtype.NewMap()
	var names, vals []string
	for _, p := range x.Parts {
		for i := range t.Columns {
			if t.Columns[i].Num == p.Num {
				names = append(names, t.Columns[i].Name)
				vals = append(vals, fields[i].text(m, f))
			}
		}
	}
	return strings.Join(names, ", "), strings.Join(vals, ", "), true
}

// field is a column of a composite value.
type field struct {
	oid   uint32 // in the binary form
	value []byte
	null  bool
}

// binaryFields splits a composite value in its binary form.
func binaryFields(b []byte) ([]field, bool) {
	record, err := writeset.ReadRecord(b)
	out := make([]field, len(record))
	for i, f := range record {
		out[i] = field{oid: f.OID, value: f.Value, null: f.Value == nil}
	}
	return out, err == nil
}

// textFields splits the text form of a composite value: (a,"b ""c""",,d).
func textFields(s string) ([]field, bool) {
	if len(s) < 2 || s[0] != '(' || s[len(s)-1] != ')' {
		return nil, false
	}
	s = s[1 : len(s)-1]
	out := []field{{null: true}}
	quoted := false
	for i := 0; i < len(s); i++ {
		last := &out[len(out)-1]
		switch c := s[i]; {
		case c == ',' && !quoted:
			out = append(out, field{null: true})
		case c == '"' && quoted && i+1 < len(s) && s[i+1] == '"':
			last.value = append(last.value, '"')
			i++
		case c == '"':
			quoted = !quoted
			last.null = false
		case c == '\\' && i+1 < len(s):
			i++
			last.value, last.null = append(last.value, s[i]), false
		default:
			last.value, last.null = append(last.value, c), false
		}
	}
	return out, !quoted
}

func (f field) text(m *pgtype.Map, format writeset.Format) string {
	if f.null {
		return "null"
	}
	if format == writeset.FormatText {
		return string(f.value)
	}
	if t, ok := m.TypeForOID(f.oid); ok {
		if v, err := t.Codec.DecodeValue(m, f.oid, pgtype.BinaryFormatCode, f.value); err == nil {
			if s, err := m.Encode(f.oid, pgtype.TextFormatCode, v, nil); err == nil && s != nil {
				return string(s)
			}
		}
	}
	return `\x` + hex.EncodeToString(f.value)
}
