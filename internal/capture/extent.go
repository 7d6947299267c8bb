package capture

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/tuttidb/tutti/internal/writeset"
)

// A definition that takes its place in the order by itself is certified by keys, like a transaction:
// it holds the tables it may change, so that who has written to one of them before it, and is ordered
// after it, loses. Which tables these are is looked up before it is ordered; if anything that the
// answer depends on was ordered in between, it is a barrier for all (certify.Certifier.Define).

// extentMax bounds the tables of one definition; with more it is a barrier.
const extentMax = 4096

// These are no tables. Every definition holds definitionsName, so that a transaction with definitions of its own
// that does not know of it loses. Those that change columns hold columnsName and look at typesName, which those hold that
// give tables columns of types that may be row types; they look at columnsName.
const (
	definitionsName = "definitions"
	columnsName     = "columns"
	typesName       = "types"
)

// ExtentSQL asks which tables a definition may change that names relations, as written. Names without
// a schema count for each schema in which they are searched, because another definition may come
// first. With a table go, by reach (semantics.Reach), none, its partitions, those and its children (below), or these, its parents
// and the other ends of its foreign keys (around); with keys those that refer to them in any case. The answer is NULL if it cannot be told: a table may have its rows in columns of others.
func ExtentSQL(relations []string, columns, keys bool, reach string) string {
	return fmt.Sprintf("SELECT tutti.extent(ARRAY[%s]::pg_catalog.text[], pg_catalog.current_schemas(false), %t, %t, '%s')", literals(relations), columns, keys, reach)
}

// ExtentOfSQL is ExtentSQL for one relation. With keys it must be there: what is to be known of it must not come from another definition meanwhile.
func ExtentOfSQL(relation string, columns, keys bool, reach string) string {
	sql := ExtentSQL([]string{relation}, columns, keys, reach)
	if keys {
		sql += fmt.Sprintf(" WHERE pg_catalog.to_regclass(%s) IS NOT NULL", literal(relation))
	}
	return sql
}

func extentFunction() string { return fmt.Sprintf(extentBody, extentMax) }

const extentBody = `
DROP FUNCTION IF EXISTS tutti.extent(pg_catalog.text[], pg_catalog.name[], pg_catalog.bool);
CREATE OR REPLACE FUNCTION tutti.extent(relations pg_catalog.text[], searched pg_catalog.name[], columns pg_catalog.bool, keys pg_catalog.bool, reach pg_catalog.text) RETURNS pg_catalog.text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $tutti$
#variable_conflict use_column
BEGIN RETURN (
  WITH RECURSIVE written AS MATERIALIZED (SELECT parse_ident(r) AS parts FROM unnest(relations) r),
  named AS MATERIALIZED (
    SELECT parts[1] AS schema, parts[2] AS name FROM written WHERE cardinality(parts) = 2
    UNION SELECT s, parts[1] FROM written, unnest(searched) s WHERE cardinality(parts) = 1),
  family AS (
    SELECT coalesce(i.indrelid, c.oid) AS oid FROM named JOIN pg_namespace n ON n.nspname = named.schema
      JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = named.name LEFT JOIN pg_index i ON i.indexrelid = c.oid
    UNION SELECT next.oid FROM family f, LATERAL (
      SELECT h.inhrelid AS oid FROM pg_inherits h JOIN pg_class c ON c.oid = h.inhrelid WHERE h.inhparent = f.oid AND (reach IN ('around', 'below') OR reach = 'partitions' AND c.relispartition)
      UNION ALL SELECT h.inhparent FROM pg_inherits h WHERE h.inhrelid = f.oid AND reach = 'around') next),
  around AS (
    SELECT oid FROM family
    UNION SELECT k.confrelid FROM pg_constraint k JOIN family f ON f.oid = k.conrelid WHERE k.contype = 'f' AND reach = 'around'
    UNION SELECT k.conrelid FROM pg_constraint k JOIN family f ON f.oid = k.confrelid WHERE k.contype = 'f' AND (keys OR reach = 'around')),
  tables AS MATERIALIZED (
    SELECT n.nspname::text AS schema, c.relname::text AS name FROM around a JOIN pg_class c ON c.oid = a.oid
      JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind IN ('r', 'p') AND c.relpersistence <> 't'
    UNION SELECT schema, name FROM named),
  types AS (SELECT t.oid, t.typarray FROM family f JOIN pg_type t ON t.typrelid = f.oid)
  SELECT CASE WHEN (SELECT count(*) FROM tables) <= %[1]d
    AND NOT EXISTS (SELECT FROM written WHERE cardinality(parts) > 2)
    AND NOT (columns AND EXISTS (SELECT FROM types JOIN pg_depend d ON d.refobjid IN (types.oid, types.typarray)
      WHERE d.refclassid = 'pg_type'::regclass AND d.deptype = 'n' AND d.classid IN ('pg_class'::regclass, 'pg_type'::regclass)))
    THEN (SELECT coalesce(json_agg(json_build_array(schema, name) ORDER BY schema, name), '[]')::text FROM tables) END); END
$tutti$;
GRANT EXECUTE ON FUNCTION tutti.extent TO PUBLIC;
`

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

// ChangedQuery gives the user tables that a definition holds now so that it may have changed them, or what their
// rows mean: code of users that it ran may write anywhere.
const ChangedQuery = `SELECT coalesce(pg_catalog.json_agg(DISTINCT pg_catalog.jsonb_build_array(n.nspname, c.relname)), '[]')::pg_catalog.text
  FROM pg_catalog.pg_locks l JOIN pg_catalog.pg_class c ON c.oid = l.relation JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
  WHERE l.pid = pg_catalog.pg_backend_pid() AND l.locktype = 'relation' AND l.granted
    AND l.mode IN ('RowExclusiveLock', 'ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')
    AND c.relkind IN ('r', 'p') AND c.relpersistence <> 't' AND n.nspname !~ '^pg_' AND n.nspname NOT IN ('information_schema', 'tutti')`

// Beyond takes the answer to ChangedQuery and names a table in it that a definition does not hold;
// empty if there is none.
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
