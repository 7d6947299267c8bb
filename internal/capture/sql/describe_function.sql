DROP FUNCTION IF EXISTS tutti.{{name}}(pg_catalog._oid, pg_catalog.bool); -- of earlier versions
-- Describes tables, see DescribeQuery. Whole: they are all that there are. Sweeps: what is gone, or not captured any more, is told as well. What most tables do not have is not even planned
-- for them: types of users, code, foreign keys. STABLE: all of it is seen as it is at one moment.
CREATE OR REPLACE FUNCTION tutti.{{name}}(asked pg_catalog._oid, whole pg_catalog.bool, sweeps pg_catalog.bool) RETURNS pg_catalog.text LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET jit = off{{settings}}AS $tutti$
#variable_conflict use_column
DECLARE
  wanted oid[] := ARRAY(SELECT c.oid FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE c.oid = ANY (asked) AND c.relkind = 'r' AND c.relpersistence = 'p' AND n.nspname !~ '^pg_' AND n.nspname NOT IN ('information_schema', 'tutti'));
  odd bool; -- there are types besides PostgreSQL's usual ones
  user_types json := '{}'; bases json := '{}'; foreign_keys json := '{}'; -- by OID of the type, or the table
  running oid[] := '{}'; stored oid[] := '{}'; -- tables with code: that runs when a row is written, or cannot be passed over
  list json := '[]'; gone jsonb := '[]'; functions json := '[]';
