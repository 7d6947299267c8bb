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
CREATE OR REPLACE FUNCTION tutti.yield_temporary(definition pg_catalog.text, heirs pg_catalog.bool) RETURNS pg_catalog.void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET client_min_messages = warning AS $tutti$
DECLARE x record; owner int4; ended int4[] := '{}';
BEGIN
  FOR x IN
    WITH made AS (SELECT c.oid, c.relkind, c.relname, c.relnamespace, n.nspname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname ~ '^pg_temp_[0-9]+$' AND c.relkind IN ('v', 'r', 'p')),
      parts AS (SELECT 'pg_class'::regclass AS class, m.oid AS part, m.oid FROM made m UNION ALL SELECT 'pg_rewrite'::regclass, r.oid, m.oid FROM made m JOIN pg_rewrite r ON r.ev_class = m.oid
        UNION ALL SELECT 'pg_attrdef'::regclass, a.oid, m.oid FROM made m JOIN pg_attrdef a ON a.adrelid = m.oid UNION ALL SELECT 'pg_constraint'::regclass, k.oid, m.oid FROM made m JOIN pg_constraint k ON k.conrelid = m.oid
        UNION ALL SELECT 'pg_trigger'::regclass, g.oid, m.oid FROM made m JOIN pg_trigger g ON g.tgrelid = m.oid)
    SELECT m.* FROM made m WHERE EXISTS (SELECT FROM parts p JOIN pg_depend d ON d.classid = p.class AND d.objid = p.part
        LEFT JOIN pg_class c ON d.refclassid = 'pg_class'::regclass AND c.oid = d.refobjid LEFT JOIN pg_proc f ON d.refclassid = 'pg_proc'::regclass AND f.oid = d.refobjid
        LEFT JOIN pg_type y ON d.refclassid = 'pg_type'::regclass AND y.oid = d.refobjid
      WHERE p.oid = m.oid AND c.relpersistence IS DISTINCT FROM 't' AND definition ~* concat('\m', regexp_replace(coalesce(c.relname, f.proname, y.typname), '(\W)', '\\\1', 'g'), '\M')) AND (NOT heirs OR EXISTS (SELECT FROM pg_inherits i WHERE i.inhrelid = m.oid)) ORDER BY m.relkind = 'v', m.oid
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
REVOKE ALL ON FUNCTION tutti.yield_temporary FROM PUBLIC;
