package capture

// lockedRelations are the relations that this transaction has locked as definitions do.
const lockedRelations = `SELECT relation FROM pg_locks WHERE pid = pg_backend_pid() AND locktype = 'relation' AND granted
      AND mode IN ('ShareUpdateExclusiveLock', 'ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')`

// DescribeQuery returns the query whose one row and column DecodeDescribe reads. It must run
// as a superuser with search_path = pg_catalog (every other name is then
// printed qualified) in a database where Schema is installed.
func DescribeQuery() string { return describeQuery }

// describeQuery describes all tables, or where tutti.partial says so those that this transaction has locked
// against definitions.
const describeQuery = `
WITH RECURSIVE
tables AS (
  SELECT c.oid, n.nspname, c.relname, y.typarray, c.relrowsecurity OR c.relhasrules OR c.relispartition OR c.relhassubclass AS special
  FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_type y ON y.oid = c.reltype
  WHERE c.relkind = 'r' AND c.relpersistence = 'p' AND n.nspname !~ '^pg_' AND n.nspname NOT IN ('information_schema', 'tutti')
    AND ((SELECT NOT tutti.partial()) OR c.oid IN (` + lockedRelations + `))
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
), chain(oid, t) AS (
  SELECT DISTINCT atttypid, atttypid FROM atts
  UNION
  SELECT c.oid, y.typbasetype FROM chain c JOIN pg_type y ON y.oid = c.t WHERE y.typtype = 'd'
), base(oid, base) AS (
  SELECT c.oid, c.t FROM chain c JOIN pg_type y ON y.oid = c.t WHERE y.typtype <> 'd'
), idx AS (
  SELECT i.*, coalesce(pg_partition_root(i.indexrelid)::oid, i.indexrelid) AS root
  FROM pg_index i WHERE (i.indrelid IN (SELECT oid FROM tables) AND (i.indisunique OR i.indisexclusion))
    OR i.indexrelid IN (SELECT conindid FROM pg_constraint WHERE contype = 'f' AND conrelid IN (SELECT oid FROM tables))
), hashes AS MATERIALIZED (
  SELECT typ, tutti.hashable(typ) AS hashable, tutti.hash_form(typ) AS form FROM (
    SELECT a.atttypid AS typ FROM idx x JOIN pg_attribute a ON a.attrelid = x.indexrelid WHERE a.attnum > 0
    UNION SELECT a.atttypid FROM idx x JOIN pg_attribute a ON a.attrelid = x.indrelid AND a.attnum = ANY (x.indkey) WHERE a.attnum > 0) u
), idxname AS (
  SELECT x.indexrelid, rc.relname AS name, tn.nspname AS root_schema, tc.relname AS root_table
  FROM idx x JOIN pg_class rc ON rc.oid = x.root JOIN pg_index ri ON ri.indexrelid = x.root
    JOIN pg_class tc ON tc.oid = ri.indrelid JOIN pg_namespace tn ON tn.oid = tc.relnamespace
), parts AS (
  SELECT x.indexrelid, x.indrelid, k.ord, k.num, ia.atttypid AS exprtype, a.attname, coalesce(a.atttypid, ia.atttypid) AS typ,
    CASE WHEN k.num = 0 THEN pg_get_indexdef(x.indexrelid, k.ord::int, false) ELSE '' END AS expr,
    CASE WHEN co.coll <> 0 AND (k.num = 0 OR (co.coll <> a.attcollation
        AND EXISTS (SELECT FROM pg_collation q WHERE q.oid IN (co.coll, a.attcollation) AND NOT q.collisdeterministic)))
      THEN (SELECT format('%I.%I', qn.nspname, q.collname) FROM pg_collation q JOIN pg_namespace qn ON qn.oid = q.collnamespace WHERE q.oid = co.coll)
      ELSE '' END AS collation,
    CASE WHEN co.coll <> 0 AND EXISTS (SELECT FROM pg_collation q WHERE q.oid = co.coll AND NOT q.collisdeterministic)
      THEN (SELECT format('%I.%I', qn.nspname, q.collname) FROM pg_collation q JOIN pg_namespace qn ON qn.oid = q.collnamespace WHERE q.oid = co.coll)
      ELSE '' END AS refcollation,
    (oc.opcdefault OR (oc.opcnamespace = 'pg_catalog'::regnamespace AND oc.opcname LIKE '%\_pattern\_ops'))
      AND h.hashable AS hashable, h.form,
    (SELECT format('OPERATOR(%I.%s)', pn.nspname, o.oprname) FROM pg_amop ao JOIN pg_operator o ON o.oid = ao.amopopr
       JOIN pg_namespace pn ON pn.oid = o.oprnamespace
       WHERE ao.amopfamily = oc.opcfamily AND ao.amopstrategy = 3 AND ao.amoplefttype = oc.opcintype AND ao.amoprighttype = oc.opcintype
         AND ao.amopmethod = 403) AS equal
  FROM idx x CROSS JOIN LATERAL (SELECT ord, num FROM unnest(x.indkey::int2[]) WITH ORDINALITY AS u(num, ord) WHERE ord <= x.indnkeyatts) k
    JOIN pg_attribute ia ON ia.attrelid = x.indexrelid AND ia.attnum = k.ord
    LEFT JOIN pg_attribute a ON k.num <> 0 AND a.attrelid = x.indrelid AND a.attnum = k.num
    JOIN hashes h ON h.typ = coalesce(a.atttypid, ia.atttypid)
    CROSS JOIN LATERAL (SELECT x.indclass[k.ord - 1] AS opc, x.indcollation[k.ord - 1] AS coll) co
    JOIN pg_opclass oc ON oc.oid = co.opc
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
    'parts', (SELECT json_agg(json_build_object('num', p.num, 'expr', p.expr, 'collation', p.collation, 'hashable', p.hashable, 'form', p.form,
       'equal', coalesce(p.equal, '')) ORDER BY p.ord) FROM parts p WHERE p.indexrelid = x.indexrelid)
    ) ORDER BY x.indisprimary DESC, nm.name, nm.root_schema, x.indexrelid) AS j
  FROM idx x JOIN idxname nm ON nm.indexrelid = x.indexrelid WHERE x.indislive AND (x.indisunique OR x.indisexclusion) GROUP BY x.indrelid
), refs AS (
  SELECT c.conrelid, json_agg(json_build_object('name', c.conname,
    'index', json_build_object('name', nm.name, 'root_schema', nm.root_schema, 'root_table', nm.root_table, 'primary', x.indisprimary),
    'ref_schema', rn.nspname, 'ref_table', rc.relname,
    'parts', (SELECT json_agg(json_build_object('num', a.attnum, 'base', fb.base::int8, 'ref_name', p.attname, 'ref_base', pb.base::int8,
        'ref_type', format_type(pb.base, NULL), 'collation', p.refcollation, 'hashable', p.hashable, 'form', p.form) ORDER BY p.ord)
      FROM parts p JOIN unnest(c.confkey, c.conkey) AS k(ref, own) ON k.ref = p.num
        JOIN pg_attribute a ON a.attrelid = c.conrelid AND a.attnum = k.own
        JOIN base fb ON fb.oid = a.atttypid
        CROSS JOIN LATERAL (SELECT coalesce((SELECT b.base FROM base b WHERE b.oid = p.typ), p.typ) AS base) pb
      WHERE p.indexrelid = c.conindid)
    ) ORDER BY c.conname, c.oid) AS j
  FROM pg_constraint c JOIN idx x ON x.indexrelid = c.conindid JOIN idxname nm ON nm.indexrelid = c.conindid
    JOIN pg_class rc ON rc.oid = c.confrelid JOIN pg_namespace rn ON rn.oid = rc.relnamespace
  WHERE c.contype = 'f' AND c.conrelid IN (SELECT oid FROM tables) GROUP BY c.conrelid
), written AS (
  SELECT p.oid FROM pg_proc p JOIN pg_language l ON l.oid = p.prolang WHERE l.lanname NOT IN ('internal', 'c')
), user_code(class, oid) AS (
  SELECT 'pg_proc'::regclass, oid FROM written
  UNION ALL SELECT 'pg_operator'::regclass, o.oid FROM pg_operator o JOIN written w ON w.oid = o.oprcode
  UNION ALL SELECT 'pg_type'::regclass, oid FROM pg_type WHERE typtype = 'd' -- its checks
  UNION ALL SELECT 'pg_opclass'::regclass, c.oid FROM pg_opclass c JOIN pg_amproc a ON a.amprocfamily = c.opcfamily JOIN written w ON w.oid = a.amproc
), dependent AS (
  SELECT d.classid, d.objid, u.class FROM pg_depend d JOIN user_code u ON u.class = d.refclassid AND u.oid = d.refobjid
), expressions(oid, tree) AS (
  SELECT adrelid, adbin::text FROM pg_attrdef WHERE adrelid IN (SELECT oid FROM tables)
  UNION ALL SELECT conrelid, conbin::text FROM pg_constraint WHERE conbin IS NOT NULL AND conrelid IN (SELECT oid FROM tables)
  UNION ALL SELECT indrelid, concat(indexprs, indpred) FROM pg_index WHERE (indexprs IS NOT NULL OR indpred IS NOT NULL) AND indrelid IN (SELECT oid FROM tables)
), special AS (
  -- Functions of PostgreSQL's own that run statements; they leave no dependency.
  SELECT e.oid FROM expressions e CROSS JOIN LATERAL regexp_matches(e.tree, ':(?:funcid|opfuncid) (\d+)', 'g') m JOIN pg_proc p ON p.oid = m[1]::oid
    WHERE p.oid < 16384 AND p.proparallel <> 's' AND p.proname NOT IN ('nextval', 'currval', 'random', 'gen_random_uuid', 'now', 'clock_timestamp')
  UNION
  SELECT oid FROM tables WHERE special
  UNION SELECT inhrelid FROM pg_inherits
  UNION SELECT tgrelid FROM pg_trigger WHERE tgdeferrable OR NOT tgisinternal AND tgname NOT IN ('` + TriggerName + `', '` + TruncateTriggerName + `')
  UNION SELECT a.adrelid FROM pg_attrdef a JOIN dependent d ON d.classid = 'pg_attrdef'::regclass AND d.objid = a.oid
  UNION SELECT k.conrelid FROM pg_constraint k JOIN dependent d ON d.classid = 'pg_constraint'::regclass AND d.objid = k.oid
  UNION SELECT x.indrelid FROM pg_index x JOIN dependent d ON d.classid = 'pg_class'::regclass AND d.objid = x.indexrelid
), coded AS (
  SELECT x.indrelid AS oid FROM pg_index x JOIN dependent d ON d.classid = 'pg_class'::regclass AND d.objid = x.indexrelid AND d.class <> 'pg_type'::regclass
  UNION SELECT a.adrelid FROM pg_attrdef a JOIN dependent d ON d.classid = 'pg_attrdef'::regclass AND d.objid = a.oid AND d.class <> 'pg_type'::regclass
    JOIN atts t ON t.attrelid = a.adrelid AND t.attnum = a.adnum AND t.attgenerated <> ''
  UNION SELECT t.attrelid FROM atts t JOIN reach r ON r.root = t.atttypid JOIN pg_constraint k ON k.contypid = r.typ
    WHERE EXISTS (SELECT FROM dependent d WHERE d.classid = 'pg_constraint'::regclass AND d.objid = k.oid AND d.class <> 'pg_type'::regclass)
      OR EXISTS (SELECT FROM regexp_matches(k.conbin::text, ':(?:funcid|opfuncid) (\d+)', 'g') m JOIN pg_proc p ON p.oid = m[1]::oid WHERE p.provolatile <> 'i')
)
SELECT json_build_object('partial', tutti.partial(),
  'tables', (SELECT coalesce(json_agg(json_build_object('schema', t.nspname, 'name', t.relname, 'array', t.typarray::int8,
     'oid', t.oid::int8, 'plain', t.oid NOT IN (SELECT oid FROM special),
     'coded', t.oid IN (SELECT oid FROM coded),
     'referenced', EXISTS (SELECT FROM pg_constraint k WHERE k.contype = 'f' AND k.confrelid = t.oid),
     'trigger', coalesce((SELECT p.proname FROM pg_trigger g JOIN pg_proc p ON p.oid = g.tgfoid
        WHERE g.tgrelid = t.oid AND g.tgname = '` + TriggerName + `' AND g.tgenabled = 'O' AND g.tgisinternal
          AND EXISTS (SELECT FROM pg_trigger h WHERE h.tgrelid = t.oid AND h.tgname = '` + TruncateTriggerName + `' AND h.tgenabled = 'O' AND h.tgisinternal AND h.tgfoid = g.tgfoid)
          AND p.pronamespace = 'tutti'::regnamespace), ''),
     'columns', (SELECT coalesce(json_agg(json_build_object('name', a.attname, 'num', a.attnum, 'type', format_type(a.atttypid, a.atttypmod),
        'oid', a.atttypid::int8, 'generated', a.attgenerated <> '', 'always', a.attidentity = 'a', 'domain', y.typtype = 'd', 'binary', bt.ok,
        'portable', bt.ok AND y.oid < 10000 AND y.typcategory <> 'A') ORDER BY a.attnum), '[]')
        FROM atts a JOIN pg_type y ON y.oid = a.atttypid JOIN binary_types bt ON bt.root = a.atttypid WHERE a.attrelid = t.oid),
     'indexes', coalesce(i.j, '[]'), 'foreign', coalesce(r.j, '[]')) ORDER BY t.nspname, t.relname), '[]')
     FROM tables t LEFT JOIN indexes i ON i.indrelid = t.oid LEFT JOIN refs r ON r.conrelid = t.oid),
  'names', (SELECT coalesce(json_agg(json_build_array(n.nspname, c.relname)), '[]') FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
     WHERE tutti.partial() AND c.relkind = 'r' AND c.relpersistence = 'p' AND n.nspname !~ '^pg_' AND n.nspname NOT IN ('information_schema', 'tutti')),
  'functions', (SELECT coalesce(json_agg(p.proname ORDER BY p.proname), '[]') FROM pg_proc p
     WHERE (NOT tutti.partial() OR p.proname !~ '^capture' OR NOT EXISTS (SELECT FROM pg_trigger g WHERE g.tgfoid = p.oid AND g.tgrelid NOT IN (SELECT oid FROM tables)))
     AND p.pronamespace = 'tutti'::regnamespace AND p.proname ~ '^(capture|final|direct)_[0-9a-f]{16}(_[0-9a-f]{16})?$'))::text
`
