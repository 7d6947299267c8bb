-- The tables, as describe_function.sql wants them.
    WITH {{recursive}}tables AS (
      SELECT c.oid, n.nspname, c.relname, y.typarray, c.relrowsecurity OR c.relhasrules OR c.relispartition OR c.relhassubclass AS special, c.relispartition OR c.relhassubclass AS divided
      FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_type y ON y.oid = c.reltype WHERE c.oid = ANY (wanted)
    ), {{types}}, narrow(rel, num) AS (
      SELECT a.attrelid, a.attnum FROM atts a JOIN pg_index i ON i.indrelid = a.attrelid AND a.attnum = ANY (i.indkey::int2[]) JOIN pg_class x ON x.oid = i.indexrelid
        JOIN pg_am m ON m.oid = x.relam WHERE a.attlen = -1 AND m.amname <> 'hash' AND NOT (m.amname = 'gin' AND a.atttypid IN (3802, 3614))
      UNION SELECT d.refobjid, d.refobjsubid FROM pg_index i JOIN pg_depend d ON d.classid = 'pg_class'::regclass AND d.objid = i.indexrelid
        AND d.refclassid = 'pg_class'::regclass AND d.refobjid = i.indrelid WHERE i.indexprs IS NOT NULL AND i.indrelid = ANY (wanted)
    ), idx AS (
      SELECT i.*, coalesce(pg_partition_root(i.indexrelid)::oid, i.indexrelid) AS root FROM pg_index i WHERE i.indrelid = ANY (wanted) AND (i.indisunique OR i.indisexclusion)
    ), {{parts}}, indexes AS (
      SELECT x.indrelid, json_agg(json_build_object('name', nm.name, 'root_schema', nm.root_schema, 'root_table', nm.root_table,
        'primary', x.indisprimary, 'names', x.indisunique AND x.indimmediate AND x.indisvalid AND x.indpred IS NULL AND NOT EXISTS (SELECT FROM parts p
           LEFT JOIN pg_attribute a ON a.attrelid = p.indrelid AND a.attnum = p.num WHERE p.indexrelid = x.indexrelid AND (p.equal IS NULL OR a.attnotnull IS NOT TRUE
             OR EXISTS (SELECT FROM pg_constraint n WHERE n.conrelid = a.attrelid AND n.contype = 'n' AND n.conkey = ARRAY[a.attnum] AND NOT n.convalidated))), 'exclusion', x.indisexclusion, 'nulls_not_distinct', x.indnullsnotdistinct,
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
    )
    SELECT coalesce(json_agg(json_build_object('schema', t.nspname, 'name', t.relname, 'array', t.typarray::int8,
       'oid', t.oid::int8, 'plain', NOT t.special AND NOT h.heir AND NOT g.deferrable AND NOT g.users AND t.oid <> ALL (running),
       'single', NOT t.divided AND NOT h.heir AND NOT g.users, 'heirs', t.divided OR h.heir, 'root', coalesce(pg_partition_root(t.oid)::oid, 0)::int8, 'coded', t.oid = ANY (stored),
       'referenced', EXISTS (SELECT FROM pg_depend d JOIN pg_constraint k ON k.oid = d.objid
          WHERE d.refclassid = 'pg_class'::regclass AND d.refobjid = t.oid AND d.classid = 'pg_constraint'::regclass AND k.contype = 'f' AND k.confrelid = t.oid),
       'referring', (SELECT coalesce(json_agg(json_build_object('base', (WITH RECURSIVE b(t) AS (SELECT own.atttypid UNION ALL SELECT y.typbasetype FROM b JOIN pg_type y ON y.oid = b.t WHERE y.typtype = 'd')
            SELECT b.t::int8 FROM b JOIN pg_type y ON y.oid = b.t WHERE y.typtype <> 'd'),
            'ref_base', (WITH RECURSIVE b(t) AS (SELECT ref.atttypid UNION ALL SELECT y.typbasetype FROM b JOIN pg_type y ON y.oid = b.t WHERE y.typtype = 'd')
            SELECT b.t::int8 FROM b JOIN pg_type y ON y.oid = b.t WHERE y.typtype <> 'd'))), '[]')
          FROM pg_depend d JOIN pg_constraint k ON k.oid = d.objid CROSS JOIN LATERAL unnest(k.conkey, k.confkey) AS u(own, ref)
            JOIN pg_attribute own ON own.attrelid = k.conrelid AND own.attnum = u.own JOIN pg_attribute ref ON ref.attrelid = t.oid AND ref.attnum = u.ref
          WHERE d.refclassid = 'pg_class'::regclass AND d.refobjid = t.oid AND d.refobjsubid = u.ref AND d.classid = 'pg_constraint'::regclass AND k.contype = 'f' AND k.confrelid = t.oid
            AND own.atttypid <> ref.atttypid),
       'trigger', coalesce((SELECT p.proname FROM pg_trigger g JOIN pg_proc p ON p.oid = g.tgfoid
          WHERE g.tgrelid = t.oid AND g.tgname = '{{trigger_name}}' AND g.tgenabled = 'O' AND g.tgisinternal
            AND EXISTS (SELECT FROM pg_trigger h WHERE h.tgrelid = t.oid AND h.tgname = '{{truncate_trigger_name}}' AND h.tgenabled = 'O' AND h.tgisinternal AND h.tgfoid = g.tgfoid)
            AND EXISTS (SELECT FROM pg_trigger h WHERE h.tgrelid = t.oid AND h.tgname = '{{replica_trigger_name}}' AND h.tgisinternal)
            AND p.pronamespace = 'tutti'::regnamespace), ''),
       'bulk', (SELECT coalesce(json_agg(p.proname), '[]') FROM pg_trigger g JOIN pg_proc p ON p.oid = g.tgfoid
          WHERE g.tgrelid = t.oid AND g.tgname IN ({{trigger_list}}) AND g.tgenabled = 'O' AND g.tgisinternal AND g.tgtype::int & 1 = 0 AND left(p.proname, 5) = 'bulk_'
            AND p.pronamespace = 'tutti'::regnamespace),
       'columns', (SELECT coalesce(json_agg(json_build_object('name', a.attname, 'num', a.attnum, 'type', format_type(a.atttypid, a.atttypmod),
          'oid', a.atttypid::int8, 'generated', a.attgenerated <> '', 'always', a.attidentity = 'a', 'domain', y.typtype = 'd', 'binary', {{binary}},
          'portable', {{binary}} AND y.oid < 10000 AND y.typcategory <> 'A',
          'text', CASE WHEN a.atttypid IN ({{words}}) THEN coalesce((bases ->> a.atttypid::text)::int8, a.atttypid::int8) ELSE 0 END,
          'user', user_types -> a.atttypid::text,
          'narrow', a.attlen = -1 AND (a.attstorage IN ('p', 'm') OR (t.oid, a.attnum) IN (SELECT rel, num FROM narrow)),
          'length', CASE WHEN a.atttypid IN (1042, 1043) THEN greatest(a.atttypmod - 4, 0) ELSE 0 END) ORDER BY a.attnum), '[]')
          FROM atts a JOIN pg_type y ON y.oid = a.atttypid{{join_binary}} WHERE a.attrelid = t.oid),
       'indexes', coalesce(i.j, '[]'), 'foreign', coalesce(foreign_keys -> t.oid::text, '[]')) ORDER BY t.oid), '[]') -- as they were made: triggers move their rows of pg_class
    INTO list
    FROM tables t LEFT JOIN indexes i ON i.indrelid = t.oid
      CROSS JOIN LATERAL (SELECT EXISTS (SELECT FROM pg_inherits WHERE inhrelid = t.oid) AS heir) h
      CROSS JOIN LATERAL (SELECT coalesce(bool_or(tgdeferrable), false) AS deferrable, coalesce(bool_or(NOT tgisinternal AND tgname NOT IN ({{trigger_list}})), false) AS users
        FROM pg_trigger WHERE tgrelid = t.oid) g;
