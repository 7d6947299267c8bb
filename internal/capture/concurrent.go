package capture

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/tuttidb/tutti/internal/writeset"
)

// concurrentWidth is up to how many bytes an entry of an index may have that members build each for itself. PostgreSQL
// refuses entries of more than a third of a page: then a row could be stored where the index is not yet, and nowhere
// else.
const concurrentWidth = 2000

// ConcurrentSQL asks for the table of an index that every member may build for itself, as an array of schema and name:
// an ordinary one whose columns have types of PostgreSQL's that are narrow. It is NULL if the index may not be built
// that way, for instance because there is something of its name.
func ConcurrentSQL(relation, index string, columns []string) string {
	literal := func(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }
	names := map[string]bool{}
	for _, c := range columns {
		names[c] = true
	}
	list := make([]string, len(columns))
	for i, c := range columns {
		list[i] = literal(c)
	}
	return fmt.Sprintf(concurrentQuery, literal(relation), literal(index), strings.Join(list, ","), len(names),
		concurrentWidth)
}

const concurrentQuery = `SELECT (SELECT pg_catalog.json_build_array(n.nspname, c.relname)::pg_catalog.text
  FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
  WHERE c.oid = pg_catalog.to_regclass(%[1]s) AND c.relkind = 'r' AND c.relpersistence = 'p' AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
    AND NOT EXISTS (SELECT FROM pg_catalog.pg_class i WHERE i.relnamespace = c.relnamespace AND i.relname = %[2]s)
    AND (SELECT count(w.width) = %[4]d AND sum(w.width) <= %[5]d FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_type t ON t.oid = a.atttypid,
      LATERAL (SELECT CASE WHEN t.typlen > 0 AND (t.oid < 16384 OR t.typtype = 'e') THEN t.typlen
        WHEN t.oid IN ('varchar'::pg_catalog.regtype, 'bpchar'::pg_catalog.regtype) AND a.atttypmod > 4 THEN 4 * a.atttypmod
        WHEN t.oid = 'numeric'::pg_catalog.regtype AND a.atttypmod > 4 THEN 1000 END AS width) w
      WHERE a.attrelid = c.oid AND a.attnum > 0 AND a.attname IN (%[3]s)))`

// Concurrent takes the answer to ConcurrentSQL, and makes a writeset without steps: no writer to the table loses to the
// index, but its definition must not have changed.
func Concurrent(answer []byte) (table [2]string, w *writeset.Writeset, err error) {
	if err := json.Unmarshal(answer, &table); err != nil {
		return table, nil, fmt.Errorf("capture: table of an index: %w", err)
	}
	var s steps
	t := whole(table)
	s.add(t, tableKey{hash: t.Key, mode: writeset.Read})
	s.aside(definitionsName, writeset.Update)
	return table, &writeset.Writeset{Tables: s.tables, Keys: s.keys.keys}, nil
}
