DROP FUNCTION IF EXISTS tutti.hashable(pg_catalog.oid); -- of earlier versions
DROP FUNCTION IF EXISTS tutti.hash_form(pg_catalog.oid);
CREATE OR REPLACE FUNCTION tutti.key_form(typ pg_catalog.oid, coll pg_catalog.oid) RETURNS pg_catalog.text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $tutti$
  WITH RECURSIVE base AS (
    SELECT oid, typtype, typbasetype, typname, typnamespace, typelem FROM pg_type WHERE oid = typ
    UNION ALL SELECT y.oid, y.typtype, y.typbasetype, y.typname, y.typnamespace, y.typelem FROM base b JOIN pg_type y ON y.oid = b.typbasetype WHERE b.typtype = 'd'
  ) SELECT CASE
    WHEN EXISTS (SELECT FROM pg_collation WHERE oid = coll AND NOT collisdeterministic) THEN CASE WHEN {{loose}} THEN '{{form_own}}' ELSE '' END
    WHEN typtype = 'e' THEN 'enum'
    WHEN {{own}} THEN '{{form_own}}'
    WHEN {{named}} THEN typname::text
    WHEN EXISTS (SELECT FROM pg_type e WHERE e.oid = base.typelem AND e.typarray = base.oid AND (e.typtype = 'e' OR {{element}})) THEN 'array'
    WHEN typname = 'citext' AND EXISTS (SELECT FROM pg_depend d JOIN pg_extension x ON x.oid = d.refobjid WHERE d.classid = 'pg_type'::regclass AND d.objid = base.oid
      AND d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e' AND x.extname = 'citext') THEN 'citext'
    ELSE '' END
  FROM base WHERE typtype <> 'd'
$tutti$;
REVOKE ALL ON FUNCTION tutti.key_form(pg_catalog.oid, pg_catalog.oid) FROM PUBLIC;
