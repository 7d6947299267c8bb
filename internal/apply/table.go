package apply

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tuttidb/tutti/internal/writeset"
)

// Table describes a table of the local database to apply rows to.
type Table struct {
	// Root is the partitioned table at the top of which it is a partition, by a number; 0 for none.
	Root    uint32
	Schema  string
	Name    string
	Columns []Column    // without dropped ones, in order
	Key     []KeyColumn // empty: rows are known by their images
	// Portable says that equal rows have equal binary images at every member.
	Portable bool

	made *statements // by Validate
}

// statements are a table's, made once because they are looked up by their text.
type statements struct {
	lockRows, shareRows, delete, update, add, move, insert, copy, deleteWhole, updateWhole string
}

// Column is a table's column; generated ones are computed by each database.
type Column struct {
	Name      string
	Generated bool
	Integer   bool // int4 or int8
	Long      bool // int8
	Always    bool // GENERATED ALWAYS AS IDENTITY: updates do not change it, nor can they
}

// KeyColumn is a column of the key.
type KeyColumn struct {
	Column int    // index into Columns
	Equal  string // the key's equality operator, qualified: OPERATOR(pg_catalog.=)
}

// Validate checks what SQL generation relies on and makes the statements; catalogs that build
// Tables call it when everything is set.
func (t *Table) Validate() error {
	if t.Schema == "" || t.Name == "" {
		return fmt.Errorf("apply: a table has no name")
	}
	for _, k := range t.Key {
		if k.Column < 0 || k.Column >= len(t.Columns) || k.Equal == "" {
			return fmt.Errorf("apply: the key of table %s.%s is malformed", t.Schema, t.Name)
		}
	}
	t.made = &statements{insert: t.insertSQL(), copy: t.copySQL()}
	if len(t.Key) > 0 {
		t.made.delete, t.made.update, t.made.move = t.deleteSQL(), t.updateSQL(), t.moveSQL()
		t.made.add = t.addSQL()
		t.made.lockRows, t.made.shareRows = t.lockSQL("NO KEY UPDATE"), t.lockSQL("SHARE")
	} else {
		t.made.deleteWhole, t.made.updateWhole = t.deleteWholeSQL(), t.updateWholeSQL()
	}
	return nil
}

// Instead describes a table of which rows are only inserted, which a statement does that is given: of an array of
// them, in their order, which it answers with as many rows.
func Instead(schema, name, sql string) *Table {
	return &Table{Schema: schema, Name: name, made: &statements{insert: sql}}
}

