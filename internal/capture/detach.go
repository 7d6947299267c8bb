package capture

import (
	"encoding/json"
	"fmt"

	"github.com/tuttidb/tutti/internal/writeset"
)

// DetachSQL asks for what Detached takes, as JSON; NULL if the partition is none, or may not be detached in two steps:
// where code of users would run at members whose connection is a superuser's.
func DetachSQL(parent, partition string) string {
	return fmt.Sprintf(detachQuery, literal(parent), literal(partition))
}

const detachQuery = `SELECT (WITH RECURSIVE below AS (
    SELECT h.inhrelid AS oid FROM pg_catalog.pg_inherits h WHERE h.inhparent = pg_catalog.to_regclass(%[1]s) AND h.inhrelid = pg_catalog.to_regclass(%[2]s)
    UNION ALL SELECT h.inhrelid FROM below b JOIN pg_catalog.pg_inherits h ON h.inhparent = b.oid),
  refs AS (SELECT DISTINCT n.nspname, c.relname, c.relforcerowsecurity FROM pg_catalog.pg_constraint k JOIN pg_catalog.pg_class c ON c.oid = k.conrelid
    JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE k.contype = 'f' AND k.confrelid IN (SELECT oid FROM below))
  SELECT pg_catalog.json_build_object('parent', pg_catalog.json_build_array(pn.nspname, p.relname), 'partition', pg_catalog.json_build_array(cn.nspname, c.relname),
    'refs', (SELECT coalesce(pg_catalog.json_agg(pg_catalog.json_build_array(nspname, relname) ORDER BY nspname, relname), '[]') FROM refs))::pg_catalog.text
  FROM pg_catalog.pg_class p JOIN pg_catalog.pg_namespace pn ON pn.oid = p.relnamespace JOIN pg_catalog.pg_partitioned_table t ON t.partrelid = p.oid,
    pg_catalog.pg_class c JOIN pg_catalog.pg_namespace cn ON cn.oid = c.relnamespace
  WHERE p.oid = pg_catalog.to_regclass(%[1]s) AND c.oid = pg_catalog.to_regclass(%[2]s) AND EXISTS (SELECT FROM below) AND t.partexprs IS NULL
    AND NOT EXISTS (SELECT FROM below b JOIN pg_catalog.pg_class x ON x.oid = b.oid WHERE x.relpersistence <> 'p' OR x.relkind NOT IN ('r', 'p'))
    AND NOT EXISTS (SELECT FROM refs WHERE relforcerowsecurity))`

// Detached are the tables that have to do with a detached partition, by schema and name.
type Detached struct {
	Parent    [2]string   `json:"parent"`
	Partition [2]string   `json:"partition"`
	Refs      [][2]string `json:"refs"` // with foreign keys that refer to it
}

// Detach takes the answer to DetachSQL, and makes a writeset without steps for the first step: no writer to the
// partition loses to it, but who has written to a table that refers to it does, because the step has looked at its
// rows.
func Detach(answer []byte) (d Detached, w *writeset.Writeset, err error) {
	if err := json.Unmarshal(answer, &d); err != nil {
		return d, nil, fmt.Errorf("capture: tables of a partition: %w", err)
	}
	var s steps
	for _, of := range [][2]string{d.Parent, d.Partition} {
		t := whole(of)
		s.add(t, tableKey{hash: t.Key, mode: writeset.Read})
	}
	s.exclude(d.Refs)
	s.aside(definitionsName, writeset.Update)
	return d, &writeset.Writeset{Tables: s.tables, Keys: s.keys.keys}, nil
}
