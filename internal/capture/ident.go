package capture

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/cespare/xxhash/v2"
)

// Quote quotes an SQL identifier.
func Quote(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

func literal(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

// escaped is literal, whatever standard_conforming_strings says.
func escaped(s string) string { return " E" + literal(strings.ReplaceAll(s, `\`, `\\`)) }

// literals are the elements of an array.
func literals(list []string) string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = literal(s)
	}
	return strings.Join(out, ",")
}

// digest hashes a list of strings unambiguously.
func digest(parts ...string) uint64 {
	var b []byte
	for _, p := range parts {
		b = strconv.AppendInt(b, int64(len(p)), 10)
		b = append(b, ':')
		b = append(b, p...)
	}
	return nonZero(xxhash.Sum64(b))
}

// nonZero keeps zero for "no identity".
func nonZero(h uint64) uint64 {
	if h == 0 {
		return 1
	}
	return h
}

// TableKey is the key of a table as a whole.
func TableKey(schema, name string) uint64 { return digest("table", schema, name) }

// refersKey is the key of all references to a table, of partitions to their root, where the key that is referred to
// cannot be computed: who makes one holds it Shared, who deletes a row that may have some, or changes a key of it,
// Exclusive. A table key would not do: each partition has its own, and whoever writes to the table holds it Shared.
func refersKey(rootSchema, rootTable string) uint64 { return digest("refers", rootSchema, rootTable) }

// seed is the hash seed of an index. Partitions share their root's seed, so that rows may
// move between them and foreign keys can reference the partitioned table. Indexes on
// plain columns are known by their columns, others by name.
func seed(rootSchema, rootTable string, primary bool, name string, columns []string) uint64 {
	if primary {
		return digest("pk", rootSchema, rootTable)
	}
	if columns == nil {
		return digest("named", rootSchema, rootTable, name)
	}
	return digest(append([]string{"unique", rootSchema, rootTable}, columns...)...)
}

func (t *TableDesc) seedOf(x *Index) uint64 {
	var columns []string
	if x.Predicate == nil {
		for _, p := range x.Parts {
			if p.Num == 0 {
				columns = nil
				break
			}
			columns = append(columns, t.column(p.Num).Name)
		}
	}
	return seed(x.RootSchema, x.RootTable, x.Primary, x.Name, columns)
}

func seedOfRef(f *Ref) uint64 {
	columns := make([]string, len(f.Parts))
	for i, p := range f.Parts {
		columns[i] = p.RefName
	}
	return seed(f.Index.RootSchema, f.Index.RootTable, f.Index.Primary, f.Index.Name, columns)
}

func int8Literal(h uint64) string { return fmt.Sprintf("'%d'::pg_catalog.int8", int64(h)) }

// expressible reports whether the index' values can be hashed as a key; otherwise changes
// to it hold the table key (C3).
func (x *Index) expressible() bool {
	if x.Exclusion || x.Foreign && (x.Predicate != nil || x.hasExpressions()) {
		return false
	}
	for _, p := range x.Parts {
		if p.Form == "" {
			return false
		}
	}
	return true
}

func (x *Index) hasExpressions() bool {
	for _, p := range x.Parts {
		if p.Num == 0 {
			return true
		}
	}
	return false
}

// evaluated reports whether the index needs its expressions or predicate run.
func (x *Index) evaluated() bool { return x.Predicate != nil || x.hasExpressions() }

// fields lists the columns attribute numbers stand for, of a row variable; 0 is all.
func (t *TableDesc) fields(row string, nums []int) string {
	var out []string
	for i := range t.Columns {
		for _, n := range nums {
			if n == 0 || n == t.Columns[i].Num {
				out = append(out, row+"."+Quote(t.Columns[i].Name))
				break
			}
		}
	}
	return strings.Join(out, ", ")
}

// IdentitySQL is SQL for the identity of the row that has this name, a variable or an alias, before it is kept from
// being zero; NULL without key.
func (t *TableDesc) IdentitySQL(row string) string {
	x := t.Key()
	if x == nil {
		return "NULL::pg_catalog.int8"
	}
	var cols []string
	for _, p := range x.Parts {
		v := row + "." + Quote(t.column(p.Num).Name)
		if x.expressible() {
			v = hashed(v, p.Form, p.Collation)
		}
		cols = append(cols, v)
	}
	list := strings.Join(cols, ", ")
	if !x.expressible() {
		// The type has no hash. Its bytes will do to tell rows apart; that equal values may
		// differ in bytes is covered by the table key, which is Exclusive.
		return fmt.Sprintf("pg_catalog.hashtextextended((ROW(%s)::pg_catalog.text) COLLATE pg_catalog.\"C\", %s)", list,
			int8Literal(t.seedOf(x)))
	}
	return fmt.Sprintf("pg_catalog.hash_record_extended(ROW(%s), %s)", list, int8Literal(t.seedOf(x)))
}

// wholeKey is the hash of a row as a whole, in a table without key.
func (t *TableDesc) wholeKey(row string) string {
	s := int8Literal(digest("whole", t.Schema, t.Name))
	if t.Portable() {
		return fmt.Sprintf("pg_catalog.hash_record_extended(ROW(pg_catalog.record_send(%s)), %s)", row, s)
	}
	return fmt.Sprintf("pg_catalog.hashtextextended(((%s)::pg_catalog.text) COLLATE pg_catalog.\"C\", %s)", row, s)
}

func collate(c string) string {
	if c == "" {
		return ""
	}
	return " COLLATE " + c
}

// uniqueKey is the key hash of row under x, or NULL where the index has no entry that could
// collide.
func (t *TableDesc) uniqueKey(row string, x *Index) string {
	source := row + "."
	if x.evaluated() {
		source = "\"t\"."
	}
	var vals []string
	for _, p := range x.Parts {
		v := "(" + p.Expr + ")"
		if p.Num != 0 {
			v = source + Quote(t.column(p.Num).Name)
		}
		vals = append(vals, hashed(v, p.Form, p.Collation))
	}
	list := strings.Join(vals, ", ")
	var when []string
	if x.Predicate != nil {
		when = append(when, "("+*x.Predicate+")")
	}
	if !x.NullsNotDistinct {
		when = append(when, fmt.Sprintf("pg_catalog.num_nulls(%s) OPERATOR(pg_catalog.=) 0", list))
	}
	hash := fmt.Sprintf("pg_catalog.hash_record_extended(ROW(%s), %s)", list, int8Literal(t.seedOf(x)))
	if len(when) > 0 {
		hash = fmt.Sprintf("CASE WHEN %s THEN %s END", strings.Join(when, " AND "), hash)
	}
	if !x.evaluated() {
		return hash
	}
	var as []string
	for i := range t.Columns {
		c := Quote(t.Columns[i].Name)
		as = append(as, row+"."+c+" AS "+c)
	}
	return fmt.Sprintf("(SELECT %s FROM (SELECT %s) AS \"t\")", hash, strings.Join(as, ", "))
}

// sameHash reports whether equal values of two base types have equal hashes as they are, see formOwn.
func sameHash(a, b uint32) bool {
	group := func(t uint32) uint32 {
		switch t {
		case 20, 21, 23: // integers
			return 23
		case 700, 701: // floats
			return 701
		case 25, 1043: // text, varchar
			return 25
		}
		return t
	}
	return group(a) == group(b)
}

// firstUserOID is the first type OID that is not PostgreSQL's own.
const firstUserOID = 16384

// expressible reports whether the referenced key's hash can be computed here.
func (f *Ref) expressible() bool {
	for _, p := range f.Parts {
		if p.Form == "" || !p.castable() {
			return false
		}
	}
	return len(f.Parts) > 0
}

// castable reports whether a value of the referencing column can be compared as one of the referenced column's type.
// With or without a time zone, it depends on the session's.
func (p *RefPart) castable() bool {
	const timestamptz, timetz = 1184, 1266
	zoned := slices.ContainsFunc([]uint32{p.Base, p.RefBase},
		func(t uint32) bool { return t == timestamptz || t == timetz })
	return sameHash(p.Base, p.RefBase) || !zoned && p.Base < firstUserOID && p.RefBase < firstUserOID
}

// foreignKey is the hash of the key that row references under f, or NULL.
func (t *TableDesc) foreignKey(row string, f *Ref) string {
	var raw, vals []string
	for i := range f.Parts {
		p := &f.Parts[i]
		v := row + "." + Quote(t.column(p.Num).Name)
		raw = append(raw, v)
		if !sameHash(p.Base, p.RefBase) {
			v = "(" + v + ")::" + p.RefType
		}
		vals = append(vals, hashed(v, p.Form, p.Collation))
	}
	hash := fmt.Sprintf("pg_catalog.hash_record_extended(ROW(%s), %s)", strings.Join(vals, ", "),
		int8Literal(seedOfRef(f)))
	if !f.expressible() {
		hash = int8Literal(TableKey(f.RefSchema, f.RefTable))
	}
	return refers(raw, hash)
}

// refers is a key of a row for which none of these columns is NULL.
func refers(columns []string, key string) string {
	return fmt.Sprintf("CASE WHEN pg_catalog.num_nulls(%s) OPERATOR(pg_catalog.=) 0 THEN %s END",
		strings.Join(columns, ", "), key)
}

// exclusive reports whether the reference must hold the referenced table against every
// writer, because its key cannot be computed here although the table's own writes use it.
func (f *Ref) exclusive() bool {
	for _, p := range f.Parts {
		if p.Form == "" {
			return false // writes to the referenced table hold its key Exclusive
		}
	}
	return !f.expressible()
}
