-- The columns and expressions of indexes: of those in idx, which comes before.
keyed AS (
  SELECT x.indexrelid, k.ord, k.num, a.attname, coalesce(a.atttypid, ia.atttypid) AS typ, coalesce(a.attcollation, 0) AS attcollation, x.indrelid,
    x.indclass[k.ord - 1] AS opc, x.indcollation[k.ord - 1] AS coll
  FROM idx x CROSS JOIN LATERAL (SELECT ord, num FROM unnest(x.indkey::int2[]) WITH ORDINALITY AS u(num, ord) WHERE ord <= x.indnkeyatts) k
    JOIN pg_attribute ia ON ia.attrelid = x.indexrelid AND ia.attnum = k.ord
    LEFT JOIN pg_attribute a ON k.num <> 0 AND a.attrelid = x.indrelid AND a.attnum = k.num
), formed AS MATERIALIZED (
  SELECT typ, coll, CASE WHEN typ IN ({{plain_types}}) AND coll IN (0, 100, 950) THEN '{{form_own}}' ELSE tutti.key_form(typ, coll) END AS form
  FROM (SELECT DISTINCT typ, coll FROM keyed) u
), idxname AS (
  SELECT x.indexrelid, rc.relname AS name, tn.nspname AS root_schema, tc.relname AS root_table
  FROM idx x JOIN pg_class rc ON rc.oid = x.root JOIN pg_index ri ON ri.indexrelid = x.root
    JOIN pg_class tc ON tc.oid = ri.indrelid JOIN pg_namespace tn ON tn.oid = tc.relnamespace
), parts AS (
  SELECT k.indexrelid, k.indrelid, k.ord, k.num, k.attname, k.typ,
    CASE WHEN k.num = 0 THEN pg_get_indexdef(k.indexrelid, k.ord::int, false) ELSE '' END AS expr,
    CASE WHEN k.coll <> 0 AND (k.num = 0 OR (k.coll <> k.attcollation
        AND EXISTS (SELECT FROM pg_collation q WHERE q.oid IN (k.coll, k.attcollation) AND NOT q.collisdeterministic)))
      THEN (SELECT format('%I.%I', qn.nspname, q.collname) FROM pg_collation q JOIN pg_namespace qn ON qn.oid = q.collnamespace WHERE q.oid = k.coll)
      ELSE '' END AS collation,
    CASE WHEN k.coll <> 0 AND EXISTS (SELECT FROM pg_collation q WHERE q.oid = k.coll AND NOT q.collisdeterministic)
      THEN (SELECT format('%I.%I', qn.nspname, q.collname) FROM pg_collation q JOIN pg_namespace qn ON qn.oid = q.collnamespace WHERE q.oid = k.coll)
      ELSE '' END AS refcollation,
    CASE WHEN f.form = 'citext' THEN -- the extension's own operator class
      CASE WHEN oc.opcdefault AND EXISTS (SELECT FROM pg_depend d JOIN pg_extension x ON x.oid = d.refobjid WHERE d.classid = 'pg_opclass'::regclass AND d.objid = oc.oid
        AND d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e' AND x.extname = 'citext') THEN f.form ELSE '' END
      WHEN oc.oid < 16384 AND (oc.opcdefault OR oc.opcname LIKE '%\_pattern\_ops') THEN f.form ELSE '' END AS form,
    (SELECT format('OPERATOR(%I.%s)', pn.nspname, o.oprname) FROM pg_amop ao JOIN pg_operator o ON o.oid = ao.amopopr
       JOIN pg_namespace pn ON pn.oid = o.oprnamespace
       WHERE ao.amopfamily = oc.opcfamily AND ao.amopstrategy = 3 AND ao.amoplefttype = oc.opcintype AND ao.amoprighttype = oc.opcintype
         AND ao.amopmethod = 403) AS equal
  FROM keyed k JOIN formed f ON f.typ = k.typ AND f.coll = k.coll JOIN pg_opclass oc ON oc.oid = k.opc
)
