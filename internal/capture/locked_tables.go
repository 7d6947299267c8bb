package capture

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/tuttidb/tutti/internal/writeset"
)

// TablesLockedQuery gives the user tables that this transaction has locked in a mode that keeps others out, with the
// mode and whether rows are in the table itself. It runs through tutti.privileged.
const TablesLockedQuery = `SELECT coalesce(json_agg(DISTINCT jsonb_build_array(n.nspname, c.relname, l.mode, ` +
	`c.relkind = 'r')), '[]')::text
  FROM pg_locks l JOIN pg_class c ON c.oid = l.relation JOIN pg_namespace n ON n.oid = c.relnamespace
  WHERE l.pid = pg_backend_pid() AND l.locktype = 'relation' AND l.granted AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
    AND l.mode IN ('ShareUpdateExclusiveLock', 'ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')
    AND c.relkind IN ('r', 'p') AND c.relpersistence = 'p' AND n.nspname !~ '^pg_' AND n.nspname NOT IN ('information_schema', 'tutti')`

// tableModes are PostgreSQL's names. ACCESS EXCLUSIVE keeps readers out at its own member alone.
var tableModes = map[string]writeset.TableMode{
	"ShareUpdateExclusiveLock": writeset.ShareUpdateExclusive, "ShareLock": writeset.ShareTable,
	"ShareRowExclusiveLock": writeset.ShareRowExclusive,
	"ExclusiveLock":         writeset.ExclusiveTable, "AccessExclusiveLock": writeset.ExclusiveTable,
}

// ReadTablesLocked takes its answer. known tells which tables are known to all members.
func ReadTablesLocked(answer []byte, known func(schema, name string) bool) ([]writeset.TableLock, error) {
	var rows [][]any
	if err := json.Unmarshal(answer, &rows); err != nil {
		return nil, fmt.Errorf("capture: locked tables: %w", err)
	}
	var out []writeset.TableLock
	for _, r := range rows {
		if len(r) != 4 {
			return nil, fmt.Errorf("capture: a locked table is told by %d values", len(r))
		}
		schema, _ := r[0].(string)
		name, _ := r[1].(string)
		mode, _ := r[2].(string)
		plain, _ := r[3].(bool)
		m := tableModes[mode]
		if schema == "" || name == "" || m == 0 {
			return nil, fmt.Errorf("capture: locked tables: %v is none", r)
		}
		l := writeset.TableLock{Table: whole([2]string{schema, name}), Name: lockName(schema, name), Mode: m,
			Unknown: !plain || !known(schema, name)}
		if i := slices.IndexFunc(out, func(x writeset.TableLock) bool { return x.Table.Key == l.Table.Key }); i >= 0 {
			out[i].Mode = out[i].Mode.With(m)
			continue
		}
		out = append(out, l)
	}
	return out, nil
}

const locksOf = "locks of "

// lockName stands for the locks on a table, see writeset.TableLock.
func lockName(schema, name string) writeset.Table {
	return whole([2]string{SchemaName, locksOf + schema + "." + name})
}

// LocksOf returns the table whose locks a name stands for.
func LocksOf(t writeset.Table) (table string, ok bool) {
	if t.Schema != SchemaName {
		return "", false
	}
	return strings.CutPrefix(t.Name, locksOf)
}

// LockExtentSQL asks which tables a LOCK TABLE is about that names relations, as written, with those below them. Names
// without a schema are searched in schemas, in their order. It runs where search_path is pg_catalog.
func LockExtentSQL(relations, schemas []string) string {
	return `WITH RECURSIVE named AS MATERIALIZED (
    SELECT DISTINCT ON (r) c.oid FROM unnest(ARRAY[` + literals(relations) + `]::text[]) r, parse_ident(r) parts, unnest(CASE cardinality(parts) WHEN 1 THEN ARRAY[` + literals(schemas) + `]::text[] ELSE parts[1:1] END) WITH ORDINALITY s(schema, place)
      JOIN pg_namespace n ON n.nspname = s.schema JOIN pg_class c ON c.relnamespace = n.oid
      WHERE c.relname = parts[cardinality(parts)] ORDER BY r, place),
  family AS (SELECT oid FROM named UNION SELECT h.inhrelid FROM family f JOIN pg_inherits h ON h.inhparent = f.oid)
  SELECT coalesce(json_agg(json_build_array(n.nspname, c.relname)), '[]') FROM family f JOIN pg_class c ON c.oid = f.oid JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relkind IN ('r', 'p') AND c.relpersistence = 'p' AND n.nspname !~ '^pg_|^information_schema$|^tutti$'`
}

// LockExtent takes the answer: which tables, and names for their locks, are held if writers are kept out, or else the
// names alone.
func LockExtent(answer []byte, writers bool) ([]writeset.Table, error) {
	var rows [][2]string
	if err := json.Unmarshal(answer, &rows); err != nil {
		return nil, fmt.Errorf("capture: tables to be locked: %w", err)
	}
	var out []writeset.Table
	for _, r := range rows {
		if writers {
			out = append(out, whole(r))
		}
		out = append(out, lockName(r[0], r[1]))
	}
	return out, nil
}
