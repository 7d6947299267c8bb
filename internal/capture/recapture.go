package capture

import (
	"fmt"

	"github.com/tuttidb/tutti/internal/writeset"
)

// A table that a transaction has made has no triggers before its definition is followed up. What it holds by then, as
// after CREATE TABLE AS, is captured from the table itself.

// recaptureMax is how many bytes of a table, at most, are captured so: members keep them several times in memory.
const recaptureMax = 256 << 20

func recaptureSchema() string {
	return install("recapture.sql", words{
		"text_settings": textSettings,
		"bulk_extras":   bulkExtras,
		"run_bits":      runBits,
		"op":            opBulk + writeset.OpInsert,
		"bulk_bytes":    bulkBytes,
		"most":          recaptureMax,
	})
}

// recapture captures all rows of a table as inserted: none was captured when they came, because the
// table is of this transaction.
func (t triggerCode) recapture() string {
	k := t.keys("t", "t")
	row := t.image("t.*")
	if list := array(k.fresh, k.foreign, k.extra); list != "NULL" {
		row += ", " + list
	}
	name := Quote(t.Schema) + "." + Quote(t.Name)
	rows := fmt.Sprintf("SELECT pg_catalog.count(*), pg_catalog.array_agg(%s), "+
		"pg_catalog.string_agg(pg_catalog.record_send(ROW(%s)), ''::pg_catalog.bytea) FROM ONLY %s AS t WHERE t.ctid "+
		"OPERATOR(pg_catalog.>=) $1 AND t.ctid OPERATOR(pg_catalog.<) $2",
		t.IdentitySQL("t"), row, name)
	return "SELECT tutti.recapture(" + literal(name) + ", " + t.header() + ", " + literal(rows) + ")"
}

// filledViews gives the materialized views that this transaction has made or filled, the oldest first, if it has any.
const filledViews = `CASE WHEN pg_catalog.current_setting('tutti.tags', true) OPERATOR(pg_catalog.~) ` +
	`'MATERIALIZED' THEN (
  SELECT pg_catalog.json_agg(pg_catalog.json_build_object('tag', 'REFRESH MATERIALIZED VIEW', 'sql', pg_catalog.format('REFRESH MATERIALIZED VIEW %I.%I', n.nspname, c.relname), 'role', pg_catalog.pg_get_userbyid(c.relowner),
      'settings', '{}'::pg_catalog.json, 'dropped', '[]'::pg_catalog.json) ORDER BY c.oid)
    FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) c.relnamespace WHERE c.relkind OPERATOR(pg_catalog.=) 'm'::pg_catalog."char" AND c.relispopulated AND tutti.mine(c.xmin)) END`