BEGIN
  odd := EXISTS (SELECT FROM pg_attribute WHERE attrelid = ANY (wanted) AND attnum > 0 AND NOT attisdropped AND atttypid >= 10000);
  IF odd THEN
    WITH RECURSIVE {{types}}, users AS (
      SELECT r.root, json_agg(json_build_object('oid', y.oid::int8, 'kind', CASE WHEN y.typtype = 'b' AND y.typelem <> 0 AND y.typcategory = 'A' THEN 'a' ELSE y.typtype::text END, 'of', CASE y.typtype
          WHEN 'd' THEN y.typbasetype::int8
          WHEN 'r' THEN (SELECT CASE WHEN g.rngcanonical = 0 THEN g.rngsubtype::int8 ELSE 0 END FROM pg_range g WHERE g.rngtypid = y.oid)
          WHEN 'm' THEN (SELECT CASE WHEN g.rngcanonical = 0 THEN g.rngsubtype::int8 ELSE 0 END FROM pg_range g WHERE g.rngmultitypid = y.oid)
          WHEN 'b' THEN coalesce((SELECT b.oid::int8 FROM pg_proc s JOIN pg_proc v ON v.oid = y.typreceive JOIN pg_proc bs ON bs.proname = s.prosrc AND bs.oid < 16384
              JOIN pg_proc bv ON bv.proname = v.prosrc AND bv.oid < 16384 JOIN pg_type b ON b.typsend = bs.oid AND b.typreceive = bv.oid
            WHERE s.oid = y.typsend AND s.prolang = 12 AND v.prolang = 12 AND b.oid < 16384 AND b.typtype = 'b' ORDER BY b.oid LIMIT 1), 0)
          ELSE 0 END)) AS j
      FROM reach r JOIN pg_type y ON y.oid = r.typ WHERE r.root >= 16384 AND r.typ >= 16384 GROUP BY r.root
    ), chain(oid, t) AS (
      SELECT DISTINCT atttypid, atttypid FROM atts WHERE atttypid >= 10000
      UNION SELECT c.oid, y.typbasetype FROM chain c CROSS JOIN LATERAL (SELECT typbasetype FROM pg_type WHERE oid = c.t AND typtype = 'd' {{apart}}) y
    )
    SELECT (SELECT coalesce(json_object_agg(u.root, u.j), '{}') FROM users u),
      (SELECT coalesce(json_object_agg(c.oid, c.t::int8), '{}') FROM chain c JOIN pg_type y ON y.oid = c.t WHERE y.typtype <> 'd') INTO user_types, bases;
  END IF;
  IF odd OR EXISTS (SELECT FROM pg_attrdef WHERE adrelid = ANY (wanted)) OR EXISTS (SELECT FROM pg_constraint WHERE conrelid = ANY (wanted) AND contype NOT IN ('p', 'u', 'n'))
      OR EXISTS (SELECT FROM pg_index WHERE indrelid = ANY (wanted) AND (indexprs IS NOT NULL OR indpred IS NOT NULL OR EXISTS (SELECT FROM unnest(indclass::oid[]) o WHERE o >= 16384))) THEN
    WITH RECURSIVE {{types}}, dependent(oid, class, object, refclass) AS ( -- on code that users have written
      SELECT o.rel, o.class, o.oid, d.refclassid FROM (
        SELECT adrelid AS rel, 'pg_attrdef'::regclass AS class, oid FROM pg_attrdef WHERE adrelid = ANY (wanted)
        UNION ALL SELECT conrelid, 'pg_constraint'::regclass, oid FROM pg_constraint WHERE conrelid = ANY (wanted)
        UNION ALL SELECT 0, 'pg_constraint'::regclass, oid FROM pg_constraint WHERE contypid IN (SELECT typ FROM reach WHERE typ <> 0)
        UNION ALL SELECT indrelid, 'pg_class'::regclass, indexrelid FROM pg_index WHERE indrelid = ANY (wanted)
      ) o JOIN pg_depend d ON d.classid = o.class AND d.objid = o.oid WHERE CASE d.refclassid
        WHEN 'pg_proc'::regclass THEN EXISTS (SELECT FROM pg_proc p JOIN pg_language l ON l.oid = p.prolang WHERE p.oid = d.refobjid AND l.lanname NOT IN ('internal', 'c'))
        WHEN 'pg_operator'::regclass THEN EXISTS (SELECT FROM pg_operator o JOIN pg_proc p ON p.oid = o.oprcode JOIN pg_language l ON l.oid = p.prolang
          WHERE o.oid = d.refobjid AND l.lanname NOT IN ('internal', 'c'))
        WHEN 'pg_type'::regclass THEN EXISTS (SELECT FROM pg_type y WHERE y.oid = d.refobjid AND y.typtype = 'd') -- its checks
        WHEN 'pg_opclass'::regclass THEN EXISTS (SELECT FROM pg_opclass c JOIN pg_amproc a ON a.amprocfamily = c.opcfamily JOIN pg_proc p ON p.oid = a.amproc
          JOIN pg_language l ON l.oid = p.prolang WHERE c.oid = d.refobjid AND l.lanname NOT IN ('internal', 'c')) END
    ), expressions(oid, tree) AS (
      SELECT adrelid, adbin::text FROM pg_attrdef WHERE adrelid = ANY (wanted)
      UNION ALL SELECT conrelid, conbin::text FROM pg_constraint WHERE conbin IS NOT NULL AND conrelid = ANY (wanted)
      UNION ALL SELECT indrelid, concat(indexprs, indpred) FROM pg_index WHERE (indexprs IS NOT NULL OR indpred IS NOT NULL) AND indrelid = ANY (wanted)
    ), coded AS (
      SELECT oid FROM dependent WHERE class = 'pg_class'::regclass AND refclass <> 'pg_type'::regclass
      UNION SELECT a.adrelid FROM pg_attrdef a JOIN dependent d ON d.class = 'pg_attrdef'::regclass AND d.object = a.oid AND d.refclass <> 'pg_type'::regclass
        JOIN atts t ON t.attrelid = a.adrelid AND t.attnum = a.adnum AND t.attgenerated <> ''
      UNION SELECT t.attrelid FROM atts t JOIN reach r ON r.root = t.atttypid CROSS JOIN LATERAL (SELECT * FROM pg_constraint WHERE contypid = r.typ {{apart}}) k
        WHERE NOT k.convalidated -- rows may have values that cannot be read in again
          OR EXISTS (SELECT FROM dependent d WHERE d.class = 'pg_constraint'::regclass AND d.object = k.oid AND d.refclass <> 'pg_type'::regclass)
          OR EXISTS (SELECT FROM regexp_matches(k.conbin::text, ':(?:funcid|opfuncid) ([0-9]+)', 'g') m JOIN pg_proc p ON p.oid = m[1]::oid WHERE p.provolatile <> 'i')
    )
    SELECT ARRAY(SELECT oid FROM dependent -- and functions of PostgreSQL's own that run statements; they leave no dependency
      UNION SELECT e.oid FROM expressions e CROSS JOIN LATERAL regexp_matches(e.tree, ':(?:funcid|opfuncid) ([0-9]+)', 'g') m JOIN pg_proc p ON p.oid = m[1]::oid
        WHERE p.oid < 16384 AND p.proparallel <> 's' AND p.proname NOT IN ('nextval', 'currval', 'random', 'gen_random_uuid', 'now', 'clock_timestamp')),
      ARRAY(SELECT oid FROM coded) INTO running, stored;
  END IF;
  IF EXISTS (SELECT FROM pg_constraint WHERE conrelid = ANY (wanted) AND contype = 'f') THEN
    WITH RECURSIVE idx AS (
      SELECT i.*, coalesce(pg_partition_root(i.indexrelid)::oid, i.indexrelid) AS root
      FROM pg_index i WHERE i.indexrelid IN (SELECT conindid FROM pg_constraint WHERE contype = 'f' AND conrelid = ANY (wanted))
    ), {{parts}}, chain(oid, t) AS (
      SELECT typ, typ FROM (SELECT a.atttypid AS typ FROM pg_constraint c JOIN pg_attribute a ON a.attrelid = c.conrelid AND a.attnum = ANY (c.conkey)
        WHERE c.contype = 'f' AND c.conrelid = ANY (wanted) UNION SELECT typ FROM parts) t
      UNION SELECT c.oid, y.typbasetype FROM chain c CROSS JOIN LATERAL (SELECT typbasetype FROM pg_type WHERE oid = c.t AND typtype = 'd' {{apart}}) y
    ), base(oid, base) AS (
      SELECT c.oid, c.t FROM chain c JOIN pg_type y ON y.oid = c.t WHERE y.typtype <> 'd'
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
      WHERE c.contype = 'f' AND c.conrelid = ANY (wanted) GROUP BY c.conrelid
    )
    SELECT json_object_agg(r.conrelid, r.j) INTO foreign_keys FROM refs r;
  END IF;
  IF wanted <> '{}' THEN
    IF NOT EXISTS (SELECT FROM pg_attribute WHERE attrelid = ANY (wanted) AND attnum > 0 AND NOT attisdropped AND atttypid NOT IN ({{usual_types}})) THEN
{{tables_of_usual_types}}
    ELSE
{{tables_of_any_types}}
    END IF;
  END IF;
  IF whole THEN
    functions := (SELECT coalesce(json_agg(proname ORDER BY proname), '[]') FROM pg_proc WHERE pronamespace = 'tutti'::regnamespace AND proname ~ '^(capture|bulk|final|direct)_[0-9a-f]{16}(_[0-9a-f]{16}){0,2}$');
  ELSIF sweeps THEN
    BEGIN -- Functions of clients can change a setting: of a table that is there, and was not touched, nothing is gone.
      gone := (SELECT coalesce(jsonb_agg(g), '[]') FROM jsonb_array_elements(coalesce(nullif(current_setting('tutti.gone', true), ''), '[]')::jsonb) g
        WHERE NOT EXISTS (SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.relname = (g ->> 'name')::name AND n.nspname = (g ->> 'schema')::name
            AND c.relkind = 'r' AND c.relpersistence = 'p' AND c.oid <> ALL (wanted))
          AND NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = (g ->> 'oid')::oid AND c.relkind = 'r' AND c.relpersistence = 'p' AND c.oid <> ALL (wanted)));
    EXCEPTION WHEN data_exception THEN gone := '[]';
    END;
    gone := gone || (SELECT coalesce(jsonb_agg(jsonb_build_object('schema', n.nspname, 'name', c.relname, 'oid', c.oid::int8, 'key', (SELECT split_part(p.proname::text, '_', 2) FROM pg_trigger g
          JOIN pg_proc p ON p.oid = g.tgfoid WHERE g.tgrelid = c.oid AND p.pronamespace = 'tutti'::regnamespace AND starts_with(p.proname, 'capture_') LIMIT 1))), '[]')
        FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = ANY (asked) AND c.oid <> ALL (wanted) AND c.relkind IN ('r', 'v'));
  END IF;
  RETURN json_build_object('partial', NOT whole, 'tables', list, 'gone', gone, 'functions', functions);
END $tutti$;
REVOKE ALL ON FUNCTION tutti.{{name}} FROM PUBLIC;
