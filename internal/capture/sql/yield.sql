CREATE UNLOGGED TABLE IF NOT EXISTS tutti.temporary (schema pg_catalog.oid PRIMARY KEY, pid pg_catalog.int4 NOT NULL, noted pg_catalog.timestamptz NOT NULL);
ALTER TABLE tutti.temporary OWNER TO tutti_owner;
ALTER TABLE tutti.temporary ENABLE ROW LEVEL SECURITY;
DO $tutti$ BEGIN
  IF NOT EXISTS (SELECT FROM pg_catalog.pg_policy WHERE polrelid = 'tutti.temporary'::pg_catalog.regclass) THEN
    CREATE POLICY own ON tutti.temporary USING (schema OPERATOR(pg_catalog.=) pg_catalog.pg_my_temp_schema())
      WITH CHECK (schema OPERATOR(pg_catalog.=) pg_catalog.pg_my_temp_schema() AND pid OPERATOR(pg_catalog.=) pg_catalog.pg_backend_pid());
  END IF;
END $tutti$;
REVOKE ALL ON tutti.temporary FROM PUBLIC;
GRANT SELECT, INSERT, UPDATE ON tutti.temporary TO PUBLIC;
CREATE OR REPLACE FUNCTION tutti.note_temporary(tag pg_catalog.text) RETURNS pg_catalog.void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET row_security = on AS $tutti$
BEGIN
  IF tag IN ('CREATE TABLE', 'CREATE TABLE AS', 'SELECT INTO') AND pg_my_temp_schema() <> 0 THEN
    INSERT INTO tutti.temporary VALUES (pg_my_temp_schema(), pg_backend_pid(), clock_timestamp())
      ON CONFLICT (schema) DO UPDATE SET pid = EXCLUDED.pid, noted = EXCLUDED.noted;
  END IF;
END $tutti$;
-- What a definition names (semantics.Subjects), as the search_path finds it that is set: class and object of each, and
-- the names of a column and of a constraint, if it is that of a relation alone.
CREATE OR REPLACE FUNCTION tutti.named(list pg_catalog.jsonb) RETURNS pg_catalog.jsonb LANGUAGE sql STABLE AS $tutti$
  WITH written AS (
      SELECT n.*, pg_catalog.concat(pg_catalog.quote_ident(n.schema) OPERATOR(pg_catalog.||) '.', pg_catalog.quote_ident(n.name)) AS text
      FROM pg_catalog.jsonb_to_recordset(list) AS n(kind pg_catalog.text, schema pg_catalog.text, name pg_catalog.text, args pg_catalog._text, col pg_catalog.text, con pg_catalog.text)),
    functions AS (
      SELECT p.oid FROM pg_catalog.pg_proc p JOIN written w ON p.proname OPERATOR(pg_catalog.=) w.name::pg_catalog.name,
        ROWS FROM (pg_catalog.array_to_string(ARRAY(SELECT coalesce(pg_catalog.to_regtype(a.type)::pg_catalog.oid, '0') FROM ROWS FROM (pg_catalog.unnest(w.args)) WITH ORDINALITY AS a(type, number) ORDER BY a.number), ' ')) AS types
      WHERE w.kind OPERATOR(pg_catalog.=) 'function' AND CASE WHEN w.schema IS NULL THEN pg_catalog.pg_function_is_visible(p.oid)
          ELSE p.pronamespace OPERATOR(pg_catalog.=) pg_catalog.to_regnamespace(pg_catalog.quote_ident(w.schema))::pg_catalog.oid END
        -- a procedure may be named with the types that it gives
        AND (w.args IS NULL OR pg_catalog.array_to_string(p.proargtypes::pg_catalog._oid, ' ') OPERATOR(pg_catalog.=) types
          OR p.prokind OPERATOR(pg_catalog.=) 'p' AND pg_catalog.array_to_string(p.proallargtypes, ' ') OPERATOR(pg_catalog.=) types)),
    objects(class, oid, col, con) AS (
      SELECT 'pg_catalog.pg_class'::pg_catalog.regclass, pg_catalog.to_regclass(w.text)::pg_catalog.oid, w.col, w.con FROM written w WHERE w.kind OPERATOR(pg_catalog.=) 'relation'
      UNION ALL SELECT 'pg_catalog.pg_type', pg_catalog.to_regtype(w.text)::pg_catalog.oid, NULL, NULL FROM written w WHERE w.kind OPERATOR(pg_catalog.=) 'type'
      UNION ALL SELECT 'pg_catalog.pg_collation', pg_catalog.to_regcollation(w.text)::pg_catalog.oid, NULL, NULL FROM written w WHERE w.kind OPERATOR(pg_catalog.=) 'collation'
      UNION ALL SELECT 'pg_catalog.pg_extension', e.oid, NULL, NULL FROM written w JOIN pg_catalog.pg_extension e ON e.extname OPERATOR(pg_catalog.=) w.name::pg_catalog.name WHERE w.kind OPERATOR(pg_catalog.=) 'extension'
      UNION ALL SELECT 'pg_catalog.pg_proc', f.oid, NULL, NULL FROM functions f)
  SELECT coalesce(pg_catalog.jsonb_agg(pg_catalog.jsonb_build_array(o.class::pg_catalog.oid, o.oid, o.col, o.con)), '[]') FROM objects o WHERE o.oid IS NOT NULL