func quote(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

func escape(s string) string { return strings.ReplaceAll(s, "'", "''") }

func (t *Table) qualified() string { return quote(t.Schema) + "." + quote(t.Name) }

// rows is the FROM item that unpacks the parameter.
func (t *Table) rows() string {
	return "pg_catalog.unnest($1::" + t.qualified() + "[]) AS r"
}

func (t *Table) onKey() string {
	parts := make([]string, len(t.Key))
	for i, k := range t.Key {
		c := quote(t.Columns[k.Column].Name)
		parts[i] = "t." + c + " " + k.Equal + " r." + c
	}
	return strings.Join(parts, " AND ")
}

// keyPlaces adds the places of the key's columns to a list.
func (t *Table) keyPlaces(places []int) []int {
	for _, k := range t.Key {
		places = append(places, k.Column)
	}
	return places
}

func (t *Table) insertSQL() string {
	var into, from []string
	for _, c := range t.Columns {
		if !c.Generated {
			into = append(into, quote(c.Name))
			from = append(from, "r."+quote(c.Name))
		}
	}
	if len(into) == 0 {
		// Nothing to give: the row is made of generated columns or has none.
		return "INSERT INTO " + t.qualified() + " SELECT FROM " + t.rows()
	}
	return "INSERT INTO " + t.qualified() + " (" + strings.Join(into, ", ") + ") OVERRIDING SYSTEM VALUE SELECT " +
		strings.Join(from, ", ") + " FROM " + t.rows()
}

// same is the condition that an update of t to the row b changes no column that it cannot set.
func (t *Table) same(b string) string {
	out := ""
	for _, c := range t.Columns {
		if c.Always {
			out += " AND t." + quote(c.Name) + " OPERATOR(pg_catalog.=) " + b + "." + quote(c.Name)
		}
	}
	return out
}

// updateSQL sets every column, key columns too: 1.0 may have become 1.00.
func (t *Table) updateSQL() string {
	var set []string
	for _, c := range t.Columns {
		if !c.Generated && !c.Always {
			set = append(set, quote(c.Name)+" = r."+quote(c.Name))
		}
	}
	if len(set) == 0 {
		// Nothing an update could have changed; the row must be there all the same.
		return "SELECT FROM ONLY " + t.qualified() + " AS t, " + t.rows() + " WHERE " + t.onKey() + t.same("r")
	}
	return "UPDATE ONLY " + t.qualified() + " AS t SET " + strings.Join(set, ", ") + " FROM " + t.rows() + " WHERE " +
		t.onKey() + t.same("r")
}

// addSQL adds to every integer column that is not NULL in the parameter. What does not change leaves no trace in
// indexes.
func (t *Table) addSQL() string {
	var set []string
	for i, c := range t.Columns {
		if c.Integer && !c.Generated && !c.Always && !slices.ContainsFunc(t.Key,
			func(k KeyColumn) bool { return k.Column == i }) {
			n := quote(c.Name)
			set = append(set, n+" = t."+n+" OPERATOR(pg_catalog.+) COALESCE(r."+n+", 0)")
		}
	}
	if len(set) == 0 {
		return ""
	}
	return "UPDATE ONLY " + t.qualified() + " AS t SET " + strings.Join(set, ", ") + " FROM " + t.rows() + " WHERE " +
		t.onKey()
}

// moveColumnsMax is half of what PostgreSQL lets a FROM item have.
const moveColumnsMax = 800

// moveSQL makes of the row with the key of the first parameter's n-th element the row that is the second's
// n-th. The elements' columns are named a0, a1, … and b0, b1, …. It is empty where updates cannot set
// everything: most insertions that follow a deletion are other rows, and would be refused.
func (t *Table) moveSQL() string {
	if len(t.Columns) > moveColumnsMax || slices.ContainsFunc(t.Columns, func(c Column) bool { return c.Always }) {
		return ""
	}
	var from, to, set, on []string
	for i, c := range t.Columns {
		from, to = append(from, "a"+strconv.Itoa(i)), append(to, "b"+strconv.Itoa(i))
		if !c.Generated {
			set = append(set, quote(c.Name)+" = r."+to[i])
		}
	}
	if len(set) == 0 {
		return ""
	}
	for _, k := range t.Key {
		on = append(on, "t."+quote(t.Columns[k.Column].Name)+" "+k.Equal+" r."+from[k.Column])
	}
	array := t.qualified() + "[]"
	return "UPDATE ONLY " + t.qualified() + " AS t SET " + strings.Join(set, ", ") +
		" FROM ROWS FROM (pg_catalog.unnest($1::" + array + "), pg_catalog.unnest($2::" + array +
		")) AS r(" + strings.Join(append(from, to...), ", ") + ") WHERE " + strings.Join(on, " AND ")
}

// lockSQL takes the locks that a transaction has taken at its origin, because local transactions rely on
// them as they do on those of changed rows.
func (t *Table) lockSQL(strength string) string {
	return "SELECT FROM ONLY " + t.qualified() + " AS t, " + t.rows() + " WHERE " + t.onKey() + " FOR " + strength +
		" OF t"
}

func (t *Table) deleteSQL() string {
	return "DELETE FROM ONLY " + t.qualified() + " AS t USING " + t.rows() + " WHERE " + t.onKey()
}

// Lookup finds the local description of a table, or nil if it does not exist here.
type Lookup func(writeset.Table) *Table

// SessionSettings are the settings of a session that executes operations. Row counts of
// parameters are unknown to the planner, and a generic plan made while a table was
// empty must not scan it when it has grown: only nested loops over the key are left.
func SessionSettings() map[string]string {
	return map[string]string{
		"session_replication_role":        "replica",
		"backtrace_functions":             "tutti_applies", // see capture.DDLApplies
		"search_path":                     "pg_catalog",
		"client_encoding":                 "UTF8",
		"datestyle":                       "ISO, YMD",
		"intervalstyle":                   "postgres",
		"timezone":                        "UTC",
		"lc_monetary":                     "C",
		"extra_float_digits":              "3",
		"xmloption":                       "content",
		"default_toast_compression":       "pglz",
		"plan_cache_mode":                 "force_generic_plan",
		"enable_seqscan":                  "off",
		"enable_hashjoin":                 "off",
		"enable_mergejoin":                "off",
		"enable_material":                 "off",
		"enable_memoize":                  "off",
		"jit":                             "off",
		"max_parallel_workers_per_gather": "0",
		"default_transaction_isolation":   "read committed",
		"default_transaction_read_only":   "off",
		"statement_timeout":               "0",
		"lock_timeout":                    "0",
	}
}
