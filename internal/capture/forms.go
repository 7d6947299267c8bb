package capture

import (
	"fmt"
	"slices"
	"strings"
)

// A key's value is hashed in a form of its type: SQL that makes of it something whose hash is equal exactly if the
// value is, under the equality of the type's B-tree operator class (C3). Types that are not listed here have no form,
// whatever PostgreSQL hashes: its own hashes leave out the sign of a numeric, the dimensions of an array, the nesting
// of a jsonb, and fold 64 bits to 32. `internal/database/captest` proves the list, TestKeyForms.

// formOwn is the form of types of which PostgreSQL hashes all that tells values apart.
const formOwn = "own"

// forms are the SQL of each form, of a value %[1]s that is not NULL; of NULL it is NULL.
var forms = map[string]string{
	formOwn:       "%[1]s",
	"int8":        "pg_catalog.int8send((%[1]s)::pg_catalog.int8)", // a foreign key's may be shorter
	"time":        "pg_catalog.time_send(%[1]s)",
	"timetz":      "pg_catalog.timetz_send(%[1]s)",
	"timestamp":   "pg_catalog.timestamp_send(%[1]s)",
	"timestamptz": "pg_catalog.timestamptz_send(%[1]s)",
	"pg_lsn":      "pg_catalog.pg_lsn_send(%[1]s)",
	"xid8":        "pg_catalog.xid8send(%[1]s)",
	"money":       "pg_catalog.cash_send(%[1]s)",
	"bit":         "pg_catalog.bit_send(%[1]s)",
	"varbit":      "pg_catalog.varbit_send(%[1]s)",
	"numeric":     "pg_catalog.numeric_send(pg_catalog.trim_scale((%[1]s)::pg_catalog.numeric))", // 1.0 is 1.00
	// its OIDs differ between members
	"enum":   `(%[1]s)::pg_catalog.text COLLATE pg_catalog."C"`,
	"citext": `pg_catalog.lower((%[1]s)::pg_catalog.text COLLATE pg_catalog."default")`, // as citext_eq has it
	"array": `(COALESCE(pg_catalog.array_dims(%[1]s), '') OPERATOR(pg_catalog.||) (%[1]s)::pg_catalog.text) ` +
		`COLLATE pg_catalog."C"`, // the dimensions have the bounds
}

// ownTypes are PostgreSQL's types that are hashed as they are, and formTypes those whose form has their name.
var (
	ownTypes = []string{"bool", "bytea", "char", "name", "int2", "int4", "text", "oid", "bpchar", "varchar", "date",
		"uuid",
		"float4", "float8", "inet", "cidr", "macaddr", "macaddr8"}
	formTypes = []string{"int8", "time", "timetz", "timestamp", "timestamptz", "pg_lsn", "xid8", "money", "bit",
		"varbit", "numeric"}
	// arrayTypes are types of which equal values, and no others, have equal texts, under all settings and at all
	// members: so have their arrays.
	arrayTypes = []string{"bool", "int2", "int4", "int8", "text", "oid", "varchar", "uuid"}
	// looseTypes are those whose hash follows a collation under which different texts are equal. That of bpchar does
	// not.
	looseTypes = []string{"text", "varchar"}
)

// PlainTypes are OIDs of ownTypes that are frequent: asking tutti.key_form costs a millisecond. bool, bytea, "char",
// name, int2, int4, text, oid, bpchar, varchar, date, uuid.
const PlainTypes = "16, 17, 18, 19, 21, 23, 25, 26, 1042, 1043, 1082, 2950"

// hashed is the value to hash for v.
func hashed(v, form, collation string) string {
	return fmt.Sprintf(forms[form], v+collate(collation))
}

// knownForm reports whether there is such a form, or it says that there is none.
func knownForm(form string) bool {
	_, ok := forms[form]
	return ok || form == ""
}

// keyFormFunction is tutti.key_form: the form of values of a type, and of a collation (0: none), if an index compares
// them by the type's own operator class; empty if it has none.
func keyFormFunction() string {
	list := func(names []string) string { return literal("{"+strings.Join(names, ",")+"}") + "::name[]" }
	own := "typnamespace = 'pg_catalog'::regnamespace AND typname = ANY ("
	return install("key_form.sql", words{
		"loose":    own + list(looseTypes) + ")",
		"form_own": formOwn,
		"own":      own + list(ownTypes) + ")",
		"named":    own + list(formTypes) + ")",
		"element":  "e." + own + list(slices.Clone(arrayTypes)) + ")",
	})
}
