DROP FUNCTION IF EXISTS tutti.extent(pg_catalog.text[], pg_catalog.name[], pg_catalog.bool);
CREATE OR REPLACE FUNCTION tutti.extent(relations pg_catalog.text[], searched pg_catalog.name[], columns pg_catalog.bool, keys pg_catalog.bool, reach pg_catalog.text) RETURNS pg_catalog.text
LANGUAGE plpgsql STABLE{{index_plans}}AS $tutti$
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
    UNION SELECT k.conrelid FROM family f JOIN pg_depend d ON d.refclassid = 'pg_class'::regclass AND d.refobjid = f.oid AND d.classid = 'pg_constraint'::regclass
      JOIN pg_constraint k ON k.oid = d.objid WHERE k.contype = 'f' AND k.confrelid = f.oid AND (keys OR reach = 'around')),
  tables AS MATERIALIZED (
    SELECT n.nspname::text AS schema, c.relname::text AS name FROM around a JOIN pg_class c ON c.oid = a.oid
      JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind IN ('r', 'p') AND c.relpersistence <> 't'
    UNION SELECT schema, name FROM named),
  types AS (SELECT t.oid, t.typarray FROM family f JOIN pg_class c ON c.oid = f.oid JOIN pg_type t ON t.oid = c.reltype)
  SELECT CASE WHEN (SELECT count(*) FROM tables) <= {{max}}
    AND NOT EXISTS (SELECT FROM written WHERE cardinality(parts) > 2)
    AND NOT (columns AND EXISTS (SELECT FROM types JOIN pg_depend d ON d.refobjid IN (types.oid, types.typarray)
      WHERE d.refclassid = 'pg_type'::regclass AND d.deptype = 'n' AND d.classid IN ('pg_class'::regclass, 'pg_type'::regclass)))
    THEN (SELECT coalesce(json_agg(json_build_array(schema, name) ORDER BY schema, name), '[]')::text FROM tables) END); END
$tutti$;
GRANT EXECUTE ON FUNCTION tutti.extent TO PUBLIC;
