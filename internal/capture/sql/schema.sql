DO $tutti$ BEGIN
  IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = 'tutti_owner') THEN
    CREATE ROLE tutti_owner NOLOGIN;
  END IF;
  IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = 'tutti_reader') THEN
    CREATE ROLE tutti_reader NOLOGIN BYPASSRLS;
    GRANT pg_read_all_data TO tutti_reader;
  END IF;
  -- Triggers cast to row types and may name collations, in any schema.
  IF NOT pg_catalog.pg_has_role('tutti_owner', 'pg_read_all_data', 'MEMBER') THEN
    GRANT pg_read_all_data TO tutti_owner;
  END IF;
END $tutti$;
CREATE SCHEMA IF NOT EXISTS tutti AUTHORIZATION tutti_owner;
GRANT USAGE ON SCHEMA tutti TO PUBLIC;
DROP SEQUENCE IF EXISTS tutti.capture_n; -- of earlier versions
CREATE TABLE IF NOT EXISTS tutti.mark (
  slot pg_catalog.int4 PRIMARY KEY, incarnation pg_catalog.int8 NOT NULL, seq pg_catalog.int8 NOT NULL
) WITH (fillfactor = 10);
CREATE TABLE IF NOT EXISTS tutti.progress (
  one pg_catalog.bool PRIMARY KEY DEFAULT true CHECK (one),
  ordinal pg_catalog.int8 NOT NULL DEFAULT 0, floor pg_catalog.int8 NOT NULL DEFAULT 0,
  member pg_catalog.int4 NOT NULL DEFAULT 0, cluster pg_catalog.text NOT NULL DEFAULT ''
) WITH (fillfactor = 10);
INSERT INTO tutti.progress DEFAULT VALUES ON CONFLICT DO NOTHING;
CREATE TABLE IF NOT EXISTS tutti.token (token pg_catalog.int8 PRIMARY KEY);
ALTER TABLE tutti.token ADD COLUMN IF NOT EXISTS secret pg_catalog.bytea, ADD COLUMN IF NOT EXISTS bytes_max pg_catalog.int8;
DO $tutti$ BEGIN
  IF pg_catalog.to_regtype('tutti.image') IS NULL THEN
    CREATE DOMAIN tutti.image AS pg_catalog.bytea;
    UPDATE pg_catalog.pg_type SET typstorage = 'e' WHERE oid OPERATOR(pg_catalog.=) 'tutti.image'::pg_catalog.regtype::pg_catalog.oid; -- kept as it is, outside of the row
  END IF;
END $tutti$;
CREATE TABLE IF NOT EXISTS tutti.checkpoint (one pg_catalog.bool PRIMARY KEY DEFAULT true CHECK (one), data tutti.image NOT NULL);
ALTER TABLE tutti.checkpoint ALTER COLUMN data TYPE tutti.image;
ALTER TABLE tutti.checkpoint OWNER TO tutti_owner;
CREATE TABLE IF NOT EXISTS tutti.database (id pg_catalog.int8 PRIMARY KEY, name pg_catalog.text COLLATE "C" NOT NULL, state pg_catalog.text NOT NULL, dropped pg_catalog.int8 NOT NULL DEFAULT 0);
ALTER TABLE tutti.database ADD COLUMN IF NOT EXISTS voters pg_catalog._int4; -- on its order at first; NULL: all members
ALTER TABLE tutti.database ADD COLUMN IF NOT EXISTS learners pg_catalog._int4; -- who gets it at first, and does not vote; NULL: all others
ALTER TABLE tutti.database OWNER TO tutti_owner;
CREATE TABLE IF NOT EXISTS tutti.member (
  number pg_catalog.int4 PRIMARY KEY, name pg_catalog.text COLLATE "C" NOT NULL, address pg_catalog.text NOT NULL,
  clients pg_catalog.text NOT NULL, first pg_catalog.bool NOT NULL, since pg_catalog.int8 NOT NULL,
  changed pg_catalog.int8 NOT NULL, removed pg_catalog.bool NOT NULL
);
ALTER TABLE tutti.member ADD COLUMN IF NOT EXISTS role pg_catalog.text DEFAULT ''; -- NULL, as of a build that does not know it: the same
ALTER TABLE tutti.member ADD COLUMN IF NOT EXISTS rank pg_catalog.int4 DEFAULT 0;
ALTER TABLE tutti.member ADD COLUMN IF NOT EXISTS site pg_catalog.text DEFAULT '';
ALTER TABLE tutti.member OWNER TO tutti_owner;
CREATE TABLE IF NOT EXISTS tutti.cluster (
  one pg_catalog.bool PRIMARY KEY DEFAULT true CHECK (one), level pg_catalog.int4 NOT NULL,
  min_copies pg_catalog.int4 NOT NULL, expel_after pg_catalog.text NOT NULL, changed pg_catalog.int8 NOT NULL
);
ALTER TABLE tutti.cluster OWNER TO tutti_owner;
CREATE TABLE IF NOT EXISTS tutti.pending (ordinal pg_catalog.int8, done pg_catalog.bool DEFAULT false, item pg_catalog.bytea NOT NULL, PRIMARY KEY (ordinal, done));
ALTER TABLE tutti.pending OWNER TO tutti_owner;
CREATE TABLE IF NOT EXISTS tutti.listening (member pg_catalog.int4, channel pg_catalog.text COLLATE "C", PRIMARY KEY (member, channel));
ALTER TABLE tutti.listening OWNER TO tutti_owner;
ALTER TABLE tutti.token OWNER TO tutti_owner;
ALTER TABLE tutti.mark OWNER TO tutti_owner;
ALTER TABLE tutti.mark ENABLE ROW LEVEL SECURITY;
DROP POLICY IF EXISTS mark ON tutti.mark;
CREATE POLICY mark ON tutti.mark USING (false) WITH CHECK (false);
REVOKE ALL ON tutti.mark FROM PUBLIC;
GRANT SELECT (slot), INSERT (slot, incarnation, seq), UPDATE (incarnation, seq) ON tutti.mark TO PUBLIC;
ALTER TABLE tutti.progress OWNER TO tutti_owner;
CREATE OR REPLACE VIEW tutti.prepared_by_user AS SELECT * FROM pg_catalog.pg_prepared_statements WHERE name !~ '^tutti ';
CREATE OR REPLACE VIEW tutti.prepared_statements_of_user AS SELECT * FROM pg_catalog.pg_prepared_statements WHERE name !~ '^tutti ';
ALTER VIEW tutti.prepared_by_user OWNER TO tutti_owner;
ALTER VIEW tutti.prepared_statements_of_user OWNER TO tutti_owner;
GRANT SELECT ON tutti.prepared_by_user, tutti.prepared_statements_of_user TO PUBLIC;
CREATE OR REPLACE VIEW tutti.captured_tables AS
  SELECT n.nspname AS schema, c.relname AS name, p.proname AS signature
  FROM pg_catalog.pg_trigger t
  JOIN pg_catalog.pg_class c ON c.oid = t.tgrelid
  JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
  JOIN pg_catalog.pg_proc p ON p.oid = t.tgfoid
  WHERE t.tgname = '{{trigger_name}}' AND p.pronamespace = 'tutti'::pg_catalog.regnamespace;
