CREATE OR REPLACE FUNCTION tutti.captured_idents(of_tab pg_catalog.bytea) RETURNS SETOF pg_catalog.int8
LANGUAGE plpgsql SECURITY DEFINER SET enable_seqscan = off AS $tutti$
DECLARE c pg_catalog.text;
BEGIN
  IF pg_catalog.current_setting('transaction_isolation') OPERATOR(pg_catalog.=) 'serializable' THEN
    c := pg_catalog.concat('_s', pg_catalog.mod(pg_catalog.pg_backend_pid(), {{serializable_tables}}));
  ELSE
    c := ((pg_catalog.txid_current() OPERATOR(pg_catalog.>>) {{window_bits}}) OPERATOR(pg_catalog.&) {{last_table}})::pg_catalog.text;
  END IF;
  RETURN QUERY EXECUTE pg_catalog.concat('SELECT c.ident FROM tutti.capture', c,
    ' c WHERE c.xid OPERATOR(pg_catalog.=) pg_catalog.txid_current() AND c.tab OPERATOR(pg_catalog.=) $1 AND c.op OPERATOR(pg_catalog.<) {{op_bulk}}
      UNION SELECT k FROM tutti.capture', c, ' c CROSS JOIN LATERAL pg_catalog.unnest(c.keys) AS k
    WHERE c.xid OPERATOR(pg_catalog.=) pg_catalog.txid_current() AND c.tab OPERATOR(pg_catalog.=) $1 AND c.op OPERATOR(pg_catalog.>) {{op_bulk}}') USING of_tab;
END $tutti$;
ALTER FUNCTION tutti.captured_idents OWNER TO tutti_owner;
REVOKE ALL ON FUNCTION tutti.captured_idents FROM PUBLIC;
GRANT EXECUTE ON FUNCTION tutti.captured_idents TO tutti_reader;