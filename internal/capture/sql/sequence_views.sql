SET LOCAL allow_system_table_mods = on;
CREATE OR REPLACE VIEW pg_catalog.pg_sequences AS
  SELECT n.nspname AS schemaname, c.relname AS sequencename, pg_catalog.pg_get_userbyid(c.relowner) AS sequenceowner, s.seqtypid::pg_catalog.regtype AS data_type,
    s.seqstart AS start_value, s.seqmin AS min_value, s.seqmax AS max_value, s.seqincrement AS increment_by, s.seqcycle AS cycle, s.seqcache AS cache_size,
    CASE WHEN pg_catalog.has_sequence_privilege(c.oid, 'SELECT,USAGE'::pg_catalog.text) THEN pg_catalog.pg_sequence_last_value(c.oid::pg_catalog.regclass) END AS last_value
  FROM tutti.pg_sequence() s JOIN pg_catalog.pg_class c ON c.oid OPERATOR(pg_catalog.=) s.seqrelid LEFT JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) c.relnamespace
  WHERE NOT pg_catalog.pg_is_other_temp_schema(n.oid) AND c.relkind OPERATOR(pg_catalog.=) 'S'::pg_catalog."char";
DO $tutti$
DECLARE v pg_catalog.text := pg_catalog.pg_get_viewdef('information_schema.sequences'::pg_catalog.regclass);
BEGIN
  EXECUTE pg_catalog.concat('CREATE OR REPLACE VIEW information_schema.sequences AS ',
    pg_catalog.regexp_replace(v, '(pg_catalog\.)?pg_sequence s\M', 'tutti.pg_sequence() s'));
  v := pg_catalog.pg_get_viewdef('information_schema.columns'::pg_catalog.regclass);
  EXECUTE pg_catalog.concat('CREATE OR REPLACE VIEW information_schema.columns AS ',
    pg_catalog.regexp_replace(v, '(pg_catalog\.)?pg_sequence seq\M', 'tutti.pg_sequence() seq'));
END $tutti$;
SET LOCAL allow_system_table_mods = off;
