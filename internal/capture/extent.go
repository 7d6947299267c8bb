package capture

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/tuttidb/tutti/internal/writeset"
)

// A definition that takes its place in the order by itself is certified by keys, like a transaction:
// it holds the tables it may change, so that who has written to one of them before it, and is ordered
// after it, loses. Which tables these are is looked up before it is ordered; if anything that the
// answer depends on was ordered in between, it is a barrier for all (certify.Certifier.Define).

// extentMax bounds the tables of one definition; with more it is a barrier.
const extentMax = 4096

// These are no tables. Every definition holds definitionsName, so that a transaction with definitions of its own
// that does not know of it loses. Those that change columns hold columnsName and look at typesName, which those hold
// that give tables columns of types that may be row types; they look at columnsName.
const (
	definitionsName = "definitions"
	columnsName     = "columns"
	typesName       = "types"
)

// ExtentSQL asks which tables a definition may change that names relations, as written. Names without
// a schema count for each schema in which they are searched, because another definition may come
// first. With a table go, by reach (semantics.Reach), none, its partitions, those and its children (below), or these,
// its parents and the other ends of its foreign keys (around); with keys those that refer to them in any case. The
// answer is NULL if it cannot be told: a table may have its rows in columns of others.
func ExtentSQL(relations []string, columns, keys bool, reach string) string {
	return fmt.Sprintf("SELECT tutti.extent(ARRAY[%s]::pg_catalog.text[], pg_catalog.current_schemas(false), %t, "+
		"%t, '%s')", literals(relations), columns, keys, reach)
}

// ExtentOfSQL is ExtentSQL for one relation. With keys it must be there: what is to be known of it must not come from
// another definition meanwhile.
func ExtentOfSQL(relation string, columns, keys bool, reach string) string {
	sql := ExtentSQL([]string{relation}, columns, keys, reach)
	if keys {
		sql += fmt.Sprintf(" WHERE pg_catalog.to_regclass(%s) IS NOT NULL", literal(relation))
	}
	return sql
}

func extentFunction() string {
	return install("extent.sql", words{"max": extentMax, "index_plans": indexPlans}) +
		install("around.sql", words{
			"large_pages": largeTable, "index_plans": indexPlans, "events_query": EventsQuery,
		})
}

// largeTable is how many pages make a table a large one.
const largeTable = 1024

// AroundSQL asks what decides where a definition runs: with temporary, locked, private, large and watched, in this
// order. Relations are SQL for their OIDs, of which some may be NULL. Reach is how far those below count: 'below',
// 'partitions' or 'none'; Shares and Divided are as in semantics and session have it.
func AroundSQL(relations []string, reach string, shares, divided bool) string {
	harmless := ""
	if shares {
		harmless = "AccessShareLock,RowShareLock"
	}
	return fmt.Sprintf("SELECT * FROM tutti.around(ARRAY[%s]::pg_catalog._oid, '%s', '{%s}', %t)",
		strings.Join(relations, ","), reach, harmless, divided)
}

// Extent takes the answer to ExtentSQL, nil for NULL, and makes a writeset of it, without steps.
func Extent(answer []byte, columns, types bool) (*writeset.Writeset, error) {
	if answer == nil {
		return &writeset.Writeset{Barrier: true}, nil
	}
	var tables [][2]string
	if err := json.Unmarshal(answer, &tables); err != nil {
		return nil, fmt.Errorf("capture: tables of a definition: %w", err)
	}
	var s steps
	s.exclude(tables)
	s.aside(definitionsName, writeset.Update)
	switch {
	case columns && types:
		s.aside(columnsName, writeset.Exclusive)
		s.aside(typesName, writeset.Exclusive)
	case columns:
		s.aside(columnsName, writeset.Update)
		s.aside(typesName, writeset.Read)
	case types:
		s.aside(columnsName, writeset.Read)
		s.aside(typesName, writeset.Update)
	}
	return &writeset.Writeset{Tables: s.tables, Keys: s.keys.keys}, nil
}

// aside holds what is no table.
func (s *steps) aside(name string, m writeset.Mode) {
	w := whole([2]string{SchemaName, name})
	s.add(w, tableKey{hash: w.Key, mode: m})
}

// beside holds what a transaction's own definitions must not have missed: definitions ordered by themselves, and
// those of other transactions. What they name may be no table.
func (s *steps) beside() {
	s.aside(definitionsName, writeset.Update)
	s.exclude([][2]string{{SchemaName, columnsName}, {SchemaName, typesName}})
}

// DefinitionsKey is what every definition holds. It is the last key of what a transaction with definitions of its own
// has captured: one that has lost by it has lost by nothing else of that.
var DefinitionsKey = TableKey(SchemaName, definitionsName)

// Beyond takes what tutti.locked tells to be changed and names a table in it that a definition does not hold; empty if
// there is none.
func Beyond(w *writeset.Writeset, answer []byte) (string, error) {
	var changed [][2]string
	if err := json.Unmarshal(answer, &changed); err != nil {
		return "", fmt.Errorf("capture: tables a definition has changed: %w", err)
	}
	for _, t := range changed {
		own := whole(t)
		if !slices.ContainsFunc(w.Tables, func(x writeset.Table) bool { return x.Key == own.Key }) {
			return own.String(), nil
		}
	}
	return "", nil
}