$tutti$;
DROP FUNCTION IF EXISTS tutti.yield_temporary(pg_catalog.text, pg_catalog.bool);
CREATE OR REPLACE FUNCTION tutti.yield_temporary(names pg_catalog.jsonb, heirs pg_catalog.bool) RETURNS pg_catalog.void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET client_min_messages = warning AS $tutti$
DECLARE x record; owner int4; ended int4[] := '{}';
BEGIN
  IF NOT EXISTS (SELECT FROM pg_class WHERE relpersistence = 't' AND relkind IN ('v', 'r', 'p')) THEN RETURN; END IF; -- to plan what follows takes long
  FOR x IN
    WITH RECURSIVE named AS (SELECT (j ->> 0)::oid AS class, (j ->> 1)::oid AS object, j ->> 2 AS col, j ->> 3 AS con FROM jsonb_array_elements(names) j),
      -- with those that inherit from them
      relations AS (SELECT object AS oid, col, con FROM named WHERE class = 'pg_class'::regclass UNION SELECT i.inhrelid, r.col, r.con FROM relations r JOIN pg_inherits i ON i.inhparent = r.oid),
      types AS (SELECT object AS oid FROM named WHERE class = 'pg_type'::regclass UNION SELECT c.reltype FROM relations r JOIN pg_class c ON c.oid = r.oid WHERE c.reltype <> 0),
      permanent AS (SELECT r.* FROM relations r JOIN pg_class c ON c.oid = r.oid WHERE c.relpersistence <> 't'),
      -- what it drops or changes, and what goes with that
      gone AS (SELECT * FROM (
          SELECT 'pg_class'::regclass::oid AS class, oid AS object, 0 AS part FROM permanent WHERE col IS NULL AND con IS NULL
          UNION ALL SELECT 'pg_class'::regclass, a.attrelid, a.attnum FROM permanent r JOIN pg_attribute a ON a.attrelid = r.oid AND a.attname = r.col
          UNION ALL SELECT 'pg_constraint'::regclass, k.oid, 0 FROM permanent r JOIN pg_constraint k ON k.conrelid = r.oid AND k.conname = r.con
          UNION ALL SELECT class, object, 0 FROM named WHERE class <> 'pg_class'::regclass) first
        UNION SELECT d.classid, d.objid, d.objsubid FROM gone g JOIN pg_depend d ON d.refclassid = g.class AND d.refobjid = g.object AND (g.part = 0 OR d.refobjsubid = g.part)
          WHERE d.deptype IN ('a', 'i', 'e', 'P', 'S')),
      made AS (SELECT c.oid, c.relkind, c.relname, c.relnamespace, n.nspname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname ~ '^pg_temp_[0-9]+$' AND c.relkind IN ('v', 'r', 'p')),
      parts AS (SELECT 'pg_class'::regclass AS class, m.oid AS part, m.oid FROM made m UNION ALL SELECT 'pg_rewrite'::regclass, r.oid, m.oid FROM made m JOIN pg_rewrite r ON r.ev_class = m.oid
        UNION ALL SELECT 'pg_attrdef'::regclass, a.oid, m.oid FROM made m JOIN pg_attrdef a ON a.adrelid = m.oid UNION ALL SELECT 'pg_constraint'::regclass, k.oid, m.oid FROM made m JOIN pg_constraint k ON k.conrelid = m.oid
        UNION ALL SELECT 'pg_trigger'::regclass, g.oid, m.oid FROM made m JOIN pg_trigger g ON g.tgrelid = m.oid UNION ALL SELECT 'pg_class'::regclass, i.indexrelid, m.oid FROM made m JOIN pg_index i ON i.indrelid = m.oid)
    SELECT m.* FROM made m WHERE CASE WHEN heirs THEN m.relkind <> 'v' AND (m.oid IN (SELECT oid FROM relations) OR EXISTS (
        SELECT FROM pg_depend d JOIN pg_type y ON d.refclassid = 'pg_type'::regclass AND y.oid = d.refobjid WHERE d.classid = 'pg_class'::regclass AND d.objid = m.oid AND (y.oid IN (SELECT oid FROM types) OR y.typelem IN (SELECT oid FROM types))))
      ELSE EXISTS (SELECT FROM parts p JOIN pg_depend d ON d.classid = p.class AND d.objid = p.part
        JOIN gone g ON g.class = d.refclassid AND g.object = d.refobjid AND (g.part = 0 OR g.part = d.refobjsubid) WHERE p.oid = m.oid) END ORDER BY m.relkind = 'v', m.oid
  LOOP
    IF x.relkind = 'v' THEN
      PERFORM tutti.unseen(format('DROP VIEW IF EXISTS %I.%I CASCADE', x.nspname, x.relname));
    ELSE
      SELECT a.pid INTO owner FROM tutti.temporary t JOIN pg_stat_activity a ON a.pid = t.pid AND a.backend_start <= t.noted AND a.datname = current_database() WHERE t.schema = x.relnamespace;
      IF owner IS NULL THEN
        PERFORM tutti.unseen(format('DROP TABLE IF EXISTS %I.%I CASCADE', x.nspname, x.relname));
      ELSE
        ended := ended || owner;
      END IF;
    END IF;
  END LOOP;
  PERFORM pg_terminate_backend(pid, 5000) FROM (SELECT DISTINCT pid FROM unnest(ended) AS pid WHERE pid <> pg_backend_pid()) u;
END $tutti$;
REVOKE ALL ON FUNCTION tutti.named, tutti.yield_temporary FROM PUBLIC;
