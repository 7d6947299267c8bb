CREATE OR REPLACE FUNCTION tutti.privileged(proof pg_catalog.bytea, command pg_catalog.bytea, data pg_catalog.bytea, asks pg_catalog.bool) RETURNS pg_catalog.bytea
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET {{ddl_setting}} = '{{ddl_own}}' SET jit = off SET row_security = on
SET check_function_bodies = off SET client_min_messages = warning SET client_encoding = 'UTF8' AS $tutti$
DECLARE r text;
BEGIN
  IF NOT EXISTS (SELECT FROM tutti.token k WHERE sha256(command || k.secret) = proof) THEN
    RAISE EXCEPTION 'tutti.privileged is not for clients' USING ERRCODE = '42501';
  END IF;
  IF asks THEN
    EXECUTE convert_from(command, 'UTF8') INTO r USING data;
  ELSE
    EXECUTE convert_from(command, 'UTF8') USING data;
  END IF;
  RETURN convert_to(r, 'UTF8');
END $tutti$;
GRANT EXECUTE ON FUNCTION tutti.privileged TO PUBLIC;
CREATE OR REPLACE FUNCTION tutti.captures() RETURNS pg_catalog.text LANGUAGE sql AS $tutti$
  SELECT 'tutti.capture' OPERATOR(pg_catalog.||) CASE WHEN s OPERATOR(pg_catalog.=) {{capture_tables}} THEN
    '_s' OPERATOR(pg_catalog.||) pg_catalog.mod(pg_catalog.pg_backend_pid(), {{serializable_tables}})::pg_catalog.text ELSE s::pg_catalog.text END FROM (SELECT {{window}} AS s) x
$tutti$;
-- After the rows captured so far, before the next one.
CREATE OR REPLACE FUNCTION tutti.definition_number() RETURNS pg_catalog.int8 LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $tutti$
  SELECT {{number}} - (1::int8 << {{number_bits}}) + 1 + pg_stat_get_xact_tuples_inserted('tutti.definitions'::regclass)
$tutti$;
CREATE OR REPLACE FUNCTION tutti.adopt_definitions() RETURNS pg_catalog.void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $tutti$
BEGIN
  EXECUTE format('WITH d AS (DELETE FROM tutti.definitions WHERE xid = txid_current() RETURNING n, data)
    INSERT INTO %s SELECT txid_current(), n, '''', {{op_definition}}, NULL, NULL, convert_to(data::text, ''UTF8'') FROM d', tutti.captures());
  PERFORM set_config('tutti.defined', '', true), set_config('tutti.tags', '', true), set_config('tutti.gone', '', true), set_config('tutti.rewritten', '', true);
END $tutti$;
CREATE OR REPLACE FUNCTION tutti.note(data pg_catalog.bytea) RETURNS pg_catalog.void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $tutti$
DECLARE d jsonb := convert_from(data, 'UTF8')::jsonb;
BEGIN
  IF current_setting('transaction_read_only') = 'on' THEN RETURN; END IF; -- it was about a temporary object
  INSERT INTO tutti.definitions VALUES (txid_current(), tutti.definition_number(), d->>'role', d);
  PERFORM set_config('tutti.defined', 'on', true), set_config('tutti.tags', concat(current_setting('tutti.tags', true), ',COMMENT'), true), tutti.note_counted();
END $tutti$;
CREATE OR REPLACE FUNCTION tutti.freeze(data pg_catalog.bytea) RETURNS pg_catalog.void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $tutti$
BEGIN
  EXECUTE format('DELETE FROM %s WHERE xid = txid_current()', tutti.captures());
  IF data IS NOT NULL THEN
    EXECUTE format('INSERT INTO %s VALUES (txid_current(), $2, '''', {{op_frozen}}, NULL, NULL, $1)', tutti.captures()) USING data, {{number}};
  END IF;
END $tutti$;
CREATE OR REPLACE FUNCTION tutti.peek(to_token pg_catalog.int8,
  OUT op pg_catalog.int2, OUT ident pg_catalog.int8, OUT keys pg_catalog._int8, OUT tab pg_catalog.bytea, OUT img pg_catalog.bytea)
RETURNS SETOF pg_catalog.record LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $tutti$
BEGIN
  IF NOT EXISTS (SELECT FROM tutti.token k WHERE k.token = to_token) THEN
    RAISE EXCEPTION 'tutti.peek is not for clients' USING ERRCODE = '42501';
  END IF;
  IF current_setting('{{large_setting}}', true) = 'on' THEN
    RETURN QUERY SELECT * FROM tutti.collect_large(tutti.captures());
  ELSIF pg_current_xact_id_if_assigned() IS NOT NULL THEN
    RETURN QUERY EXECUTE format('SELECT c.op, c.ident, c.keys, c.tab, c.img::bytea FROM %s c WHERE c.xid = txid_current() ORDER BY c.n', tutti.captures());
  END IF;
END $tutti$;
ALTER FUNCTION tutti.peek OWNER TO tutti_owner;
REVOKE ALL ON FUNCTION tutti.adopt_definitions, tutti.freeze, tutti.note FROM PUBLIC;
GRANT EXECUTE ON FUNCTION tutti.captures, tutti.definition_number TO PUBLIC;
