WITH RECURSIVE
tables AS (
  SELECT c.oid, n.nspname, c.relname, y.typarray, c.relrowsecurity OR c.relhasrules OR c.relispartition OR c.relhassubclass AS special, c.relispartition OR c.relhassubclass AS divided
  FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_type y ON y.oid = c.reltype
  WHERE c.relkind = 'r' AND c.relpersistence = 'p' AND n.nspname !~ '^pg_' AND n.nspname NOT IN ('information_schema', 'tutti') {{tables}}
), atts AS (
  SELECT a.* FROM pg_attribute a JOIN tables t ON t.oid = a.attrelid WHERE a.attnum > 0 AND NOT a.attisdropped
), reach(root, typ) AS (
  SELECT DISTINCT atttypid, atttypid FROM atts
  UNION
  SELECT r.root, e.next FROM reach r JOIN LATERAL (
    SELECT typbasetype AS next FROM pg_type WHERE oid = r.typ AND typbasetype <> 0
    UNION ALL SELECT typelem FROM pg_type WHERE oid = r.typ AND typelem <> 0
    UNION ALL SELECT a.atttypid FROM pg_type y JOIN pg_attribute a ON a.attrelid = y.typrelid
      WHERE y.oid = r.typ AND y.typrelid <> 0 AND a.attnum > 0 AND NOT a.attisdropped
    UNION ALL SELECT rngsubtype FROM pg_range WHERE rngtypid = r.typ OR rngmultitypid = r.typ
  ) e ON true
), binary_types AS (
  SELECT r.root, bool_and(y.typsend <> 0 AND y.typreceive <> 0
    AND NOT (y.typnamespace = 'pg_catalog'::regnamespace AND y.typname LIKE 'reg%')) AS ok
  FROM reach r JOIN pg_type y ON y.oid = r.typ GROUP BY r.root
), users AS MATERIALIZED (
  SELECT r.root, json_agg(json_build_object('oid', y.oid::int8, 'kind', CASE WHEN y.typtype = 'b' AND y.typelem <> 0 AND y.typcategory = 'A' THEN 'a' ELSE y.typtype::text END, 'of', CASE y.typtype
      WHEN 'd' THEN y.typbasetype::int8
      WHEN 'r' THEN (SELECT CASE WHEN g.rngcanonical = 0 THEN g.rngsubtype::int8 ELSE 0 END FROM pg_range g WHERE g.rngtypid = y.oid)
      WHEN 'm' THEN (SELECT CASE WHEN g.rngcanonical = 0 THEN g.rngsubtype::int8 ELSE 0 END FROM pg_range g WHERE g.rngmultitypid = y.oid)
      WHEN 'b' THEN coalesce((SELECT b.oid::int8 FROM pg_proc s JOIN pg_proc v ON v.oid = y.typreceive JOIN pg_proc bs ON bs.proname = s.prosrc AND bs.oid < 16384
          JOIN pg_proc bv ON bv.proname = v.prosrc AND bv.oid < 16384 JOIN pg_type b ON b.typsend = bs.oid AND b.typreceive = bv.oid
        WHERE s.oid = y.typsend AND s.prolang = 12 AND v.prolang = 12 AND b.oid < 16384 AND b.typtype = 'b' ORDER BY b.oid LIMIT 1), 0)
      ELSE 0 END)) AS j
  FROM reach r JOIN pg_type y ON y.oid = r.typ WHERE r.root >= 16384 AND r.typ >= 16384 GROUP BY r.root
), narrow(rel, num) AS (
  SELECT a.attrelid, a.attnum FROM atts a JOIN pg_index i ON i.indrelid = a.attrelid AND a.attnum = ANY (i.indkey::int2[]) JOIN pg_class x ON x.oid = i.indexrelid
    JOIN pg_am m ON m.oid = x.relam WHERE a.attlen = -1 AND m.amname <> 'hash' AND NOT (m.amname = 'gin' AND a.atttypid IN (3802, 3614))
  UNION SELECT d.refobjid, d.refobjsubid FROM pg_index i JOIN pg_depend d ON d.classid = 'pg_class'::regclass AND d.objid = i.indexrelid
    AND d.refclassid = 'pg_class'::regclass AND d.refobjid = i.indrelid WHERE i.indexprs IS NOT NULL AND i.indrelid IN (SELECT oid FROM tables)
), chain(oid, t) AS (
  SELECT DISTINCT atttypid, atttypid FROM atts
  UNION
  SELECT c.oid, y.typbasetype FROM chain c JOIN pg_type y ON y.oid = c.t WHERE y.typtype = 'd'
), base(oid, base) AS (
  SELECT c.oid, c.t FROM chain c JOIN pg_type y ON y.oid = c.t WHERE y.typtype <> 'd'
), words(oid) AS (
  SELECT r.root FROM reach r JOIN pg_type y ON y.oid = r.typ WHERE y.oid IN (19, 25, 114, 142, 1042, 1043, 1790, 3614, 3615, 3802, 4072)
    OR y.oid >= 16384 AND y.typtype = 'b' AND (y.typcategory = 'S' OR y.typname IN ('hstore', 'ltree', 'lquery', 'ltxtquery'))
), idx AS (
  SELECT i.*, coalesce(pg_partition_root(i.indexrelid)::oid, i.indexrelid) AS root
  FROM pg_index i WHERE i.indexrelid IN (SELECT indexrelid FROM pg_index WHERE indrelid IN (SELECT oid FROM tables) AND (indisunique OR indisexclusion)
    UNION SELECT conindid FROM pg_constraint WHERE contype = 'f' AND conrelid IN (SELECT oid FROM tables))
), keyed AS (
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
), indexes AS (
  SELECT x.indrelid, json_agg(json_build_object('name', nm.name, 'root_schema', nm.root_schema, 'root_table', nm.root_table,
    'primary', x.indisprimary, 'names', x.indisunique AND x.indimmediate AND x.indisvalid AND x.indpred IS NULL AND NOT EXISTS (SELECT FROM parts p
       LEFT JOIN pg_attribute a ON a.attrelid = p.indrelid AND a.attnum = p.num WHERE p.indexrelid = x.indexrelid AND (p.equal IS NULL OR a.attnotnull IS NOT TRUE)), 'exclusion', x.indisexclusion, 'nulls_not_distinct', x.indnullsnotdistinct,
    'predicate', pg_get_expr(x.indpred, x.indrelid),
    'foreign_code', EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_class'::regclass AND d.objid = x.indexrelid
       AND d.refclassid IN ('pg_proc'::regclass, 'pg_operator'::regclass)),
    'uses', (SELECT coalesce(json_agg(DISTINCT u.num), '[0]') FROM (
       SELECT d.refobjsubid AS num FROM pg_depend d WHERE d.classid = 'pg_class'::regclass AND d.objid = x.indexrelid
         AND d.refclassid = 'pg_class'::regclass AND d.refobjid = x.indrelid AND d.refobjsubid <> 0
       UNION SELECT 0 WHERE concat(x.indexprs, x.indpred) LIKE '%:varattno 0 %'
       UNION SELECT p.num FROM parts p WHERE p.indexrelid = x.indexrelid AND p.num <> 0) u),
    'parts', (SELECT json_agg(json_build_object('num', p.num, 'expr', p.expr, 'collation', p.collation, 'form', p.form,
       'equal', coalesce(p.equal, '')) ORDER BY p.ord) FROM parts p WHERE p.indexrelid = x.indexrelid)
    ) ORDER BY x.indisprimary DESC, nm.name, nm.root_schema, x.indexrelid) AS j
  FROM idx x JOIN idxname nm ON nm.indexrelid = x.indexrelid WHERE x.indislive AND (x.indisunique OR x.indisexclusion) GROUP BY x.indrelid
), refs AS (
  SELECT c.conrelid, json_agg(json_build_object('name', c.conname,
    'index', json_build_object('name', nm.name, 'root_schema', nm.root_schema, 'root_table', nm.root_table, 'primary', x.indisprimary),
    'ref_schema', rn.nspname, 'ref_table', rc.relname,
    'parts', (SELECT json_agg(json_build_object('num', a.attnum, 'base', fb.base::int8, 'ref_name', p.attname, 'ref_base', pb.base::int8,
        'ref_type', (SELECT format('%I.%I', yn.nspname, y.typname) FROM pg_type y JOIN pg_namespace yn ON yn.oid = y.typnamespace WHERE y.oid = pb.base),
        'collation', p.refcollation, 'form', p.form) ORDER BY p.ord)
      FROM parts p JOIN unnest(c.confkey, c.conkey) AS k(ref, own) ON k.ref = p.num
        JOIN pg_attribute a ON a.attrelid = c.conrelid AND a.attnum = k.own
        JOIN base fb ON fb.oid = a.atttypid
        CROSS JOIN LATERAL (SELECT coalesce((SELECT b.base FROM base b WHERE b.oid = p.typ), p.typ) AS base) pb
      WHERE p.indexrelid = c.conindid)
    ) ORDER BY c.conname, c.oid) AS j
  FROM pg_constraint c JOIN idx x ON x.indexrelid = c.conindid JOIN idxname nm ON nm.indexrelid = c.conindid
    JOIN pg_class rc ON rc.oid = c.confrelid JOIN pg_namespace rn ON rn.oid = rc.relnamespace
  WHERE c.contype = 'f' AND c.conrelid IN (SELECT oid FROM tables) GROUP BY c.conrelid
), dependent(oid, class, object, refclass) AS ( -- on code that users have written
  SELECT o.rel, o.class, o.oid, d.refclassid FROM (
    SELECT adrelid AS rel, 'pg_attrdef'::regclass AS class, oid FROM pg_attrdef WHERE adrelid IN (SELECT oid FROM tables)
    UNION ALL SELECT conrelid, 'pg_constraint'::regclass, oid FROM pg_constraint WHERE conrelid IN (SELECT oid FROM tables)
    UNION ALL SELECT 0, 'pg_constraint'::regclass, oid FROM pg_constraint WHERE contypid IN (SELECT typ FROM reach WHERE typ <> 0)
    UNION ALL SELECT indrelid, 'pg_class'::regclass, indexrelid FROM pg_index WHERE indrelid IN (SELECT oid FROM tables)
  ) o JOIN pg_depend d ON d.classid = o.class AND d.objid = o.oid WHERE CASE d.refclassid
    WHEN 'pg_proc'::regclass THEN EXISTS (SELECT FROM pg_proc p JOIN pg_language l ON l.oid = p.prolang WHERE p.oid = d.refobjid AND l.lanname NOT IN ('internal', 'c'))
    WHEN 'pg_operator'::regclass THEN EXISTS (SELECT FROM pg_operator o JOIN pg_proc p ON p.oid = o.oprcode JOIN pg_language l ON l.oid = p.prolang
      WHERE o.oid = d.refobjid AND l.lanname NOT IN ('internal', 'c'))
    WHEN 'pg_type'::regclass THEN EXISTS (SELECT FROM pg_type y WHERE y.oid = d.refobjid AND y.typtype = 'd') -- its checks
    WHEN 'pg_opclass'::regclass THEN EXISTS (SELECT FROM pg_opclass c JOIN pg_amproc a ON a.amprocfamily = c.opcfamily JOIN pg_proc p ON p.oid = a.amproc
      JOIN pg_language l ON l.oid = p.prolang WHERE c.oid = d.refobjid AND l.lanname NOT IN ('internal', 'c')) END
), expressions(oid, tree) AS (
  SELECT adrelid, adbin::text FROM pg_attrdef WHERE adrelid IN (SELECT oid FROM tables)
  UNION ALL SELECT conrelid, conbin::text FROM pg_constraint WHERE conbin IS NOT NULL AND conrelid IN (SELECT oid FROM tables)
  UNION ALL SELECT indrelid, concat(indexprs, indpred) FROM pg_index WHERE (indexprs IS NOT NULL OR indpred IS NOT NULL) AND indrelid IN (SELECT oid FROM tables)
), special AS (
  -- Functions of PostgreSQL's own that run statements; they leave no dependency.
  SELECT e.oid FROM expressions e CROSS JOIN LATERAL regexp_matches(e.tree, ':(?:funcid|opfuncid) ([0-9]+)', 'g') m JOIN pg_proc p ON p.oid = m[1]::oid
    WHERE p.oid < 16384 AND p.proparallel <> 's' AND p.proname NOT IN ('nextval', 'currval', 'random', 'gen_random_uuid', 'now', 'clock_timestamp')
  UNION
  SELECT oid FROM tables WHERE special
  UNION SELECT inhrelid FROM pg_inherits WHERE inhrelid IN (SELECT oid FROM tables)
  UNION SELECT tgrelid FROM pg_trigger WHERE tgrelid IN (SELECT oid FROM tables)
    AND (tgdeferrable OR NOT tgisinternal AND tgname NOT IN ({{trigger_list}}))
  UNION SELECT oid FROM dependent
), coded AS (
  SELECT oid FROM dependent WHERE class = 'pg_class'::regclass AND refclass <> 'pg_type'::regclass
  UNION SELECT a.adrelid FROM pg_attrdef a JOIN dependent d ON d.class = 'pg_attrdef'::regclass AND d.object = a.oid AND d.refclass <> 'pg_type'::regclass
    JOIN atts t ON t.attrelid = a.adrelid AND t.attnum = a.adnum AND t.attgenerated <> ''
  UNION SELECT t.attrelid FROM atts t JOIN reach r ON r.root = t.atttypid JOIN pg_constraint k ON k.contypid = r.typ
    WHERE NOT k.convalidated -- rows may have values that cannot be read in again
      OR EXISTS (SELECT FROM dependent d WHERE d.class = 'pg_constraint'::regclass AND d.object = k.oid AND d.refclass <> 'pg_type'::regclass)
      OR EXISTS (SELECT FROM regexp_matches(k.conbin::text, ':(?:funcid|opfuncid) ([0-9]+)', 'g') m JOIN pg_proc p ON p.oid = m[1]::oid WHERE p.provolatile <> 'i')
), shared AS (
  SELECT oid FROM tables WHERE divided
  UNION SELECT inhrelid FROM pg_inherits WHERE inhrelid IN (SELECT oid FROM tables)
  UNION SELECT tgrelid FROM pg_trigger WHERE tgrelid IN (SELECT oid FROM tables) AND NOT tgisinternal AND tgname NOT IN ({{trigger_list}})
)
SELECT json_build_object('partial', {{partial}},
  'tables', (SELECT coalesce(json_agg(json_build_object('schema', t.nspname, 'name', t.relname, 'array', t.typarray::int8,
     'oid', t.oid::int8, 'plain', t.oid NOT IN (SELECT oid FROM special),
     'single', t.oid NOT IN (SELECT oid FROM shared), 'root', coalesce(pg_partition_root(t.oid)::oid, 0)::int8, 'coded', t.oid IN (SELECT oid FROM coded),
     'referenced', EXISTS (SELECT FROM pg_constraint k WHERE k.contype = 'f' AND k.confrelid = t.oid),
     'trigger', coalesce((SELECT p.proname FROM pg_trigger g JOIN pg_proc p ON p.oid = g.tgfoid
        WHERE g.tgrelid = t.oid AND g.tgname = '{{trigger_name}}' AND g.tgenabled = 'O' AND g.tgisinternal
          AND EXISTS (SELECT FROM pg_trigger h WHERE h.tgrelid = t.oid AND h.tgname = '{{truncate_trigger_name}}' AND h.tgenabled = 'O' AND h.tgisinternal AND h.tgfoid = g.tgfoid)
          AND EXISTS (SELECT FROM pg_trigger h WHERE h.tgrelid = t.oid AND h.tgname = '{{replica_trigger_name}}' AND h.tgisinternal)
          AND p.pronamespace = 'tutti'::regnamespace), ''),
     'bulk', (SELECT coalesce(json_agg(p.proname), '[]') FROM pg_trigger g JOIN pg_proc p ON p.oid = g.tgfoid
        WHERE g.tgrelid = t.oid AND g.tgname IN ({{trigger_list}}) AND g.tgenabled = 'O' AND g.tgisinternal AND g.tgtype::int & 1 = 0 AND p.proname ~ '^bulk_'
          AND p.pronamespace = 'tutti'::regnamespace),
     'columns', (SELECT coalesce(json_agg(json_build_object('name', a.attname, 'num', a.attnum, 'type', format_type(a.atttypid, a.atttypmod),
        'oid', a.atttypid::int8, 'generated', a.attgenerated <> '', 'always', a.attidentity = 'a', 'domain', y.typtype = 'd', 'binary', bt.ok,
        'portable', bt.ok AND y.oid < 10000 AND y.typcategory <> 'A',
        'text', CASE WHEN a.atttypid IN (SELECT oid FROM words) THEN (SELECT b.base::int8 FROM base b WHERE b.oid = a.atttypid) ELSE 0 END,
        'user', CASE WHEN a.atttypid >= 16384 THEN (SELECT u.j FROM users u WHERE u.root = a.atttypid) END,
        'narrow', a.attlen = -1 AND (a.attstorage IN ('p', 'm') OR (t.oid, a.attnum) IN (SELECT rel, num FROM narrow)),
        'length', CASE WHEN a.atttypid IN (1042, 1043) THEN greatest(a.atttypmod - 4, 0) ELSE 0 END) ORDER BY a.attnum), '[]')
        FROM atts a JOIN pg_type y ON y.oid = a.atttypid JOIN binary_types bt ON bt.root = a.atttypid WHERE a.attrelid = t.oid),
     'indexes', coalesce(i.j, '[]'), 'foreign', coalesce(r.j, '[]')) ORDER BY t.oid), '[]') -- as they were made: triggers move their rows of pg_class
     FROM tables t LEFT JOIN indexes i ON i.indrelid = t.oid LEFT JOIN refs r ON r.conrelid = t.oid),
  'names', CASE WHEN {{names}} THEN (SELECT coalesce(json_agg(json_build_array(n.nspname, c.relname)), '[]') FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
     WHERE c.relkind = 'r' AND c.relpersistence = 'p' AND n.nspname !~ '^pg_' AND n.nspname NOT IN ('information_schema', 'tutti')) END,
  'functions', (SELECT coalesce(json_agg(p.proname ORDER BY p.proname), '[]') FROM pg_proc p
     WHERE (p.proname >= 'capture_' AND p.proname < 'captureb' OR p.proname >= 'bulk_' AND p.proname < 'bulka' OR p.proname >= 'final_' AND p.proname < 'finala' OR p.proname >= 'direct_' AND p.proname < 'directa')
     AND p.pronamespace = 'tutti'::regnamespace {{functions}}))::text
