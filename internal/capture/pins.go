package capture

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tuttidb/tutti/internal/writeset"
)

// A row that a SERIALIZABLE transaction has looked for by its key is certified as the key that who writes the row would
// capture for it. The database hashes the values, because only it knows how it read them.

// PinValue is the value that a column of a key was compared with.
type PinValue struct {
	Type   uint32 // OID of what Value is
	Cast   uint32 // OID of the type it was cast to before it was compared; 0: none
	Array  bool   // Value is an array of that type, any of whose elements was meant
	Format int16  // of Value: 0 text, 1 binary
	Value  []byte // nil: null, which finds nothing
}

// Pins are rows of a table that were looked for, each by the values of its key.
type Pins struct {
	Table *TableDesc
	Rows  [][]PinValue
}

// The types whose values are pinned, by OID, with the types of their arrays. What equals what is told by the
// type's own hash.
var pinTypes = map[uint32]uint32{
	16: 1000, 17: 1001, 20: 1016, 21: 1005, 23: 1007, 25: 1009, 1042: 1014, 1043: 1015,
	1082: 1182, 1114: 1115, 1184: 1185, 1700: 1231, 2950: 2951,
}

// pinNames are their names.
var pinNames = map[uint32]string{
	16: "bool", 17: "bytea", 20: "int8", 21: "int2", 23: "int4", 25: "text", 1042: "bpchar", 1043: "varchar",
	1082: "date", 1114: "timestamp", 1184: "timestamptz", 1700: "numeric", 2950: "uuid",
}

// PinType is the OID of the type with a name; 0 if its values are not pinned.
func PinType(name string) uint32 {
	for oid, n := range pinNames { // order-free: names differ
		if n == name {
			return oid
		}
	}
	return 0
}

// PinArray is the OID of the array type, PinElement the reverse; 0 if its values are not pinned.
func PinArray(oid uint32) uint32 { return pinTypes[oid] }

// PinElement is the type of an array type's elements; 0 if they are not pinned.
func PinElement(array uint32) uint32 {
	for oid, a := range pinTypes { // order-free: array types differ
		if a == array {
			return oid
		}
	}
	return 0
}

// PinInteger and PinMoment tell kinds of types.
func PinInteger(oid uint32) bool { return oid == 20 || oid == 21 || oid == 23 }

// PinMoment reports whether a constant of the type may have been read at another time than it is used.
func PinMoment(oid uint32) bool { return oid == 1082 || oid == 1114 || oid == 1184 }

// PinFits reports whether to compare a column with a value is to compare it with the value as one of the column's type.
func PinFits(column, value uint32) bool {
	text := func(oid uint32) bool { return oid == 25 || oid == 1043 }
	switch {
	case pinTypes[column] == 0 || pinTypes[value] == 0:
		return false
	case column == value, text(column) && text(value):
		return true
	}
	return PinInteger(value) && (PinInteger(column) || column == 1700)
}

// Plainly reports whether nothing is read, by who reads the table or writes to it, but it and, for foreign keys,
// others.
func (t *TableDesc) Plainly() bool { return t.direct() }

// PinColumns are the columns by which rows are pinned, by name and type; nil if they are not.
func (t *TableDesc) PinColumns() []Column {
	x := t.Key()
	if x == nil || !x.expressible() {
		return nil
	}
	var out []Column
	for _, p := range x.Parts {
		c := t.column(p.Num)
		if c == nil || pinTypes[c.OID] == 0 {
			return nil
		}
		out = append(out, *c)
	}
	return out
}

// SetsUnique reports whether a column in sets belongs to a unique index, or is none of the table's.
func (t *TableDesc) SetsUnique(sets []string) bool {
	var k keyLists
	for i := range t.Indexes {
		k.uses = append(k.uses, t.Indexes[i].Uses...)
	}
	return t.setsKey(&k, sets)
}

// References are the keys of the tables that the table's foreign keys refer to.
func (t *TableDesc) References() (keys []uint64) {
	for _, f := range t.Foreign {
		keys = append(keys, TableKey(f.RefSchema, f.RefTable))
	}
	return keys
}

// PinTable names a table in a writeset, for its keys alone.
func (t *TableDesc) PinTable() writeset.Table { return whole([2]string{t.Schema, t.Name}) }

// NamesSQL is a query for what relations, SQL names, are. Its first row is two booleans: whether operators and casts
// are PostgreSQL's own, and whether nobody has written functions of those names. One follows for each relation: its
// OID,
// 0 for none, and whether equal texts in it are the same. All in text.
func NamesSQL(relations, functions []string) string {
	parts := []string{fmt.Sprintf(`SELECT (%s)::pg_catalog.text, (NOT EXISTS (SELECT FROM pg_catalog.pg_proc p
  WHERE p.oid OPERATOR(pg_catalog.>=) 16384::pg_catalog.oid AND p.proname OPERATOR(pg_catalog.=) ANY (%s::pg_catalog._name)))::pg_catalog.text`,
		plainOperators, literal("{"+strings.Join(functions, ",")+"}"))}
	for _, r := range relations {
		parts = append(parts, fmt.Sprintf(
			`SELECT COALESCE(r.oid, 0::pg_catalog.oid)::pg_catalog.text, (NOT EXISTS (SELECT FROM `+
				`pg_catalog.pg_attribute a JOIN pg_catalog.pg_collation q ON q.oid OPERATOR(pg_catalog.=) a.attcollation
  WHERE a.attrelid OPERATOR(pg_catalog.=) r.oid AND NOT q.collisdeterministic))::pg_catalog.text FROM (SELECT pg_catalog.to_regclass(%s)::pg_catalog.oid AS oid) r`, literal(r)))
	}
	return strings.Join(parts, "\nUNION ALL ")
}

