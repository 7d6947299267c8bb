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
	var names []string
	for _, p := range x.Parts {
		if c := t.column(p.Num); c != nil {
			names = append(names, c.Name)
		}
	}
	values, n := valuesText(f, image, triggerCode{t}.keyPlaces())
	return strings.Join(names, ", "), values, n == len(t.Columns)
}

// valuesText renders the values at some places of a row image, which has n columns; 0 if it cannot be read.
func valuesText(f writeset.Format, image []byte, places []int) (text string, n int) {
	var fields []writeset.Field
	if f == writeset.FormatBinary {
		fields, _ = writeset.ReadRecord(image)
	} else if record, ok := writeset.ReadTextRecord(image); ok {
		fields = record
	}
	m := pgtype.NewMap()
	var values []string
	for _, i := range places {
		if i >= len(fields) {
			return "", 0
		}
		values = append(values, valueText(m, f, fields[i]))
	}
	return strings.Join(values, ", "), len(fields)
}

// field is a value of a composite or an array in binary.
type field struct {
	oid   uint32
	value []byte
}

// binaryFields splits a composite value in its binary form.
func binaryFields(b []byte) ([]field, bool) {
	record, err := writeset.ReadRecord(b)
	out := make([]field, len(record))
	for i, f := range record {
		out[i] = field{oid: f.OID, value: f.Value}
	}
	return out, err == nil
}

func valueText(m *pgtype.Map, format writeset.Format, f writeset.Field) string {
	if f.Value == nil {
		return "null"
	}
	if format == writeset.FormatText {
		return string(f.Value)
	}
	if t, ok := m.TypeForOID(f.OID); ok {
		if v, err := t.Codec.DecodeValue(m, f.OID, pgtype.BinaryFormatCode, f.Value); err == nil {
			if s, err := m.Encode(f.OID, pgtype.TextFormatCode, v, nil); err == nil && s != nil {
				return string(s)
			}
		}
	}
	return `\x` + hex.EncodeToString(f.Value)
}
