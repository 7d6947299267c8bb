CREATE OR REPLACE FUNCTION tutti.session_records(proof pg_catalog.bytea, OUT pid pg_catalog.int4, OUT since pg_catalog.timestamptz,
  OUT client_addr pg_catalog.inet, OUT client_port pg_catalog.int4, OUT tls pg_catalog.text)
RETURNS SETOF pg_catalog.record LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $tutti$
BEGIN
  IF NOT EXISTS (SELECT FROM tutti.token k WHERE k.secret = proof) THEN
    RAISE EXCEPTION 'permission denied for function session_records' USING ERRCODE = 'insufficient_privilege', HINT = 'Ask the view tutti.sessions.';
  END IF;
  RETURN QUERY SELECT r[1]::int4, to_timestamp(r[2]::float8 / 1000000), r[3]::inet, r[4]::int4, nullif(r[5], '-')
    FROM (SELECT regexp_match(l, '^([0-9]+) ([0-9]+) ([0-9a-f.:]+) ([0-9]+) ([^ ]+) ([0-9]+) *$') AS r
      FROM string_to_table(pg_read_file('{{file}}', 0, {{bytes_max}}, true), E'\n') l) x
    WHERE r[1] = r[6];
END $tutti$;
CREATE OR REPLACE VIEW tutti.sessions WITH (security_barrier) AS
  SELECT a.pid, CASE WHEN a.backend_start IS NOT NULL THEN c.client_addr END AS client_addr,
    CASE WHEN a.backend_start IS NOT NULL THEN c.client_port END AS client_port, CASE WHEN a.backend_start IS NOT NULL THEN c.tls END AS tls,
    a.datname, a.usename, a.application_name, a.backend_start
  FROM tutti.token k CROSS JOIN LATERAL tutti.session_records(k.secret) c JOIN pg_catalog.pg_stat_activity a ON a.pid OPERATOR(pg_catalog.=) c.pid
    AND (a.backend_start IS NULL OR c.since OPERATOR(pg_catalog.>=) a.backend_start AND c.since OPERATOR(pg_catalog.<=) (a.backend_start OPERATOR(pg_catalog.+) '1 minute'::pg_catalog.interval));
ALTER VIEW tutti.sessions OWNER TO tutti_owner;
GRANT SELECT ON tutti.sessions TO PUBLIC;
