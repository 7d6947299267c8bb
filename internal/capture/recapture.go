package capture

import (
	"fmt"

	"github.com/tuttidb/tutti/internal/writeset"
)

// A table that a transaction has made has no triggers before its definition is followed up. What it holds by then, as after
// CREATE TABLE AS, is captured from the table itself.

func recaptureSchema() string {
	return fmt.Sprintf(recaptureFunction, runBits, opBulk+writeset.OpInsert, bulkBytes)
}

const recaptureFunction = `
-- Captures a table's rows as inserted, about so many at a time as a statement trigger does. command gives their number, identities, and
-- images with keys, between two places in the table.
CREATE OR REPLACE FUNCTION tutti.recapture(name pg_catalog.text, header pg_catalog.bytea, command pg_catalog.text) RETURNS pg_catalog.void LANGUAGE plpgsql` + textSettings + bulkExtras + ` AS $tutti$
DECLARE pages int8 := pg_relation_size(name::regclass) / current_setting('block_size')::int8; at int8 := 0; step int8 := 8; c int8; k int8[]; m bytea; sum int8 := 0;
  stamp int8 := ((extract(epoch FROM clock_timestamp()) * 1000000)::int8 << %[1]d) | (pg_stat_get_xact_tuples_inserted(tutti.captures()::regclass) & ((1::int8 << %[1]d) - 1));
BEGIN
  WHILE at < pages LOOP
    EXECUTE command INTO c, k, m USING format('(%%s,0)', at)::tid, format('(%%s,0)', least(at + step, 4294967294))::tid;
    at := at + step;
    CONTINUE WHEN c = 0;
    PERFORM tutti.put(header, %[2]d::int2, stamp, k, m);
    sum := sum + length(m);
    IF EXISTS (SELECT FROM tutti.token t WHERE t.bytes_max < sum) THEN
      RAISE EXCEPTION 'the transaction changes more than %% bytes (writeset_bytes)', (SELECT t.bytes_max FROM tutti.token t) USING ERRCODE = 'program_limit_exceeded', HINT = 'Split it into smaller transactions.';
    END IF;
    step := greatest(1, least(step * 16, step * %[3]d / greatest(1, length(m))));
  END LOOP;
END $tutti$;
REVOKE ALL ON FUNCTION tutti.recapture FROM PUBLIC;
`

// recapture captures all rows of a table as inserted: none was captured when they came, because the
// table is of this transaction.
func (t *TableDesc) recapture() string {
	k := t.keys("t", "t")
	row := t.image("t.*")
	if list := array(k.fresh, k.foreign, k.extra); list != "NULL" {
		row += ", " + list
	}
	name := Quote(t.Schema) + "." + Quote(t.Name)
	rows := fmt.Sprintf("SELECT pg_catalog.count(*), pg_catalog.array_agg(%s), pg_catalog.string_agg(pg_catalog.record_send(ROW(%s)), ''::pg_catalog.bytea) FROM ONLY %s AS t WHERE t.ctid OPERATOR(pg_catalog.>=) $1 AND t.ctid OPERATOR(pg_catalog.<) $2",
		t.identity("t"), row, name)
	return "SELECT tutti.recapture(" + literal(name) + ", " + t.header() + ", " + literal(rows) + ")"
}

// filledViews gives the materialized views that this transaction has made or filled, the oldest first, if it has any.
const filledViews = `CASE WHEN pg_catalog.current_setting('tutti.tags', true) OPERATOR(pg_catalog.~) 'MATERIALIZED' THEN (
  SELECT pg_catalog.json_agg(pg_catalog.json_build_object('tag', 'REFRESH MATERIALIZED VIEW', 'sql', pg_catalog.format('REFRESH MATERIALIZED VIEW %I.%I', n.nspname, c.relname), 'role', pg_catalog.pg_get_userbyid(c.relowner),
      'settings', '{}'::pg_catalog.json, 'dropped', '[]'::pg_catalog.json) ORDER BY c.oid)
    FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) c.relnamespace WHERE c.relkind OPERATOR(pg_catalog.=) 'm'::pg_catalog."char" AND c.relispopulated AND tutti.mine(c.xmin)) END`
