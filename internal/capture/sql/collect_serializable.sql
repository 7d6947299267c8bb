CREATE OR REPLACE FUNCTION tutti.tables_read() RETURNS pg_catalog.text LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $tutti$
  SELECT coalesce(json_agg(DISTINCT jsonb_build_array(n.nspname, c.relname)), '[]')::text FROM (
    SELECT coalesce(i.indrelid, l.relation) AS oid FROM pg_locks l LEFT JOIN pg_index i ON i.indexrelid = l.relation
    WHERE l.mode = 'SIReadLock' AND l.pid = pg_backend_pid()
      AND l.virtualtransaction = (SELECT v.virtualtransaction FROM pg_locks v WHERE v.pid = pg_backend_pid() AND v.locktype = 'virtualxid' AND v.granted LIMIT 1) AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())) r
  JOIN pg_class c ON c.oid = r.oid JOIN pg_namespace n ON n.oid = c.relnamespace
  WHERE c.relkind = 'r' AND c.relpersistence = 'p' AND n.nspname !~ '^pg_' AND n.nspname NOT IN ('information_schema', 'tutti')
$tutti$;
REVOKE ALL ON FUNCTION tutti.tables_read FROM PUBLIC;
GRANT EXECUTE ON FUNCTION tutti.tables_read TO tutti_owner;
CREATE OR REPLACE FUNCTION tutti.collect_serializable(to_slot pg_catalog.int4, to_incarnation pg_catalog.int8, to_seq pg_catalog.int8,
  OUT op pg_catalog.int2, OUT ident pg_catalog.int8, OUT keys pg_catalog._int8, OUT tab pg_catalog.bytea, OUT img pg_catalog.bytea)
RETURNS SETOF pg_catalog.record LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off AS $tutti$
#variable_conflict use_column
DECLARE c pg_catalog.text; f pg_catalog.bool; r pg_catalog.int8;
BEGIN
  c := pg_catalog.concat(' FROM tutti.capture_s', pg_catalog.mod(pg_catalog.pg_backend_pid(), {{serializable_tables}}),
    ' c WHERE c.xid OPERATOR(pg_catalog.=) pg_catalog.txid_current()');
  EXECUTE pg_catalog.concat('SELECT EXISTS (SELECT', c, ')') INTO f;
  IF NOT f THEN RETURN; END IF;
  EXECUTE 'UPDATE tutti.mark SET incarnation = $2, seq = $3 WHERE slot OPERATOR(pg_catalog.=) $1' USING to_slot, to_incarnation, to_seq;
  GET DIAGNOSTICS r = ROW_COUNT;
  IF r OPERATOR(pg_catalog.=) 0::pg_catalog.int8 THEN INSERT INTO tutti.mark VALUES (to_slot, to_incarnation, to_seq); END IF;
  RETURN QUERY SELECT {{first_row}};
  RETURN QUERY SELECT {{op_read}}::pg_catalog.int2, NULL::pg_catalog.int8, NULL::pg_catalog._int8, NULL::pg_catalog.bytea, pg_catalog.convert_to(tutti.tables_read(), 'UTF8');
  IF pg_catalog.current_setting('{{large_setting}}', true) OPERATOR(pg_catalog.=) 'on' THEN
    RETURN QUERY SELECT * FROM tutti.collect_large(tutti.captures());
    RETURN;
  END IF;
  RETURN QUERY EXECUTE pg_catalog.concat('SELECT c.op, c.ident, c.keys, c.tab, c.img::pg_catalog.bytea', c, ' ORDER BY c.n');
END $tutti$;
{{captured_idents}}
ALTER FUNCTION tutti.collect OWNER TO tutti_owner;
ALTER FUNCTION tutti.collect_serializable OWNER TO tutti_owner;
REVOKE ALL ON FUNCTION tutti.collect_serializable FROM PUBLIC;
GRANT EXECUTE ON FUNCTION tutti.collect TO PUBLIC;
