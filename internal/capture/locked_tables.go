package capture

import (
	"encoding/json"
	"fmt"

	"github.com/tuttidb/tutti/internal/writeset"
)

// TablesLockedQuery gives the user tables that this transaction holds in a mode that keeps writers out.
// It runs through tutti.privileged.
const TablesLockedQuery = `SELECT coalesce(json_agg(DISTINCT jsonb_build_array(n.nspname, c.relname)), '[]')::text
  FROM pg_locks l JOIN pg_class c ON c.oid = l.relation JOIN pg_namespace n ON n.oid = c.relnamespace
  WHERE l.pid = pg_backend_pid() AND l.locktype = 'relation' AND l.granted AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
    AND l.mode IN ('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')
    AND c.relkind IN ('r', 'p') AND c.relpersistence = 'p' AND n.nspname !~ '^pg_' AND n.nspname NOT IN ('information_schema', 'tutti')`

// ReadTablesLocked takes its answer.
func ReadTablesLocked(answer []byte) ([]writeset.Table, error) {
	var rows [][2]string
	if err := json.Unmarshal(answer, &rows); err != nil {
		return nil, fmt.Errorf("capture: locked tables: %w", err)
	}
	out := make([]writeset.Table, len(rows))
	for i, r := range rows {
		out[i] = whole(r)
	}
	return out, nil
}