// PinQuery is a query with parameters for the identities of pinned rows.
type PinQuery struct {
	SQL     string
	OIDs    []uint32
	Formats []int16
	Values  [][]byte

	tables []writeset.Table // by the numbers that the rows of the answer begin with
}

// pinGroup are rows of one table whose values have the same types and formats.
type pinGroup struct {
	table *TableDesc
	rows  [][]PinValue
}

// QueryPins asks for the identities of rows, if the relations still are what they were taken for, by OID. Results
// must be asked for in binary.
func QueryPins(relations []string, oids []uint32, pins []Pins) *PinQuery {
	q := &PinQuery{}
	conditions := []string{"pg_catalog.current_setting('client_encoding') OPERATOR(pg_catalog.=) 'UTF8'",
		"(pg_catalog.current_schemas(true))[1] OPERATOR(pg_catalog.=) 'pg_catalog'::pg_catalog.name"}
	for i, r := range relations {
		conditions = append(conditions, fmt.Sprintf("COALESCE(pg_catalog.to_regclass(%s)::pg_catalog.oid "+
			"OPERATOR(pg_catalog.=) '%d'::pg_catalog.oid, false)", literal(r), oids[i]))
	}
	parts := []string{"SELECT (-1)::pg_catalog.int4, CASE WHEN " + strings.Join(conditions, " AND ") +
		" THEN 1::pg_catalog.int8 ELSE 0::pg_catalog.int8 END"}
	for _, g := range groupPins(pins) {
		parts = append(parts, q.part(&g))
	}
	q.SQL = strings.Join(parts, "\nUNION ALL ")
	return q
}

// groupPins sorts rows by what their values are. Arrays stay alone.
func groupPins(pins []Pins) (groups []pinGroup) {
	at := map[string]int{}
	for _, p := range pins {
		for _, row := range p.Rows {
			if slices.ContainsFunc(row, func(v PinValue) bool { return v.Value == nil }) {
				continue
			}
			shape := fmt.Sprint(p.Table.OID)
			alone := false
			for _, v := range row {
				shape += fmt.Sprint(" ", v.Type, v.Cast, v.Format)
				alone = alone || v.Array
			}
			i, ok := at[shape]
			if !ok || alone {
				i = len(groups)
				groups = append(groups, pinGroup{table: p.Table})
				if !alone {
					at[shape] = i
				}
			}
			groups[i].rows = append(groups[i].rows, row)
		}
	}
	return groups
}

// part is the query for one group.
func (q *PinQuery) part(g *pinGroup) string {
	x := g.table.Key()
	var sources, names, values []string
	for i, p := range x.Parts {
		v := &g.rows[0][i]
		oid, data := v.Type, v.Value
		if !v.Array {
			oid, data = pinTypes[v.Type], pinArray(g.rows, i)
		}
		q.OIDs, q.Formats, q.Values = append(q.OIDs, oid), append(q.Formats, v.Format), append(q.Values, data)
		sources = append(sources, fmt.Sprintf("pg_catalog.unnest($%d)", len(q.Values)))
		names = append(names, fmt.Sprint("c", i))
		s := fmt.Sprint("v.c", i)
		if v.Cast != 0 {
			s = fmt.Sprintf("(%s)::pg_catalog.%s", s, pinNames[v.Cast])
		}
		if g.table.column(p.Num).OID == 1700 {
			s = fmt.Sprintf("(%s)::pg_catalog.numeric", s)
		}
		values = append(values, hashed(s, p.Form, p.Collation))
	}
	q.tables = append(q.tables, g.table.PinTable())
	return fmt.Sprintf("SELECT %d::pg_catalog.int4, pg_catalog.hash_record_extended(ROW(%s), %s) FROM ROWS FROM (%s) "+
		"AS v(%s)",
		len(q.tables)-1, strings.Join(values, ", "), int8Literal(g.table.seedOf(x)), strings.Join(sources, ", "),
		strings.Join(names, ", "))
}

// pinArray is an array of the i-th values of rows.
func pinArray(rows [][]PinValue, i int) []byte {
	list := make([][]byte, len(rows))
	for n, r := range rows {
		list[n] = r[i].Value
	}
	if rows[0][i].Format == 0 {
		return writeset.AppendArray(nil, writeset.FormatText, list)
	}
	b := writeset.AppendArray(nil, writeset.FormatBinary, list)
	binary.BigEndian.PutUint32(b[8:], rows[0][i].Type)
	return b
}

// Read takes the answer's rows, values in binary. ok is false if the relations are others by now.
func (q *PinQuery) Read(rows [][][]byte) (pinned []writeset.Pinned, ok bool, err error) {
	for _, r := range rows {
		if len(r) != 2 || len(r[0]) != 4 || len(r[1]) != 8 {
			return nil, false, errors.New("capture: a row that was looked for is malformed")
		}
		n, v := int32(binary.BigEndian.Uint32(r[0])), binary.BigEndian.Uint64(r[1])
		switch {
		case n == -1:
			ok = v == 1
		case n < 0 || int(n) >= len(q.tables):
			return nil, false, fmt.Errorf("capture: a row of table %d was looked for, of %d", n, len(q.tables))
		default:
			pinned = append(pinned, writeset.Pinned{Table: q.tables[n], Identity: nonZero(v)})
		}
	}
	return pinned, ok, nil
}
